"""One release: both exploitation blocks at once, their sensitivity, regret and algorithm."""

from __future__ import annotations

import math

import numpy as np

from privbandit.formulas import best_of_both, self_weighted, two_block
from privbandit.formulas.glm import JOINT_LEAF, TAU
from privbandit.linalg import quadratic, svec_size
from privbandit.links import Logistic
from privbandit.policies.best_of_both import BestOfBoth, Pair
from privbandit.policies.self_weighted import WeightedLeastSquares
from privbandit.policies.two_block import LeastSquares, Scale, TwoBlock

from . import wrong_bounds
from .claim import claim
from .release_problems import SETTINGS
from .release_problems import nu as _nu
from .release_problems import problem as _problem
from .wrong_blocks import (
    FarPrediction,
    HalfDrift,
    NoLengthClip,
    NoProjection,
    OwnPrediction,
    Uncentred,
    leaves_after_noise,
    record,
    with_half,
)


class _LoudPair(Pair):
    @property
    def units(self):
        return np.concatenate([self.plain.units, self.weighted.units])


class _WithoutRoot(BestOfBoth):
    """Both blocks released as if each had the whole budget."""

    @property
    def block(self):
        return _LoudPair(super().block.plain, super().block.weighted)


class _WithoutWeight(BestOfBoth):
    """Forgets that the weight is released too."""

    @property
    def Delta2(self):
        return float(JOINT_LEAF(a=1.0, b=self.tau))


class _Separate(BestOfBoth):
    """Adds the suprema of matrix and vector in each block."""

    @property
    def Delta2(self):
        return 2 + 4 * self.tau + 1 / 6


def _entries(p):
    """Bounds of the entries of an exploration leaf, of the two exploitation leaves, in released units (1 = the noise's unit)."""
    q, (_, weighted), m = p.problem, p.constants, svec_size(p.d)
    response = self_weighted.response_range(q.L, q.S, q.Y)
    raw = np.repeat([1, q.Y_o, q.L, q.Y, q.L * weighted.clip, response, q.L], [m, p.d, m, p.d, m, p.d, 1]) / p.units
    return np.split(raw, [m + p.d, 2 * (m + p.d)])


class _OneBranch(BestOfBoth):
    """D by its branch for large tau alone."""

    @property
    def Delta2(self):
        return 1 + 4 * self.tau + 1 / 6


@claim(
    "best-of-both-sensitivity",
    subject=(BestOfBoth, WeightedLeastSquares, LeastSquares),
    mutants={
        "without-the-root-of-two": (_WithoutRoot,),
        "without-the-weight": (_WithoutWeight,),
        "separate-suprema": (_Separate,),
        "one-branch-of-D": (_OneBranch,),
        "no-clip-by-rho": (with_half(BestOfBoth, "weighted", NoLengthClip),),
        "no-projection-of-the-centre": (with_half(BestOfBoth, "weighted", NoProjection),),
        "range-without-the-centre": (with_half(BestOfBoth, "weighted", Uncentred),),
        "weighted-prediction-beyond-S": (with_half(BestOfBoth, "weighted", FarPrediction),),
        "plain-prediction-beyond-S": (with_half(BestOfBoth, "plain", FarPrediction),),
    },
)
def check_sensitivity(parts):
    """Attained by opposite features with weights 1 and 0 and equal responses; 2e5 random pairs of each kind (seed 0) stay below, and so
    do the package's own leaves, 2000 pairs at each of d = 1, 2, 3 and four tau, of blocks that have read nothing but large noise."""
    policy, *_ = parts
    p, rng, n = policy(Logistic(), d=2, S=1.0, horizon=64, epsilon=2.0, delta=1e-5), np.random.default_rng(0), 200_000
    explore, plain, weighted = _entries(p)

    def block(scale, angle, w, y, extra=()):
        x = np.stack([np.cos(angle), np.sin(angle)])
        square = np.stack([x[0] ** 2, math.sqrt(2) * x[0] * x[1], x[1] ** 2])
        return np.concatenate([w * square, y * x, *extra]) * scale[:, None]

    def exploit(angles, w, y):
        return np.concatenate([block(plain, angles[0], w[0], y[0]), block(weighted, angles[1], w[1], y[1], (w[2][None],))])

    def random():
        return exploit(rng.uniform(0, 7, (2, n)), rng.integers(0, 2, (3, n)), rng.choice([-1, 1], (2, n)))

    one = np.ones((3, 1))
    worst = np.sum((exploit(0 * one[:2], one, one) - exploit(math.pi * one[:2], 0 * one, one)) ** 2)
    assert abs(worst / p.Delta2 - 1) < 1e-12
    apart = np.sum((random() - random()) ** 2, axis=0).max()
    alone = np.concatenate([explore[:3].max() ** 2 + explore[3:].max() ** 2 + np.sum(random() ** 2, axis=0)]).max()
    assert max(apart, alone) <= p.Delta2 * (1 + 1e-12)
    for d in (1, 2, 3):
        for tau in (0.05, 0.3, TAU, 2.0):
            _own_leaves(policy(Logistic(), d=d, S=0.5, horizon=64, epsilon=2.0, delta=1e-5, tau=tau), rng)
    for tau, share in ((TAU, 0.973), (1e-9, 1.036)):  # the other reading of half the budget each, for a move between blocks
        D = float(JOINT_LEAF(a=1.0, b=tau))
        assert abs(1.5 * (1 + tau) / D + (4 / 3 + tau) / (2 * (D + 1 / 3)) - share) < 5e-4


