"""Fourier features: norm, half-space form, certified errors, published bounds."""

from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad

from privbandit.features import (
    Matern,
    Product,
    SquaredExponential,
    choose_features,
    equispaced_features,
    features_for_horizon,
    gegenbauer_features,
    hermite_features,
    nodes_for,
    random_features,
)
from privbandit.features.certificate import certified_sup
from privbandit.features.quadrature import hermite_rule
from privbandit.formulas.gp import HERMITE_ERROR, PUBLISHED_HERMITE_ERROR

SE = SquaredExponential(0.3)
FAMILIES = {
    "random": lambda: random_features(SE, 40, 2, np.random.default_rng(0)),
    "hermite even": lambda: hermite_features(SE, 6, 2),
    "hermite odd": lambda: hermite_features(SquaredExponential((0.3, 0.7)), 5, 2),
    "equispaced": lambda: equispaced_features(SE, 9, 2),
    "gegenbauer": lambda: gegenbauer_features(Product((Matern(0.4, 1.5), Matern(0.4, 2.5))), 7, 2),
    "gegenbauer 1/2": lambda: gegenbauer_features(Matern(0.4, 0.5), 9),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_norm_one_and_weights_sum_to_one(name):
    phi = FAMILIES[name]()
    x = np.random.default_rng(1).random((3, 50, phi.d))
    assert phi(x).shape == (3, 50, phi.m)
    np.testing.assert_allclose(np.sum(phi(x) ** 2, axis=-1), 1, atol=1e-12)
    assert abs(phi.weights.sum() - 1) < 1e-12 and np.all(phi.weights > 0)


@pytest.mark.parametrize("name", FAMILIES)
def test_inner_products_are_the_approximate_kernel_within_the_certified_error(name):
    phi = FAMILIES[name]()
    x = np.random.default_rng(2).random((200, phi.d))
    K = phi(x) @ phi(x).T
    np.testing.assert_allclose(K, phi.approximate(x[:, None] - x[None]), atol=1e-12)
    assert np.max(np.abs(K - phi.kernel(x, x))) <= phi.uniform_error


@pytest.mark.parametrize("n", [4, 5])
def test_half_space_form_equals_the_full_tensor_and_the_orthant_does_not(n):
    kernel = SquaredExponential(0.5)
    rule, phi = hermite_rule(kernel, n), hermite_features(kernel, n, 2)
    assert phi.m == n**2
    z = np.random.default_rng(3).uniform(-1, 1, (100, 2))
    full = sum(
        a * b * np.cos(z @ np.array([u, v]))
        for (u, a), (v, b) in product(zip(rule.nodes, rule.weights, strict=True), repeat=2)
    )
    np.testing.assert_allclose(phi.approximate(z), full, atol=1e-12)
    keep = rule.nodes >= 0
    weight = np.where(rule.nodes[keep] > 0, 2, 1) * rule.weights[keep]
    orthant = sum(
        a * b * np.cos(z @ np.array([u, v]))
        for (u, a), (v, b) in product(zip(rule.nodes[keep], weight, strict=True), repeat=2)
    )
    assert np.max(np.abs(orthant - full)) > 0.1  # the positive orthant is a different kernel


def _mp_error(n: int, lengthscale: float) -> float:
    """Oracle: 30-digit sup error of the Gauss-Hermite rule on [0, 1] (nodes as roots found by mpmath)."""
    with mpmath.workdps(40):
        roots = np.polynomial.hermite.hermgauss(n)[0]
        nodes = [mpmath.findroot(lambda u: mpmath.hermite(n, u), mpmath.mpf(float(r))) for r in roots]
        weights = [2 ** (n - 1) * mpmath.factorial(n) / (n**2 * mpmath.hermite(n - 1, u) ** 2) for u in nodes]
        error = 0
        for i in range(41):
            r = mpmath.mpf(i) / 40
            sum_ = mpmath.fsum(w * mpmath.cos(mpmath.sqrt(2) * u * r / lengthscale) for u, w in zip(nodes, weights, strict=True))
            error = max(error, abs(sum_ - mpmath.exp(-(r**2) / (2 * mpmath.mpf(lengthscale) ** 2))))
        return float(error)


@pytest.mark.parametrize("lengthscale", [0.3, 0.5, 1.0, 10.0])
@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_hermite_error_is_below_its_bound_and_the_certificate_above_a_high_precision_oracle(n, lengthscale):
    oracle = _mp_error(n, lengthscale)
    certified = hermite_features(SquaredExponential(lengthscale), n).uniform_error
    assert oracle <= HERMITE_ERROR(d=1, lengthscale=lengthscale, n=n) + 1e-14
    assert oracle - 1e-13 <= certified <= oracle * 1.01 + 1e-7


def test_the_published_hermite_bound_is_violated_at_long_lengthscales():
    ratios = [_mp_error(n, 10.0) / PUBLISHED_HERMITE_ERROR(d=1, lengthscale=10.0, n=n) for n in (1, 2, 4)]
    np.testing.assert_allclose(ratios, [1.038, 1.018, 1.008], atol=1e-3)
    for n in range(1, 40):  # Robbins: the printed form is Stirling's, too small by at most e^(1/(24 n))
        ratio = HERMITE_ERROR(d=1, lengthscale=1.0, n=n) / PUBLISHED_HERMITE_ERROR(d=1, lengthscale=1.0, n=n)
        assert 1 < ratio < np.exp(1 / (24 * n))


def test_equispaced_error_is_below_aliasing_plus_tail():
    kernel, period, n = SquaredExponential(0.2), 2.15, 19
    phi = equispaced_features(kernel, n, period=period)
    h = 2 * np.pi / period
    k = lambda r: np.exp(-(r**2) / (2 * 0.2**2))  # noqa: E731
    alias = 2 * sum(k(j * period - 1) for j in range(1, 20))
    tail = 2 * h * sum(kernel.spectral_density(j * h) for j in range(n // 2 + 1, 200))
    assert phi.m == 19
    assert 7e-8 < phi.uniform_error < 2 * (alias + tail) / (1 - alias - tail)


@pytest.mark.parametrize(("lengthscale", "equispaced", "hermite"), [(0.2, (11, 17), (18, 24)), (0.1, (15, 25), (46, 56))])
def test_node_numbers_from_a_tolerance(lengthscale, equispaced, hermite):
    kernel = SquaredExponential(lengthscale)
    assert tuple(nodes_for(kernel, tol, "hermite") for tol in (1e-3, 1e-6)) == hermite
    assert tuple(nodes_for(kernel, tol) for tol in (1e-3, 1e-6)) == equispaced
    chosen = choose_features(kernel, 1e-6)
    assert chosen.uniform_error <= 1e-6 < equispaced_features(kernel, equispaced[1] - 2).uniform_error


def test_features_for_a_horizon_reach_one_over_T_in_two_dimensions():
    phi = features_for_horizon(SquaredExponential(0.4), 1000, d=2)
    z = np.random.default_rng(4).uniform(-1, 1, (20000, 2))
    assert np.max(np.abs(phi.approximate(z) - phi.kernel(z, np.zeros((1, 2)))[:, 0])) <= phi.uniform_error <= 1e-3


@pytest.mark.parametrize("nu", [0.5, 0.8, 1.5, 2.5, 3.1])
def test_matern_density_is_the_fourier_transform_of_the_profile(nu):
    kernel = Matern(0.7, nu)
    for r in (0.3, 1.1):
        half = quad(lambda w: float(kernel.spectral_density(w)), 0, np.inf, weight="cos", wvar=r)[0]
        assert abs(2 * half - kernel.profile(r / 0.7)) < 1e-6


def test_certified_sup_is_above_the_supremum_and_close_to_it():
    f = lambda z: np.cos(3 * z[:, 0] + 2 * z[:, 1]) + 0.3 * np.cos(7 * z[:, 0])  # noqa: E731
    bound = certified_sup(f, 13 + 0.3 * 49, (1.0, 1.0), 41)
    assert 1.3 <= bound < 1.3 * 1.01


def test_bad_input_is_refused_by_name():
    with pytest.raises(ValueError, match="lengthscale must be"):
        SquaredExponential(-1.0)
    with pytest.raises(ValueError, match="kernel must be a product"):
        equispaced_features(Matern(0.3, 1.5), 9, d=2)
    with pytest.raises(ValueError, match="x must have 1 coordinates"):
        equispaced_features(SE, 9)(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="n must be odd"):
        equispaced_features(SE, 8)
    with pytest.raises(ValueError, match="tolerance must be reachable"):
        nodes_for(Matern(0.1, 0.5), 1e-9)
    with pytest.raises(ValueError, match="sides must be"):
        equispaced_features(SE, 9, d=2, sides=(1.0,))
