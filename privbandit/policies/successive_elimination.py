"""Successive elimination in epochs (Even-Dar, Mannor and Mansour 2006; epochs as in Sajed and Sheffet 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.formulas.linear import ELIMINATION_ERROR
from privbandit.policies.base import Array, Policy


class EpochState(NamedTuple):
    """Every field is (R,) or (R, K): replications go through their epochs at their own pace."""

    epoch: Array  # (R,) 1, 2, ...
    active: NDArray[np.bool_]  # (R, K) arms still in play
    pulls: Array  # (R, K) in this epoch
    sums: Array  # (R, K) of rewards in this epoch; never leaves the curator
    length: Array  # (R,) pulls of each arm that end this epoch


@dataclass(frozen=True)
class SuccessiveElimination(Policy):
    """Plays all arms in turn; at the end of epoch e drops every arm that is worse than the best by more than twice the error.

    Epoch e pulls each arm often enough to resolve gaps of 2^-e; only that epoch's rewards are used, so no reward is used twice.
    Rewards lie in [0, 1] (clipped). With probability 1 - zeta the best arm is never dropped. Contexts must be one-hot (R, K, K) and
    every round observed: the schedule counts rounds, and a count of observed rounds would leak.
    """

    K: int
    zeta: float = 0.05
    name = "successive elimination"

    def __post_init__(self) -> None:
        validate.positive_int("K", self.K), validate.probability("zeta", self.zeta)

    def init(self, R: int, noise: np.random.Generator) -> EpochState:
        epoch, active = np.ones(R), np.ones((R, self.K), dtype=bool)
        zero = np.zeros((R, self.K))
        return EpochState(epoch, active, zero, zero, self._length(epoch, active))

    def act(self, state: EpochState, contexts: Array, rng: np.random.Generator) -> tuple[EpochState, NDArray[np.intp]]:
        if contexts.shape[1:] != (self.K, self.K):
            raise ValueError(f"contexts must have shape (R, {self.K}, {self.K}), one-hot rows, got {contexts.shape}")
        return state, np.argmin(np.where(state.active, state.pulls, np.inf), axis=1)

    def update(self, state: EpochState, x: Array, reward: Array, noise: np.random.Generator) -> EpochState:
        if not np.all(x.sum(axis=1) == 1):
            raise ValueError("x must be one-hot: successive elimination needs every round observed")
        state = state._replace(pulls=state.pulls + x, sums=state.sums + np.clip(reward, 0, 1)[:, None] * x)
        ended = np.where(state.active, state.pulls, np.inf).min(axis=1) >= state.length
        return self._next_epoch(state, ended, noise) if ended.any() else state

    def _next_epoch(self, state: EpochState, ended: NDArray[np.bool_], noise: np.random.Generator) -> EpochState:
        means = self._release(state.sums, noise) / state.length[:, None]
        error = self._error(state.epoch, state.active, state.length)
        best = np.where(state.active, means, -np.inf).max(axis=1, keepdims=True)
        keep = state.active & (means >= best - 2 * error[:, None])
        active = np.where(ended[:, None], keep, state.active)
        epoch = state.epoch + ended
        reset = ended[:, None]
        return EpochState(
            epoch,
            active,
            np.where(reset, 0.0, state.pulls),
            np.where(reset, 0.0, state.sums),
            np.where(ended, self._length(epoch, active), state.length),
        )

    def _length(self, epoch: Array, active: NDArray[np.bool_]) -> Array:
        """Pulls N of each arm (R,) after which the error a / sqrt(N) + b / N is at most a quarter of 2^-epoch."""
        gap, size = 2.0**-epoch, active.sum(axis=1).astype(float)
        a, b = ELIMINATION_ERROR(K=size, t=epoch, zeta=self.zeta, N=1.0), self._sum_error(epoch, size)
        return np.ceil((2 * (a + np.sqrt(a**2 + b * gap)) / gap) ** 2)

    def _error(self, epoch: Array, active: NDArray[np.bool_], length: Array) -> Array:
        """Bound (R,) on the error of every mean of this epoch, together."""
        size = active.sum(axis=1).astype(float)
        return ELIMINATION_ERROR(K=size, t=epoch, zeta=self.zeta, N=length) + self._sum_error(epoch, size) / length

    def _sum_error(self, epoch: Array, size: Array) -> Array:
        """Bound (R,) on the noise of every released sum of this epoch."""
        return np.zeros(len(epoch))

    def _release(self, sums: Array, noise: np.random.Generator) -> Array:
        return sums
