"""Arms at random: the floor under every comparison."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbandit.ledger import Ledger
from privbandit.policies.base import Array, Policy


@dataclass(frozen=True)
class Uniform(Policy):
    """Each arm with equal probability. Nothing is learnt, so nothing is spent: the ledger is empty."""

    name = "uniform"
    trust = "any"

    def init(self, R: int, noise: np.random.Generator) -> None:
        return None

    def act(self, state: None, contexts: Array, rng: np.random.Generator) -> tuple[None, NDArray[np.intp]]:
        return state, rng.integers(contexts.shape[1], size=len(contexts))

    def update(self, state: None, x: Array, reward: Array, noise: np.random.Generator) -> None:
        return state

    @property
    def ledger(self) -> Ledger:
        return Ledger("one user", "central", ())