def _own_leaves(p, rng, R=2000):
    """Every part of the package's leaves stays within the lemma's set, and no two leaves are further apart than the ledger says."""
    m, d = svec_size(p.d), p.d
    first, second = leaves_after_noise(p, R, rng)
    bounds = np.array([1, math.sqrt(p.tau), 1, math.sqrt(p.tau), 1 / math.sqrt(3)]) / math.sqrt(2)
    parts = np.array([np.linalg.norm(part, axis=1).max() for part in np.split(first, np.cumsum([m, d, m, d]), axis=1)])
    assert np.all(parts <= bounds * (1 + 1e-12)) and np.all(parts >= 0.8 * bounds)
    own = p.units[: m + d]
    one, other = (p.explore_leaf(*record(p, R, rng)) / own for _ in range(2))
    longest = [np.sum(leaf**2, axis=1).max() for leaf in (one, first)]
    apart = [np.sum(difference**2, axis=1).max() for difference in (one - other, first - second)]
    assert max(*apart, sum(longest)) <= p.Delta2 * (1 + 1e-12)


test_best_of_both_sensitivity = check_sensitivity


def _failure(q, nu, explore, plain, weighted) -> float:
    """Probability of all bad events, from the radii that the constants contain: seven noises and four concentrations."""
    T, d, two = q.T, q.d, math.sqrt(2) * nu
    G, v, y = max(1.0, q.S), math.exp(0.2), 1 / math.sqrt(q.tau)

    def matrix(bound, std):
        return 2 * T * math.exp(-((bound / std - math.sqrt(2 * d)) ** 2) / 2)

    def vector(bound, std):
        return T * math.exp(-((bound / std - math.sqrt(d)) ** 2) / 2)

    x_m, x_v = (f(d=d, T=T, zeta=q.zeta) for f in (two_block.MATRIX_NORM, two_block.VECTOR_NORM))
    n_V, n_P = nu * x_m, nu * x_v * q.Y_o * y
    n_ZJ = (weighted.drift - 1.67 * math.sqrt(weighted.ridge) * q.S) / (3.51 * weighted.epochs)
    noises = [
        matrix(n_V, nu), vector(n_P, nu * q.Y_o * y),
        matrix(two * x_m, two), vector(plain.drift - 1.5 * plain.ridge * q.S, two * q.Y * y),
        matrix(weighted.matrix_noise, q.L * weighted.clip * two), vector(n_ZJ, two * (q.Y + q.L * q.S) * y),
        2 * T * math.exp(-((weighted.scalar_noise / (math.sqrt(3) * q.L * two)) ** 2) / 2),
    ]  # fmt: skip
    n_o = n_P + q.c * n_V * q.S
    peak = (explore.gamma * (1 - explore.slack) / math.sqrt(1 + explore.slack) - n_o / math.sqrt(explore.ridge)) ** 2
    spread = 6.25 * q.L / q.c * explore.dimension * n_o**2 / explore.ridge
    ell_o = q.c / 2 * (peak / 2 - explore.ridge * q.S**2 - explore.dimension / q.c - spread)
    ell = (plain.radius**2 - (math.e - 1) * v * plain.dimension) / (3 * v * G + 1)
    levels = max(1, 1 + math.ceil(math.log2(q.L * T / (1.15 * math.log(16 / q.zeta)))))
    return sum(noises) + math.exp(-ell_o) + 2 * math.exp(-ell) + 2 * levels * math.exp(-weighted.ell)


