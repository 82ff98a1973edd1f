"""One release: exploration and exploitation blocks, the two-block algorithm, its regret and that of self-weighting."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np

from privbandit.environments.glm import GLMEnvironment
from privbandit.formulas import self_weighted, two_block
from privbandit.links import Logistic, Probit
from privbandit.policies.base import choose
from privbandit.policies.two_block import LeastSquares, Scale, TwoBlock

from . import wrong_bounds
from .claim import claim
from .release_problems import SETTINGS
from .release_problems import nu as _nu
from .release_problems import problem as _problem


def _drift(c, L, alpha, u, k, phi):
    ut = u + k - phi
    return -c * ut**2 + 2 * (c - alpha) * u * ut + c / 4 * ut**2


def _lax_explore(p, nu):
    k = two_block.explore(p, nu)
    return k._replace(ridge=k.ridge / 2)


@claim("exploration-block", subject=two_block.explore, mutants={"half-the-ridge": _lax_explore})
def check_exploration(explore):
    """The drift is at most 2 L phi^2 in 1e5 random admissible cases (seed 0); sandwich and potential close with the constants given."""
    rng, n = np.random.default_rng(0), 100_000
    c = rng.uniform(0.01, 1, n)
    L = c * rng.uniform(1, 50, n)
    alpha = c + (L - c) * rng.random(n)
    u, phi = 3 * rng.standard_normal((2, n))
    k = rng.exponential(1, n) * np.sign(u) * (rng.random(n) < 0.5)
    assert np.all(_drift(c, L, alpha, u, k, phi) <= 2 * L * phi**2 + 1e-9)
    assert np.any(_drift(c, L, alpha, u, -k, phi) > 2 * L * phi**2)  # the sign of the clip matters
    for d, S, T, epsilon in SETTINGS:
        p, nu = _problem(d, S, T), _nu(T, epsilon)
        found, x_m = explore(p, nu), two_block.MATRIX_NORM(d=d, T=T, zeta=p.zeta)
        assert p.c * nu * x_m <= found.slack * found.ridge * (1 + 1e-12)
        assert 6.25 * p.L / p.c * found.dimension * found.slack**2 <= 0.5 * (1 + 1e-12)
        assert found.slack <= 0.2 and max(1, p.c) <= found.ridge * (1 + 1e-12)


test_exploration_block = check_exploration


class _Narrow(TwoBlock):
    """Widths a twentieth of the theorem's."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "scale", self.scale._replace(gamma=self.scale.gamma / 20))


class _Sharp(TwoBlock):
    """Exploits with a thousandth of the theorem's width."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "scale", self.scale._replace(beta=1e-3, drift=1e-3))


@claim("exploitation-block", subject=TwoBlock, mutants={"a-twentieth-of-the-width": _Narrow, "a-thousandth-of-the-width": _Sharp})
def check_confidence(policy):
    """20 runs of 200 rounds, zeta = .02, seed 7: no width is ever passed. The theorem's threshold would explore throughout; it is raised here
    until both blocks play, so the lemma's bound on the linearisation errors is not guaranteed and only the widths are watched."""
    for link, S in ((Logistic(), 2.0), (Probit(), 2.0)):
        M, z = link.self_concordance(S), np.linspace(-S, S, 201)[:, None]
        h = np.linspace(-0.2, 0.2, 41)[None] / M
        error = np.abs(link.mu(z + h) - link.mu(z) - link.dmu(z) * h) - 0.536 * M * link.dmu(z) * h**2
        assert np.all(error[np.abs(z + h) <= S] <= 1e-15)
    world, R, T = GLMEnvironment(Logistic(), d=2, K=2, S=1.0), 20, 200
    for epsilon in (math.inf, 4.0):
        base = TwoBlock(Logistic(), d=2, S=1.0, horizon=T, epsilon=epsilon, delta=1e-5, zeta=0.02)
        k = base.explore_constants
        trigger = 0.8 * k.gamma / math.sqrt(k.ridge) / base.constants.Delta
        p = replace(policy(Logistic(), d=2, S=1.0, horizon=T, epsilon=epsilon, delta=1e-5, zeta=0.02), scale=Scale(Delta=trigger))
        rng = np.random.default_rng(7)
        state_of_world, state = world.init(R, rng), p.init(R, rng)
        for t in range(T):
            state_of_world, contexts = world.contexts(state_of_world, t, rng)
            state, action = p.act(state, contexts, rng)
            truth = np.einsum("rkd,rd->rk", contexts, state_of_world.theta)
            width = p.explore_constants.gamma * np.sqrt(np.einsum("rkd,rde,rke->rk", contexts, state.explore.inverse, contexts))
            assert np.all(np.abs(np.einsum("rkd,rd->rk", contexts, state.explore.theta) - truth) <= width)
            assert np.all(p.block.upper(state.exploit, contexts) >= truth)
            feedback = world.step(state_of_world, contexts, action, rng)
            state = p.update(state, choose(contexts, action), feedback.reward, rng)


