"""The penalised (quasi-)likelihood estimate after every round, at a fraction of the cost of refitting."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit.estimators.ball import minimise_quadratic
from privbandit.estimators.glm import fit_glm
from privbandit.estimators.history import History
from privbandit.estimators.ridge import add_outer
from privbandit.links import Link

Array = NDArray[np.float64]


class RunningFit(NamedTuple):
    """Gradient and Hessian of the penalised loss of all rounds at an anchor, and the Newton step from there.

    A new round adds its own exact gradient and Hessian at the anchor. When the step leaves the radius `reach` the anchor is moved to
    the minimiser by a full fit, so the estimate is never further from it than about M reach^2 (M: self-concordance, the relative error
    of a Newton step of length reach). The estimate settles like 1/sqrt(t), so full fits become rare.
    """

    history: History
    anchor: Array  # (R, d)
    gradient: Array  # (R, d) at the anchor
    hessian: Array  # (R, d, d) at the anchor
    theta: Array  # (R, d) the estimate
    refits: NDArray[np.int_]  # (R,) full fits so far

    @classmethod
    def init(cls, R: int, d: int, lambda_: float) -> RunningFit:
        zero = np.zeros((R, d))
        hessian = np.broadcast_to(lambda_ * np.eye(d), (R, d, d))
        return cls(History.empty(R, d), zero, zero, hessian, zero, np.zeros(R, dtype=int))

    def update(self, link: Link, x: Array, r: Array, lambda_: float, *, radius: float | None = None, reach: float = 0.02) -> RunningFit:
        """The fit with one more round x (R, d), r (R,); x = 0 teaches nothing. With `radius`, over the ball |theta| <= radius."""
        history = self.history.append(x, r)
        z = np.einsum("rd,rd->r", x, self.anchor)
        gradient = self.gradient + (link.mu(z) - r)[:, None] * x
        hessian = add_outer(self.hessian, x, link.dmu(z))
        theta = _newton(self.anchor, gradient, hessian, radius)
        step = theta - self.anchor
        far = np.einsum("rd,rd->r", step, step) > reach**2
        if not far.any():
            return RunningFit(history, self.anchor, gradient, hessian, theta, self.refits)
        anchor, refits = self.anchor.copy(), self.refits + far
        fit = fit_glm(link, history.x[far], history.r[far], lambda_, start=theta[far], radius=radius, tolerance=1e-6)
        anchor[far] = theta[far] = fit.theta
        hessian[far] = fit.hessian
        gradient[far] = fit.gradient
        return RunningFit(history, anchor, gradient, hessian, theta, refits)


def _newton(anchor: Array, gradient: Array, hessian: Array, radius: float | None) -> Array:
    theta = anchor - np.linalg.solve(hessian, gradient[:, :, None])[..., 0]
    if radius is None:
        return theta
    outside = np.einsum("rd,rd->r", theta, theta) > radius**2
    if outside.any():
        H = hessian[outside]
        theta[outside] = minimise_quadratic(H, (H @ anchor[outside][:, :, None])[..., 0] - gradient[outside], radius)
    return theta
