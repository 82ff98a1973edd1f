"""Greedy: the arm that looks best under the maximum (quasi-)likelihood estimate, without a bonus."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.estimators.running import RunningFit
from privbandit.links import Link
from privbandit.policies.base import Policy, argmax

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GreedyGLM(Policy):
    """Plays argmax <x, theta> for the penalised estimate of every round. No exploration, so no regret guarantee. Privacy: none."""

    link: Link
    d: int
    lambda_: float = 1.0
    reach: float = 0.05
    name: str = "greedy"

    def __post_init__(self) -> None:
        validate.instance("link", self.link, Link)
        validate.positive_int("d", self.d), validate.positive("lambda_", self.lambda_), validate.positive("reach", self.reach)

    def init(self, R: int, noise: np.random.Generator) -> RunningFit:
        return RunningFit.init(R, self.d, self.lambda_)

    def act(self, state: RunningFit, contexts: Array, rng: np.random.Generator) -> tuple[RunningFit, NDArray[np.intp]]:
        return state, argmax((contexts @ state.theta[:, :, None])[..., 0])

    def update(self, state: RunningFit, x: Array, reward: Array, noise: np.random.Generator) -> RunningFit:
        return state.update(self.link, x, reward, self.lambda_, reach=self.reach)
