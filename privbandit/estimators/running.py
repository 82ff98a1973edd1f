"""The penalised (quasi-)likelihood estimate after every round, at a fraction of the cost of refitting."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit.estimators.ball import newton_step
from privbandit.estimators.glm import fit_glm
from privbandit.estimators.history import History
from privbandit.estimators.ridge import add_outer
from privbandit.links import Link

Array = NDArray[np.float64]


class RunningFit(NamedTuple):
    """Gradient and Hessian of the penalised loss of all rounds at an anchor, and an estimate one Newton step away from it.

    `observe` adds a round's own exact gradient and Hessian at the anchor. `refresh` takes the Newton step; where it is longer than
    `reach` the anchor is moved to the minimiser by a full fit, so the estimate is never further from the minimiser than about
    M reach^2 (M: self-concordance, M reach the relative error of the Hessian). Estimates settle like 1/sqrt(t): full fits become rare.
    """

    history: History
    anchor: Array  # (R, d)
    gradient: Array  # (R, d) at the anchor
    hessian: Array  # (R, d, d) at the anchor
    theta: Array  # (R, d) the estimate of the last refresh
    refits: NDArray[np.int_]  # (R,) full fits so far

    @classmethod
    def init(cls, R: int, d: int, lambda_: float) -> RunningFit:
        zero = np.zeros((R, d))
        hessian = np.broadcast_to(lambda_ * np.eye(d), (R, d, d))
        return cls(History.empty(R, d), zero, zero, hessian, zero, np.zeros(R, dtype=int))

    def observe(self, link: Link, x: Array, r: Array) -> RunningFit:
        """One more round x (R, d), r (R,), the estimate left as it is; x = 0 teaches nothing."""
        z = np.einsum("rd,rd->r", x, self.anchor)
        gradient = self.gradient + (link.mu(z) - r)[:, None] * x
        return self._replace(history=self.history.append(x, r), gradient=gradient, hessian=add_outer(self.hessian, x, link.dmu(z)))

    def refresh(
        self, link: Link, lambda_: float, *, due: NDArray[np.bool_] | None = None, radius: float | None = None, reach: float = 0.02
    ) -> RunningFit:
        """The estimate from all rounds so far, for the replications that are `due` (R,); with `radius`, over the ball |theta| <= radius."""
        rows = np.arange(len(self.theta)) if due is None else np.flatnonzero(due)
        theta = self.theta.copy()
        theta[rows] = newton_step(self.anchor[rows], self.gradient[rows], self.hessian[rows], radius)
        step = theta[rows] - self.anchor[rows]
        far = rows[np.einsum("rd,rd->r", step, step) > reach**2]
        if not far.size:
            return self._replace(theta=theta)
        x, r = self.history.x[far], self.history.r[far]
        fit = fit_glm(link, x, r, lambda_, start=theta[far], radius=radius, tolerance=1e-5)
        anchor, gradient, hessian, refits = self.anchor.copy(), self.gradient.copy(), self.hessian.copy(), self.refits.copy()
        anchor[far] = theta[far] = fit.theta
        gradient[far], hessian[far] = fit.gradient, fit.hessian
        refits[far] += 1
        return RunningFit(self.history, anchor, gradient, hessian, theta, refits)

    def update(self, link: Link, x: Array, r: Array, lambda_: float, *, radius: float | None = None, reach: float = 0.02) -> RunningFit:
        """`observe`, then `refresh` everywhere."""
        return self.observe(link, x, r).refresh(link, lambda_, radius=radius, reach=reach)
