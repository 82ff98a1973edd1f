"""Wishart noise: the law of its privacy loss, degrees of freedom, spectra, and the tree."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from privbandit.features import SquaredExponential, features_for_horizon
from privbandit.gp.wishart import (
    GPWishartTree,
    WishartNoise,
    exact_degrees,
    node_loss,
    published_degrees,
    replacement_target,
    wishart_calibration,
    wishart_delta,
)
from privbandit.ledger import BudgetExceeded
from privbandit.linalg import smat

FEATURES = features_for_horizon(SquaredExponential(0.3), 64)


def test_inverse_quadratic_form_is_chi_square():
    """1/(v^T W^-1 v) ~ chi^2_{k-p+1} for unit v: mean and variance of n = 40000 draws within five standard errors."""
    p, k, n = 4, 11, 40000
    W = smat(WishartNoise(p, k, 1.0).draw((n,), k, np.random.default_rng(0)), p)
    v = np.ones(p) / 2
    sample = 1 / np.einsum("i,nij,j->n", v, np.linalg.inv(W), v)
    nu = k - p + 1
    assert abs(sample.mean() - nu) < 5 * math.sqrt(2 * nu / n)
    assert abs(sample.var() - 2 * nu) < 5 * 2 * nu * math.sqrt((2 + 12 / nu) / n)


def test_scale_is_a_standard_deviation():
    W = smat(WishartNoise(3, 50, 2.0).draw((4000,), 50, np.random.default_rng(1)), 3)
    np.testing.assert_allclose(W.mean(axis=0), 50 * 4 * np.eye(3), atol=5 * 4 * math.sqrt(100 / 4000))


@pytest.mark.parametrize("removed", [True, False])
def test_privacy_loss_against_densities(removed):
    """Masses sum to one, and the change of measure integrates to what it must."""
    k, p = 30, 5
    start, step, mass, infinite = node_loss(k, p, removed)
    losses = start + step * np.arange(len(mass))
    assert abs(mass.sum() + infinite - 1) < 1e-12
    # E_truth exp(-loss) is the mass the neighbour puts where the truth lives: all of W + v v^T, but of W only where q < 1, z > 1
    expected = chi2(k - p + 1).sf(1.0) if removed else 1.0
    assert abs(np.sum(mass * np.exp(-losses)) - expected) < 2e-3


def test_delta_against_monte_carlo():
    """Three nodes: n = 400000 draws of the summed loss; hockey-stick estimates within five standard errors, and below the bound."""
    k, p, levels, epsilon, n = 40, 6, 3, 1.0, 400000
    rng, c = np.random.default_rng(2), (k - p - 1) / 2
    z = rng.chisquare(k - p + 1, (n, levels))
    removed = np.sum(0.5 - c * np.log1p(1 / z), axis=1)
    added = np.sum(-c * np.log1p(-1 / z) - 0.5, axis=1)
    values = [np.where(x > epsilon, -np.expm1(epsilon - x), 0.0) for x in (removed, added)]
    estimate = max(values, key=np.mean)
    bound = wishart_delta(k, p, levels, epsilon)
    assert abs(bound - estimate.mean()) < 5 * estimate.std() / math.sqrt(n) + 2e-3 * bound


def test_degrees_of_freedom():
    """One level and thirteen at (1, 1e-5), p = 20, add/remove: 53 and 133-135, where the printed rule has 574318."""
    assert exact_degrees(20, 1, 1.0, 1e-5, "add-remove") == 53
    assert 130 <= exact_degrees(20, 13, 1.0, 1e-5, "add-remove") <= 136
    assert published_degrees(20, 13, 1.0, 1e-5) == 574318
    epsilon, delta = replacement_target(1.0, 1e-5)
    k = exact_degrees(8, 4, 1.0, 1e-5)
    assert wishart_delta(k, 8, 4, epsilon) <= delta < wishart_delta(k - 1, 8, 4, epsilon)


def test_bounds_hold_at_every_prefix():
    """30 paths, 64 prefixes, zeta = 0.05: the bound allows 1.5 failing paths; eight would be five sigma."""
    c, R = wishart_calibration(FEATURES, 64, 2.0, 1e-5), 30
    noise = np.random.default_rng(3)
    state, failed = c.mechanism.init(R, c.leaf.size, noise), np.zeros(R, dtype=bool)
    for _ in range(64):
        state, z = c.mechanism.release(state, np.zeros((R, c.leaf.size)), noise)
        H, h = c.leaf.decode(z, 0)
        V = H + c.spectrum.shift * np.eye(FEATURES.m)
        values = np.linalg.eigvalsh(V)
        norm = np.sqrt(np.abs(np.einsum("ri,ri->r", h, np.linalg.solve(V, h[..., None])[..., 0])))
        failed |= (values[:, 0] < c.spectrum.lambda_min) | (values[:, -1] > c.spectrum.lambda_max) | (norm > c.spectrum.kappa)
    assert failed.sum() <= 7
    with pytest.raises(BudgetExceeded):
        c.mechanism.release(state, np.zeros((R, c.leaf.size)), noise)


def test_every_user_has_the_same_norm_and_every_prefix_the_same_number_of_summands():
    c = wishart_calibration(FEATURES, 64, 2.0, 1e-5)
    rng = np.random.default_rng(4)
    v = c.leaf.encode(rng.random((50, 1)), rng.uniform(-1, 1, 50))
    np.testing.assert_allclose(np.linalg.norm(v, axis=1), 2.0, atol=1e-12)  # |v v^T|_F = |v|^2 = 1 + Y^2
    tree = GPWishartTree(7, 1.0, 1.0, 3, 9)
    rng = np.random.default_rng(5)
    state, traces = tree.init(3000, 6, rng), []
    for _ in range(7):
        state, z = tree.release(state, np.zeros((3000, 6)), rng)
        traces.append(np.trace(smat(z, 3), axis1=1, axis2=2).mean())
    np.testing.assert_allclose(traces, 3 * 3 * 9, atol=5 * math.sqrt(2 * 81 / 3000))


def test_exact_accounting_is_far_narrower_than_the_published_rule():
    exact = wishart_calibration(FEATURES, 1024, 1.0, 1e-5)
    published = wishart_calibration(FEATURES, 1024, 1.0, 1e-5, published=True)
    assert published.private_width > 4 * exact.private_width
    assert abs(exact.mechanism.entries[0].event.epsilon - 1.0) < 1e-12
