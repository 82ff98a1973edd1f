"""OL2M: online logistic learning with a constant lower bound on the curvature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.estimators.ball import project
from privbandit.estimators.ridge import add_outer, inverse_add_outer
from privbandit.linalg import quadratic
from privbandit.links import Logistic
from privbandit.policies.base import Policy, argmax
from privbandit.policies.glm import set_defaults

Array = NDArray[np.float64]


class OL2MState(NamedTuple):
    t: int
    Z: Array  # (R, d, d) lambda I + (curvature / 2) sum x x'
    Z_inv: Array
    log_det: Array  # (R,) log det(Z / lambda)
    theta: Array  # (R, d)


@dataclass(frozen=True)
class OL2M(Policy):
    """Zhang, Yang, Jin, Xiao and Zhou (2016), "Online stochastic linear optimization under one-bit feedback", for logistic rewards.

    theta <- projection onto |theta| <= S, in the metric Z, of theta - Z^-1 (mu(<x, theta>) - r) x with Z += (curvature / 2) x x' and
    curvature = 1 / (2 (1 + e^S)); |theta - theta*|_Z <= radius with probability 1 - zeta (Theorem 1). mean_index adds the bonus to
    mu(<x, theta>), as public code does. Privacy: none.
    """

    d: int
    S: float
    zeta: float = 0.05
    lambda_: float | None = None  # default d
    mean_index: bool = False
    name: str = "OL2M"

    def __post_init__(self) -> None:
        validate.positive_int("d", self.d), validate.positive("S", self.S), validate.probability("zeta", self.zeta)
        set_defaults(self, lambda_=float(self.d))
        validate.positive("lambda_", self.lambda_)

    @property
    def curvature(self) -> float:
        return float(0.5 / (1 + np.exp(self.S)))

    def init(self, R: int, noise: np.random.Generator) -> OL2MState:
        eye = np.broadcast_to(np.eye(self.d), (R, self.d, self.d))
        return OL2MState(1, self.lambda_ * eye, eye / self.lambda_, np.zeros(R), np.zeros((R, self.d)))

    def radius(self, state: OL2MState) -> Array:
        """(R,) radius of the confidence set in the norm of Z."""
        S, c, t = self.S, self.curvature, state.t
        tau = np.log(2 * max(1.0, np.ceil(2 * np.log2(t))) * t**2 / self.zeta)
        return np.sqrt(8 * S + self.lambda_ * S**2 + (8 / c + 16 * S / 3) * tau + 2 / c * state.log_det)

    def act(self, state: OL2MState, contexts: Array, rng: np.random.Generator) -> tuple[OL2MState, NDArray[np.intp]]:
        value = (contexts @ state.theta[:, :, None])[..., 0]
        value = Logistic().mu(value) if self.mean_index else value
        return state, argmax(value + self.radius(state)[:, None] * np.sqrt(quadratic(contexts, state.Z_inv)))

    def update(self, state: OL2MState, x: Array, reward: Array, noise: np.random.Generator) -> OL2MState:
        half = self.curvature / 2
        Z, Z_inv = add_outer(state.Z, x, half), inverse_add_outer(state.Z_inv, x, half)
        log_det = state.log_det + np.log1p(half * quadratic(x, state.Z_inv))
        residual = Logistic().mu(np.einsum("rd,rd->r", x, state.theta)) - reward
        step = residual[:, None] * (Z_inv @ x[:, :, None])[..., 0]
        return OL2MState(state.t + 1, Z, Z_inv, log_det, project(state.theta - step, Z, self.S))
