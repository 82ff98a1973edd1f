"""One release with linear rewards: regret without exploration, and the algorithm."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np

from privbandit.accounting import gaussian_mu
from privbandit.audit.replay import Neighbours, Users, replay
from privbandit.formulas import self_weighted, two_block
from privbandit.formulas.glm import TAU
from privbandit.linalg import svec_size
from privbandit.policies.linear_self_weighted import LinearSelfWeighted, UnitWeights
from privbandit.policies.two_block import Scale

from .claim import claim
from .release_problems import SETTINGS, nu as _nu


class _RewardRange(LinearSelfWeighted):
    """Released as if the centred response were no larger than the reward."""

    @property
    def block(self):
        block = super().block
        m = svec_size(self.d)
        factor = np.repeat([1, (1 + self.S) / (1 + 2 * self.S)], [m, self.d])
        object.__setattr__(block, "units", block.units * factor)
        return block


def _linear_weak(p, nu):
    w = self_weighted.weighted(p, nu)
    return w._replace(ridge=w.ridge / 4, matrix_noise=2 * w.matrix_noise)


def _linear_narrow(p, nu):
    w = self_weighted.weighted(p, nu)
    return w._replace(ell=w.ell - math.log(4))


@claim(
    "linear-regret",
    subject=(self_weighted.weighted, LinearSelfWeighted),
    mutants={
        "a-quarter-of-the-ridge": (_linear_weak, LinearSelfWeighted),
        "four-times-the-failures": (_linear_narrow, LinearSelfWeighted),
        "range-without-the-centre": (self_weighted.weighted, _RewardRange),
    },
)
def check_linear(parts):
    """Numbers of the proof to 30 digits; the constants close at four settings; events 5/16 zeta; the worst record stays in the leaf's set."""
    weighted, policy = parts
    with mp.workdps(30):
        eta, e = mp.mpf(1) / 9, mp.e
        inner, outer = mp.sqrt(1 / (1 - eta)), mp.sqrt((1 + eta) / (1 - eta))
        rest = 1 - 2 * outer / 20
        assert inner / rest <= mp.mpf("1.67") and 2 * outer / rest <= mp.mpf("3.51") and 3 * inner <= mp.mpf("4.31")
        assert inner / rest <= mp.mpf("1.2") and 2 * outer / rest <= mp.mpf("2.52") and 3 * inner <= mp.mpf("3.19")
        assert 4 * mp.mpf(10) / 9 * (e - 2) <= mp.mpf("3.9")
        assert (e - 1) * mp.mpf(10) / 9 + mp.mpf(10) / 9 / mp.mpf("1.15") <= mp.mpf("3.30")
    for d, S, T, epsilon in SETTINGS:
        p, nu = self_weighted.linear(d, T, S, 0.02, TAU), _nu(T, epsilon)
        k = weighted(p, nu)
        x_m, x_v = two_block.MATRIX_NORM(d=d, T=T, zeta=p.zeta), math.sqrt(d) + math.sqrt(2 * math.log(16 * T / p.zeta))
        assert math.sqrt(1.125 / k.ridge) * nu * x_m <= 1 / (20 * k.epochs) and k.ridge >= 1.1**2 * (1 - 1e-12)
        assert k.drift >= 3.51 * k.epochs * (1 + 2 * S) / math.sqrt(TAU) * nu * x_v + 1.67 * math.sqrt(k.ridge) * S - 1e-9 * k.drift
        levels = max(1, 1 + math.ceil(math.log2(T / (1.15 * math.log(16 / p.zeta)))))
        events = p.zeta / 8 + p.zeta / 16 + 2 * levels * math.exp(-k.ell)
        assert events <= 5 / 16 * p.zeta * (1 + 1e-9) and k.floor * 2 ** (levels - 1) >= T
    for epsilon, delta in ((0.01, 1e-5), (1.0, 1e-9), (4.0, 0.02), (11.0, 1e-5)):
        assert epsilon > math.log(1 / delta) or 1 / gaussian_mu(epsilon, delta) <= 1.71 * math.sqrt(math.log(1 / delta)) / epsilon
    p = policy(d=2, S=1.5, horizon=16, epsilon=1.0, delta=1e-5)
    x, block = np.array([[1.0, 0.0]]), p.block
    epoch = block.init(1)._replace(centre=-1.5 * x)
    leaf = (block.leaf(epoch, np.zeros(1), x, np.array([p.problem.Y])) / block.units)[0]
    assert np.linalg.norm(leaf[:3]) <= 1 + 1e-12 and abs(np.linalg.norm(leaf[3:]) / math.sqrt(p.tau) - 1) < 1e-12


