"""UCB1 (Auer, Cesa-Bianchi and Fischer 2002) for K arms with rewards in [0, 1]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.policies.base import Array, Policy, argmax


class ArmState(NamedTuple):
    step: int  # rounds played
    memory: Any  # what the statistics are kept in; (R, 2K) exact sums here, a mechanism's state in the private policy
    counts: Array  # (R, K)
    sums: Array  # (R, K) of 2 reward - 1, in [-1, 1]


@dataclass(frozen=True)
class UCB(Policy):
    """Index: mean + sqrt(2 ln t / N). Contexts must be one-hot (R, K, K). An arm that was never observed comes first.

    >>> from privbandit.environments.bernoulli import BernoulliBandit
    >>> from privbandit.simulate import simulate
    >>> run = simulate(UCB(K=2), BernoulliBandit((0.9, 0.1)), horizon=200, replications=4, seed=0)
    >>> bool(run.final.mean() < 20)
    True
    """

    K: int
    name = "UCB1"

    def __post_init__(self) -> None:
        validate.positive_int("K", self.K)

    def init(self, R: int, noise: np.random.Generator) -> ArmState:
        zero = np.zeros((R, self.K))
        return ArmState(0, self._open(R, noise), zero, zero)

    def act(self, state: ArmState, contexts: Array, rng: np.random.Generator) -> tuple[ArmState, NDArray[np.intp]]:
        if contexts.shape[1:] != (self.K, self.K):
            raise ValueError(f"contexts must have shape (R, {self.K}, {self.K}), one-hot rows, got {contexts.shape}")
        return state, argmax(self.index(state))

    def update(self, state: ArmState, x: Array, reward: Array, noise: np.random.Generator) -> ArmState:
        """x (R, K) one-hot (zero if unobserved), reward (R,) in [0, 1] (clipped)."""
        y = 2 * np.clip(reward, 0, 1) - 1
        memory, prefix = self._add(state.memory, np.concatenate([x, y[:, None] * x], axis=1), noise)
        return ArmState(state.step + 1, memory, prefix[:, : self.K], prefix[:, self.K :])

    def index(self, state: ArmState) -> Array:
        """Upper confidence bounds (R, K) from the counts N and sums s, which may be off by at most `_error`.

        With L = 2 ln t, y has standard error at most sqrt(L / N) in the scale of 2 reward - 1 times 2, and the true count is at most
        N + error: (s + 2 sqrt(L (N + error)) + errors) / N, halved and shifted back to [0, 1].
        """
        step = max(state.step, 1)
        count_error, sum_error = self._error(step)
        most = np.maximum(state.counts + count_error, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            y = (state.sums + 2 * np.sqrt(2 * np.log(step) * most) + count_error + sum_error) / state.counts
        return np.where(state.counts > 0, (1 + y) / 2, np.inf)

    def _open(self, R: int, noise: np.random.Generator) -> Any:
        return np.zeros((R, 2 * self.K))

    def _add(self, memory: Any, leaf: Array, noise: np.random.Generator) -> tuple[Any, Array]:
        total = memory + leaf
        return total, total

    def _error(self, step: int) -> tuple[float, float]:
        """How far counts and sums may be from the truth."""
        return 0.0, 0.0
