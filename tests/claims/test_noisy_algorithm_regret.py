"""The noisy algorithm: information gain, sums of widths, and regret on every run."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest

from privbandit.environments.gp import GaussianProcessBandit, unit_grid
from privbandit.features import equispaced_features, features_for_horizon
from privbandit.features.information_gain import kernel_features, relaxed_gain
from privbandit.formulas.gp import MISSPECIFICATION, WIDTH_SUM
from privbandit.gp.fast import play
from privbandit.gp.width import Width, regret_bound
from privbandit.policies.noisy_gp_ucb import NoisyGPUCB, joint_gp_ucb

from .claim import claim
from .noisy_gp import SE, regulariser, unit_rows, with_class


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
