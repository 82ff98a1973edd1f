"""Kernels: positive semi-definite, normalised, and equal to the mean cosine of their spectral density."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gamma, kv

from privbandit.features import Linear, Matern, Product, SquaredExponential, make_kernel

STATIONARY = {
    "se": SquaredExponential(0.4),
    "se ard": SquaredExponential((0.3, 0.8)),
    "matern 1/2": Matern(0.5, 0.5),
    "matern 3/2": Matern(0.5, 1.5),
    "matern 1.7": Matern(0.5, 1.7),
    "product": Product((Matern(0.4, 1.5), SquaredExponential(0.6))),
}


@pytest.mark.parametrize("name", STATIONARY)
def test_positive_semi_definite_with_unit_diagonal(name):
    kernel, x = STATIONARY[name], np.random.default_rng(0).random((40, 2))
    K = kernel(x, x)
    assert np.linalg.eigvalsh(K)[0] > -1e-12
    np.testing.assert_allclose(np.diag(K), 1, atol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(x), 1)
    np.testing.assert_allclose(K, K.T, atol=1e-15)
    assert np.all(K > 0) and np.all(K <= 1 + 1e-12)


@pytest.mark.parametrize("name", STATIONARY)
def test_mean_cosine_of_sampled_frequencies(name):
    """n = 200000 frequencies; every mean within five standard errors (a cosine has variance at most one)."""
    kernel, n = STATIONARY[name], 200000
    omega = kernel.sample_frequencies(n, 2, np.random.default_rng(1))
    z = np.random.default_rng(2).uniform(-1, 1, (6, 2))
    np.testing.assert_allclose(np.cos(z @ omega.T).mean(axis=1), kernel(z, np.zeros((1, 2)))[:, 0], atol=5 / np.sqrt(n))


@pytest.mark.parametrize("kernel", [SquaredExponential(0.3), Matern(0.3, 0.5), Matern(0.3, 1.5), Matern(0.3, 2.2)])
def test_spectral_density_integrates_to_one(kernel):
    assert abs(2 * quad(kernel.spectral_density, 0, np.inf)[0] - 1) < 1e-7


def test_closed_forms_of_matern_equal_the_bessel_form():
    r = np.linspace(0.01, 3, 30)
    for nu in (0.5, 1.5, 2.5):
        z = np.sqrt(2 * nu) * r
        np.testing.assert_allclose(Matern(1.0, nu).profile(r), 2 ** (1 - nu) / gamma(nu) * z**nu * kv(nu, z), rtol=1e-12)
    near = Matern(1.0, 1.7).profile(np.array([0.0, 1e-9]))
    np.testing.assert_allclose(near, 1.0, atol=1e-8)


@pytest.mark.parametrize("kernel", [SquaredExponential(1.0), Matern(1.0, 0.5), Matern(1.0, 1.5), Matern(1.0, 2.5), Matern(1.0, 1.2)])
def test_curvature_bound(kernel):
    r = np.linspace(1e-3, 6, 60001)
    second = np.diff(kernel.profile(r), 2) / (r[1] - r[0]) ** 2
    assert np.max(np.abs(second)) <= kernel.unit_curvature * (1 + 1e-3)


def test_names_and_refusals():
    assert isinstance(make_kernel("linear"), Linear) and isinstance(make_kernel("matern", d=2), Product)
    with pytest.raises(ValueError, match="kernel must be one of"):
        make_kernel("cubic")
    with pytest.raises(ValueError, match="x must have 2 coordinates"):
        STATIONARY["product"](np.zeros((2, 3)), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="lengthscale must be one number or 2"):
        SquaredExponential((0.1, 0.2, 0.3)).factors(2)
    with pytest.raises(ValueError, match="parts must be"):
        Product(())
    with pytest.raises(ValueError, match="nu must be"):
        Matern(1.0, 0.0)