test_linear_regret = check_linear


class _Raw(UnitWeights):
    """Whitens by the ridge for ever."""

    def renewed(self, epoch, due, J, decoded, released):
        return epoch


class _OneEpoch(LinearSelfWeighted):
    @property
    def block(self):
        return _Raw(super().block.link, self.problem, self.constants)


class _Quiet(LinearSelfWeighted):
    """Charges a leaf as if only its matrix moved."""

    @property
    def sums(self):
        return self.mechanism.calibrated(self.horizon, gaussian_mu(self.epsilon, self.delta), 1.0)


def _linear_by_hand(p, x, rewards):
    """Arms (T,) and estimate of one noise-free run in the original coordinates: no whitened leaves, no centre, no decoding."""
    k, d = p.constants, p.d
    J, z, arms, renewals = k.ridge * np.eye(d), np.zeros(d), [], 0
    start = J
    for t, (arms_now, r) in enumerate(zip(x, rewards, strict=True)):
        inverse = np.linalg.inv(J)
        beta = k.width * 1.67 * 4.66 * math.sqrt(2 * k.ell * max(t, k.floor)) + k.drift
        i = int(np.argmax([a @ inverse @ z + beta * math.sqrt(a @ inverse @ a) for a in arms_now]))
        a = arms_now[i]
        v = 1 / math.sqrt(a @ np.linalg.inv(start) @ a)
        J, z = J + v * np.outer(a, a), z + v * r[i] * a
        if np.linalg.eigvals(np.linalg.solve(start, J)).real.max() > 2:
            start, renewals = J, renewals + 1
        arms.append(i)
    return np.array(arms), renewals, np.linalg.solve(J, z)


@claim("linear-algorithm", subject=LinearSelfWeighted, mutants={"never-whitened-again": _OneEpoch, "sensitivity-of-one": _Quiet})
def check_linear_algorithm(policy):
    """Without noise, T = 200, seed 5, the arms and estimate of a literal loop; with noise, 300 neighbours among 24 users, seed 8, cost
    at most the ledger's and at least three quarters of it, with rewards outside their range."""
    rng, T = np.random.default_rng(5), 200
    x = rng.standard_normal((T, 4, 3))
    x /= np.maximum(1, np.linalg.norm(x, axis=-1, keepdims=True))
    rewards = np.clip(x @ np.array([0.8, 0.3, -0.2]) + rng.uniform(-1, 1, (T, 4)), -2, 2)
    p = policy(d=3, S=1.0, epsilon=math.inf, delta=1e-5, horizon=T, scale=Scale(beta=1e-3, drift=0.05))
    state, arms = p.init(1, rng), []
    for t in range(T):
        state, action = p.act(state, x[t][None], rng)
        state = p.update(state, x[t][action], rewards[t][action], rng)
        arms.append(action[0])
    by_hand, renewals, theta = _linear_by_hand(p, x, rewards)
    assert renewals >= 3 and np.array_equal(arms, by_hand) and np.allclose(state.epoch.theta[0], theta, rtol=1e-9)
    T, R, rng = 24, 300, np.random.default_rng(8)

    def directions(*shape):
        a = rng.standard_normal((*shape, 1, 2))
        return a / np.linalg.norm(a, axis=-1, keepdims=True)

    users, at = Users(directions(T, R), rng.choice([-50.0, 2.0], (T, R, 1))), rng.integers(0, T, R)
    pair = Neighbours(users, users.replace(at, directions(R), rng.choice([-2.0, 50.0], (R, 1))), at)
    worst = replay(policy(d=2, S=1.0, epsilon=2.0, delta=1e-5, horizon=T), pair).mu.max()
    budget = gaussian_mu(2.0, 1e-5)
    assert 0.75 * budget <= worst <= budget * (1 + 1e-9)


test_linear_algorithm = check_linear_algorithm
