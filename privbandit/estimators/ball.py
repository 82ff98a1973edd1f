"""Quadratics over a ball: the projection of online Newton methods and the inner step of a constrained fit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_TINY = np.finfo(float).tiny


def minimise_quadratic(M: Array, c: Array, radius: float) -> Array:
    """argmin over |y| <= radius of y' M y / 2 - c' y, for positive definite M (R, d, d) and c (R, d).

    The multiplier nu of the ball solves |(M + nu I)^-1 c| = radius. Newton's method on 1/|y| - 1/radius, concave and increasing in nu,
    climbs to the root from nu = 0 without ever passing it (More and Sorensen 1983).
    """
    if not radius > 0:
        raise ValueError(f"radius must be a number > 0, got {radius!r}")
    eigenvalue, Q = np.linalg.eigh(M)
    a = (c[:, None, :] @ Q)[:, 0]
    nu = np.zeros((len(a), 1))
    for _ in range(100):
        inverse = 1 / (eigenvalue + nu)
        y = a * inverse
        square = np.einsum("rd,rd->r", y, y)[:, None]
        excess = np.maximum(np.sqrt(square) / radius - 1, 0)
        if excess.max() <= 1e-10:
            break
        nu = nu + excess * square / (np.einsum("rd,rd,rd->r", y, y, inverse)[:, None] + _TINY)
    return (Q @ (y / (1 + excess))[:, :, None])[..., 0]


def project(theta: Array, M: Array, radius: float) -> Array:
    """argmin over |y| <= radius of (y - theta)' M (y - theta), for theta (R, d) and M (R, d, d); a point inside is returned unchanged."""
    if not radius > 0:
        raise ValueError(f"radius must be a number > 0, got {radius!r}")
    outside = np.einsum("rd,rd->r", theta, theta) > radius**2
    if not outside.any():
        return theta
    theta = theta.copy()
    metric = M[outside]
    theta[outside] = minimise_quadratic(metric, (metric @ theta[outside][:, :, None])[..., 0], radius)
    return theta


def newton_step(theta: Array, gradient: Array, hessian: Array, radius: float | None) -> Array:
    """Minimiser (R, d), over |y| <= radius unless that is None, of the quadratic model at theta with this gradient and hessian."""
    target = theta - np.linalg.solve(hessian, gradient[:, :, None])[..., 0]
    if radius is None:
        return target
    outside = np.einsum("rd,rd->r", target, target) > radius**2
    if outside.any():
        H = hessian[outside]
        target[outside] = minimise_quadratic(H, (H @ theta[outside][:, :, None])[..., 0] - gradient[outside], radius)
    return target
