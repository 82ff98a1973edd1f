"""Private optimisers: exact without noise, their stated noise and cost, the excess-loss bound, neighbours."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from scipy.optimize import minimize

from privbandit.accounting import gaussian_epsilon
from privbandit.links import Logistic, Poisson, Probit
from privbandit.mechanisms.minibatch import MiniBatchDescent
from privbandit.mechanisms.objective import ObjectivePerturbation
from privbandit.mechanisms.optimisers import NoisyGradientDescent, NoisyNewton, excess_loss_bound, theory_rate

LINKS = [Logistic(), Probit()]
links = pytest.mark.parametrize("link", LINKS, ids=lambda k: k.name)


def data(link, R: int, n: int, d: int, S: float, seed: int = 0):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((R, d))
    theta *= S / np.linalg.norm(theta, axis=1, keepdims=True)
    x = rng.standard_normal((R, n, d))
    x /= np.maximum(1, np.linalg.norm(x, axis=2, keepdims=True))
    return x, link.sample((x @ theta[:, :, None])[..., 0], rng.random((R, n)))


def ball(S: float):
    return lambda theta: theta * (S / np.maximum(S, np.linalg.norm(theta, axis=1, keepdims=True)))


def minimiser(link, x, r, ridge):
    """Independent: scipy on one replication."""
    fun = lambda th: np.sum(link.b(x @ th) - r * (x @ th)) + ridge / 2 * th @ th  # noqa: E731
    return minimize(fun, np.zeros(x.shape[1]), method="BFGS", options={"gtol": 1e-9}).x


@links
def test_noise_free_methods_find_the_minimiser(link):
    x, r = data(link, 2, 400, 3, 1.5)
    noise, start = np.random.default_rng(0), np.zeros((2, 3))
    newton = NoisyNewton(link, S=8.0, steps=12, sigma=0.0).fit(x, r, start, noise, ridge=2.0)
    descent = NoisyGradientDescent(link, steps=1500, sigma=0.0)
    final = descent.descend(x, r, start, np.full(1500, 0.02), noise, ridge=2.0, average_from=1499)
    for i in range(2):
        exact = minimiser(link, x[i], r[i], 2.0)
        np.testing.assert_allclose(newton[i], exact, atol=1e-6)
        np.testing.assert_allclose(final[i], exact, atol=1e-5)


@links
def test_rows_of_zeros_are_padding(link):
    x, r = data(link, 1, 50, 2, 1.0)
    padded, rewards = np.concatenate([x, np.zeros_like(x)], axis=1), np.concatenate([r, np.ones_like(r)], axis=1)
    theta = np.array([[0.3, -0.2]])
    noise = np.random.default_rng(0)
    for a, b in (
        (NoisyGradientDescent(link, 1, 0.0).gradient(theta, x, r, noise), NoisyGradientDescent(link, 1, 0.0).gradient(theta, padded, rewards, noise)),
        *zip(NoisyNewton(link, 2.0, 1, 0.0).statistics(theta, x, r, noise), NoisyNewton(link, 2.0, 1, 0.0).statistics(theta, padded, rewards, noise), strict=True),
    ):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_gradients_are_clipped_per_user():
    link = Logistic()
    x, r = data(link, 1, 30, 2, 1.0)
    theta, L = np.array([[3.0, 1.0]]), 0.2
    g = (link.mu(x[0] @ theta[0]) - r[0])[:, None] * x[0]
    norms = np.linalg.norm(g, axis=1, keepdims=True)
    expected = (g * np.minimum(1, L / norms)).sum(axis=0)
    found = NoisyGradientDescent(link, 1, 0.0, L).gradient(theta, x, r, np.random.default_rng(0))
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)


@links
def test_cost_of_a_neighbour(link):
    """Adversarial pairs of rows at 500 parameters: shifts of the released sums never pass Delta; both are nearly attained."""
    rng, R = np.random.default_rng(1), 500
    theta = rng.uniform(-3, 3, (R, 2))
    angle = rng.uniform(0, 2 * np.pi, (2, R))
    x = np.stack([np.cos(angle), np.sin(angle)], axis=-1)[:, :, None]
    x[1, : R // 2] = -x[0, : R // 2]
    r = rng.integers(0, 2, (2, R, 1)).astype(float)
    silent = np.random.default_rng(0)
    gd, newton = NoisyGradientDescent(link, 1, 0.0), NoisyNewton(link, 3.0, 1, 0.0)
    first, second = (gd.gradient(theta, x[i], r[i], silent) for i in range(2))
    assert np.linalg.norm(first - second, axis=1).max() <= gd.event.Delta
    W, Y = newton.units
    a, b = (newton.statistics(theta, x[i], r[i], silent) for i in range(2))
    shift = np.sqrt(np.sum((a[0] - b[0]) ** 2, axis=(1, 2)) / W**2 + np.sum((a[1] - b[1]) ** 2, axis=1) / Y**2)
    assert shift.max() <= newton.event.Delta * (1 + 1e-12)
    still = np.zeros((R, 2))
    assert np.linalg.norm(gd.gradient(10 * x[0, :, 0], x[0], np.zeros((R, 1)), silent), axis=1).max() > 0.99 * gd.event.Delta / 2
    a, b = (newton.statistics(still, x[i], r[i], silent) for i in range(2))
    assert np.sqrt(np.sum((a[0] - b[0]) ** 2, axis=(1, 2))).max() / W > 1.4  # sqrt(2): orthogonal features, full weight


def test_accounts_agree_with_an_oracle():
    delta = 1e-5
    gd = NoisyGradientDescent.calibrated(Logistic(), 7, 0.8)
    newton = NoisyNewton.calibrated(Logistic(), 2.0, 3, 0.8)
    assert gd.mu == pytest.approx(0.8) and newton.mu == pytest.approx(0.8)
    for optimiser in (gd, newton):
        entry = optimiser.entries[0]
        accountant = PLDAccountant()
        accountant.compose(dp_event.GaussianDpEvent(entry.event.sigma / entry.event.Delta), entry.count)
        assert gaussian_epsilon(optimiser.mu, delta) == pytest.approx(accountant.get_epsilon(delta), rel=2e-3)
    assert NoisyNewton.calibrated(Logistic(), 2.0, 3, math.inf).sigma == 0


@links
def test_excess_loss_stays_below_its_bound(link):
    """n = 40 runs, averaged projected iterate with the theory step: mean excess against the bound (5 standard errors allowed)."""
    R, n, d, S = 40, 300, 3, 1.5
    x, r = data(link, R, n, d, S, seed=2)
    gd = NoisyGradientDescent.calibrated(link, 50, 1.0)
    rate = theory_rate(gd, n, d, 2 * S)
    found = gd.descend(x, r, np.zeros((R, d)), np.full(50, rate), np.random.default_rng(3), project=ball(S))
    loss = lambda th: np.sum(link.loss((x @ th[:, :, None])[..., 0], r), axis=1)  # noqa: E731
    best = NoisyNewton(link, S, 40, 0.0).fit(x, r, np.zeros((R, d)), np.random.default_rng(0), ridge=1e-9)
    excess = loss(found) - loss(best)
    assert excess.mean() - 5 * excess.std() / math.sqrt(R) <= excess_loss_bound(gd, n, d, 2 * S)
    assert excess.mean() > 0


def test_released_gradient_has_the_stated_noise():
    """n = 20000 replications of an empty data set: sample standard deviation within 5 sigma."""
    gd = NoisyGradientDescent.calibrated(Logistic(), 4, 2.0)
    g = gd.gradient(np.zeros((20000, 1)), np.zeros((20000, 1, 1)), np.zeros((20000, 1)), np.random.default_rng(5))
    assert abs(g.std() / gd.sigma - 1) < 5 / math.sqrt(2 * 20000)


@pytest.mark.parametrize("name", ["x", "r"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_row_that_is_not_finite_is_refused_before_anything_is_released(name, bad):
    x, r = data(Logistic(), 2, 6, 3, 1.5)
    (x if name == "x" else r)[1, 2] = bad
    noise = np.random.default_rng(0)
    before, start = noise.bit_generator.state, np.zeros((2, 3))
    for run in (
        lambda: NoisyGradientDescent(Logistic(), 2, 1.0).descend(x, r, start, np.ones(2), noise),
        lambda: NoisyNewton(Logistic(), 2.0, 2, 1.0).fit(x, r, start, noise, ridge=1.0),
        lambda: ObjectivePerturbation(Logistic(), 1.0, 1e-5, 5.0).fit(x, r, noise),
        lambda: MiniBatchDescent(Logistic(), 6, 2, 2, 4.0, 1e-5).descend(x, r, start, np.ones(2), noise, noise),
    ):
        with pytest.raises(ValueError, match=f"^{name} must have finite entries only, got {bad}"):
            run()
    assert noise.bit_generator.state == before


@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda: NoisyGradientDescent(Logistic(), 0, 1.0), "steps"),
        (lambda: NoisyGradientDescent(Logistic(), 1, -1.0), "sigma"),
        (lambda: NoisyGradientDescent.calibrated(Logistic(), 1, 0.0), "mu"),
        (lambda: NoisyNewton(Logistic(), math.inf, 1, 1.0), "S must"),
        (lambda: NoisyNewton(Poisson(), 1.0, 1, 1.0), "link must have bounded rewards"),
    ],
)
def test_bad_parameters_are_refused(build, word):
    with pytest.raises((ValueError, TypeError), match=word):
        build()