class _RadiiAtZeta(BestOfBoth):
    @property
    def problem(self):
        return TwoBlock.problem.func(self)


class _LoudExploration(BestOfBoth):
    """Explores with the radii of sqrt(2) times the noise."""

    @property
    def explore_constants(self):
        return two_block.explore(self.problem, math.sqrt(2) * self.sums.max_std)


class _QuietExploitation(BestOfBoth):
    """Exploits with the radii of the exploration block's noise."""

    @property
    def constants(self):
        return best_of_both.halves(self.problem, self.sums.max_std / math.sqrt(2))


def _parts(**changed):
    right = {
        "events": best_of_both.events,
        "halves": best_of_both.halves,
        "rounds": best_of_both.exploration_rounds,
        "regret": best_of_both.exploitation_regret,
        "policy": BestOfBoth,
    }
    return tuple((right | changed).values())


@claim(
    "best-of-both-regret",
    subject=_parts(),
    mutants={
        "zeta-itself-in-the-radii": _parts(events=wrong_bounds.whole_zeta),
        "the-larger-threshold": _parts(halves=wrong_bounds.larger_threshold),
        "without-the-root-of-two": _parts(halves=wrong_bounds.same_noise),
        "regret-at-zeta": _parts(regret=wrong_bounds.regret_at_zeta),
        "regret-without-the-root-of-two": _parts(regret=wrong_bounds.regret_at_nu),
        "rounds-at-zeta": _parts(rounds=wrong_bounds.rounds_at_zeta),
        "rounds-with-the-root-of-two": _parts(rounds=wrong_bounds.rounds_at_root),
        "rounds-of-the-first-threshold": _parts(rounds=wrong_bounds.rounds_of_the_first_threshold),
        "policy-with-radii-at-zeta": _parts(policy=_RadiiAtZeta),
        "policy-exploring-for-too-much-noise": _parts(policy=_LoudExploration),
        "policy-exploiting-for-too-little-noise": _parts(policy=_QuietExploitation),
    },
)
def check_regret(parts):
    """All events together have probability zeta, recomputed from the radii; both proofs close with one threshold, sqrt(2) times the
    noise; the two bounds are those of the theorems at 4/5 zeta, written out; the policy plays with these constants."""
    events, halves, rounds, regret, policy = parts
    for d, S, T, epsilon in SETTINGS[:3]:
        p, nu = _problem(d, S, T), _nu(T, epsilon, 1 / 6)
        q = events(p)
        e, w = halves(q, nu)
        x_m = two_block.MATRIX_NORM(d=d, T=T, zeta=q.zeta)
        assert e.Delta == w.Delta
        assert e.ridge >= 2 * q.L * math.sqrt(2) * nu * x_m * (1 - 1e-12)
        assert math.sqrt(1.125 / w.ridge) * q.L * math.sqrt(2) * nu * x_m <= 1 / (20 * w.epochs)
        q0 = 1 + 2 * q.L / e.ridge
        reach = 1.072 * q.M * e.Delta * (2 * e.radius + e.drift * math.sqrt(2 / e.ridge)) * math.sqrt(q0 * e.dimension)
        assert reach <= e.radius * (1 + 1e-12) and 10 * q.M * e.Delta <= 1 + 1e-12
        assert 1.061 * 0.536 * 2 * q.M * w.Delta * 1.061 * math.sqrt(w.growth * w.dimension) <= 0.25
        if T < 1e10:  # beyond, exponents of 1 - 1e-16 relative lose the digits compared here
            assert abs(_failure(q, nu, two_block.explore(q, nu), e, w) / p.zeta - 1) < 1e-5
        _check_bounds(rounds, regret, p, nu)
    p = policy(Logistic(), d=2, S=1.0, horizon=64, epsilon=2.0, delta=1e-5, zeta=0.02)
    assert abs(p.problem.zeta / 0.016 - 1) < 1e-12
    assert p.constants == halves(p.problem, p.sums.max_std) and p.explore_constants == two_block.explore(p.problem, p.sums.max_std)


