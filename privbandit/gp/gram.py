"""Ways to write phi(x) phi(x)^T as a vector that then gets independent noise of one standard deviation in every coordinate.

Each form states the squared distance between the vectors of two points (a function of their difference only, because every norm
is constant) and what unit noise becomes in the matrix: H = sum_q z_q A_q, z standard normal. Three numbers bound H with high
probability: `norm`, `weighted_trace` and `frobenius` below; all are Gaussian concentration (Borell-TIS), no simulation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from privbandit import validate
from privbandit.features.fourier import FourierFeatures, half_space
from privbandit.linalg import outer, smat, svec_size

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Gram(ABC):
    """One encoding of phi phi^T for Fourier features (|phi| = 1)."""

    features: FourierFeatures

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of coordinates released."""

    @abstractmethod
    def encode(self, x: Array) -> Array:
        """The coordinates (..., size) of points x (..., d)."""

    @abstractmethod
    def decode(self, coordinates: Array, count: int) -> Array:
        """The matrix (R, m, m) of a sum of `count` encoded points (R, size), noise included."""

    @abstractmethod
    def distance(self, z: Array) -> Array:
        """Squared distance (n,) of the encodings of two points with difference z (n, d)."""

    @property
    @abstractmethod
    def curvature(self) -> float:
        """Bound on the second derivative of `distance` in every direction."""

    @property
    @abstractmethod
    def mean_norm(self) -> float:
        """Bound on E lambda_max(H) for unit noise."""

    @property
    @abstractmethod
    def weak_std(self) -> float:
        """Bound on the standard deviation of <M, H> over |M|_F = 1, the Lipschitz constant of norms of H."""

    @abstractmethod
    def second_moment(self, weights: Array) -> float:
        """E |H diag(weights)^(1/2)|_F^2 for unit noise."""

    def norm(self, eta: float) -> float:
        """|H| <= norm(eta) with probability >= 1 - eta: Borell-TIS for lambda_max(H) and for lambda_max(-H), the same law."""
        return self.mean_norm + self.weak_std * np.sqrt(2 * np.log(2 / eta))

    def weighted_trace(self, weights: Array, eta: float) -> float:
        """-tr(diag(weights) H) <= this with probability >= 1 - eta."""
        return float(self.weak_std * np.linalg.norm(weights) * np.sqrt(2 * np.log(1 / eta)))

    def frobenius(self, weights: Array, eta: float) -> float:
        """|H diag(weights)^(1/2)|_F <= this with probability >= 1 - eta."""
        tail = self.weak_std * np.sqrt(np.max(weights)) * np.sqrt(2 * np.log(1 / eta))
        return float(np.sqrt(self.second_moment(weights)) + tail)


@dataclass(frozen=True, eq=False)
class FullGram(Gram):
    """All m(m+1)/2 entries: svec(D phi phi^T D), D = diag(a)^(-1/2), a_i = (w_i / max w)^shape.

    shape = 0 is the symmetrised Gaussian of the literature, (Z + Z^T)/2 in svec coordinates; shape > 0 gives entries with small
    weights less noise ("shaped"): H = D^-1 smat(z) D^-1.
    """

    shape: float = 0.0

    def __post_init__(self) -> None:
        validate.instance("features", self.features, FourierFeatures), validate.nonnegative("shape", self.shape)

    @property
    def size(self) -> int:
        return svec_size(self.features.m)

    @cached_property
    def a(self) -> Array:
        w = self.features.feature_weights
        return (w / w.max()) ** self.shape

    def encode(self, x: Array) -> Array:
        return outer(self.features(x) / np.sqrt(self.a))

    def decode(self, coordinates: Array, count: int) -> Array:
        root = np.sqrt(self.a)
        return smat(coordinates, self.features.m) * np.multiply.outer(root, root)

    @cached_property
    def _cosine(self) -> Array:
        """Weights of c(z) = sum_i w_i / a_i cos(omega_i z) = <D phi(x), D phi(x')>, one per frequency."""
        return self.features.weights / self.a[: len(self.features.weights)]

    def distance(self, z: Array) -> Array:
        c = np.cos(z @ self.features.frequencies.T) @ self._cosine
        return 2 * (self._cosine.sum() ** 2 - c**2)

    @property
    def curvature(self) -> float:
        speed = np.linalg.norm(self.features.frequencies, axis=1)
        first, second = self._cosine @ speed, self._cosine @ speed**2
        return float(4 * (first**2 + self._cosine.sum() * second))

    @property
    def mean_norm(self) -> float:
        """Sudakov-Fernique against 2 s |p| <g, p>, p = diag(a)^(1/2) u, with s = 1/sqrt(2) off the diagonal."""
        return float(np.sqrt(2 * self.a.max() * self.a.sum()))

    @property
    def weak_std(self) -> float:
        return float(self.a.max())

    def second_moment(self, weights: Array) -> float:
        variance = (np.multiply.outer(self.a, self.a) + np.diag(self.a**2)) / 2
        return float(np.sum(variance @ weights))


