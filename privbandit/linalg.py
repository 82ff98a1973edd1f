"""Batched linear algebra; the replication axis comes first."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SQRT2 = np.sqrt(2.0)


@lru_cache(maxsize=256)
def _triangle(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    rows, columns = np.triu_indices(d)
    return rows, columns, np.where(rows == columns, 1.0, SQRT2)


@lru_cache(maxsize=256)
def _square(d: int) -> tuple[NDArray[np.intp], Array]:
    """Where entry (i, j) of a symmetric matrix stands in its svec, and its scale."""
    rows, columns, scale = _triangle(d)
    index, weight = np.empty((d, d), dtype=np.intp), np.empty((d, d))
    index[rows, columns] = index[columns, rows] = np.arange(rows.size)
    weight[rows, columns] = weight[columns, rows] = 1 / scale
    return index, weight


def svec_size(d: int) -> int:
    """Length of the svec of a d x d matrix."""
    if d < 0:
        raise ValueError(f"d must be a whole number >= 0, got {d!r}")
    return d * (d + 1) // 2


def svec(M: Array) -> Array:
    """(..., d, d) symmetric -> (..., d(d+1)/2): the isometry with sqrt(2) on off-diagonal entries, |svec(M)|_2 = |M|_F.

    The upper triangle is read; symmetry is the caller's promise.
    """
    if M.ndim < 2 or M.shape[-2] != M.shape[-1]:
        raise ValueError(f"M must have shape (..., d, d), got {M.shape}")
    rows, columns, scale = _triangle(M.shape[-1])
    return M[..., rows, columns] * scale


def smat(v: Array, d: int) -> Array:
    """Inverse of `svec`. Noise with standard deviation s in every svec coordinate has variance s^2 on the diagonal and s^2/2 off it."""
    if v.shape[-1] != svec_size(d):
        raise ValueError(f"v must have shape (..., {svec_size(d)}) for d = {d}, got {v.shape}")
    index, weight = _square(d)
    return v[..., index] * weight


def outer(x: Array) -> Array:
    """svec(x x^T) for x (..., d), without building the matrix."""
    rows, columns, scale = _triangle(x.shape[-1])
    return x[..., rows] * x[..., columns] * scale


def quadratic(x: Array, M: Array) -> Array:
    """x^T M x for x (R, K, d) or (R, d) and M (R, d, d)."""
    if x.ndim == M.ndim:
        return np.maximum(np.einsum("rkd,rkd->rk", x @ M, x), 0.0)
    return np.maximum(np.einsum("rd,rde,re->r", x, M, x), 0.0)


def into_ball(v: Array, radius: float = 1.0) -> Array:
    """Vectors v (..., d) scaled to norm at most `radius`; those inside are returned as they are, those whose squares overflow as 0."""
    norm = np.linalg.norm(v, axis=-1, keepdims=True)
    return v * (radius / np.maximum(norm, radius))


def inverse_norm(x: Array, M: Array) -> Array:
    """|x|_{M^{-1}} for x (R, K, d) and positive definite M (R, d, d)."""
    return np.sqrt(quadratic(x, np.linalg.inv(M)))


def polar(v: Array) -> tuple[Array, Array]:
    """Direction (..., d) and length (...) of v (..., d); the direction of 0 is 0.

    The largest entry is divided out first, so that squares neither underflow nor overflow: |direction| <= 1 (up to rounding) and
    |entries| <= 1 for every finite v, where v / |v| would be as long as sqrt(d / 2) at |v| of about 1e-162.
    """
    peak = np.abs(v).max(axis=-1, keepdims=True)
    scaled = v / np.where(peak > 0, peak, 1.0)
    length = np.sqrt(np.sum(scaled**2, axis=-1, keepdims=True))  # in [1, sqrt d], or 0
    return scaled / np.maximum(length, 1.0), (peak * length)[..., 0]


def solve(M: Array, b: Array) -> Array:
    """M^{-1} b for M (R, d, d), b (R, d)."""
    return np.linalg.solve(M, b[..., None])[..., 0]


def floor_eigenvalues(M: Array, floor: float | Array) -> Array:
    """The symmetric M (R, d, d) with eigenvalues below `floor` (scalar or (R,)) lifted to it; unchanged matrices are returned as they are.

    floor >= 0. Raises ValueError for a matrix without finite eigenvalues.
    """
    floor = np.broadcast_to(np.asarray(floor, dtype=float), M.shape[:-2])
    if not (floor >= 0).all():
        raise ValueError(f"floor must be >= 0, got {floor.min()}")
    values, vectors = np.linalg.eigh(M)
    if not np.isfinite(values).all():
        raise ValueError("M must have finite entries only, got NaN or infinite eigenvalues")
    low = values[..., 0] < floor
    if not low.any():
        return M
    lifted = np.maximum(values, floor[..., None])
    mended = (vectors * lifted[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return np.where(low[..., None, None], mended, M)


class Spectrum(NamedTuple):
    """A symmetric matrix by its eigenvalues, held in a range: every power exists, however ill-conditioned the matrix is."""

    values: Array  # (R, d)
    vectors: Array  # (R, d, d)

    @classmethod
    def clipped(cls, M: Array, low: float, high: float = np.inf) -> Spectrum:
        """Of the symmetric part of M (R, d, d), with eigenvalues clipped to [low, high], low > 0."""
        values, vectors = np.linalg.eigh((M + np.swapaxes(M, 1, 2)) / 2)
        return cls(np.clip(values, low, high), vectors)

    def power(self, exponent: float) -> Array:
        """(R, d, d)."""
        return (self.vectors * self.values[:, None, :] ** exponent) @ np.swapaxes(self.vectors, 1, 2)
