"""Maximum information gain gamma_T = max over T points (repetition allowed) of (1/2) ln det(I + K_A / lambda), on a finite grid.

Both ends are certified: greedy gives a lower bound, submodularity turns it into an upper bound, and the concave relaxation over
designs gives a much closer upper bound with its KKT gap. Both certify the grid, not the box it came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate

Array = NDArray[np.float64]


class Gain(NamedTuple):
    """lower <= gamma_T <= upper on the grid; `points` (T,) of the greedy run, `path` (T,) its gains; `design` (N,) of the relaxation."""

    lower: float
    upper: float
    points: NDArray[np.intp]
    path: Array
    design: Array
    gap: float


def _square(K: Array) -> Array:
    K = validate.array("K", K, (None, None))
    return validate.array("K", K, (len(K), len(K)))


def kernel_features(K: Array) -> Array:
    """Exact features of a finite grid: Phi (N, r) with Phi Phi^T = K up to rounding, from the eigenvectors of K (N, N)."""
    K = _square(K)
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    keep = values > 0
    return vectors[:, keep] * np.sqrt(values[keep])


def greedy_gain(K: Array, T: int, lambda_: float = 1.0) -> tuple[NDArray[np.intp], Array]:
    """Greedy choice of the point of largest posterior variance, T times, by rank-one downdates of the (N, N) covariance.

    Returns the points (T,) and the information gained so far (T,). By submodularity g_T <= gamma_T <= g_T / (1 - 1/e)
    (Nemhauser, Wolsey and Fisher 1978). Cost O(T N^2).
    """
    C, T = _square(K).copy(), validate.positive_int("T", T)
    validate.positive("lambda_", lambda_)
    points, gains = np.empty(T, dtype=np.intp), np.empty(T)
    for t in range(T):
        i = int(np.argmax(np.diagonal(C)))
        column = C[:, i].copy()
        points[t], gains[t] = i, 0.5 * np.log1p(max(column[i], 0.0) / lambda_)
        C -= np.outer(column, column / (column[i] + lambda_))
    return points, np.cumsum(gains)


def log_det_gain(features: Array, weights: Array, lambda_: float = 1.0) -> float:
    """(1/2) ln det(I + sum_i weights_i phi_i phi_i^T / lambda) for features (N, m) and weights (N,) >= 0."""
    features = validate.array("features", features, (None, None))
    weights = validate.array("weights", weights, features.shape[:1])
    if weights.min() < 0:
        raise ValueError(f"weights must be >= 0, got {weights.min()}")
    validate.positive("lambda_", lambda_)
    m = features.shape[1]
    return 0.5 * float(np.linalg.slogdet(np.eye(m) + (features.T * weights) @ features / lambda_)[1])


def relaxed_gain(
    features: Array, T: float, lambda_: float = 1.0, tolerance: float = 1e-3, iterations: int = 3000
) -> tuple[float, Array, float]:
    """A certified upper bound on gamma_T for features (N, m): the value of the concave relaxation plus its KKT gap.

    F(p) = (1/2) ln det(I + (T/lambda) sum_i p_i phi_i phi_i^T) is concave on the simplex, and T p covers every multiset of T
    points, so gamma_T <= F(p) + max_i dF/dp_i - sum_i p_i dF/dp_i for every p: stopping early only loosens it. Multiplicative
    updates p_i <- p_i dF/dp_i / (p^T dF). Returns (upper bound, design p (N,), gap).
    """
    features = validate.array("features", features, (None, None))
    validate.positive("tolerance", tolerance)
    scale = validate.positive("T", T) / validate.positive("lambda_", lambda_)
    N, m = features.shape
    p, best = np.full(N, 1 / N), (np.inf, np.full(N, 1 / N), np.inf)
    for _ in range(validate.positive_int("iterations", iterations)):
        M = np.eye(m) + scale * (features.T * p) @ features
        gradient = 0.5 * scale * np.einsum("nm,nm->n", features @ np.linalg.inv(M), features)
        mean = float(p @ gradient)
        gap = float(np.max(gradient)) - mean
        upper = 0.5 * float(np.linalg.slogdet(M)[1]) + gap
        if upper < best[0]:
            best = (upper, p, gap)
        if gap <= tolerance:
            break
        p = p * gradient / mean
    return best


def information_gain(K: Array, T: int, lambda_: float = 1.0, tolerance: float = 0.02) -> Gain:
    """Both ends of gamma_T on the grid with kernel matrix K (N, N): greedy below, the better of the two certificates above."""
    validate.positive("tolerance", tolerance)
    points, path = greedy_gain(K, T, lambda_)
    upper, design, gap = relaxed_gain(kernel_features(K), T, lambda_, tolerance)
    return Gain(float(path[-1]), min(upper, float(path[-1]) / (1 - np.exp(-1))), points, path, design, gap)


@dataclass(frozen=True)
class GainTable:
    """Certified upper bounds on gamma_n for every n up to a horizon, from the relaxation at powers of two (gamma grows with n)."""

    sizes: tuple[int, ...]
    bounds: tuple[float, ...]

    @classmethod
    def of(cls, features: Array, horizon: int, lambda_: float, iterations: int = 300) -> GainTable:
        """For points among the rows of `features` (N, m) only: it certifies that grid, not the box around it."""
        top = validate.positive_int("horizon", horizon).bit_length()
        sizes = tuple(2**j for j in range(top + 1))
        return cls(sizes, tuple(relaxed_gain(features, n, lambda_, iterations=iterations)[0] for n in sizes))

    def __call__(self, n: int) -> float:
        if not 0 <= n <= self.sizes[-1]:
            raise ValueError(f"n must be a whole number in 0..{self.sizes[-1]}, got {n!r}")
        return 0.0 if n == 0 else self.bounds[max(int(n) - 1, 0).bit_length()]
