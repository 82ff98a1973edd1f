"""OFULog+: optimism over a likelihood-ratio confidence set, by its ellipsoid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.estimators.running import RunningFit
from privbandit.linalg import inverse_norm
from privbandit.links import Logistic
from privbandit.policies.base import Policy, argmax

Array = NDArray[np.float64]


class OFULogState(NamedTuple):
    t: int
    fit: RunningFit


@dataclass(frozen=True)
class OFULog(Policy):
    """OFULog+ for logistic rewards: Lee, Yun and Jun (AISTATS 2024), in the ellipsoidal form that runs at full horizon.

    Their set C = {|theta| <= S, L(theta) - L(theta_hat) <= beta^2} holds theta* with probability 1 - zeta, theta_hat the maximum
    likelihood estimate in the ball. Optimism over C is one convex program an arm and a round; by self-concordance
    L(theta) - L(theta_hat) >= |theta - theta_hat|_H^2 / (2 + 2 S) for H = L''(theta_hat), so C lies in the ellipsoid
    |theta - theta_hat|_{H + I/(4 S^2)}^2 <= (2 + 2 S) beta^2 + 1, over which optimism is one line. theta_hat comes from `RunningFit`
    within `reach`, for which H is deflated by e^reach. Quadratic in T at worst. Privacy: none.
    """

    d: int
    S: float
    zeta: float = 0.05
    reach: float = 0.05
    penalty: float = 1e-6  # keeps the estimate unique before the rounds span the space
    name: str = "OFULog+"

    def __post_init__(self) -> None:
        validate.positive_int("d", self.d), validate.positive("S", self.S), validate.probability("zeta", self.zeta)
        validate.positive("reach", self.reach), validate.positive("penalty", self.penalty)

    def init(self, R: int, noise: np.random.Generator) -> OFULogState:
        return OFULogState(0, RunningFit.init(R, self.d, self.penalty))

    def beta_squared(self, t: int) -> float:
        """The likelihood-ratio width after t rounds (their Theorem 1)."""
        return 10 * self.d * np.log(np.e + self.S * t / (2 * self.d)) + 2 * (np.e - 2 + self.S) * np.log(1 / self.zeta)

    def index(self, state: OFULogState, contexts: Array) -> Array:
        """(R, K) upper bounds on <x, theta> over C."""
        metric = state.fit.hessian * np.exp(-self.reach) + np.eye(self.d) / (4 * self.S**2)
        radius = np.sqrt((2 + 2 * self.S) * self.beta_squared(state.t) + 1)
        bound = (contexts @ state.fit.theta[:, :, None])[..., 0] + radius * inverse_norm(contexts, metric)
        return np.minimum(bound, self.S * np.linalg.norm(contexts, axis=-1))

    def act(self, state: OFULogState, contexts: Array, rng: np.random.Generator) -> tuple[OFULogState, NDArray[np.intp]]:
        return state, argmax(self.index(state, contexts))

    def update(self, state: OFULogState, x: Array, reward: Array, noise: np.random.Generator) -> OFULogState:
        return OFULogState(state.t + 1, state.fit.update(Logistic(), x, reward, self.penalty, radius=self.S, reach=self.reach))
