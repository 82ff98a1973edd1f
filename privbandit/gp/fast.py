"""Long runs: the released state changes only at refreshes, so all rounds between two of them are played in one numpy pass.

A coarser refresh grid reads fewer prefixes of the same private stream (post-processing). Regret is bounded by the realised width
sum whatever the grid, because the confidence bounds of the last refresh stay valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.environments.gp import Functions, GaussianProcessBandit
from privbandit.gp.prefix_noise import prefix_noise
from privbandit.gp.width import Released
from privbandit.policies.noisy_gp_ucb import NoisyGPUCB
from privbandit.simulate import Streams

Array = NDArray[np.float64]
CHUNK = 4096  # rounds whose decision sets are drawn together; fixed, so that policies meet the same sets whatever their grids


def refresh_rounds(horizon: int, block: int = 1, ratio: float = 1.02) -> NDArray[np.int64]:
    """Numbers of users after which to refresh: every `block`, thinned to a geometric grid; a public schedule, below the horizon."""
    validate.positive_int("horizon", horizon), validate.positive_int("block", block)
    if not ratio >= 1:
        raise ValueError(f"ratio must be a number >= 1, got {ratio!r}")
    rounds, n = [], block
    while n < horizon:
        rounds.append(n)
        n = max(n + block, int(np.floor(n * ratio / block)) * block)
    return np.array(rounds, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Run:
    """One long run. All arrays are (R,)."""

    policy: NoisyGPUCB
    horizon: int
    regret: Array  # cumulative pseudo-regret
    width_sum: Array  # sum over rounds of min(2B, 2 beta_t |phi_t|_{V^-1} + 2 B sqrt(error)): bounds the regret if coverage holds
    misses: NDArray[np.int64]  # refreshes at which some point of the grid was outside its confidence band
    refreshes: int
    max_beta: Array
    excess: Array  # largest instantaneous regret minus its summand over all rounds; <= 0 if the theorem's step holds at each


class Band(NamedTuple):
    upper: Array  # (R, N)
    summand: Array  # (R, N)
    missed: NDArray[np.bool_]  # (R,)


def band(policy: NoisyGPUCB, released: Released, phi: Array, values: Array) -> Band:
    """Confidence bounds on the grid, the regret summand of every point, and whether f left its band anywhere."""
    calibration = policy.calibration
    upper = policy.index(released, np.broadcast_to(phi, (len(values), *phi.shape)))
    bias = calibration.B * np.sqrt(calibration.features.uniform_error)
    mean = released.theta @ phi.T
    bonus = upper - mean
    missed = np.any(np.abs(values - mean) > bonus + bias + 1e-12, axis=1)
    return Band(upper, np.minimum(2 * calibration.B, 2 * bonus + 2 * bias), missed)


class Tally:
    """The exact statistic of all rounds so far, from counts and reward sums on the grid.

    A contribution is linear in the reward in every coordinate that is decoded (Wishart's corner entries are not, and are not read).
    """

    def __init__(self, policy: NoisyGPUCB, grid: Array, R: int) -> None:
        leaf = policy.calibration.leaf
        self.R, self.N, self.Y = R, len(grid), leaf.Y
        self.base = leaf.encode(grid, np.zeros(len(grid)))
        self.slope = (leaf.encode(grid, np.full(len(grid), leaf.Y)) - self.base) / leaf.Y
        self.total = np.zeros((R, leaf.size))

    def add(self, chosen: NDArray[np.intp], reward: Array) -> Array:
        """Count the points (R, s) and rewards (R, s); returns the counts (R, N)."""
        flat = (chosen + self.N * np.arange(self.R)[:, None]).ravel()
        counts = np.bincount(flat, minlength=self.R * self.N).reshape(self.R, self.N)
        sums = np.bincount(flat, np.clip(reward, -self.Y, self.Y).ravel(), self.R * self.N).reshape(self.R, self.N)
        self.total += counts @ self.base + sums @ self.slope
        return counts


def play(
    policy: NoisyGPUCB,
    environment: GaussianProcessBandit,
    functions: Functions,
    horizon: int,
    seed: int,
    ratio: float = 1.02,
) -> Run:
    """Play `horizon` rounds against given functions (R of them), refreshing on the geometric grid of this ratio (1: every block).

    The same seed gives every policy the same decision sets and reward noise: runs are paired, round by round.
    """
    R, streams = len(functions.values), Streams.of(np.random.SeedSequence(validate.positive_int("seed", seed, at_least=0)))
    calibration, phi = policy.calibration, policy.features(environment.grid)
    rounds = refresh_rounds(horizon, calibration.block, ratio)
    noises = _noises(policy, rounds // calibration.block, R, streams.noise)
    tally = Tally(policy, environment.grid, R)
    regret, widths, misses, excess = np.zeros(R), np.zeros(R), np.zeros(R, dtype=np.int64), np.full(R, -np.inf)
    released = policy.width.start(R)
    max_beta, current = released.beta, band(policy, released, phi, functions.values)
    refresh, at = iter(zip(rounds.tolist(), noises, strict=True)), next_or_end(rounds, 0, horizon)
    for start in range(0, horizon, CHUNK):
        length = min(CHUNK, horizon - start)
        offered = environment.decision_sets(R, CHUNK, streams.environment)[:, :length]
        uniform = streams.reward.random((R, CHUNK))[:, :length]
        best = _best(functions.values, offered)
        t = start
        while t < start + length:
            stop = min(at, start + length)
            part = slice(t - start, stop - start)
            chosen = _choose(current.upper, offered[:, part])
            mean = np.take_along_axis(functions.values, chosen, axis=1)
            counts = tally.add(chosen, mean + environment.noise * (2 * uniform[:, part] - 1))
            gaps = best[:, part] - mean
            regret += gaps.sum(axis=1)
            widths += np.sum(counts * current.summand, axis=1)
            excess = np.maximum(excess, np.max(gaps - np.take_along_axis(current.summand, chosen, axis=1), axis=1))
            t = stop
            if t == at and t < horizon:
                n, fresh = next(refresh)
                released = policy.width.publish(tally.total + fresh, n, n // calibration.block)
                current = band(policy, released, phi, functions.values)
                misses += current.missed
                max_beta = np.maximum(max_beta, released.beta)
                at = next_or_end(rounds, n, horizon)
    return Run(policy, horizon, regret, widths, misses, len(rounds), max_beta, excess)


def next_or_end(rounds: NDArray[np.int64], n: int, horizon: int) -> int:
    """The first refresh after n users, or the horizon."""
    i = int(np.searchsorted(rounds, n, side="right"))
    return int(rounds[i]) if i < len(rounds) else horizon


def _noises(policy: NoisyGPUCB, releases: NDArray[np.int64], R: int, noise: np.random.Generator):
    size = policy.calibration.leaf.size
    if len(releases) == 0 or not policy.calibration.private:
        return np.zeros((len(releases), 1, 1))
    return prefix_noise(policy.calibration.mechanism, releases, R, size, noise)


def _choose(upper: Array, offered: NDArray[np.intp]) -> NDArray[np.intp]:
    """Grid index (R, s) of the offered point with the largest bound; ties go to the first."""
    R, s, K = offered.shape
    index = np.take_along_axis(upper, offered.reshape(R, s * K), axis=1).reshape(R, s, K)
    return np.take_along_axis(offered, np.argmax(index, axis=2)[..., None], axis=2)[..., 0]


def _best(values: Array, offered: NDArray[np.intp]) -> Array:
    R, s, K = offered.shape
    return np.take_along_axis(values, offered.reshape(R, s * K), axis=1).reshape(R, s, K).max(axis=2)
