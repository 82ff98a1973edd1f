"""What every policy is: public parameters in a frozen dataclass, pure methods on an explicit state, replications first."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privbandit.ledger import Guarantee, Ledger

Array = NDArray[np.float64]


class Policy(ABC):
    """A bandit algorithm.

    Each round: `act` picks one of K arms from the contexts, `update` learns from the chosen arm's features and its reward.
    Arrays start with the replication axis R. A round that was not observed reaches `update` as x = 0, reward = 0.
    Privacy noise is drawn from the Generator `noise`, all other randomness from `rng`.
    """

    name: str

    @abstractmethod
    def init(self, R: int, noise: np.random.Generator) -> Any:
        """State before the first round, for R replications."""

    @abstractmethod
    def act(self, state: Any, contexts: Array, rng: np.random.Generator) -> tuple[Any, NDArray[np.intp]]:
        """Arm indices (R,) for contexts (R, K, d), and the state after choosing them."""

    @abstractmethod
    def update(self, state: Any, x: Array, reward: Array, noise: np.random.Generator) -> Any:
        """State after the chosen features x (R, d) gave reward (R,)."""

    @property
    def ledger(self) -> Ledger:
        """What one user's record costs over the whole run."""
        return Ledger.nonprivate()

    def guarantee(self, delta: float) -> Guarantee:
        return self.ledger.guarantee(delta)


def choose(contexts: Array, action: NDArray[np.intp]) -> Array:
    """The features (R, d) of the chosen arms."""
    return contexts[np.arange(len(action)), action]


def argmax(index: Array) -> NDArray[np.intp]:
    """The best arm of each replication; ties go to the first."""
    return np.argmax(index, axis=1)
