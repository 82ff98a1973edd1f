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
from privbandit.policies.base import settled
from privbandit.policies.noisy_gp_ucb import NoisyGPUCB
from privbandit.simulate import Streams

Array = NDArray[np.float64]
CHUNK = 4096  # rounds whose decision sets are drawn together; fixed, so that policies meet the same sets whatever their grids


def refresh_rounds(horizon: int, block: int = 1, ratio: float = 1.02) -> NDArray[np.int64]:
    """Numbers of users after which to refresh: every `block`, thinned to a geometric grid; a public schedule, below the horizon."""
    validate.positive_int("horizon", horizon), validate.positive_int("block", block)
    if validate.positive("ratio", ratio) < 1:
        raise ValueError(f"ratio must be a finite number >= 1, got {ratio!r}")
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
    return Band(settled(upper), np.minimum(2 * calibration.B, 2 * bonus + 2 * bias), missed)


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


class Game:
    """A long run in progress: the current bands, the tally, and what has been counted so far."""

    def __init__(
        self, policy: NoisyGPUCB, environment: GaussianProcessBandit, functions: Functions, horizon: int, streams: Streams, ratio: float
    ) -> None:
        self.policy, self.environment, self.functions, self.horizon = policy, environment, functions, horizon
        self.block, self.phi, self.R = policy.calibration.block, policy.features(environment.grid), len(functions.values)
        self.rounds = refresh_rounds(horizon, self.block, ratio)
        self.noises = released_noise(policy, self.rounds // self.block, self.R, streams.noise)
        self.refreshes, self.tally = 0, Tally(policy, environment.grid, self.R)
        self.regret, self.widths, self.excess = np.zeros(self.R), np.zeros(self.R), np.full(self.R, -np.inf)
        self.misses, self.max_beta = np.zeros(self.R, dtype=np.int64), np.zeros(self.R)
        self.adopt(policy.width.start(self.R))

    @property
    def next_refresh(self) -> int:
        return int(self.rounds[self.refreshes]) if self.refreshes < len(self.rounds) else self.horizon

    def adopt(self, released: Released) -> None:
        self.band = band(self.policy, released, self.phi, self.functions.values)
        self.misses += self.band.missed
        self.max_beta = np.maximum(self.max_beta, released.beta)

    def refresh(self) -> None:
        n = self.next_refresh
        self.adopt(self.policy.width.publish(self.tally.total + self.noises[self.refreshes], n, n // self.block))
        self.refreshes += 1

    def rounds_between_refreshes(self, offered: NDArray[np.intp], uniform: Array) -> None:
        """Play the decision sets (R, s, K) with reward noise from uniforms (R, s)."""
        values = self.functions.values
        chosen = best_offered(self.band.upper, offered)
        mean = np.take_along_axis(values, chosen, axis=1)
        counts = self.tally.add(chosen, mean + self.environment.reward_noise(uniform))
        gaps = np.take_along_axis(values, best_offered(values, offered), axis=1) - mean
        self.regret += gaps.sum(axis=1)
        self.widths += np.sum(counts * self.band.summand, axis=1)
        self.excess = np.maximum(self.excess, np.max(gaps - np.take_along_axis(self.band.summand, chosen, axis=1), axis=1))


def play(
    policy: NoisyGPUCB, environment: GaussianProcessBandit, functions: Functions, horizon: int, seed: int, ratio: float = 1.02
) -> Run:
    """Play `horizon` rounds against given functions (R of them), refreshing on the geometric grid of this ratio (1: every block).

    The same seed gives every policy the same decision sets and reward noise: runs are paired, round by round.
    """
    streams = Streams.of(np.random.SeedSequence(validate.positive_int("seed", seed, at_least=0)))
    game = Game(policy, environment, functions, validate.positive_int("horizon", horizon), streams, ratio)
    for start in range(0, horizon, CHUNK):
        offered = environment.decision_sets(game.R, CHUNK, streams.environment)
        uniform = streams.reward.random((game.R, CHUNK))
        t, end = start, min(start + CHUNK, horizon)
        while t < end:
            stop = min(game.next_refresh, end)
            part = slice(t - start, stop - start)
            game.rounds_between_refreshes(offered[:, part], uniform[:, part])
            t = stop
            if t == game.next_refresh and t < horizon:
                game.refresh()
    return Run(policy, horizon, game.regret, game.widths, game.misses, game.refreshes, game.max_beta, game.excess)


def released_noise(policy: NoisyGPUCB, releases: NDArray[np.int64], R: int, noise: np.random.Generator) -> Array:
    """Noise (G, R, size) of the prefixes that will be read, or zeros that broadcast."""
    if len(releases) == 0 or not policy.calibration.private:
        return np.zeros((len(releases), 1, 1))
    return prefix_noise(policy.calibration.mechanism, releases, R, policy.calibration.leaf.size, noise)


def best_offered(index: Array, offered: NDArray[np.intp]) -> NDArray[np.intp]:
    """Grid index (R, s) of the offered point with the largest index (R, N); ties go to the first."""
    R, s, K = offered.shape
    shown = np.take_along_axis(index, offered.reshape(R, s * K), axis=1).reshape(R, s, K)
    return np.take_along_axis(offered, np.argmax(shown, axis=2)[..., None], axis=2)[..., 0]
