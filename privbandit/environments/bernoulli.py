"""K arms that pay 0 or 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.environments.base import Array, Environment, Feedback


@dataclass(frozen=True)
class BernoulliBandit(Environment):
    """Arm a pays 1 with probability means[a]. Contexts are the one-hot rows of the arms, so d = K.

    One uniform number per replication and round decides what every arm would pay.
    """

    means: tuple[float, ...]

    def __post_init__(self) -> None:
        means = validate.array("means", self.means, (None,))
        if means.min() < 0 or means.max() > 1:
            raise ValueError(f"means must lie in [0, 1], got {self.means!r}")
        object.__setattr__(self, "means", tuple(map(float, means)))

    @property
    def K(self) -> int:
        return len(self.means)

    @property
    def d(self) -> int:
        return self.K

    def init(self, R: int, rng: np.random.Generator) -> int:
        return R

    def contexts(self, state: int, t: int, rng: np.random.Generator) -> tuple[int, Array]:
        return state, np.broadcast_to(np.eye(self.K), (state, self.K, self.K))

    def step(self, state: int, contexts: Array, action: NDArray[np.intp], rng: np.random.Generator) -> Feedback:
        mean = np.asarray(self.means)[action]
        return Feedback((rng.random(state) < mean).astype(float), max(self.means) - mean)
