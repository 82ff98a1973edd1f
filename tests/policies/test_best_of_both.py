"""Best of both: the joint sensitivity of the two leaves, the failure budget, and a literal loop. What all block policies share is in test_two_block."""

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


def test_joint_sensitivity_is_attained_by_admissible_leaves_and_not_without_the_root_of_two():
    """Both blocks at their own worst pair: opposite features, weights 1 and 0, equal responses, where D(1, tau) = 1 + 4 tau."""
    p = policy()
    tau, d = p.tau, 2
    entry = np.sqrt(np.repeat([1, tau, 1, tau, 1 / 3], [3, d, 3, d, 1]))  # units of weight and response 1

    def leaf(x, w):
        return entry * np.concatenate([w * np.array([x, 0, 0]), [x, 0], w * np.array([x, 0, 0]), [x, 0], [w]])

    apart = np.sum((leaf(1.0, 1.0) - leaf(-1.0, 0.0)) ** 2)
    assert apart / best_of_both.NOISE**2 == pytest.approx(p.Delta2, rel=1e-12)
    assert apart > 1.9 * p.Delta2
    assert p.Delta2 == pytest.approx(float(JOINT_LEAF(a=1.0, b=tau)) + 1 / 6)


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


def failure(q, nu, explore, plain, weighted) -> float:
    """Probability of all bad events, from the radii that the constants contain: noises of seven streams, three concentrations."""
    T, d, two = q.T, q.d, best_of_both.NOISE * nu
    G, v = max(1.0, q.S), math.exp(0.2)

    def matrix(bound, std):
        return 2 * T * math.exp(-((bound / std - math.sqrt(2 * d)) ** 2) / 2)

    def vector(bound, std):
        return T * math.exp(-((bound / std - math.sqrt(d)) ** 2) / 2)

    n_H = q.L * two * two_block.MATRIX_NORM(d=d, T=T, zeta=q.zeta)
    n_V = nu * two_block.MATRIX_NORM(d=d, T=T, zeta=q.zeta)
    n_P = nu * two_block.VECTOR_NORM(d=d, T=T, zeta=q.zeta) * q.Y_o / math.sqrt(q.tau)
    n_Z = plain.drift - 1.5 * plain.ridge * q.S
    response = self_weighted.response_range(q.L, q.S, q.Y)
    n_ZJ = (weighted.drift - 1.67 * math.sqrt(weighted.ridge) * q.S) / (3.51 * weighted.epochs)
    streams = (
        matrix(n_V, nu) + matrix(n_H, q.L * two) + matrix(weighted.matrix_noise, q.L * weighted.clip * two)
        + vector(n_P, nu * q.Y_o / math.sqrt(q.tau)) + vector(n_Z, two * q.Y / math.sqrt(q.tau)) + vector(n_ZJ, two * response / math.sqrt(q.tau))
        + 2 * T * math.exp(-((weighted.scalar_noise / (math.sqrt(3) * q.L * two)) ** 2) / 2)
    )  # fmt: skip
    D_o = explore.dimension
    n_o = n_P + q.c * n_V * q.S
    peak = (explore.gamma * (1 - explore.slack) / math.sqrt(1 + explore.slack) - n_o / math.sqrt(explore.ridge)) ** 2
    ell_o = q.c / 2 * (peak / 2 - explore.ridge * q.S**2 - D_o / q.c - 6.25 * q.L / q.c * D_o * n_o**2 / explore.ridge)
    ell = (plain.radius**2 - (math.e - 1) * v * plain.dimension) / (3 * v * G + 1)
    levels = max(1, 1 + math.ceil(math.log2(q.L * T / (1.15 * math.log(16 / q.zeta)))))
    return streams + math.exp(-ell_o) + 2 * math.exp(-ell) + 2 * levels * math.exp(-weighted.ell)


@pytest.mark.parametrize(("d", "S", "T", "epsilon"), [(1, 1.0, 1e4, 8.0), (2, 1.0, 1e6, 4.0), (5, 2.0, 1e7, 0.5)])
def test_all_events_together_fail_with_probability_zeta(d, S, T, epsilon):
    """Not more, and not less: the constants use the whole of it. With zeta itself in the radii it would be 5/4 zeta."""
    p, nu = problem(d, S, T, zeta=0.02), noise(T, epsilon, 9 - 4 * math.sqrt(2) + 1 / 6)
    for q, total in ((best_of_both.events(p), p.zeta), (p, 1.25 * p.zeta)):
        plain, weighted = best_of_both.halves(q, nu)
        assert failure(q, nu, two_block.explore(q, nu), plain, weighted) == pytest.approx(total, rel=1e-5)


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