def _check_bounds(rounds, regret, p, nu):
    """Each number from the theorems' own functions, for every block by itself."""
    q, loud = p._replace(zeta=0.8 * p.zeta), math.sqrt(2) * nu
    for kappa in (4.0, 1 / p.c):
        alone = two_block.exploitation_regret(q, loud, kappa), self_weighted.weighted_regret(q, loud, kappa)
        assert abs(regret(p, nu, kappa) / min(alone) - 1) < 1e-12
    most = max(two_block.exploration_rounds(q, nu, k(q, loud).Delta) for k in (two_block.exploit, self_weighted.weighted))
    assert abs(rounds(p, nu) / most - 1) < 1e-12


test_best_of_both_regret = check_regret


class _LargestBound(Pair):
    def upper(self, both, contexts):
        return np.maximum(self.plain.upper(both.plain, contexts), self.weighted.upper(both.weighted, contexts))


class _Largest(BestOfBoth):
    @property
    def block(self):
        return _LargestBound(super().block.plain, super().block.weighted)


class _OnePrediction(Pair):
    """Both blocks linearise at the first block's prediction."""

    def leaf(self, both, z_o, x, reward):
        weighted = both.weighted._replace(theta=both.plain.theta)
        return np.concatenate([self.plain.leaf(both.plain, z_o, x, reward), self.weighted.leaf(weighted, z_o, x, reward)], axis=1)


class _Shared(BestOfBoth):
    @property
    def block(self):
        return _OnePrediction(super().block.plain, super().block.weighted)


def _clip(v, low, high):
    return min(high, max(low, v))


