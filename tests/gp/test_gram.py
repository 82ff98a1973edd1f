"""Encodings of phi phi^T: identities, sensitivity against optimisation, bounds on the noise."""

import numpy as np
import pytest
from scipy.optimize import differential_evolution
from scipy.stats import norm

from privbandit.accounting import gaussian_mu
from privbandit.features import SquaredExponential, equispaced_features, features_for_horizon, hermite_features
from privbandit.gp.calibration import NoiseBounds, make_shape
from privbandit.gp.gram import FullGram, MomentGram
from privbandit.gp.leaf import Leaf, Shape
from privbandit.gp.wishart import WishartLeaf

ONE = equispaced_features(SquaredExponential(0.2), 13)
TWO = equispaced_features(SquaredExponential(0.5), 5, d=2)
GRAMS = {
    "symmetric": FullGram(ONE),
    "symmetric 2d": FullGram(TWO),
    "hermite": FullGram(hermite_features(SquaredExponential(0.5), 6)),
    "shaped": FullGram(ONE, 0.2),
    "moment": MomentGram(ONE),
    "moment 2d": MomentGram(TWO),
}


@pytest.mark.parametrize("name", GRAMS)
def test_decoding_the_sum_of_encodings_gives_the_gram_matrix(name):
    gram = GRAMS[name]
    x = np.random.default_rng(0).random((4, 25, gram.features.d))
    phi = gram.features(x)
    V = gram.decode(gram.encode(x).sum(axis=1), 25)
    assert gram.encode(x).shape[-1] == gram.size
    np.testing.assert_allclose(V, np.swapaxes(phi, 1, 2) @ phi, atol=1e-11)


def test_moment_release_needs_few_numbers_and_equispaced_features():
    assert MomentGram(ONE).size == 2 * (ONE.m - 1) and MomentGram(TWO).size == 9**2 - 1
    with pytest.raises(ValueError, match="features must be equispaced"):
        MomentGram(hermite_features(SquaredExponential(0.5), 6))


@pytest.mark.parametrize("name", GRAMS)
@pytest.mark.parametrize("exponent", [0.0, 0.4])
@pytest.mark.parametrize(("Y", "scale"), [(1.0, 0.8), (2.5, 1.3)])
def test_sensitivity_is_what_optimisation_over_two_users_finds(name, exponent, Y, scale):
    """Oracle: global search over both points and both rewards. The claim must be above it, and within 2% of it."""
    leaf = Leaf(Shape(GRAMS[name], exponent), Y, scale)
    d = leaf.features.d

    def distance(v):
        v = v.T
        a = leaf.encode(v[:, :d], Y * (2 * v[:, 2 * d] - 1))
        b = leaf.encode(v[:, d : 2 * d], Y * (2 * v[:, 2 * d + 1] - 1))
        return -np.linalg.norm(a - b, axis=-1)

    found = differential_evolution(distance, [(0, 1)] * (2 * d + 2), seed=1, maxiter=60, popsize=20, vectorized=True, updating="deferred", polish=False)
    assert -found.fun <= leaf.Delta + 1e-9
    assert leaf.Delta <= -found.fun * 1.02


@pytest.mark.parametrize("make", [lambda shape: Leaf(shape, 1.0, 1.0), lambda shape: WishartLeaf(shape, 1.0, 1.0)])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_records_that_are_not_finite_are_refused(make, bad):
    leaf = make(make_shape(features_for_horizon(SquaredExponential(0.3), 16), "symmetric"))
    for x, y, name in (([[bad]], [0.0], "x"), ([[0.5]], [bad], "reward"), ([[0.5, 0.5]], [0.0], "x"), ([[0.5]], [0.0, 0.0], "reward")):
        with pytest.raises(ValueError, match=f"^{name} must have "):
            leaf.encode(np.array(x), np.array(y))


def test_rewards_and_points_outside_are_clipped_before_they_count():
    leaf = Leaf(make_shape(ONE, "moment"), 1.0, 1.0)
    np.testing.assert_array_equal(leaf.encode(np.array([[3.0]]), np.array([9.0])), leaf.encode(np.array([[1.0]]), np.array([1.0])))


