"""Ridge sums and ball-constrained quadratics against direct solutions."""

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint, minimize

from privbandit.estimators.ball import minimise_quadratic, project
from privbandit.estimators.ridge import Ridge


def test_rank_one_updates_equal_the_batch_solution():
    rng = np.random.default_rng(0)
    R, n, d = 3, 400, 4
    x, y, w = rng.standard_normal((R, n, d)), rng.standard_normal((R, n)), rng.random((R, n))
    state = Ridge.init(R, d, 0.3)
    for t in range(n):
        state = state.update(x[:, t], y[:, t], w[:, t])
    for i in range(R):
        V = (x[i] * w[i][:, None]).T @ x[i] + 0.3 * np.eye(d)
        np.testing.assert_allclose(state.V[i], V, rtol=1e-10)
        np.testing.assert_allclose(state.V_inv[i], np.linalg.inv(V), rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(state.theta[i], np.linalg.solve(V, (w[i] * y[i]) @ x[i]), rtol=1e-8)


def test_an_unobserved_round_changes_nothing():
    state = Ridge.init(2, 3, 1.0).update(np.ones((2, 3)), np.ones(2))
    again = state.update(np.zeros((2, 3)), np.zeros(2))
    assert all(np.array_equal(a, b) for a, b in zip(state, again, strict=True))


def test_projection_solves_its_problem():
    """Against SLSQP, with condition numbers up to 1e6; inside points stay."""
    rng = np.random.default_rng(1)
    for d in (1, 2, 5):
        A = rng.standard_normal((6, d, d))
        M = A @ A.swapaxes(1, 2) + np.geomspace(1e-4, 1, 6)[:, None, None] * np.eye(d)
        theta = 3 * rng.standard_normal((6, d))
        got = project(theta, M, 1.2)
        assert np.linalg.norm(got, axis=1).max() <= 1.2 * (1 + 1e-12)
        for i in range(6):
            if np.linalg.norm(theta[i]) <= 1.2:
                assert np.array_equal(got[i], theta[i])
                continue
            ball = NonlinearConstraint(lambda y: y @ y, 0, 1.44)
            value = lambda y, i=i: (y - theta[i]) @ M[i] @ (y - theta[i])  # noqa: E731
            other = minimize(value, got[i] * 0.5, method="SLSQP", constraints=[ball], options={"ftol": 1e-14})
            assert value(got[i]) <= other.fun + 1e-7 * (1 + other.fun)
            # optimality: M (y - theta) = -nu y with nu >= 0
            pull = M[i] @ (theta[i] - got[i])
            assert pull @ got[i] >= 0
            np.testing.assert_allclose(pull, (pull @ got[i]) / (got[i] @ got[i]) * got[i], atol=1e-8 * np.abs(pull).max())


def test_projection_is_not_a_rescaling():
    """In a skewed metric the nearest point of the ball is not theta scaled back."""
    M = np.array([[[100.0, 0.0], [0.0, 1.0]]])
    got = project(np.array([[0.9, 2.0]]), M, 1.0)
    assert np.linalg.norm(got) == pytest.approx(1.0) and got[0, 0] > 0.85
    assert np.array_equal(minimise_quadratic(M, np.zeros((1, 2)), 1.0), np.zeros((1, 2)))


def test_bad_input():
    with pytest.raises(ValueError, match="lambda_"):
        Ridge.init(1, 1, 0.0)