def _both_by_hand(p, x, u):
    """Arms (T,), bounds (T, K) of both blocks, and ends of one noise-free run: two regressions in the original coordinates; no whitened
    leaves, no centre, no decoding."""
    o, (k, w), d, link = p.explore_constants, p.constants, p.d, p.link
    V, H, J = np.zeros((d, d)), k.ridge * np.eye(d), w.ridge * np.eye(d)
    P, Z, Z_J, start, omega = np.zeros(d), np.zeros(d), np.zeros(d), J, w.scalar_noise
    arms, bounds, explored, renewals, decided = [], [], 0, 0, set()
    for arms_now, uniform in zip(x, u, strict=True):
        Winv, Hinv, Jinv = (np.linalg.inv(A) for A in (p.problem.c * V + o.ridge * np.eye(d), H, J))
        gamma = [o.gamma * math.sqrt(a @ Winv @ a) for a in arms_now]
        beta = w.width * 1.67 * 4.66 * math.sqrt(2 * w.ell * max(omega, w.floor)) + w.drift
        first = [a @ Hinv @ Z + 2 * k.radius * math.sqrt(a @ Hinv @ a) + k.drift * np.linalg.norm(Hinv @ a) for a in arms_now]
        second = [a @ Jinv @ Z_J + beta * math.sqrt(a @ Jinv @ a) for a in arms_now]
        third = [a @ Winv @ P + g for a, g in zip(arms_now, gamma, strict=True)]
        bounds.append([min(b) for b in zip(first, second, strict=True)])
        exploring = max(gamma) > k.Delta
        i = int(np.argmax(gamma if exploring else [min(b) for b in zip(first, second, third, strict=True)]))
        a, z_o = arms_now[i], arms_now[i] @ Winv @ P
        r, explored = float(uniform < link.mu(a[0])), explored + exploring
        if exploring:
            z = _clip(z_o, -p.S, p.S)
            V, P = V + np.outer(a, a), P + (p.problem.c * z - link.mu(z) + r) * a
        else:
            decided.add(first[i] < second[i])
            z, z_J = (_clip(_clip(a @ b, z_o - k.Delta, z_o + k.Delta), -p.S, p.S) for b in (Hinv @ Z, Jinv @ Z_J))
            s, s_J, v = link.dmu(z), link.dmu(z_J), 1 / math.sqrt(a @ np.linalg.inv(start) @ a)
            H, Z = H + s * np.outer(a, a), Z + (r - link.mu(z) + s * z) * a
            J, Z_J, omega = J + s_J * v * np.outer(a, a), Z_J + (r - link.mu(z_J) + s_J * z_J) * v * a, omega + s_J
            if np.linalg.eigvals(np.linalg.solve(start, J)).real.max() > 2:
                start, renewals = J, renewals + 1
        arms.append(i)
    return np.array(arms), np.array(bounds), explored, renewals, decided, (np.linalg.solve(H, Z), np.linalg.solve(J, Z_J))


class _WithoutExploration(BestOfBoth):
    """An index without the exploration block's bound."""

    def act(self, state, contexts, rng):
        state, _ = super().act(state, contexts, rng)
        width = self.explore_constants.gamma * np.sqrt(quadratic(contexts, state.explore.inverse))
        upper = self.block.upper(state.exploit, contexts)
        return state, np.argmax(np.where(state.exploring[:, None], width, upper), axis=1)


@claim(
    "best-of-both-algorithm",
    subject=(BestOfBoth, WeightedLeastSquares, LeastSquares),
    mutants={
        "index-the-largest": (_Largest,),
        "index-without-exploration": (_WithoutExploration,),
        "one-prediction-for-both": (_Shared,),
        "one-block": (TwoBlock,),
        **{
            f"{half}-{step.__name__}": (with_half(BestOfBoth, half, step),)
            for half in ("plain", "weighted")
            for step in (FarPrediction, OwnPrediction, HalfDrift)
        },
    },
)
def check_both(parts):
    """One run, T = 150, seed 5; theta* = e_1; multipliers such that both cases, both bounds, both clips and several epochs occur."""
    policy, *_ = parts
    rng, T = np.random.default_rng(5), 150
    x = rng.standard_normal((T, 3, 2))
    x /= np.maximum(1, np.linalg.norm(x, axis=-1, keepdims=True))
    u, scale = rng.random(T), Scale(gamma=0.05, beta=0.003, drift=0.01, Delta=3, ridge=0.05)
    fields = {"d": 2, "S": 1.0, "horizon": T, "epsilon": math.inf, "delta": 1e-5, "scale": scale}
    p, truth = policy(Logistic(), **fields), BestOfBoth(Logistic(), **fields)
    by_hand, bounds, explored, renewals, decided, theta = _both_by_hand(truth, x, u)
    state = p.init(1, rng)
    for t in range(T):
        assert np.allclose(p.block.upper(state.exploit, x[t][None])[0], bounds[t], rtol=1e-9)
        state, action = p.act(state, x[t][None], rng)
        assert action[0] == by_hand[t]
        a = x[t][action]
        state = p.update(state, a, (u[t] < p.link.mu(a[:, 0])).astype(float), rng)
    assert 10 < explored < T - 60 and renewals >= 2 and decided == {True, False}
    assert np.allclose(state.exploit.plain.theta[0], theta[0], rtol=1e-9)
    assert np.allclose(state.exploit.weighted.theta[0], theta[1], rtol=1e-9)


test_best_of_both_algorithm = check_both
