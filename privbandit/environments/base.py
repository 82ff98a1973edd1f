"""Where contexts and rewards come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Feedback(NamedTuple):
    """What a round returns. `regret` is the pseudo-regret against the round's best arm and is never shown to the policy."""

    reward: Array  # (R,)
    regret: Array  # (R,)
    observed: NDArray[np.bool_] | None = None  # (R,) False where the round taught nothing (replay of logged data)


class Environment(ABC):
    """K arms with d-dimensional features, drawn anew for each replication.

    Contexts are drawn from one Generator and rewards from another, the same number of draws whatever the policy does, so policies
    run with the same seed share their random numbers.
    """

    K: int
    d: int

    @abstractmethod
    def init(self, R: int, rng: np.random.Generator) -> Any:
        """State of R replications (hidden parameters and the like)."""

    @abstractmethod
    def contexts(self, state: Any, t: int, rng: np.random.Generator) -> tuple[Any, Array]:
        """Contexts (R, K, d) of round t = 0, 1, ... and the state after showing them."""

    @abstractmethod
    def step(self, state: Any, contexts: Array, action: NDArray[np.intp], rng: np.random.Generator) -> Feedback:
        """Reward and pseudo-regret of the chosen arms."""
