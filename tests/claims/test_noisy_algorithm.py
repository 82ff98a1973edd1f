"""Checks of the claims in the chapter on the noisy algorithm."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest
from scipy.special import ndtr

from privbandit.environments.gp import GaussianProcessBandit, random_functions, unit_grid
from privbandit.features import SquaredExponential, equispaced_features, features_for_horizon
from privbandit.features.information_gain import kernel_features, relaxed_gain
from privbandit.formulas.gp import CONFIDENCE_WIDTH, MISSPECIFICATION, WIDTH_SUM
from privbandit.gp.calibration import calibrate
from privbandit.gp.fast import play
from privbandit.gp.width import Width, regret_bound
from privbandit.policies.gp_ucb import IGPUCB, ApproximateGPUCB
from privbandit.policies.noisy_gp_ucb import NoisyGPUCB, joint_gp_ucb

from .claim import claim

SE = SquaredExponential(0.2)


def unit_rows(rng, n, m):
    x = rng.standard_normal((n, m))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def regulariser(rng, m, low, high):
    """A random symmetric matrix with extreme eigenvalues low and high."""
    Q = np.linalg.qr(rng.standard_normal((m, m)))[0]
    values = np.concatenate([[low, high], rng.uniform(low, high, m - 2)])
    return (Q * values) @ Q.T, Q[:, 1]


# The algorithm -----------------------------------------------------------------------------------------------------------------


def scrambled(state):
    """The same nested state with other numbers in every array."""
    if isinstance(state, np.ndarray):
        return state + 1e3
    if isinstance(state, tuple):
        return type(state)(*map(scrambled, state))
    return state


class Peeks(NoisyGPUCB):
    """Uses the exact sum, which the mechanism holds, for the index."""

    def act(self, state, contexts, rng):
        exact = state.mechanism.total.sum(axis=1)
        phi = self.features(contexts)
        return state, np.argmax(self.index(state.released, phi) * np.cos(exact)[:, None], axis=1)


class TwiceAsWide(NoisyGPUCB):
    """Widths doubled."""

    def index(self, released, phi):
        return super().index(released._replace(beta=2 * released.beta), phi)


def with_class(kind):
    """joint_gp_ucb that builds another class."""
    return lambda *args, **options: kind(joint_gp_ucb(*args, **options).calibration)


@claim("noisy-gp-ucb", subject=joint_gp_ucb, mutants={"reads the exact sum": with_class(Peeks), "twice as wide": with_class(TwiceAsWide)})
def check_algorithm(make):
    """Without noise the indices are those of the non-private policy to rounding; with noise, scrambling everything that is not released
    changes no action."""
    T, R = 60, 3
    phi = features_for_horizon(SE, T)
    private, exact, plain = make(phi, T, 1.0, 1e-5), make(phi, T, math.inf, 1e-5), ApproximateGPUCB(phi)
    rng, noise = np.random.default_rng(0), np.random.default_rng(1)
    a, b, c = (p.init(R, noise) for p in (exact, plain, private))
    for _ in range(T - 1):
        D, y = rng.random((R, 10, 1)), rng.uniform(-1, 1, R)
        a, i = exact.act(a, D, rng)
        mean, norm = plain.posterior.predict(b.posterior, phi(D))
        assert np.allclose(exact.index(a.released, phi(D)), mean + plain.beta(b)[:, None] * norm, rtol=1e-8)
        hidden = c._replace(pending=scrambled(c.pending), mechanism=scrambled(c.mechanism))
        k = private.act(c, D, rng)[1]
        assert np.array_equal(k, private.act(hidden, D, rng)[1])
        x = D[np.arange(R), i]
        a, b = exact.update(a, x, y, noise), plain.update(b, x, y, noise)
        c = private.update(c, D[np.arange(R), k], y, noise)


test_algorithm = check_algorithm


def clip_level(B, subgaussian, T, zeta):
    return B + subgaussian * math.sqrt(2 * math.log(2 * T / zeta))


@claim(
    "reward-clipping",
    subject=clip_level,
    mutants={
        "no union": lambda B, subgaussian, T, zeta: clip_level(B, subgaussian, 1, zeta),
        "forgets the factor two": lambda B, subgaussian, T, zeta: B + subgaussian * math.sqrt(math.log(2 * T / zeta)),
        "forgets f": lambda B, subgaussian, T, zeta: clip_level(0.0, subgaussian, T, zeta),
    },
)
def check_clipping(level):
    """Exact normal tails around the largest value of the function: T P[|f + noise| > Y] <= zeta. |f| <= B on a grid, equality at one term."""
    kernel, grid = SE, unit_grid(60)
    f = random_functions(kernel, grid, 30, np.random.default_rng(2))
    assert np.all(np.abs(f.values).max(axis=1) <= f.norm + 1e-12)
    for T in (1, 100, 10**6):
        for zeta in (0.3, 0.05, 1e-4):
            margin = (level(1.3, 0.5, T, zeta) - 1.3) / 0.5  # reached by f = B k(., z) at z
            assert T * 2 * ndtr(-margin) <= zeta


test_clipping = check_clipping


# The width ---------------------------------------------------------------------------------------------------------------------


def designs():
    """(F, R, top direction, eta): random designs, no data at all, one point again and again with a coarse kernel, isotropic noise."""
    rng, m = np.random.default_rng(3), 5
    for low, high in ((1.0, 3.0), (20.0, 90.0), (0.3, 0.31)):
        for n in (0, 1, 8, 60):
            R, top = regulariser(rng, m, low, high)
            yield unit_rows(rng, n, m), R, top, 0.01
    yield np.tile(np.eye(m)[:1], (40, 1)), 0.01 * np.eye(m), np.eye(m)[0], 0.5
    yield unit_rows(rng, 30, m), 2.0 * np.eye(m), np.eye(m)[0], 0.001


def worst_error(F, R, phi, eta, B, kappa, radius):
    """The largest <V^-1 phi, S + h + F'b - R theta> over reward noise |S| <= radius in (Sigma + low I)^-1, |h|_R^-1 <= kappa and the
    budget |theta|^2 + max b^2/eta <= B^2."""
    low = np.linalg.eigvalsh(R)[0]
    V = F.T @ F + R
    w = np.linalg.solve(V, phi)
    noise = radius * math.sqrt(w @ F.T @ F @ w + low * w @ w)
    bias = B * math.sqrt(eta * np.abs(F @ w).sum() ** 2 + np.sum((R @ w) ** 2))
    return noise + kappa * math.sqrt(w @ R @ w) + bias, math.sqrt(phi @ w)


def altered(**change):
    """The package's width with some arguments replaced."""
    return lambda **values: CONFIDENCE_WIDTH(**{**values, **change})