def by_hand(p, x, u):
    """Arms (T,) of one noise-free run: two plain regressions in the original coordinates, no whitening of leaves, no decoding."""
    o, (k, w), d, link = p.explore_constants, p.constants, p.d, p.link
    V, H, P, Z, z_J = np.zeros((d, d)), np.zeros((d, d)), np.zeros(d), np.zeros(d), np.zeros(d)
    J, whitening, arms, exploring, renewals, omega, order = w.ridge * np.eye(d), None, [], [], 0, w.scalar_noise, []
    start = J
    for arms_now, uniform in zip(x, u, strict=True):
        Winv, Hinv, Jinv = (np.linalg.inv(A) for A in (p.problem.c * V + o.ridge * np.eye(d), H + k.ridge * np.eye(d), J))
        gamma = np.array([o.gamma * math.sqrt(a @ Winv @ a) for a in arms_now])
        beta = w.width * 1.67 * 4.66 * math.sqrt(2 * w.ell * max(omega, w.floor)) + w.drift
        exploring.append(gamma.max() > k.Delta)
        bounds = np.array([
            [a @ Winv @ P + g,
             a @ Hinv @ Z + 2 * k.radius * math.sqrt(a @ Hinv @ a) + k.drift * np.linalg.norm(Hinv @ a),
             a @ Jinv @ z_J + beta * math.sqrt(a @ Jinv @ a)]
            for a, g in zip(arms_now, gamma, strict=True)
        ])  # fmt: skip
        i = int(np.argmax(gamma if exploring[-1] else bounds.min(axis=1)))
        order += [] if exploring[-1] else [int(np.argmin(bounds[i, 1:]))]
        a, z_o = arms_now[i], arms_now[i] @ Winv @ P
        r = float(uniform < link.mu(a[0]))
        if exploring[-1]:
            V, P = V + np.outer(a, a), P + (p.problem.c * np.clip(z_o, -p.S, p.S) - link.mu(np.clip(z_o, -p.S, p.S)) + r) * a
        else:
            z = [float(np.clip(np.clip(a @ m @ s, z_o - k.Delta, z_o + k.Delta), -p.S, p.S)) for m, s in ((Hinv, Z), (Jinv, z_J))]
            s = [float(link.dmu(c)) for c in z]
            v = 1 / math.sqrt(a @ np.linalg.inv(start) @ a)
            H, Z = H + s[0] * np.outer(a, a), Z + (r - link.mu(z[0]) + s[0] * z[0]) * a
            J, z_J, omega = J + s[1] * v * np.outer(a, a), z_J + (r - link.mu(z[1]) + s[1] * z[1]) * v * a, omega + s[1]
            if np.linalg.eigvals(np.linalg.solve(start, J)).real.max() > 2:
                start, renewals = J, renewals + 1
        arms.append(i)
    return np.array(arms), np.array(exploring), renewals, order


def test_same_arms_as_a_literal_loop():
    """One run, T = 150, seed 5: explores first and exploits later, several epochs, each of the two bounds is the smaller one at times."""
    rng, T = np.random.default_rng(5), 150
    x = rng.standard_normal((T, 3, 2))
    x /= np.maximum(1, np.linalg.norm(x, axis=-1, keepdims=True))
    u = rng.random(T)
    scale = Scale(gamma=0.05, beta=0.003, drift=0.01, Delta=3, ridge=0.05)
    p = policy(epsilon=math.inf, horizon=T, scale=scale)
    state, arms = p.init(1, rng), []
    for t in range(T):
        state, action = p.act(state, x[t][None], rng)
        a = x[t][action]
        state = p.update(state, a, (u[t] < p.link.mu(a[:, 0])).astype(float), rng)
        arms.append(action[0])
    expected, exploring, renewals, order = by_hand(p, x, u)
    assert 10 < exploring.sum() < T - 60
    assert renewals >= 2 and state.exploit.weighted.number[0] == renewals
    assert {0, 1} == set(order)
    assert np.array_equal(arms, expected)


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
