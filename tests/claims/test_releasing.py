"""Checks of the claims in the chapter *Releasing what was learnt*."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.stats import norm

from privbandit.accounting import gaussian_mu
from privbandit.environments.gp import GaussianProcessBandit, unit_grid
from privbandit.estimators.gp import KernelPosterior
from privbandit.features import Matern, SquaredExponential, features_for_horizon
from privbandit.ledger import Entry, Gaussian, Ledger
from privbandit.policies.base import choose
from privbandit.policies.noisy_gp_ucb import joint_gp_ucb
from privbandit.releases.cloaking import Cloaking, d_optimal
from privbandit.releases.kusner import KusnerRelease
from privbandit.releases.posterior import PrivatePosterior
from privbandit.releases.reward_local import RewardLocalGPUCB

from .claim import claim


@claim("kernel-posterior-leaks", subject=KernelPosterior, mutants={"smooth-kernel": lambda kernel, v: KernelPosterior(SquaredExponential(0.3), v)})
def check_leak(posterior):
    """n = 160 inputs in 20 runs, seed 1: second differences of the variance give the places; at least 95 % within 0.001."""
    rng, grid, found = np.random.default_rng(1), np.linspace(0, 1, 2001), 0
    for _ in range(20):
        users = rng.choice(grid[100:-100:50], 8, replace=False)
        gp = posterior(Matern(0.3, nu=0.5), 0.1)
        state = gp.init(1, 1)
        for u in users:
            state = gp.update(state, np.array([[u]]), np.zeros(1))
        second = np.abs(np.diff(gp.predict(state, grid[None, :, None])[1][0] ** 2, 2))
        read = grid[1:-1][second > 0.2 * second.max()]
        assert len(read) < 100
        found += sum(np.abs(read - u).min() < 1e-3 for u in users)
    assert found >= 152


test_kernel_posterior_leaks = check_leak


def _from_secret(policy, state):
    """A twin that mixes the curator's pending contributions into the published function."""
    posterior = PrivatePosterior.of(policy, state)
    moved = posterior.released._replace(theta=posterior.released.theta + 0 * state.pending[:, :1])
    return PrivatePosterior(posterior.features, moved, posterior.bias, posterior.ledger)


def _without_bias(policy, state):
    posterior = PrivatePosterior.of(policy, state)
    return PrivatePosterior(posterior.features, posterior.released, 0.0, posterior.ledger)


@claim(
    "posterior-is-public",
    subject=PrivatePosterior,
    mutants={
        "reads-pending-users": type("Twin", (), {"of": staticmethod(_from_secret)}),
        "no kernel error in the band": type("Twin", (), {"of": staticmethod(_without_bias)}),
    },
)
def check_public(posterior):
    """Everything the curator holds back is replaced by NaN: mean, band and ledger stay as they were; the band is the formula's."""
    T, kernel = 64, SquaredExponential(0.3)
    policy = joint_gp_ucb(features_for_horizon(kernel, T), T, 5.0, 1e-5)
    world, rng = GaussianProcessBandit(kernel, unit_grid(20), 4), np.random.default_rng(0)
    hidden, state = world.init(1, rng), policy.init(1, rng)
    for t in range(T):
        hidden, contexts = world.contexts(hidden, t, rng)
        state, action = policy.act(state, contexts, rng)
        state = policy.update(state, choose(contexts, action), world.step(hidden, contexts, action, rng).reward, rng)
    x = np.linspace(0, 1, 30)[:, None]
    before = posterior.of(policy, state)
    after = posterior.of(policy, state._replace(pending=np.full_like(state.pending, np.nan), mechanism=None))
    for read in ("mean", "band"):
        values = getattr(before, read)(x)
        assert np.all(np.isfinite(values)) and np.array_equal(values, getattr(after, read)(x))
    assert after.ledger == policy.ledger and abs(after.ledger.epsilon(1e-5) - 5.0) < 1e-6
    features, B = policy.calibration.features, policy.calibration.B
    width = state.released.beta[0] * np.sqrt([phi @ state.released.inverse[0] @ phi for phi in features(x)])
    np.testing.assert_allclose(before.band(x)[0], width + B * math.sqrt(features.uniform_error), rtol=1e-9)


test_posterior_is_public = check_public


@claim("two-copies-cost", subject=Ledger, mutants={"one-is-charged": lambda unit, trust, entries: Ledger(unit, trust, entries[:1])})
def check_copies(ledger):
    copy = Entry("copy", Gaussian(1.0, 1 / gaussian_mu(1.0, 1e-5)))
    both = ledger("one user", "central", (copy, copy))
    assert math.isclose(both.mu, math.sqrt(2) * gaussian_mu(1.0, 1e-5), rel_tol=1e-12)
    assert abs(both.epsilon(1e-5) - 1.465) < 0.001


test_two_copies_cost = check_copies


def _probabilities(epsilon, Delta, scores):
    weights = np.exp(epsilon * (scores - scores.max()) / (2 * Delta))
    return weights / weights.sum()