class HalfGain(Width):
    """Half of the log-determinant."""

    def log_det(self, V_log_det, count, lambda_):
        return super().log_det(V_log_det, count, lambda_) / 2


@claim(
    "gp-width",
    subject=(CONFIDENCE_WIDTH, Width),
    mutants={
        "no noise in u": (altered(kappa=0.0), Width),
        "no determinant": (altered(log_det=0.0), Width),
        "no kernel error": (altered(error=0.0), Width),
        "bias of the smallest eigenvalue": (lambda **v: CONFIDENCE_WIDTH(**{**v, "lambda_max": v["lambda_max"] / 3}), Width),
        "half of the log-determinant": (CONFIDENCE_WIDTH, HalfGain),
    },
)
def check_width(case):
    """Deterministic part: the worst case allowed by the events, at a random point, at the top eigenvector and at a played point, is below
    beta |phi|, and above 0.95 of it somewhere. The package's log-determinant is above the true one on every good event.
    Statistical part: 40 functions, T = 128, epsilon = 10, seed 5; at most 10% of the runs with a miss (the true rate is near 0)."""
    width, kind = case
    B, kappa, r, zeta, reached = 1.2, 2.0, 0.5, 0.05, 0.0
    rng = np.random.default_rng(4)
    for F, R, top, eta in designs():
        low, high = np.linalg.eigvalsh(R)[[0, -1]]
        log_det = np.linalg.slogdet(np.eye(5) + F.T @ F / low)[1]
        radius = r * math.sqrt(2 * math.log(1 / zeta) + log_det)
        beta = width(
            subgaussian=r, zeta=zeta, log_det=max(log_det, 0.0), B=B, lambda_max=high, t=len(F) + 1, error=eta, kappa=kappa
        )
        for phi in (unit_rows(rng, 1, 5)[0], top, *F[:1]):
            error, length = worst_error(F, R, phi, eta, B, kappa, radius)
            assert error <= beta * length * (1 + 1e-9)
            reached = max(reached, error / (beta * length))
    assert reached > 0.95
    for strong, T in ((1.0, 64), (100.0, 500)):
        phi = features_for_horizon(SE, T)
        c = calibrate(phi, T, strong, 1e-5)
        F, s = phi(rng.random((T - 1, 1))), c.spectrum
        truth = np.linalg.slogdet(np.eye(phi.m) + F.T @ F / s.lambda_min)[1]
        V = np.linalg.slogdet(F.T @ F + s.lambda_min * np.eye(phi.m))[1]
        assert kind(c, r, zeta).log_det(np.array([V]), T - 1, s.lambda_min)[0] >= truth - 1e-9
    policy = joint_gp_ucb(features_for_horizon(SE, 128), 128, 10.0, 1e-5)
    world = GaussianProcessBandit(SE, unit_grid(50), K=10)
    run = play(policy, world, world.functions(40, np.random.default_rng(5)), 128, seed=5, ratio=1.1)
    assert np.mean(run.misses > 0) <= 0.1