def test_symmetrised_noise_costs_half_the_frobenius_norm():
    """The log-likelihood ratio of two symmetric matrices under (Z' + Z'^T)/sqrt(2), Z' i.i.d. N(0, s^2), has mean |D|_F^2/(4 s^2).

    n = 40000 draws; the mean's standard error is sqrt(2 KL / n); five of them.
    """
    rng, m, s, n = np.random.default_rng(0), 5, 1.3, 40000
    D = rng.normal(size=(m, m))
    D = D + D.T
    Z = s * rng.normal(size=(n, m, m))
    Z = (Z + np.swapaxes(Z, 1, 2)) / np.sqrt(2)
    scale = s * np.sqrt(np.where(np.eye(m) > 0, 2, 1))
    upper = np.triu_indices(m)
    loss = np.sum((norm.logpdf(Z, scale=scale) - norm.logpdf(Z - D, scale=scale))[:, *upper], axis=1)
    kl = np.sum(D**2) / (4 * s**2)
    assert abs(loss.mean() - kl) < 5 * np.sqrt(2 * kl / n)


@pytest.mark.parametrize("name", GRAMS)
def test_noise_bounds_hold_and_second_moments_are_exact(name):
    """n = 3000 draws at eta = 0.01: a bound that fails 2% of the time would be caught with probability > 0.99."""
    gram, n, eta = GRAMS[name], 3000, 0.01
    m, rng = gram.features.m, np.random.default_rng(1)
    z = rng.standard_normal((n, gram.size))
    H = gram.decode(z, 0)
    weights = (gram.features.feature_weights / gram.features.feature_weights.max()) ** 0.4
    values = np.linalg.eigvalsh(H)
    fails = {
        "norm": np.abs(values).max(axis=1) > gram.norm(eta),
        "trace": -np.einsum("nii,i->n", H, weights) > gram.weighted_trace(weights, eta),
        "frobenius": np.linalg.norm(H * np.sqrt(weights), axis=(1, 2)) > gram.frobenius(weights, eta),
    }
    for event, failed in fails.items():
        assert failed.mean() <= eta + 5 * np.sqrt(eta / n), event
    assert values[:, -1].mean() <= gram.mean_norm
    squares = np.sum(H**2 * weights, axis=(1, 2))
    assert abs(squares.mean() - gram.second_moment(weights)) < 5 * squares.std() / np.sqrt(n)
    M = rng.normal(size=(m, m))
    M = (M + M.T) / np.linalg.norm(M + M.T)
    assert np.einsum("nij,ij->n", H, M).std() <= gram.weak_std * 1.1


@pytest.mark.parametrize("gram", ["symmetric", "moment", "shaped"])
def test_spectral_bounds_hold_at_a_prefix(gram):
    """lambda_min <= R <= lambda_max and |h|_{R^-1} <= kappa on n = 4000 draws at eta = 0.01 for each of four events."""
    shape, std, n, eta = make_shape(ONE, gram, 0.4), 2.0, 4000, 0.01
    spectrum = NoiseBounds.of(shape, eta).spectrum(std, scale=1.2, ratio=1.5)
    z = std * np.random.default_rng(2).standard_normal((n, shape.gram.size + ONE.m))
    H, h = Leaf(shape, 1.0, 1.2).decode(z, 0)
    R = H + spectrum.shift * np.eye(ONE.m)
    values = np.linalg.eigvalsh(R)
    h_norm = np.sqrt(np.einsum("ni,ni->n", h, np.linalg.solve(R, h[..., None])[..., 0]))
    failed = (values[:, 0] < spectrum.lambda_min) | (values[:, -1] > spectrum.lambda_max) | (h_norm > spectrum.kappa)
    assert failed.mean() <= 4 * eta + 5 * np.sqrt(4 * eta / n)
    assert h_norm.mean() > spectrum.kappa / 4  # and the bound is not idle


def test_plain_joint_sensitivity_closed_form():
    """sqrt(2)(1 + Y^2) of the full block matrix for Y <= 1 with the natural split b = 2 Y^2; mu at (1, 1e-5)."""
    shape = make_shape(ONE, "symmetric")
    assert abs(shape.sensitivity(1.0, np.sqrt(2)) - 2 * np.sqrt(2)) < 1e-12
    assert abs(shape.sensitivity(0.5, np.sqrt(2)) - np.sqrt(2) * 1.25) < 1e-12
    assert abs(1 / gaussian_mu(1.0, 1e-5) - 3.730) < 1e-3