test_exploitation_block = check_confidence


class _Anywhere(LeastSquares):
    """Linearises where the exploitation block points, wherever the exploration block is."""

    def linearisation_point(self, z, z_o):
        return np.clip(z, -self.problem.S, self.problem.S)


class _Unclipped(TwoBlock):
    @property
    def block(self):
        return _Anywhere(self.link, self.problem, self.constants)


def _two_block_by_hand(p, x, u):
    """Arms (T,) and final sums (V, P, H, Z) of the chapter's two cases, one scalar at a time."""
    o, k, d, link = p.explore_constants, p.constants, p.d, p.link
    V, H, P, Z, arms = np.zeros((d, d)), np.zeros((d, d)), np.zeros(d), np.zeros(d), []
    for arms_now, uniform in zip(x, u, strict=True):
        Winv, Hinv = np.linalg.inv(p.problem.c * V + o.ridge * np.eye(d)), np.linalg.inv(H + k.ridge * np.eye(d))
        theta_o, theta = Winv @ P, Hinv @ Z
        gamma = [o.gamma * math.sqrt(a @ Winv @ a) for a in arms_now]
        if max(gamma) > k.Delta:
            i = int(np.argmax(gamma))
        else:
            upper = [a @ theta + 2 * k.radius * math.sqrt(a @ Hinv @ a) + k.drift * np.linalg.norm(Hinv @ a) for a in arms_now]
            i = int(np.argmax([min(a @ theta_o + g, h) for a, g, h in zip(arms_now, gamma, upper, strict=True)]))
        a, z_o = arms_now[i], arms_now[i] @ theta_o
        r = float(uniform < link.mu(a[0]))
        if max(gamma) > k.Delta:
            z = min(p.S, max(-p.S, z_o))
            V, P = V + np.outer(a, a), P + (p.problem.c * z - link.mu(z) + r) * a
        else:
            z = min(p.S, max(-p.S, min(z_o + k.Delta, max(z_o - k.Delta, a @ theta))))
            w = link.dmu(z)
            H, Z = H + w * np.outer(a, a), Z + (r - link.mu(z) + w * z) * a
        arms.append(i)
    return np.array(arms), H, Z


@claim("two-block-algorithm", subject=TwoBlock, mutants={"no-clip-to-the-other-block": _Unclipped})
def check_algorithm(policy):
    """One run, seed 5; theta* = e_1; scaled thresholds, so that it explores first and exploits later."""
    rng, T = np.random.default_rng(5), 120
    x = rng.standard_normal((T, 3, 2))
    x /= np.maximum(1, np.linalg.norm(x, axis=-1, keepdims=True))
    u, scale = rng.random(T), Scale(gamma=0.05, beta=0.01, drift=0.01, Delta=1.5, ridge=0.01)
    p = policy(Logistic(), d=2, S=1.0, horizon=T, epsilon=math.inf, delta=1e-5, scale=scale)
    state, arms, explored = p.init(1, rng), [], 0
    for t in range(T):
        state, action = p.act(state, x[t][None], rng)
        explored += int(state.exploring[0])
        a = x[t][action]
        state = p.update(state, a, (u[t] < p.link.mu(a[:, 0])).astype(float), rng)
        arms.append(action[0])
    by_hand, H, Z = _two_block_by_hand(p, x, u)
    assert 10 < explored < T - 10
    assert np.array_equal(arms, by_hand)
    theta = np.linalg.solve(H + p.constants.ridge * np.eye(2), Z)
    assert np.allclose(state.exploit.theta[0], theta, rtol=1e-9)


test_two_block_algorithm = check_algorithm


def _small_radius(p, nu):
    e = two_block.exploit(p, nu)
    return e._replace(Delta=2 * e.Delta)


