"""Gaussian-process posteriors: the two forms agree, rank-one updates last, the factor lambda is there."""

import numpy as np
import pytest

from privbandit.estimators.gp import FeaturePosterior, KernelPosterior, cholesky_update
from privbandit.features import Linear, SquaredExponential, equispaced_features
from tests.feature_kernel import FeatureKernel


@pytest.mark.parametrize("lambda_", [0.1, 1.0, 7.0])
def test_kernel_form_and_feature_form_agree(lambda_):
    rng = np.random.default_rng(0)
    phi, R, rho = equispaced_features(SquaredExponential(0.3), 11), 3, 1.7
    kernel_form, feature_form = KernelPosterior(FeatureKernel(phi), lambda_, rho), FeaturePosterior(phi.m, lambda_, rho)
    a, b = kernel_form.init(R, 1), feature_form.init(R)
    grid = np.broadcast_to(np.linspace(0, 1, 40)[:, None], (R, 40, 1))
    for t in range(60):
        x, y = rng.choice([0.2, 0.21, 0.9], (R, 1)) if t % 3 else rng.random((R, 1)), rng.normal(size=R)
        a, b = kernel_form.update(a, x, y), feature_form.update(b, phi(x), y)
    for left, right in zip(kernel_form.predict(a, grid), feature_form.predict(b, phi(grid)), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-10)
    np.testing.assert_allclose(a.log_det, feature_form.log_det(b), atol=1e-10)


def test_posterior_is_the_conditional_gaussian_with_the_factor_lambda():
    """Oracle: condition the joint normal of (f(x*), y) directly, prior variance rho^2, noise variance lambda rho^2."""
    rng, lambda_, rho = np.random.default_rng(1), 0.3, 2.0
    x, y, star, kernel = rng.random((12, 1)), rng.normal(size=12), rng.random((5, 1)), SquaredExponential(0.4)
    points = np.vstack([star, x])
    joint = rho**2 * kernel(points, points) + np.diag([0.0] * 5 + [lambda_ * rho**2] * 12)
    gain = joint[:5, 5:] @ np.linalg.inv(joint[5:, 5:])
    posterior = KernelPosterior(kernel, lambda_, rho)
    state = posterior.init(1, 1)
    for xi, yi in zip(x, y, strict=True):
        state = posterior.update(state, xi[None], np.array([yi]))
    mean, std = posterior.predict(state, star[None])
    np.testing.assert_allclose(mean[0], gain @ y, atol=1e-10)
    np.testing.assert_allclose(std[0] ** 2, np.diag(joint[:5, :5] - gain @ joint[5:, :5]), atol=1e-10)


def test_factor_stays_positive_definite_over_20000_updates_with_repeated_points():
    rng, m, lambda_ = np.random.default_rng(2), 9, 1e-8
    posterior = FeaturePosterior(m, lambda_)
    state = posterior.init(2)
    pool = rng.normal(size=(3, m))
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    picks = np.where(rng.random((20000, 2)) < 0.999, 0, rng.integers(0, 3, (20000, 2)))
    for pick in picks:
        state = posterior.update(state, pool[pick], np.ones(2))
    assert np.all(np.diagonal(state.factor, axis1=1, axis2=2) > 0)
    for r in range(2):
        G = (pool.T * np.bincount(picks[:, r], minlength=3)) @ pool + lambda_ * np.eye(m)
        np.testing.assert_allclose(state.factor[r] @ state.factor[r].T, G, rtol=1e-9, atol=1e-9 * 20000)
    assert np.all(np.isfinite(posterior.predict(state, np.broadcast_to(pool, (2, 3, m)))[1]))


def test_rank_one_update_against_a_fresh_factorisation():
    rng = np.random.default_rng(3)
    A, x = rng.normal(size=(4, 6, 6)), rng.normal(size=(4, 6))
    M = A @ np.swapaxes(A, 1, 2) + np.eye(6)
    updated = cholesky_update(np.linalg.cholesky(M), x)
    np.testing.assert_allclose(updated, np.linalg.cholesky(M + x[:, :, None] * x[:, None, :]), atol=1e-10)


def test_linear_kernel_is_ridge_regression():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    posterior = KernelPosterior(Linear(), 2.0)
    state = posterior.init(1, 3)
    for xi, yi in zip(x, y, strict=True):
        state = posterior.update(state, xi[None], np.array([yi]))
    theta = np.linalg.solve(x.T @ x + 2 * np.eye(3), x.T @ y)
    np.testing.assert_allclose(posterior.predict(state, x[None])[0][0], x @ theta, atol=1e-10)


def test_bad_parameters_are_refused():
    with pytest.raises(ValueError, match="lambda_"):
        FeaturePosterior(3, 0.0)
    with pytest.raises(ValueError, match="rho"):
        KernelPosterior(Linear(), 1.0, -1.0)