@claim(
    "exponential-recommendation",
    subject=(KusnerRelease, _probabilities),
    mutants={"without-the-two": (KusnerRelease, lambda epsilon, Delta, scores: _probabilities(2 * epsilon, Delta, scores))},
)
def check_recommendation(parts):
    """All 27 moves of three scores; the package's Gumbel draws follow these probabilities (n = 20,000, seed 3, five standard errors)."""
    release, probabilities = parts
    scores, n = np.array([0.0, 0.4, 1.0]), 20_000
    for epsilon in (0.5, 2.0, 8.0):
        k = release(epsilon, 0.05, 3)
        p = probabilities(epsilon, k.sensitivity, scores)
        for move in itertools.product((-1, 0, 1), repeat=3):
            q = probabilities(epsilon, k.sensitivity, scores + k.sensitivity * np.array(move))
            assert np.all(np.abs(np.log(p / q)) <= epsilon * (1 + 1e-12))
        draws = k.recommend(np.broadcast_to(10 * scores, (n, 3)), np.random.default_rng(3))
        expected = _probabilities(epsilon, k.sensitivity, 10 * scores)
        seen = np.bincount(draws, minlength=3) / n
        assert np.all(np.abs(seen - expected) <= 5 * np.sqrt(expected * (1 - expected) / n))


test_exponential_recommendation = check_recommendation


def _scaled(factor):
    return type("Twin", (KusnerRelease,), {"sensitivity": property(lambda self: factor * KusnerRelease.sensitivity.fget(self))})


@claim("prior-sensitivity", subject=KusnerRelease, mutants={"half": _scaled(0.5), "no 2 in the root": _scaled(math.sqrt(0.5)), "double": _scaled(2.0)})
def check_prior_sensitivity(release):
    """Exact in the worst case, objectives f and -f observed without noise: means differ by 2 |f|; and not much more is charged than it needs."""
    for size, delta in itertools.product((1, 20, 1000), (1e-6, 0.05, 0.5)):
        Delta = release(1.0, delta, size).sensitivity
        beyond = -math.expm1(size * math.log1p(-2 * norm.sf(Delta / 2)))  # independent candidates
        assert beyond <= delta
        needed = 2 * norm.isf(-math.expm1(math.log1p(-delta) / size) / 2)
        assert Delta <= needed + 2.0
    r = release(1.0, 0.05, 20)
    assert all(r.sensitivity < 0.65 * r.published_sensitivity(T, k) for T in (100, 10_000) for k in (0.0, 0.5, 1.0))


test_prior_sensitivity = check_prior_sensitivity


def _isotropic(columns):
    return np.eye(len(columns)) * np.max(np.sum(columns**2, axis=0))


def _unscaled(columns):
    return 0.9 * d_optimal(columns)


@claim("cloaking-design", subject=(d_optimal, Cloaking), mutants={"isotropic": (_isotropic, Cloaking), "infeasible": (_unscaled, Cloaking)})
def check_cloaking(parts):
    """Feasibility, KKT (the support has leverage 1, weights recovered by least squares), and the exact GDP parameter of every output."""
    design, cloaking = parts
    rng = np.random.default_rng(2)
    for p in (2, 3, 4):
        C = rng.standard_normal((p, 15))
        M = design(C)
        leverage = np.einsum("pn,pn->n", C, np.linalg.solve(M, C))
        assert leverage.max() <= 1 + 1e-9
        support = leverage > 1 - 1e-3
        basis = np.stack([np.outer(c, c).ravel() for c in C[:, support].T], axis=1)
        weights = np.linalg.lstsq(basis, M.ravel(), rcond=None)[0]
        assert np.allclose(basis @ weights, M.ravel(), atol=1e-3 * np.abs(M).max()) and abs(weights.sum() - p) < 1e-2
    x, star = rng.random((30, 1)), np.linspace(0, 1, 5)[:, None]
    release = cloaking(SquaredExponential(0.3), x, star, 0.1, 2.0, 1.0, 1e-5)
    shift = 2.0 * release.weights
    mu = np.sqrt(np.einsum("pn,pq,qn->n", shift, np.linalg.pinv(release.covariance, rcond=1e-10), shift))
    assert mu.max() <= gaussian_mu(1.0, 1e-5) * (1 + 1e-4)


test_cloaking_design = check_cloaking


class _Half(RewardLocalGPUCB):
    @property
    def report(self):
        return Gaussian(self.Y, self.Y / gaussian_mu(self.epsilon, self.delta))


@claim("reward-local-noise", subject=RewardLocalGPUCB, mutants={"half-the-range": _Half})
def check_reward(policy):
    """The exact shift of a replaced reward in units of the noise, and the ledger's epsilon."""
    features = features_for_horizon(SquaredExponential(0.3), 32)
    for Y, epsilon in itertools.product((0.5, 1.0, 3.0), (0.5, 1.0, 10.0)):
        p = policy(features, epsilon=epsilon, delta=1e-5, Y=Y)
        rewards = np.clip(np.array([-5.0, 5.0]), -Y, Y)
        assert abs(np.ptp(rewards) / p.report.sigma - gaussian_mu(epsilon, 1e-5)) < 1e-12
        assert abs(p.ledger.epsilon(1e-5) - epsilon) < 1e-6 and p.ledger.trust == "local"


test_reward_local_noise = check_reward
