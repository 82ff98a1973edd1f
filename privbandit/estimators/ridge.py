"""Batched ridge regression with rank-one updates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit.validate import positive, positive_int

Array = NDArray[np.float64]


def add_outer(M: Array, x: Array, weight: Array | float = 1.0) -> Array:
    """M + weight x x', for M (R, d, d), x (R, d), weight scalar or (R,)."""
    return M + np.asarray(weight)[..., None, None] * x[:, :, None] * x[:, None, :]


def inverse_add_outer(M_inv: Array, x: Array, weight: Array | float = 1.0) -> Array:
    """Inverse of M + weight x x' from the inverse of M (Sherman and Morrison), for weight >= 0."""
    u = (M_inv @ x[:, :, None])[..., 0]
    scale = np.asarray(weight) / (1 + weight * np.einsum("rd,rd->r", x, u))
    return M_inv - scale[..., None, None] * u[:, :, None] * u[:, None, :]


class Ridge(NamedTuple):
    """Sums of a weighted ridge regression: V = lambda I + sum w x x', its inverse, and b = sum w y x. Arrays lead with R."""

    V: Array
    V_inv: Array
    b: Array

    @classmethod
    def init(cls, R: int, d: int, lambda_: float) -> Ridge:
        positive_int("R", R), positive_int("d", d), positive("lambda_", lambda_)
        eye = np.broadcast_to(np.eye(d), (R, d, d))
        return cls(lambda_ * eye, eye / lambda_, np.zeros((R, d)))

    def update(self, x: Array, y: Array, weight: Array | float = 1.0) -> Ridge:
        """One observation for each replication: x (R, d), y (R,)."""
        b = self.b + (np.asarray(weight) * y)[:, None] * x
        return Ridge(add_outer(self.V, x, weight), inverse_add_outer(self.V_inv, x, weight), b)

    @property
    def theta(self) -> Array:
        """The estimate V^-1 b (R, d)."""
        return (self.V_inv @ self.b[:, :, None])[..., 0]