@dataclass(frozen=True, eq=False)
class MomentGram(Gram):
    """Equispaced features only: phi phi^T is linear in the moments cos(k h x), sin(k h x), 1 <= k <= 2J (half-space of Z^d).

    Releases (4J+1)^d - 1 numbers instead of m(m+1)/2, with noise proportional to
    tau_k = (sum_a w_a w_{a+k})^(-exponent). The zeroth moment is the number of users, public under replacement neighbours only.
    """

    exponent: float = 0.45  # minimises the width for l = 0.05 .. 0.4, d = 1, 2 (43.4 against 44.4 at 1/4 for l = 0.2)

    def __post_init__(self) -> None:
        validate.instance("features", self.features, FourierFeatures), validate.nonnegative("exponent", self.exponent)
        if self.features.step is None:
            raise ValueError("features must be equispaced for a moment release, got frequencies that are not multiples of a step")

    @cached_property
    def _index(self) -> NDArray[np.int64]:
        """Integer frequencies (n, d) of the features."""
        return np.rint(self.features.frequencies / np.asarray(self.features.step)).astype(np.int64)

    @cached_property
    def moments(self) -> NDArray[np.int64]:
        """The moments' integer frequencies (q, d), a half-space without 0."""
        reach = 2 * np.abs(self._index).max(axis=0)
        grid = np.array(list(product(*(range(-r, r + 1) for r in reach))))
        grid = half_space(grid, np.ones(len(grid)))[0]
        return grid[np.any(grid != 0, axis=1)]

    @cached_property
    def tau(self) -> Array:
        full = {}
        for index, w in zip(self._index, self.features.weights, strict=True):
            half = w / 2 if np.any(index) else w
            full[tuple(index)], full[tuple(-index)] = half, half
        overlap = np.array([sum(w * full.get(tuple(np.add(a, k)), 0.0) for a, w in full.items()) for k in self.moments])
        return np.maximum(overlap, overlap.max() * 1e-12) ** -self.exponent

    @property
    def size(self) -> int:
        return 2 * len(self.moments)

    @property
    def frequencies(self) -> Array:
        return self.moments * np.asarray(self.features.step)

    def encode(self, x: Array) -> Array:
        angles = np.asarray(x, dtype=float) @ self.frequencies.T
        return np.concatenate([np.cos(angles) / self.tau, np.sin(angles) / self.tau], axis=-1)

    def decode(self, coordinates: Array, count: int) -> Array:
        m = self.features.m
        constant, linear = self._map
        return (coordinates @ linear).reshape(-1, m, m) + count * constant

    @cached_property
    def _map(self) -> tuple[Array, sparse.csr_array]:
        """phi phi^T = constant + sum_q coordinate_q A_q, with A as a sparse matrix (size, m*m).

        From 2 cos a cos b = cos(a-b) + cos(a+b), 2 sin a sin b = cos(a-b) - cos(a+b), 2 cos a sin b = sin(a+b) - sin(a-b).
        """
        phi, n = self.features, len(self.features.weights)
        index = np.concatenate([self._index, self._index[phi.nonzero]])
        is_sin = np.arange(phi.m) >= n
        scale = np.sqrt(np.multiply.outer(phi.feature_weights, phi.feature_weights)) / 2
        both, mixed = is_sin[:, None] & is_sin, is_sin[:, None] != is_sin
        minus = index[:, None] - index[None]
        minus = np.where((mixed & ~is_sin[:, None])[..., None], -minus, minus)  # the sine's frequency minus the cosine's
        rows = [self._place(minus, mixed, scale), self._place(index[:, None] + index[None], mixed, np.where(both, -scale, scale))]
        constant = sum(r[0] for r in rows)
        return constant, sum(r[1] for r in rows).tocsr()

    def _place(self, k: NDArray[np.int64], odd: NDArray[np.bool_], value: Array) -> tuple[Array, sparse.coo_array]:
        """`value` times cos(k h x), or sin where `odd`: its constant part and its part linear in the coordinates."""
        position = {tuple(moment): i for i, moment in enumerate(self.moments)}
        flat = k.reshape(-1, k.shape[-1])
        where = np.array([position.get(tuple(v), -1) for v in flat]).reshape(odd.shape)
        mirrored = np.array([position.get(tuple(-v), -1) for v in flat]).reshape(odd.shape)
        zero, q = np.all(k == 0, axis=-1), np.maximum(where, mirrored)
        sign = np.where(odd & (where < 0), -1.0, 1.0)
        constant = np.where(zero & ~odd, value, 0.0)
        keep = ~zero
        row = (q + np.where(odd, len(self.moments), 0))[keep]
        data = (value * sign)[keep] * self.tau[q[keep]]
        shape = (self.size, k.shape[0] * k.shape[1])
        return constant, sparse.coo_array((data, (row, np.flatnonzero(keep.ravel()))), shape=shape)

    def distance(self, z: Array) -> Array:
        return (2 - 2 * np.cos(z @ self.frequencies.T)) @ self.tau**-2

    @property
    def curvature(self) -> float:
        return float(2 * np.sum(self.frequencies**2, axis=1) @ self.tau**-2)

    @cached_property
    def mean_norm(self) -> float:
        """sqrt(2 v ln m), v = |sum A_q^2| (Tropp 2012, Gaussian series)."""
        return float(np.sqrt(2 * self.series_variance * np.log(max(self.features.m, 2))))

    @cached_property
    def series_variance(self) -> float:
        m = self.features.m
        total = np.zeros((m, m))
        for q in range(self.size):
            A = self._map[1][[q]].toarray().reshape(m, m)
            total += A @ A
        return float(np.linalg.norm(total, 2))

    def norm(self, eta: float) -> float:
        """The smaller of the two tails: Borell-TIS around the mean, and 2 m exp(-x^2 / (2 v)) of the Gaussian series."""
        return min(super().norm(eta), float(np.sqrt(2 * self.series_variance * np.log(2 * self.features.m / eta))))

    @cached_property
    def weak_std(self) -> float:
        covariance = (self._map[1] @ self._map[1].T).toarray()
        return float(np.sqrt(np.linalg.norm(covariance, 2)))

    def second_moment(self, weights: Array) -> float:
        m = self.features.m
        squares = self._map[1].power(2).sum(axis=0).reshape(m, m)
        return float(np.sum(squares @ weights))
