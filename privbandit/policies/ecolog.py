"""ECOLog: one small convex problem a round, and a confidence set that adapts to the local variance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.estimators.ball import minimise_quadratic
from privbandit.estimators.ridge import add_outer, inverse_add_outer
from privbandit.linalg import quadratic
from privbandit.links import Logistic
from privbandit.policies.base import Policy, argmax

Array = NDArray[np.float64]
LEAST_RIDGE = 2 / np.log(2)
_LINK = Logistic()


class ECOLogState(NamedTuple):
    t: int
    W: Array  # (R, d, d) lambda I + sum mu'(<x, theta>) x x'
    W_inv: Array
    theta: Array  # (R, d)
    excess: Array  # (R,) observed part of the squared radius


@dataclass(frozen=True)
class ECOLog(Policy):
    """ada-OFU-ECOLog for logistic rewards: Faury, Abeille, Jun and Calauzenes (2022), "Jointly efficient and optimal".

    Each round theta <- argmin |theta - theta_t|_W^2 / 2 + loss(theta; x, r) over |theta| <= S, solved exactly: a scalar equation, or in
    the ball a Newton iteration. A second point theta_bar, for the loss at r = 0 plus the loss at r = 1, tells how hard the round was.

    The published condition mu'(<x, theta_bar>) <= 2 mu'(<x, theta>) triggers warm-up rounds. Both points move <x, .> by at most
    |x|_{W^-1}^2 <= 1/lambda, and log mu' is 1-Lipschitz, so for lambda >= 2 / log 2 = 2.886 the condition always holds and there is no
    warm-up: a smaller `lambda_` is refused.

    `as_coded` follows public code where it departs: it adds the bonus to mu(<x, theta>), computes theta_bar from the updated theta (so
    from the reward, which the martingale argument does not allow), and subtracts the norm |theta - theta_bar|_W where the
    online-learning argument subtracts its square: the radius is then no proven bound. `width` multiplies the radius in the index: 1 is the
    theory's, with less no guarantee is claimed. Privacy: none.
    """

    d: int
    S: float
    zeta: float = 0.05
    lambda_: float = 3.0
    as_coded: bool = False
    width: float = 1.0
    name: str = "ECOLog"

    def __post_init__(self) -> None:
        validate.positive_int("d", self.d), validate.positive("S", self.S), validate.probability("zeta", self.zeta)
        validate.nonnegative("width", self.width)
        if validate.positive("lambda_", self.lambda_) < LEAST_RIDGE:
            raise ValueError(f"lambda_ must be >= 2 / log 2 = {LEAST_RIDGE:.3f}, got {self.lambda_!r}")

    @classmethod
    def published(cls, d: int, S: float, zeta: float) -> ECOLog:
        """The constants of the public code of sarmasarkar2026."""
        return cls(d, S, zeta, lambda_=10.0, as_coded=True, name="ECOLog (published)")

    @classmethod
    def tuned(cls, d: int, S: float, width: float = 0.1) -> ECOLog:
        """The radius times the width that the study `tuning` chose: no guarantee, small regret."""
        return cls(d, S, width=width, name="ECOLog (tuned)")

    def init(self, R: int, noise: np.random.Generator) -> ECOLogState:
        eye = np.broadcast_to(np.eye(self.d), (R, self.d, self.d))
        return ECOLogState(1, self.lambda_ * eye, eye / self.lambda_, np.zeros((R, self.d)), np.zeros(R))

    def radius(self, state: ECOLogState) -> Array:
        """(R,) |theta* - theta|_W <= radius for all rounds with probability 1 - zeta."""
        lam, S = self.lambda_, self.S
        log = np.log(2 * np.sqrt(1 + state.t / (4 * lam)) / self.zeta)
        fixed = 2 * lam * S**2 + (1 + S) ** 2 * (np.sqrt(lam) / 2 + 2 * log / np.sqrt(lam))
        return np.sqrt(np.maximum(fixed + state.excess, 0))

    def act(self, state: ECOLogState, contexts: Array, rng: np.random.Generator) -> tuple[ECOLogState, NDArray[np.intp]]:
        value = (contexts @ state.theta[:, :, None])[..., 0]
        value = _LINK.mu(value) if self.as_coded else value
        return state, argmax(value + self.width * self.radius(state)[:, None] * np.sqrt(quadratic(contexts, state.W_inv)))

    def update(self, state: ECOLogState, x: Array, reward: Array, noise: np.random.Generator) -> ECOLogState:
        theta = proximal_step(state.theta, state.W, state.W_inv, x, 1.0, reward, self.S)
        base = theta if self.as_coded else state.theta
        bar = proximal_step(base, state.W, state.W_inv, x, 2.0, np.ones_like(reward), self.S)
        gap = quadratic(theta - bar, state.W)
        z, z_bar = np.einsum("rd,rd->r", x, theta), np.einsum("rd,rd->r", x, bar)
        hardness = 2 * (1 + self.S) * (_LINK.loss(z_bar, reward) - _LINK.loss(z, reward))
        excess = state.excess + hardness - 0.5 * (np.sqrt(gap) if self.as_coded else gap)
        slope = _LINK.dmu(z)
        W, W_inv = add_outer(state.W, x, slope), inverse_add_outer(state.W_inv, x, slope)
        return ECOLogState(state.t + 1, W, W_inv, theta, excess)


def proximal_step(theta: Array, W: Array, W_inv: Array, x: Array, m: float, y: Array, S: float) -> Array:
    """argmin over |v| <= S of |v - theta|_W^2 / 2 + m b(<x, v>) - y <x, v>, for the logistic b.

    Without the ball v = theta - s W^-1 x with s = m mu(z) - y at z = <x, v>: one equation for z, strictly increasing.
    """
    u = (W_inv @ x[:, :, None])[..., 0]
    q, start = np.einsum("rd,rd->r", x, u), np.einsum("rd,rd->r", x, theta)
    z = start
    for _ in range(4):  # slope in [1, 1 + m q / 4] with q <= 1/lambda: quadratic from the first step, 1e-14 after four
        p = _LINK.mu(z)
        z = z - (z - start + q * (m * p - y)) / (1 + q * m * p * (1 - p))
    v = theta - (m * _LINK.mu(z) - y)[:, None] * u
    outside = np.einsum("rd,rd->r", v, v) > S**2
    if outside.any():
        v[outside] = _in_ball(theta[outside], W[outside], x[outside], m, y[outside], S, z[outside])
    return v


def _in_ball(theta: Array, W: Array, x: Array, m: float, y: Array, S: float, z: Array) -> Array:
    """The same minimiser on the sphere, by Newton steps: each a quadratic over the ball."""
    pull = (W @ theta[:, :, None])[..., 0]
    for _ in range(20):
        p = _LINK.mu(z)
        slope = m * p * (1 - p)
        v = minimise_quadratic(add_outer(W, x, slope), pull - (m * p - y - slope * z)[:, None] * x, S)
        new = np.einsum("rd,rd->r", x, v)
        moved, z = np.abs(new - z).max(), new
        if moved < 1e-9:
            break
    return v
