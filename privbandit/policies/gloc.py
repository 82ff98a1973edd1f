"""GLOC: a confidence set from an online Newton learner, at constant cost a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.estimators.ball import project
from privbandit.estimators.ridge import add_outer, inverse_add_outer
from privbandit.linalg import quadratic
from privbandit.links import Link
from privbandit.policies.base import Policy, argmax
from privbandit.policies.glm import set_defaults, sub_gaussian

Array = NDArray[np.float64]


class GLOCState(NamedTuple):
    V: Array  # (R, d, d) lambda I + sum x x'
    V_inv: Array
    theta: Array  # (R, d) the online Newton iterate, in the ball of radius S
    predicted: Array  # (R, d) sum y x with y = <x, theta> at the time
    square: Array  # (R,) sum y^2
    regret_bound: Array  # (R,) bound B on the learner's regret

    @property
    def centre(self) -> Array:
        """Centre of the confidence set: ridge regression of the learner's own predictions."""
        return (self.V_inv @ self.predicted[:, :, None])[..., 0]


@dataclass(frozen=True)
class GLOC(Policy):
    """Jun, Bhargava, Nowak and Willett (2017), Algorithm 1 with online Newton steps (their Algorithm 2).

    The confidence set |theta - centre|_V^2 <= radius^2 holds for all rounds with probability 1 - zeta when rewards are
    `sigma`-sub-Gaussian (half their range, by default). The iterate is projected in the metric V onto |theta| <= S; public code of this
    algorithm rescales it to norm S instead, which presumes that |theta*| is S. Needs S; `kappa` is 1 / min mu' on |z| <= S unless given.

    mean_index plays argmax mu(<x, theta>) + sqrt(alpha) |x|_{V^-1} around the iterate, as public code does, instead of the set's
    own optimism. `width` multiplies the bonus of either: 1 is the theory's, with less no guarantee is claimed. Privacy: none.
    """

    link: Link
    d: int
    S: float
    zeta: float = 0.05
    lambda_: float | None = None  # default d
    kappa: float | None = None
    sigma: float | None = None
    mean_index: bool = False
    width: float = 1.0
    name: str = "GLOC"

    def __post_init__(self) -> None:
        validate.instance("link", self.link, Link)
        validate.positive_int("d", self.d), validate.positive("S", self.S), validate.probability("zeta", self.zeta)
        set_defaults(self, lambda_=float(self.d), kappa=1 / self.link.c_mu(self.S), sigma=sub_gaussian(self.link, self.S))
        for field in ("lambda_", "kappa", "sigma"):
            validate.positive(field, getattr(self, field))
        validate.nonnegative("width", self.width)

    @classmethod
    def published(cls, link: Link, d: int, S: float, zeta: float, kappa: float) -> GLOC:
        """The constants of the public code of sarmasarkar2026: L_mu^2 for the noise scale, mean index, an instance's own kappa (oracle)."""
        return cls(link, d, S, zeta, kappa=kappa, sigma=link.L_mu(S) ** 2, mean_index=True, name="GLOC (published)")

    @classmethod
    def tuned(cls, link: Link, d: int, S: float, width: float = 0.01) -> GLOC:
        """The radius times the width that the study `tuning` chose: no guarantee, small regret."""
        return cls(link, d, S, width=width, name="GLOC (tuned)")

    def init(self, R: int, noise: np.random.Generator) -> GLOCState:
        eye = np.broadcast_to(np.eye(self.d), (R, self.d, self.d))
        zero = np.zeros((R, self.d))
        start = 2 * self.S**2 * self.lambda_ / self.kappa
        return GLOCState(self.lambda_ * eye, eye / self.lambda_, zero, zero, np.zeros(R), np.full(R, start))

    def alpha(self, state: GLOCState) -> Array:
        """(R,) Bound on sum_s (<x_s, theta_s> - <x_s, theta*>)^2, Theorem 1."""
        B, k, sigma = state.regret_bound, self.kappa, self.sigma
        log = np.log(2 / self.zeta * np.sqrt(1 + 2 * k * B + 4 * (sigma * k) ** 4 / self.zeta**2))
        return 1 + 4 * k * B + 8 * (sigma * k) ** 2 * log

    def radius(self, state: GLOCState) -> Array:
        """(R,) Radius of the confidence set around `state.centre`."""
        residual = state.square - np.einsum("rd,rd->r", state.centre, state.predicted)
        return np.sqrt(np.maximum(self.alpha(state) + self.lambda_ * self.S**2 - residual, 0))

    def act(self, state: GLOCState, contexts: Array, rng: np.random.Generator) -> tuple[GLOCState, NDArray[np.intp]]:
        norm = np.sqrt(quadratic(contexts, state.V_inv))
        if self.mean_index:
            value = self.link.mu((contexts @ state.theta[:, :, None])[..., 0])
            return state, argmax(value + self.width * np.sqrt(self.alpha(state))[:, None] * norm)
        value = (contexts @ state.centre[:, :, None])[..., 0]
        return state, argmax(value + self.width * self.radius(state)[:, None] * norm)

    def update(self, state: GLOCState, x: Array, reward: Array, noise: np.random.Generator) -> GLOCState:
        y = np.einsum("rd,rd->r", x, state.theta)
        slope = np.where(x.any(axis=1), self.link.mu(y) - reward, 0.0)
        V, V_inv = add_outer(state.V, x), inverse_add_outer(state.V_inv, x)
        direction = (V_inv @ x[:, :, None])[..., 0]
        theta = project(state.theta - self.kappa * slope[:, None] * direction, V, self.S)
        B = state.regret_bound + self.kappa / 2 * slope**2 * np.einsum("rd,rd->r", x, direction)
        return GLOCState(V, V_inv, theta, state.predicted + y[:, None] * x, state.square + y * y, B)