test_width = check_width


class RoundsUp(Width):
    """The next larger grid value."""

    def grid_lambda(self, lambda_min):
        return super().grid_lambda(lambda_min) * (1 + 1 / self.calibration.features.m)


class OneValue(Width):
    """Charges one grid value."""

    @cached_property
    def grid_values(self):
        return 1


class Coarse(Width):
    """A grid of ratio 4."""

    def grid_lambda(self, lambda_min):
        start = self._first.lambda_min
        return start * 4 ** math.floor(math.log(lambda_min / start) / math.log(4) + 1e-9)


@claim("varying-regulariser", subject=Width, mutants={"rounds up": RoundsUp, "one value charged": OneValue, "ratio four": Coarse})
def check_varying(kind):
    """All releases: the grid value is at most lambda_min, costs at most 1 in the log-determinant, and the values met are at most N."""
    phi = features_for_horizon(SE, 100)
    for T in (1, 2, 100, 5000):
        width = kind(calibrate(phi, T, 2.0, 1e-5, mechanism="local"), 0.5, 0.05)
        lows = np.array([width.spectrum(n).lambda_min for n in range(1, T + 1)])
        grid = np.array([width.grid_lambda(low) for low in lows])
        assert np.all(grid <= lows * (1 + 1e-9))
        assert np.all(phi.m * np.log(lows / grid) <= 1 + 1e-9)
        assert len(set(np.round(np.log(grid), 9))) <= width.grid_values


test_varying = check_varying


# Regret ------------------------------------------------------------------------------------------------------------------------


def correction(m, T, error, lambda_):
    return min(m, T) * T * error / lambda_


