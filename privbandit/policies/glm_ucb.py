"""GLM-UCB: the maximum (quasi-)likelihood estimate of every round, and a bonus in the design's norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.estimators.ball import minimise_quadratic
from privbandit.estimators.ridge import add_outer, inverse_add_outer
from privbandit.estimators.running import RunningFit
from privbandit.linalg import quadratic
from privbandit.links import Link
from privbandit.policies.base import Policy, argmax
from privbandit.policies.glm import set_defaults, sub_gaussian

Array = NDArray[np.float64]
BONUSES = ("filippi", "self-normalised")


class GLMUCBState(NamedTuple):
    t: int
    V: Array  # (R, d, d) lambda I + sum x x'
    V_inv: Array
    log_det: Array  # (R,) log det(V / lambda)
    fit: RunningFit
    theta: Array  # (R, d) the estimate the index uses


@dataclass(frozen=True)
class GLMUCB(Policy):
    """Filippi, Cappe, Garivier and Szepesvari (2010): play argmax mu(<x, theta>) + bonus |x|_{V^-1}.

    bonus "filippi": 2 L kappa r_max sqrt(3 + 2 log(1 + 2/lambda)) sqrt(2 d log(t) log(2 d T / zeta)), their Section 4 (`log_t` False
    leaves the log t out, as one branch of public code does). "self-normalised": L (kappa sigma sqrt(2 log(1/zeta) + log det(V/lambda))
    + sqrt(lambda) S), the sharper form of Li, Lu and Zhou (2017) and Faury et al. (2020), for a fit with penalty lambda / kappa.

    The estimate is refreshed every round by `RunningFit`, within `reach`^2 of the exact one. With `project` an estimate outside
    |theta| <= S is replaced by the point of the ball whose mean responses are nearest in the V^-1 norm, linearised at the estimate.
    L = sup mu', kappa = 1 / min mu' on |z| <= S unless given. `width` multiplies the bonus: 1 is the theory's, with less no guarantee is
    claimed. Quadratic in T at worst. Privacy: none.
    """

    link: Link
    d: int
    S: float
    horizon: int
    zeta: float = 0.05
    lambda_: float | None = None  # of V, default d
    penalty: float | None = None  # of the fit, default lambda / kappa
    kappa: float | None = None
    bonus: str = "filippi"
    log_t: bool = True
    project: bool = True
    reach: float = 0.02
    width: float = 1.0
    name: str = "GLM-UCB"

    def __post_init__(self) -> None:
        validate.instance("link", self.link, Link)
        validate.positive_int("d", self.d), validate.positive("S", self.S), validate.probability("zeta", self.zeta)
        validate.positive_int("horizon", self.horizon), validate.one_of("bonus", self.bonus, BONUSES), validate.positive("reach", self.reach)
        set_defaults(self, lambda_=float(self.d), kappa=1 / self.link.c_mu(self.S))
        validate.positive("kappa", self.kappa), validate.nonnegative("width", self.width)
        set_defaults(self, penalty=self.lambda_ / self.kappa)
        validate.positive("lambda_", self.lambda_), validate.positive("penalty", self.penalty)
        validate.positive("sub-Gaussian constant of the link", sub_gaussian(self.link, self.S))

    @classmethod
    def published(cls, link: Link, d: int, S: float, horizon: int, zeta: float, kappa: float) -> GLMUCB:
        """The constants of the public code of sarmasarkar2026: ridge d in the fit, no projection, an instance's own kappa (oracle)."""
        log_t = not link.canonical
        return cls(link, d, S, horizon, zeta, penalty=float(d), kappa=kappa, log_t=log_t, project=False, name="GLM-UCB (published)")

    @classmethod
    def tuned(cls, link: Link, d: int, S: float, horizon: int, width: float = 0.0003) -> GLMUCB:
        """The self-normalised bonus times the width that the study `tuning` chose: no guarantee, small regret."""
        return cls(link, d, S, horizon, bonus="self-normalised", width=width, name="GLM-UCB (tuned)")

    def init(self, R: int, noise: np.random.Generator) -> GLMUCBState:
        eye = np.broadcast_to(np.eye(self.d), (R, self.d, self.d))
        fit = RunningFit.init(R, self.d, self.penalty)
        return GLMUCBState(0, self.lambda_ * eye, eye / self.lambda_, np.zeros(R), fit, fit.theta)

    def radius(self, state: GLMUCBState) -> Array | float:
        """The theory's factor of |x|_{V^-1}: scalar or (R,)."""
        L, d = self.link.L_mu(self.S), self.d
        if self.bonus == "self-normalised":
            noise = sub_gaussian(self.link, self.S) * np.sqrt(2 * np.log(1 / self.zeta) + state.log_det)
            return L * (self.kappa * noise + np.sqrt(self.lambda_) * self.S)
        r_max = max(map(abs, self.link.reward_range(self.S)))
        log_t = np.log(max(state.t + 1, 2)) if self.log_t else 1.0
        spread = np.sqrt(3 + 2 * np.log(1 + 2 / self.lambda_))
        return 2 * L * self.kappa * r_max * spread * np.sqrt(2 * d * log_t * np.log(2 * d * self.horizon / self.zeta))

    def act(self, state: GLMUCBState, contexts: Array, rng: np.random.Generator) -> tuple[GLMUCBState, NDArray[np.intp]]:
        value = self.link.mu((contexts @ state.theta[:, :, None])[..., 0])
        bonus = self.width * np.asarray(self.radius(state))[..., None]
        return state, argmax(value + bonus * np.sqrt(quadratic(contexts, state.V_inv)))

    def update(self, state: GLMUCBState, x: Array, reward: Array, noise: np.random.Generator) -> GLMUCBState:
        fit = state.fit.update(self.link, x, reward, self.penalty, reach=self.reach)
        V, V_inv = add_outer(state.V, x), inverse_add_outer(state.V_inv, x)
        log_det = state.log_det + np.log1p(quadratic(x, state.V_inv))
        theta = self._projected(fit, V_inv) if self.project else fit.theta
        return GLMUCBState(state.t + 1, V, V_inv, log_det, fit, theta)

    def _projected(self, fit: RunningFit, V_inv: Array) -> Array:
        outside = np.einsum("rd,rd->r", fit.theta, fit.theta) > self.S**2
        if not outside.any():
            return fit.theta
        theta, H = fit.theta.copy(), fit.hessian[outside]
        metric = H @ V_inv[outside] @ H  # |g(a) - g(b)|^2_{V^-1} = (a - b)' H V^-1 H (a - b) to first order
        theta[outside] = minimise_quadratic(metric, (metric @ theta[outside][:, :, None])[..., 0], self.S)
        return theta
