"""Oracle: plays the best arm of a known parameter, the ceiling of every comparison."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.policies.base import Policy, argmax

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Oracle(Policy):
    """Plays argmax <x, theta> for the `theta` (d,) it is told: regret 0 in an environment with that fixed parameter."""

    theta: tuple[float, ...]
    name: str = "oracle"

    def __post_init__(self) -> None:
        validate.array("theta", self.theta, (None,))

    @property
    def dimension(self) -> int:
        return len(self.theta)

    def init(self, R: int, noise: np.random.Generator) -> None:
        return None

    def act(self, state: None, contexts: Array, rng: np.random.Generator) -> tuple[None, NDArray[np.intp]]:
        return None, argmax(contexts @ np.asarray(self.theta))

    def update(self, state: None, x: Array, reward: Array, noise: np.random.Generator) -> None:
        return None
