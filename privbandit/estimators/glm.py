"""Batched penalised (quasi-)likelihood fits of a generalised linear model by damped Newton steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit.estimators.ball import newton_step
from privbandit.links import Link
from privbandit.validate import array, instance, nonnegative, positive, positive_int

Array = NDArray[np.float64]


class Fit(NamedTuple):
    """A fit for each replication. `converged` is False where the last Newton step was still longer than the tolerance."""

    theta: Array  # (R, d)
    gradient: Array  # (R, d) of the penalised loss at theta: 0 unless a ball binds or the fit did not converge
    hessian: Array  # (R, d, d)
    loss: Array  # (R,) penalised loss at theta
    converged: NDArray[np.bool_]  # (R,)
    iterations: NDArray[np.int_]  # (R,)


class _Problem(NamedTuple):
    link: Link
    x: Array
    r: Array
    weights: Array | None
    lambda_: float

    def take(self, rows: NDArray[np.intp]) -> _Problem:
        if len(rows) == len(self.x):
            return self
        weights = None if self.weights is None else self.weights[rows]
        return self._replace(x=self.x[rows], r=self.r[rows], weights=weights)

    def loss(self, theta: Array) -> Array:
        value = self.link.loss((self.x @ theta[:, :, None])[..., 0], self.r)
        total = value.sum(axis=1) if self.weights is None else (self.weights * value).sum(axis=1)
        return total + 0.5 * self.lambda_ * np.einsum("rd,rd->r", theta, theta)

    def derivatives(self, theta: Array) -> tuple[Array, Array]:
        z = (self.x @ theta[:, :, None])[..., 0]
        residual, slope = self.link.mu(z) - self.r, self.link.dmu(z)
        if self.weights is not None:
            residual, slope = self.weights * residual, self.weights * slope
        gradient = (residual[:, None, :] @ self.x)[:, 0] + self.lambda_ * theta
        hessian = (self.x * slope[..., None]).swapaxes(1, 2) @ self.x
        return gradient, hessian + self.lambda_ * np.eye(theta.shape[1])


def fit_glm(
    link: Link,
    x: Array,
    r: Array,
    lambda_: float,
    *,
    weights: Array | None = None,
    radius: float | None = None,
    start: Array | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 60,
) -> Fit:
    """Minimise sum_i w_i (b(<x_i, theta>) - r_i <x_i, theta>) + lambda/2 |theta|^2, over the ball |theta| <= radius if one is given.

    x (R, n, d), r (R, n), weights (R, n) >= 0 (0 leaves a row out), start (R, d). Each step minimises the quadratic model (over the
    ball), then is halved until the loss falls by a share of the predicted decrease, so the fit converges from any start whenever a
    minimiser exists, separable data with lambda > 0 included. It stops where the next step would be at most tolerance (1 + |theta|).
    Separable data with lambda = 0 have no minimiser: the estimate grows and `converged` is False. (The step is tested and not the
    Newton decrement, which vanishes on separable data too; and so does the rounded gradient, hence the test for a flat direction.)
    """
    instance("link", link, Link)
    x = array("x", x, (None, None, None))
    R, n, d = x.shape
    r = array("r", r, (R, n))
    weights = None if weights is None else array("weights", weights, (R, n))
    nonnegative("lambda_", lambda_), positive("tolerance", tolerance), positive_int("max_iterations", max_iterations)
    if radius is not None:
        positive("radius", radius)
    theta = np.zeros((R, d)) if start is None else array("start", start, (R, d)).copy()
    problem = _Problem(link, x, r, weights, lambda_)
    loss = problem.loss(theta)
    gradient, hessian = np.empty((R, d)), np.empty((R, d, d))
    converged, iterations = np.zeros(R, dtype=bool), np.zeros(R, dtype=int)
    active = np.arange(R)
    for _ in range(max_iterations):
        part, here = problem.take(active), theta[active]
        gradient[active], hessian[active] = slope, curvature = part.derivatives(here)
        step = _newton_target(slope, curvature, here, radius) - here
        small = np.linalg.norm(step, axis=1) <= tolerance * (1 + np.linalg.norm(here, axis=1))
        converged[active] = small
        if small.all():
            if lambda_ == 0 and radius is None:
                converged &= ~_flat(problem, hessian)
            return Fit(theta, gradient, hessian, loss, converged, iterations)
        go, active = ~small, active[~small]
        theta[active], loss[active] = _line_search(part.take(np.flatnonzero(go)), here[go], loss[active], slope[go], step[go])
        iterations[active] += 1
    gradient, hessian = problem.derivatives(theta)
    if lambda_ == 0 and radius is None:
        converged &= ~_flat(problem, hessian)
    return Fit(theta, gradient, hessian, loss, converged, iterations)


def _flat(problem: _Problem, hessian: Array) -> NDArray[np.bool_]:
    """Whether the loss is flat, to rounding, along some direction that the rows do span: it has no minimiser."""
    x = problem.x if problem.weights is None else problem.x * np.sqrt(problem.weights)[..., None]
    size, Q = np.linalg.eigh(x.swapaxes(1, 2) @ x)
    spanned = size > 1e-10 * size[:, -1:]
    whitener = Q * (spanned / np.sqrt(np.where(spanned, size, 1)))[:, None, :]
    slope = whitener.swapaxes(1, 2) @ hessian @ whitener + np.eye(x.shape[2]) * ~spanned[:, None, :]
    return np.linalg.eigvalsh(slope)[:, 0] < 1e-12  # averages of mu' over the rows: at a minimiser about as large as the residuals


def _line_search(problem: _Problem, theta: Array, loss: Array, gradient: Array, step: Array) -> tuple[Array, Array]:
    """theta + scale step with the first scale 1, 1/2, 1/4, ... at which the loss falls enough, and that loss."""
    decrease = np.einsum("rd,rd->r", gradient, step)  # <= 0
    scale = np.ones(len(theta))
    slack = 1e-12 * (1 + np.abs(loss))  # rounding of a sum of n losses
    for _ in range(50):
        new = theta + scale[:, None] * step
        new_loss = problem.loss(new)
        too_long = ~(new_loss <= loss + 1e-4 * scale * decrease + slack)
        if not too_long.any():
            break
        scale[too_long] /= 2
    return new, new_loss


def _newton_target(gradient: Array, hessian: Array, theta: Array, radius: float | None) -> Array:
    """The Newton step, for hessians of rank-deficient data without a penalty too."""
    jitter = 1e-13 * np.trace(hessian, axis1=1, axis2=2) + 1e-300
    return newton_step(theta, gradient, hessian + jitter[:, None, None] * np.eye(theta.shape[1]), radius)
