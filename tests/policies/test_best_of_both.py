"""Best of both. What all block policies share is in test_two_block; sensitivity, failure budget and a literal loop are claims of the book."""

import math
from dataclasses import replace

import numpy as np
import pytest

from privbandit.environments.glm import GLMEnvironment
from privbandit.formulas import best_of_both, self_weighted, two_block
from privbandit.formulas.glm import JOINT_LEAF
from privbandit.links import Logistic, Probit
from privbandit.policies.best_of_both import BestOfBoth, Pair
from privbandit.policies.two_block import LeastSquares, Scale
from privbandit.simulate import simulate

from .test_two_block import hard_contexts, noise, problem


def policy(**changes):
    return replace(BestOfBoth(Logistic(), d=2, S=1.0, horizon=64, epsilon=2.0, delta=1e-5), **changes)


def leaves(p, states: int, users: int, seed: int):
    """Leaves (states, users, size) in released units of random users after noise-free random histories, all scaled to be extreme:
    unit features, rewards 0 and 1, predictions anywhere."""
    rng, out = np.random.default_rng(seed), []
    for _ in range(states):
        block, both = p.block, p.block.init(users)
        for x in hard_contexts(8, p.d, rng.integers(1000)):
            leaf = block.leaf(both, np.zeros(users), np.tile(x, (users, 1)), np.full(users, float(rng.integers(2))))
            both = block.read(both, rng.exponential(30) * leaf)
        x = rng.standard_normal((users, p.d))
        x *= rng.choice([0.3, 1.0], size=(users, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
        out.append(block.leaf(both, rng.uniform(-2, 2, users), x, rng.integers(0, 2, users).astype(float)) / block.units)
    return np.array(out)


@pytest.mark.parametrize("link", [Logistic(), Probit()], ids=["logistic", "probit"])
def test_no_two_leaves_are_further_apart_than_the_ledger_says(link):
    """Same released state, two users, 400 random users in each of ten states: a refutation test of the proof's bound."""
    p = policy(link=link, S=2.0, epsilon=math.inf)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((400, 2))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    explore = p.explore_leaf(rng.uniform(-3, 3, 400), x, rng.integers(0, 2, 400).astype(float)) / p.units[: p.units.size - p.block.units.size]
    longest = 0.0
    for leaf in leaves(p, 10, 400, 0):
        apart = np.sum((leaf[:, None] - leaf[None]) ** 2, axis=2)
        cross = np.sum(explore**2, axis=1).max() + np.sum(leaf**2, axis=1).max()
        longest = max(longest, apart.max())
        assert max(apart.max(), cross) <= p.Delta2 * (1 + 1e-12)
    assert longest > 0.5 * p.Delta2


@pytest.mark.parametrize("tau", [1e-3, 0.2, 2 - math.sqrt(2), 1.0, 2.0])
def test_the_three_kinds_of_pairs(tau):
    """Exploration against exploration, exploitation against exploitation, and one of each, from their own suprema."""
    D = float(JOINT_LEAF(a=1.0, b=tau))
    weighted = max(1 + 4 * tau + 1 / 3, 2 + 2 * tau + tau**2 / 2)
    cross = (1 + tau) + ((1 + tau) + (1 + tau + 1 / 3)) / 2
    claimed = policy(tau=tau).Delta2
    assert max(D, (D + weighted) / 2, cross) <= claimed * (1 + 1e-12)
    if tau >= 2 - math.sqrt(2):
        assert claimed == pytest.approx((D + weighted) / 2)


@pytest.mark.parametrize(("d", "S", "T", "epsilon"), [(1, 1.0, 1e4, 8.0), (2, 1.0, 1e12, 4.0), (3, 0.5, 1e5, math.inf)])
def test_both_proofs_close_with_the_common_threshold(d, S, T, epsilon):
    p, nu = problem(d, S, T), noise(T, epsilon, 9 - 4 * math.sqrt(2) + 1 / 6)
    q = best_of_both.events(p)
    e, w = best_of_both.halves(q, nu)
    assert e.Delta == w.Delta
    q0 = 1 + 2 * q.L / e.ridge
    assert 1.072 * q.M * e.Delta * (2 * e.radius + e.drift * math.sqrt(2 / e.ridge)) * math.sqrt(q0 * e.dimension) <= e.radius * (1 + 1e-12)
    assert 1.061 * 0.536 * 2 * q.M * w.Delta * 1.061 * math.sqrt(w.growth * w.dimension) <= 0.25
    assert e.ridge >= 2 * q.L * math.sqrt(2) * nu * two_block.MATRIX_NORM(d=d, T=T, zeta=q.zeta) * (1 - 1e-12)
    assert w.matrix_noise <= 1 / (20 * w.epochs)


def test_the_policy_uses_these_constants():
    p = policy(zeta=0.02)
    assert p.problem.zeta == pytest.approx(0.016)
    assert p.constants == best_of_both.halves(p.problem, p.sums.max_std)
    assert p.explore_constants == two_block.explore(p.problem, p.sums.max_std)
    assert p.units.size == 2 * 5 + 6


def test_the_index_is_the_smallest_of_the_bounds():
    p = policy(scale=Scale(gamma=1e-3))
    rng = np.random.default_rng(3)
    both, x = p.block.init(5), rng.standard_normal((5, 4, 2)) / 3
    upper = p.block.upper(both, x)
    halves = p.block.plain.upper(both.plain, x), p.block.weighted.upper(both.weighted, x)
    assert np.array_equal(upper, np.minimum(*halves)) and not np.array_equal(*halves)
    assert isinstance(p.block, Pair) and type(p.block.plain) is LeastSquares


def test_bound_of_the_corollary():
    """The smaller of the two theorems' bounds at sqrt(2) times the noise and 4/5 of zeta; exploration for the smaller threshold."""
    p, kappa = problem(2, 1.0, 1e12), 5.0
    nu = noise(1e12, 4.0, 9 - 4 * math.sqrt(2) + 1 / 6)
    q = p._replace(zeta=0.8 * p.zeta)
    root = math.sqrt(2) * nu
    parts = two_block.exploitation_regret(q, root, kappa), self_weighted.weighted_regret(q, root, kappa)
    assert best_of_both.exploitation_regret(p, nu, kappa) == pytest.approx(min(parts), rel=1e-12)
    rounds = [two_block.exploration_rounds(q, nu, k(q, root).Delta) for k in (two_block.exploit, self_weighted.weighted)]
    assert best_of_both.exploration_rounds(p, nu) == pytest.approx(max(rounds), rel=1e-12)


def test_scaled_thresholds_learn():
    """n = 10, T = 1000: random arms lose about .33 a round (330)."""
    world = GLMEnvironment(Logistic(), d=3, K=20, S=2.0)
    for epsilon, scale in ((math.inf, Scale(0.05, 0.005, 0.01, 10, 1, 0.1)), (4.0, Scale(0.05, 0.005, 0.002, 20, 0.02, 0.5))):
        p = BestOfBoth(Logistic(), d=3, S=2.0, horizon=1000, epsilon=epsilon, delta=0.02, scale=scale)
        assert simulate(p, world, horizon=1000, replications=10, seed=5).final.mean() < 165
