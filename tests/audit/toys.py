"""Small policies to audit: one that is right, and ways of being wrong that only a replay sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from privbandit.ledger import Gaussian, Ledger
from privbandit.mechanisms import PrefixSums
from privbandit.policies.base import Policy, argmax


class State(NamedTuple):
    sums: Any
    prefix: np.ndarray
    raw: np.ndarray


@dataclass(frozen=True)
class Greedy(Policy):
    """K arms, plays the arm with the largest noisy sum of rewards in [0, 1]; replacement moves one reward of one arm by 1."""

    K: int
    sums: PrefixSums
    name = "greedy"

    @property
    def ledger(self) -> Ledger:
        return Ledger("one user's rewards", "joint", self.sums.entries)

    def init(self, R, noise):
        return State(self.sums.init(R, self.K, noise), np.zeros((R, self.K)), np.zeros((R, self.K)))

    def act(self, state, contexts, rng):
        return state, argmax(state.prefix)

    def update(self, state, x, reward, noise):
        increment = x * reward[:, None]
        sums, prefix = self.sums.release(state.sums, increment, noise)
        return State(sums, prefix, state.raw + increment)


@dataclass(frozen=True)
class Shy(Greedy):
    """Plays the arm with the least noisy sum: it moves on as soon as it is paid."""

    def act(self, state, contexts, rng):
        return state, argmax(-state.prefix)


@dataclass(frozen=True)
class RawGreedy(Greedy):
    """Releases the noisy sums and plays the arm with the least exact one."""

    def act(self, state, contexts, rng):
        return state, argmax(-state.raw)


@dataclass(frozen=True)
class SkipsZeros(Greedy):
    """Releases only when a reward came: what is released when gives the rewards away."""

    def update(self, state, x, reward, noise):
        return super().update(state, x, reward, noise) if reward.any() else state


@dataclass(frozen=True)
class ScalesNoise(Greedy):
    """Draws noise in proportion to the data's spread."""

    def update(self, state, x, reward, noise):
        event = Gaussian(1.0, self.sums.sigma * (1 + float(state.raw.max())))
        increment = x * reward[:, None]
        return State(state.sums, state.prefix + event.release(increment, noise), state.raw + increment)


@dataclass(frozen=True)
class OwnNoise(Greedy):
    """Adds its noise by hand instead of through an event."""

    def update(self, state, x, reward, noise):
        increment = x * reward[:, None]
        return state._replace(prefix=state.prefix + increment + self.sums.sigma * noise.standard_normal(increment.shape))


@dataclass(frozen=True)
class Personal(Greedy):
    """Serves a user by the user's own context: allowed, the others do not see it."""

    def act(self, state, contexts, rng):
        return state, (contexts[:, :, 0] > 0.5).argmax(axis=1)
