"""The noisy algorithm: its steps, clipping, cost, and the width of its band."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from privbandit.environments.gp import GaussianProcessBandit, random_functions, unit_grid
from privbandit.features import features_for_horizon
from privbandit.formulas.gp import CONFIDENCE_WIDTH
from privbandit.gp.calibration import calibrate
from privbandit.gp.fast import play
from privbandit.gp.width import Width
from privbandit.policies.gp_ucb import IGPUCB, ApproximateGPUCB
from privbandit.policies.noisy_gp_ucb import NoisyGPUCB, joint_gp_ucb

from .claim import claim
from .noisy_gp import SE, regulariser, unit_rows, with_class

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
    beta |phi|, and above 0.95 of it somewhere. The package's log-determinant for T users (t = T + 1) is above the true one at the least V of the good event.
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
        F, s = phi(rng.random((T, 1))), c.spectrum
        truth = np.linalg.slogdet(np.eye(phi.m) + F.T @ F / s.lambda_min)[1]
        V = np.linalg.slogdet(F.T @ F + s.lambda_min * np.eye(phi.m))[1]
        assert kind(c, r, zeta).log_det(np.array([V]), T, s.lambda_min)[0] >= truth - 1e-9
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