@claim("two-block-regret", subject=two_block.exploit, mutants={"twice-the-threshold": _small_radius})
def check_two_block(exploit):
    """Every number of the proof, 30 digits, and the closing of the constants at four settings."""
    with mp.workdps(30):
        v = mp.exp(mp.mpf("0.2"))
        assert (v - 1) / mp.mpf("0.2") <= mp.mpf("1.1071") and 2 * (v - 1) / mp.mpf("0.2") <= mp.mpf("2.2141")
        assert mp.mpf("2.2141") * mp.sqrt(v) <= mp.mpf("2.447") and v <= mp.mpf("1.2215")
        assert (v - mp.mpf("1.2")) / mp.mpf("0.04") <= mp.mpf("0.536") and 4 * (mp.e - 2) / 3 <= 1
        assert Fraction(2) / Fraction(4, 5) ** 2 <= Fraction(3125, 1000) and 2 * mp.mpf("2.447") <= mp.mpf("4.894")
    for d, S, T, epsilon in SETTINGS:
        p, nu = _problem(d, S, T), _nu(T, epsilon)
        e = exploit(p, nu)
        assert e.ridge >= 2 * p.L * nu * two_block.MATRIX_NORM(d=d, T=T, zeta=p.zeta) * (1 - 1e-12)
        assert e.ridge >= 8 / 9 * e.radius**2 / max(1, S) ** 2 * (1 - 1e-12) and e.ridge >= max(2, 2 * p.L)
        q0 = 1 + 2 * p.L / e.ridge
        reach = 1.072 * p.M * e.Delta * (2 * e.radius + e.drift * math.sqrt(2 / e.ridge)) * math.sqrt(q0 * e.dimension)
        assert q0 <= 2 and reach <= e.radius * (1 + 1e-12) and 10 * p.M * e.Delta <= 1 + 1e-12


test_two_block_regret = check_two_block


def _weak_ridge(p, nu):
    w = self_weighted.weighted(p, nu)
    return w._replace(ridge=w.ridge / 100, matrix_noise=10 * w.matrix_noise)


@claim(
    "self-weighted-regret",
    subject=self_weighted.weighted,
    mutants={"a-hundredth-of-the-ridge": _weak_ridge, **wrong_bounds.WEIGHTED},
)
def check_self_weighted(weighted):
    """Every number of the proof, and the l1 potential on contexts made to be hard (T = 2000, deterministic given seed 0)."""
    with mp.workdps(30):
        v, eta = mp.exp(mp.mpf("0.2")), mp.mpf(1) / 9
        assert mp.mpf("4.66") ** 2 >= mp.mpf("3.30") + mp.mpf("3.95") * mp.mpf("4.66")
        assert 4 * v * 10 / 9 * (mp.e - 2) <= mp.mpf("3.9") and 2 * mp.sqrt(mp.mpf("3.9")) <= mp.mpf("3.95")
        assert (mp.e - 1) * mp.mpf(10) / 9 * v + mp.mpf(10) / 9 / mp.mpf("1.15") <= mp.mpf("3.30")
        assert mp.mpf("1.061") / (1 - mp.mpf("0.362")) <= mp.mpf("1.67") and mp.mpf("2.237") / (1 - mp.mpf("0.362")) <= mp.mpf("3.51")
        assert mp.sqrt(mp.mpf(9) / 8) <= mp.mpf("1.061") and 2 * mp.sqrt((1 + eta) / (1 - eta)) <= mp.mpf("2.237")
        assert 2 * Fraction(8, 9) / Fraction(10, 9) >= Fraction(8, 5) and 2 / Fraction(8, 9) <= Fraction(9, 4)
        assert mp.mpf("2.2141") * v * mp.mpf("1.061") * mp.mpf("1.5") <= mp.mpf("4.31")
    for d, S, T, epsilon in SETTINGS:
        p = _problem(d, S, T)
        w = weighted(p, _nu(T, epsilon, 1 / 3))
        wrong_bounds.check_potential(p, w)
        assert w.matrix_noise <= 1 / (20 * w.epochs) and 1.0541 * p.L / math.sqrt(w.ridge) < 1
        assert 1.061 * 0.536 * 2 * p.M * w.Delta * 1.061 * math.sqrt(w.growth * w.dimension) <= 0.25
    p, rng = _problem(3, 1.0, 2000.0), np.random.default_rng(0)
    w = weighted(p, 0.0)
    J, total = w.ridge * np.eye(3), 0.0
    for t in range(2000):
        x = np.eye(3)[t % 3] * rng.choice([0.05, 0.9]) + 0.01 * rng.standard_normal(3)
        q = x @ np.linalg.solve(J, x)
        total, J = total + p.L * math.sqrt(q), J + p.L * np.outer(x, x) / math.sqrt(q)
    assert total <= w.growth * w.dimension


test_self_weighted_regret = check_self_weighted