@claim(
    "gain-approximate",
    subject=correction,
    mutants={"no correction": lambda m, T, error, lambda_: 0.0, "squared error": lambda m, T, error, lambda_: min(m, T) * T * error**2 / lambda_},
)
def check_gain(extra):
    """The same points on both sides: random ones, and one point repeated."""
    rng = np.random.default_rng(6)
    for n in (3, 5, 7, 9):
        phi = equispaced_features(SE, n)
        for T in (1, 2, 10, 200):
            for x in (rng.random((T, 1)), np.full((T, 1), 0.4), np.linspace(0, 1, T)[:, None]):
                F, K = phi(x), SE(x, x)
                for lambda_ in (0.1, 1.0, 10.0):
                    approximate = np.linalg.slogdet(np.eye(phi.m) + F.T @ F / lambda_)[1]
                    exact = np.linalg.slogdet(np.eye(T) + K / lambda_)[1]
                    assert approximate <= exact + extra(phi.m, T, phi.uniform_error, lambda_) + 1e-9


test_gain = check_gain


def streams():
    """Feature sequences (T, m): random, one direction, two blocks."""
    rng, m = np.random.default_rng(7), 4
    for T in (1, 2, 30, 120):
        yield unit_rows(rng, T, m)
        yield np.tile(np.eye(m)[:1], (T, 1))
        yield np.repeat(np.eye(m)[:2], [T - T // 2, T // 2], axis=0)


def width_sum(F, R, beta, block):
    """sum 2 beta |phi_t|_{V^-1} with V refreshed after every `block` users."""
    V, total = R.copy(), 0.0
    for t, phi in enumerate(F):
        if t % block == 0:
            V = F[:t].T @ F[:t] + R
        total += 2 * beta[t] * math.sqrt(phi @ np.linalg.solve(V, phi))
    return total


def scaled(factor):
    return replace(WIDTH_SUM, expression=factor * WIDTH_SUM.expression)


def holds(bound, F, R, block, beta):
    T, m = F.shape
    low = float(np.linalg.eigvalsh(R)[0])
    gain = 0.5 * np.linalg.slogdet(np.eye(m) + F.T @ F / low)[1]  # of these points: at most gamma_T
    limit = float(bound(T=T, beta=beta.max(), gain=max(gain, 0.0), lambda_min=low, m=m, error=0.0, block=block))
    return width_sum(F, R, beta, block) <= limit * (1 + 1e-9)


def optimism(seed):
    """A random instance whose band holds: regret of the upper bound's choice, and its summand."""
    rng = np.random.default_rng(seed)
    f, half = rng.normal(size=20), rng.uniform(0, 1, 20)
    mean = f + half * rng.uniform(-1, 1, 20)
    i = int(np.argmax(mean + half))
    return f.max() - f[i], 2 * half[i]


@claim(
    "gp-regret",
    subject=(WIDTH_SUM, 1.0),
    mutants={
        "half": (scaled(0.5), 1.0),
        "constant one for c": (lambda **v: WIDTH_SUM(**v) / math.sqrt(1 / (v["lambda_min"] * math.log1p(1 / v["lambda_min"]))), 1.0),
        "one width for two": (WIDTH_SUM, 0.5),
    },
)
def check_regret(case):
    """The sum of the widths for random regularisers and changing widths; equality at T = 1 with an isotropic one. Optimism: 2,000 instances
    whose band holds."""
    bound, share = case
    rng = np.random.default_rng(8)
    for F in streams():
        for low in (0.2, 1.0, 7.0, 50.0):
            beta = rng.uniform(0.5, 1.0, len(F))
            assert holds(bound, F, low * np.eye(4), 1, np.ones(len(F)))
            assert holds(bound, F, regulariser(rng, 4, low, 3 * low)[0], 1, beta)
    assert all(regret <= share * summand + 1e-12 for regret, summand in map(optimism, range(2000)))
    assert float(MISSPECIFICATION(B=1.5, T=100, error=0.01)) == pytest.approx(100 * 2 * 1.5 * 0.1, rel=1e-12)


test_regret = check_regret


@claim(
    "block-refresh",
    subject=WIDTH_SUM,
    mutants={
        "delay not charged": lambda **v: WIDTH_SUM(**{**v, "block": 1}),
        "tenth root": lambda **v: WIDTH_SUM(**{**v, "block": 1}) * (1 + (v["block"] - 1) / v["lambda_min"]) ** 0.1,
    },
)
def check_block(bound):
    """Stale matrices in the width sum, blocks of 1 to 40 users."""
    for F in streams():
        for low in (0.2, 1.0, 7.0, 50.0):
            for block in (1, 2, 7, 40):
                assert holds(bound, F, low * np.eye(4), block, np.ones(len(F)))


test_block = check_block


class TooNarrow(NoisyGPUCB):
    """A thirtieth of the width, in the index and in the band."""

    @cached_property
    def width(self):
        return ScaledWidth(self.calibration, self.subgaussian, self.zeta_reward, self.gain)


class ScaledWidth(Width):
    def beta(self, V_log_det, count, spectrum):
        return super().beta(V_log_det, count, spectrum) / 30


def quarter(*args):
    return {"width_sum": regret_bound(*args)["width_sum"] / 4}


@claim(
    "chain-per-run",
    subject=(joint_gp_ucb, regret_bound, play),
    mutants={"a thirtieth of the width": (with_class(TooNarrow), regret_bound, play), "a quarter of the bound": (joint_gp_ucb, quarter, play)},
)
def check_chain(case):
    """8 functions (seed 10) of norm below B = 1, T = 256: regret <= W <= U on each run, no round above its summand, no miss."""
    make, bound, run = case
    T, grid = 256, unit_grid(50)
    world, phi = GaussianProcessBandit(SE, grid, K=10), features_for_horizon(SE, T)
    functions = world.functions(8, np.random.default_rng(10))
    assert functions.norm.max() <= 1
    for epsilon in (math.inf, 100.0):
        policy = make(phi, T, epsilon, 1e-5)
        low = policy.calibration.spectrum.lambda_min
        gain = relaxed_gain(kernel_features(SE(grid, grid)), T, low, iterations=200)[0]
        result = run(policy, world, functions, T, seed=11, ratio=1.0)
        U = [bound(T, b, gain, low, phi.m, phi.uniform_error, 1.0)["width_sum"] for b in result.max_beta]
        U = np.array(U) + float(MISSPECIFICATION(B=1.0, T=T, error=phi.uniform_error))
        assert np.all(result.regret <= result.width_sum) and np.all(result.width_sum <= U)
        assert np.all(result.excess <= 0) and result.misses.sum() == 0


test_chain = check_chain


# Cost --------------------------------------------------------------------------------------------------------------------------


def size(state):
    """Bytes of all arrays of a nested state."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    return sum(map(size, state)) if isinstance(state, tuple) else 0


def noisy(T):
    return joint_gp_ucb(features_for_horizon(SE, T), T, 1.0, 1e-5)


@claim(
    "round-cost",
    subject=(noisy, joint_gp_ucb),
    mutants={"exact posterior": (lambda T: IGPUCB(SE, 1, horizon=T), joint_gp_ucb), "tree": (lambda T: joint_gp_ucb(features_for_horizon(SE, T), T, 1.0, 1e-5, mechanism="tree"), joint_gp_ucb)},
)
def check_cost(case):
    """Bytes after 1, 30 and 120 rounds."""
    T = 121
    policy, rng, noise = case[0](T), np.random.default_rng(12), np.random.default_rng(13)
    state, sizes = policy.init(1, noise), []
    for t in range(1, T):
        D = rng.random((1, 8, 1))
        state, i = policy.act(state, D, rng)
        state = policy.update(state, D[:, i[0]], rng.uniform(-0.5, 0.5, 1), noise)
        if t in (1, 30, 120):
            sizes.append(size(state))
    assert len(set(sizes)) == 1


test_cost = check_cost
