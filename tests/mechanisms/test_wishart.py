"""Wishart noise: law, certificate against exact integrals, padding, bounds, and the policy on top."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi2, kstest

from privbandit.accounting import gaussian_delta
from privbandit.environments.linear import LinearBandit
from privbandit.ledger import BudgetExceeded
from privbandit.linalg import smat, svec_size
from privbandit.mechanisms.wishart import Wishart, WishartTree, certified_mu
from privbandit.policies.private_linucb import PrivateLinUCB
from privbandit.simulate import simulate


class Silent(np.random.Generator):
    """A Generator whose numbers are all zero."""

    def __init__(self):
        super().__init__(np.random.PCG64(0))

    def standard_normal(self, size=None):
        return np.zeros(size)

    def chisquare(self, df, size=None):
        return np.zeros(size)


def test_sample_is_wishart():
    """Moments of 40000 draws (mean k L I, vector part centred with variance k L^2) and the law of the smallest block, 5 sigma or p > 1e-6."""
    node, n = Wishart(7, 2, 1.5, 1e-9), 40000
    draws = node.sample(n, np.random.default_rng(0))
    matrix, vector = smat(draws[:, :3], 2), draws[:, 3:]
    np.testing.assert_allclose(matrix.mean(axis=0), 10.5 * np.eye(2), atol=5 * 1.5 * math.sqrt(14 / n))
    np.testing.assert_allclose(vector.std(axis=0), 1.5 * math.sqrt(7), rtol=0.05)
    assert kstest(matrix[:, 0, 0] / 1.5, chi2(7).cdf).pvalue > 1e-6
    assert kstest(1.0 / np.linalg.inv(matrix)[:, 1, 1] / 1.5, chi2(6).cdf).pvalue > 1e-6  # k - p + 1 with p = 2


def test_sufficient_statistic_is_a_shifted_chi_square():
    """1 / (v' X^-1 v) for X = W + v v' is chi-square + |v|^2: n = 20000 literal draws, Kolmogorov-Smirnov p > 1e-6."""
    rng, k, p = np.random.default_rng(1), 9, 4
    v = rng.normal(size=p)
    G = rng.normal(size=(20000, k, p))
    X = np.einsum("nki,nkj->nij", G, G) + np.outer(v, v)
    y = 1 / np.einsum("i,nij,j->n", v, np.linalg.inv(X), v)
    assert kstest((y - 1) * (v @ v), chi2(k - p + 1).cdf).pvalue > 1e-6


def exact_delta(n, epsilon, shift=1.0):
    """Hockey-stick divergence of chi-square(n) + shift against chi-square(n) and back, by quadrature."""
    top = chi2.isf(1e-17, n) + 2

    def f(y):
        return chi2.pdf(y, n)

    there = quad(lambda y: max(0.0, f(y - shift) - math.exp(epsilon) * f(y)), 0, top, limit=2000, epsabs=1e-13)[0]
    back = quad(lambda y: max(0.0, f(y) - math.exp(epsilon) * f(y - shift)), 0, top, limit=2000, epsabs=1e-13, points=[shift])[0]
    return max(there, back)


@pytest.mark.parametrize("n", [12, 40, 200])
@pytest.mark.parametrize("tau", [1e-4, 1e-7])
def test_certificate_dominates_the_exact_divergence(n, tau):
    mu = certified_mu(n, tau)
    for epsilon in (0.0, 0.1, 0.3, 1.0):
        claimed = tau + (1 - tau) * gaussian_delta(mu, epsilon) if math.isfinite(mu) else 1.0
        assert exact_delta(n, epsilon) <= claimed + 1e-12
        assert exact_delta(n, epsilon, 0.5) <= exact_delta(n, epsilon) + 1e-12  # shorter vectors are harder to tell


def test_certificate_is_not_wasteful():
    """For many degrees of freedom mu tends to that of Gaussian noise of the same variance, 1 / sqrt(2n)."""
    assert certified_mu(20000, 1e-6) == pytest.approx(1 / math.sqrt(40000), rel=0.05)
    assert certified_mu(20000, 1e-6) > 1 / math.sqrt(40000)


def test_composition_dominates_a_literal_two_node_divergence():
    """Two nodes on a product grid (coarsened by data processing, so a lower bound on the truth) stay below the claim."""
    n, tau, epsilon = 30, 1e-5, 0.2
    edges = np.concatenate([[-np.inf], np.linspace(0, 120, 400), [np.inf]])
    P, Q = np.diff(chi2.cdf(edges - 1, n)), np.diff(chi2.cdf(edges, n))
    PP, QQ = np.outer(P, P), np.outer(Q, Q)
    literal = max(np.maximum(PP - math.exp(epsilon) * QQ, 0).sum(), np.maximum(QQ - math.exp(epsilon) * PP, 0).sum())
    claimed = WishartTree(2, n + 2, 2, 1.0, tau=tau).add_remove_delta(epsilon)
    assert 0.1 * claimed < literal <= claimed


@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_calibration_is_the_least_and_the_literature_is_far_away(epsilon):
    tree = WishartTree.calibrated(100, epsilon, 1e-5, 3)
    assert tree.delta <= 1e-5
    fewer = WishartTree(100, tree.degrees - 1, 3, epsilon, tree.Z, tree.tau)
    assert fewer.delta > 1e-5
    assert tree.degrees < WishartTree.published(100, epsilon, 1e-5, 3).degrees / 50


@pytest.mark.parametrize("T", [1, 2, 3, 7, 8, 13])
def test_prefixes_are_sums_plus_a_constant_number_of_noises(T):
    """With noise of mean k L I per node, every prefix of zeros has mean levels k L I: n = 4000, 5 standard errors; without, sums are exact."""
    tree, R = WishartTree(T, 12, 2, 1.0), 4000
    noise, rng = np.random.default_rng(2), np.random.default_rng(3)
    state, zero = tree.init(R, 5, noise), tree.init(3, 5, Silent())
    total = np.zeros((3, 5))
    for _ in range(T):
        state, prefix = tree.release(state, np.zeros((R, 5)), noise)
        k = tree.levels * 12
        assert prefix[:, 0].mean() == pytest.approx(2 * k, abs=5 * 2 * math.sqrt(2 * k / R))
        assert prefix[:, 0].std() == pytest.approx(2 * math.sqrt(2 * k), rel=0.1)
        leaf = rng.normal(size=(3, 5))
        total = total + leaf
        zero, exact = tree.release(zero, leaf, Silent())
        np.testing.assert_allclose(exact, total, atol=1e-12)
    with pytest.raises(BudgetExceeded):
        tree.release(state, np.zeros((R, 5)), noise)


def test_bounds_hold_along_whole_paths():
    """300 paths of 31 prefixes at zeta = 0.1: at most 30 + 5 * 5.2 failures."""
    tree, R, d = WishartTree.calibrated(31, 5.0, 1e-3, 3), 300, 3
    ridge = 10.0
    bounds = tree.noise_bounds(0.1, ridge)
    noise, size = np.random.default_rng(4), svec_size(d) + d
    state, failed = tree.init(R, size, noise), np.zeros(R, dtype=bool)
    for _ in range(31):
        state, prefix = tree.release(state, np.zeros((R, size)), noise)
        W, h = smat(prefix[:, :6], d), prefix[:, 6:]
        values = np.linalg.eigvalsh(W)
        regulariser = W - (bounds.low - ridge) * np.eye(d)
        kappa = np.sqrt(np.einsum("rd,rd->r", h, np.linalg.solve(regulariser, h[..., None])[..., 0]))
        failed |= (values[:, 0] < bounds.low) | (values[:, -1] > bounds.high) | (kappa > bounds.vector / math.sqrt(ridge))
    assert failed.sum() <= 56 and bounds.low > ridge


def test_policy_states_the_tree_guarantee():
    tree = WishartTree.calibrated(40, 3.0, 1e-4, 2)
    policy = PrivateLinUCB.wishart(tree, S=0.5)
    guarantee = policy.guarantee(1e-4)
    assert (guarantee.epsilon, guarantee.trust, guarantee.neighbours) == (3.0, "joint", "replace")
    assert policy.ledger.epsilon(tree.delta / 2) == math.inf
    run = simulate(policy, LinearBandit(3, 2), horizon=40, replications=3, seed=0)
    assert np.isfinite(run.regret).all()


def test_bad_input():
    with pytest.raises(ValueError, match="degrees must be a whole number >= 4, got 3"):
        WishartTree(8, 3, 2, 1.0)
    with pytest.raises(ValueError, match="size must be 5, the leaf of one block of dimension 2, got 6"):
        WishartTree(8, 9, 2, 1.0).init(1, 6, np.random.default_rng(0))
    with pytest.raises(TypeError, match="noise must be a numpy random Generator, got None"):
        WishartTree(8, 9, 2, 1.0).init(1, 5, None)
    tree, noise = WishartTree(8, 9, 2, 1.0), np.random.default_rng(0)
    with pytest.raises(ValueError, match="increment must have finite entries only, got nan"):
        tree.release(tree.init(1, 5, noise), np.full((1, 5), np.nan), noise)
    with pytest.raises(ValueError, match="epsilon must be a finite number > 0, got inf"):
        WishartTree.calibrated(8, math.inf, 1e-5, 2)
    with pytest.raises(ValueError, match="mechanism.Delta must be at least"):
        PrivateLinUCB(d=2, mechanism=WishartTree(8, 9, 2, 1.0, Z=0.5))
