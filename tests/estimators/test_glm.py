"""Batched GLM fits against scikit-learn, scipy and the optimality conditions."""

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint, minimize
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from privbandit.estimators.glm import fit_glm
from privbandit.links import Linear, Logistic, Poisson, Probit, TruncatedPoisson


def data(link, R, n, d, seed, S=2.0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((R, n, d))
    x /= np.maximum(1, np.linalg.norm(x, axis=-1, keepdims=True))
    theta = rng.standard_normal((R, d))
    theta *= S / np.linalg.norm(theta, axis=-1, keepdims=True)
    z = np.einsum("rnd,rd->rn", x, theta)
    return x, link.sample(z, rng.random((R, n)))


def test_logistic_equals_scikit_learn():
    x, r = data(Logistic(), R=4, n=200, d=3, seed=1)
    fit = fit_glm(Logistic(), x, r, 0.7)
    assert fit.converged.all()
    for i in range(4):
        other = LogisticRegression(C=1 / 0.7, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(x[i], r[i])
        np.testing.assert_allclose(fit.theta[i], other.coef_[0], atol=1e-6)


def test_poisson_equals_scikit_learn():
    x, r = data(Poisson(), R=2, n=300, d=3, seed=2, S=1.5)
    fit = fit_glm(Poisson(), x, r, 0.9)
    for i in range(2):
        other = PoissonRegressor(alpha=0.9 / 300, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(x[i], r[i])
        np.testing.assert_allclose(fit.theta[i], other.coef_, atol=1e-5)


def test_linear_is_ridge_in_one_step():
    x, r = data(Linear(0.5), R=3, n=40, d=4, seed=3)
    fit = fit_glm(Linear(0.5), x, r, 2.0)
    for i in range(3):
        np.testing.assert_allclose(fit.theta[i], np.linalg.solve(x[i].T @ x[i] + 2 * np.eye(4), x[i].T @ r[i]), rtol=1e-10)
    assert fit.iterations.max() <= 2


@pytest.mark.parametrize("link", [Logistic(), Probit(), TruncatedPoisson(4)], ids=lambda one: one.name)
@pytest.mark.parametrize("radius", [None, 0.7, 5.0])
def test_equals_scipy_minimize(link, radius):
    """Weighted fits, free and in a ball that binds (0.7) or not (5): loss and minimiser equal SLSQP's / BFGS's."""
    x, r = data(link, R=3, n=120, d=3, seed=4)
    weights = np.random.default_rng(5).integers(0, 3, r.shape).astype(float)
    fit = fit_glm(link, x, r, 0.5, weights=weights, radius=radius)
    assert fit.converged.all()
    for i in range(3):

        def loss(theta, i=i):
            return weights[i] @ link.loss(x[i] @ theta, r[i]) + 0.25 * theta @ theta

        if radius is None:
            other = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
        else:
            ball = NonlinearConstraint(lambda t: t @ t, -np.inf, radius**2)
            other = minimize(loss, np.zeros(3), method="SLSQP", constraints=[ball], options={"ftol": 1e-14, "maxiter": 500})
        assert fit.loss[i] <= other.fun + 1e-6  # SLSQP leaves the ball by about 1e-9
        np.testing.assert_allclose(fit.theta[i], other.x, atol=2e-4)
    if radius is not None:
        assert np.linalg.norm(fit.theta, axis=1).max() <= radius * (1 + 1e-9)


@pytest.mark.parametrize("link", [Logistic(), Probit()], ids=lambda one: one.name)
def test_separable_data(link):
    """With a penalty or a ball a separable sample has a minimiser and Newton finds it; without either it is flagged, alone."""
    x, r = data(link, R=3, n=60, d=2, seed=6)
    separable = (x[1, :, 0] > 0).astype(float)
    r[1] = separable
    penalised = fit_glm(link, x, r, 1e-4)
    assert penalised.converged.all()
    z = np.einsum("rnd,rd->rn", x, penalised.theta)
    gradient = np.einsum("rn,rnd->rd", link.mu(z) - r, x) + 1e-4 * penalised.theta
    assert np.abs(gradient).max() < 1e-7
    assert fit_glm(link, x, r, 0.0, radius=4.0).converged.all()
    free = fit_glm(link, x, r, 0.0)
    assert free.converged.tolist() == [True, False, True]
    assert np.isfinite(free.theta).all() and np.linalg.norm(free.theta[1]) > np.linalg.norm(free.theta[0])


@pytest.mark.parametrize("link", [Logistic(), Probit()], ids=lambda one: one.name)
def test_no_separable_sample_passes_for_converged(link):
    """400 separable samples, some of which reach residuals that round to zero; one separable in a single coordinate."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((400, 8, 3))
    r = (np.einsum("rnd,rd->rn", x, rng.standard_normal((400, 3))) > 0).astype(float)
    assert not fit_glm(link, x, r, 0.0).converged.any()
    half = np.repeat(np.eye(2), 4, axis=0)[None]
    rewards = np.array([[0.0, 1, 0, 1, 1, 1, 1, 1]])
    assert not fit_glm(link, half, rewards, 0.0).converged.any()
    assert fit_glm(link, half, rewards, 0.0, weights=(half[..., 0] > 0).astype(float)).converged.all()  # only the first coordinate is left


def test_undamped_newton_would_diverge_where_the_fit_converges():
    """A start far from the minimiser: the plain Newton iteration leaves for infinity, the damped one does not."""
    link = Probit()
    x, r = data(link, R=1, n=80, d=2, seed=7, S=3.0)
    start = np.array([[6.0, -6.0]])
    theta = start.copy()
    with np.errstate(all="ignore"):
        for _ in range(8):
            z = x[0] @ theta[0]
            H = (x[0] * link.dmu(z)[:, None]).T @ x[0] + 1e-3 * np.eye(2)
            theta[0] -= np.linalg.solve(H, (link.mu(z) - r[0]) @ x[0] + 1e-3 * theta[0])
    fit, reference = fit_glm(link, x, r, 1e-3, start=start), fit_glm(link, x, r, 1e-3)
    assert fit.converged.all() and np.allclose(fit.theta, reference.theta, atol=1e-6)
    assert not np.allclose(theta, reference.theta, atol=1.0)


def test_replications_do_not_touch_each_other():
    x, r = data(Logistic(), R=5, n=50, d=3, seed=8)
    batch = fit_glm(Logistic(), x, r, 1.0, radius=1.0)
    alone = [fit_glm(Logistic(), x[i : i + 1], r[i : i + 1], 1.0, radius=1.0).theta[0] for i in range(5)]
    np.testing.assert_allclose(batch.theta, alone, atol=1e-9)


def test_one_observation_in_one_dimension():
    fit = fit_glm(Logistic(), np.ones((1, 1, 1)), np.ones((1, 1)), 1.0)
    assert fit.theta[0, 0] == pytest.approx(1 - 1 / (1 + np.exp(-fit.theta[0, 0])), abs=1e-9)


def test_bad_input():
    x, r = np.ones((2, 3, 1)), np.ones((2, 3))
    with pytest.raises(ValueError, match="r must have shape"):
        fit_glm(Logistic(), x, r[:1], 1.0)
    with pytest.raises(ValueError, match="x must have finite"):
        fit_glm(Logistic(), x * np.nan, r, 1.0)
    with pytest.raises(ValueError, match="lambda_"):
        fit_glm(Logistic(), x, r, -1.0)
    with pytest.raises(ValueError, match="radius"):
        fit_glm(Logistic(), x, r, 1.0, radius=0.0)
