"""The square-root factorisation of the prefix-sum matrix (Fichtenberger, Henzinger and Upadhyay 2023).

A = L L with L lower-triangular Toeplitz, coefficients c_k = binom(2k, k) / 4^k: release L x + noise, publish L (L x + noise).
Two forms: `SquareRootFFT` draws the noise of the whole horizon at once and filters it by FFT; `SquareRoot` streams with
O(log T) memory, replacing c_k by a sum of exponentials b_k and charging exactly what that choice costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.signal import fftconvolve, lfilter

from privbandit.ledger import Entry, Gaussian
from privbandit.mechanisms.base import Array, PrefixSums


@lru_cache(maxsize=16)
def square_root_coefficients(T: int) -> Array:
    """c_0 .. c_{T-1}: c_0 = 1, c_k = c_{k-1} (2k - 1) / (2k), the power series of (1 - z)^(-1/2). Read-only, shape (T,)."""
    k = np.arange(1, T)
    c = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    c.flags.writeable = False
    return c


@lru_cache(maxsize=16)
def _row_variance(T: int) -> Array:
    return np.cumsum(square_root_coefficients(T) ** 2)


@dataclass(frozen=True)
class SquareRootFFT(PrefixSums):
    """Exact square root over a known horizon; all noise is drawn up front, O(T) memory a coordinate.

    Guarantee: replacing increment i shifts row t >= i by c_{t-i} times the change, so the rows move by at most
    Delta sqrt(sum_{k<T} c_k^2) in L2: mu = that / sigma. L is lower triangular and every row has fresh noise, so the increments
    may be chosen adaptively (Denisov et al. 2022).

    >>> round(SquareRootFFT.calibrated(horizon=1024, mu=1.0).max_std, 6)
    3.272554
    """

    @property
    def column_norm(self) -> float:
        return float(np.sqrt(_row_variance(self.horizon)[-1]))

    @property
    def rows(self) -> Gaussian:
        return Gaussian(self.Delta * self.column_norm, self.sigma)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (Entry("square-root rows", self.rows),)

    def std(self, t: ArrayLike) -> Array:
        return self.sigma * np.sqrt(_row_variance(self.horizon)[self._check_t(t) - 1])

    def noise_path(self, R: int, size: int, noise: np.random.Generator) -> Array:
        """The noise of all prefixes, (T, R, size): L times independent Gaussian rows."""
        raw = self.rows.release(np.zeros((self.horizon, R, size)), noise)
        if self.sigma == 0:
            return raw
        c = square_root_coefficients(self.horizon)
        return fftconvolve(raw, c[:, None, None], axes=0)[: self.horizon]

    def init(self, R: int, size: int, noise: np.random.Generator) -> PathState:
        return PathState(0, np.zeros(self._shape(R, size, noise)), self.noise_path(R, size, noise))

    def release(self, state: PathState, increment: Array, noise: np.random.Generator) -> tuple[PathState, Array]:
        increment = self._checked(increment, state.step, state.total.shape)
        total = state.total + increment
        return PathState(state.step + 1, total, state.path), total + state.path[state.step]


class PathState(NamedTuple):
    step: int
    total: Array  # (R, size) exact sum; never leaves the curator
    path: Array  # (T, R, size) noise of every prefix


class Factor(NamedTuple):
    """b_0 = 1, b_k = sum_i weight_i decay_i^k, and the exact cost of publishing prefixes through it."""

    decay: Array
    weight: Array
    column_norm: float  # of C = B^{-1} A over the horizon
    row_variance: Array  # cumulative sums of b_k^2


_LOW, _HIGH, _STEP = -10.0, 8.0, 1.0  # quadrature nodes in s; their number is about log(T) + 18


@lru_cache(maxsize=16)
def streaming_factor(T: int) -> Factor:
    """A sum of exponentials close to the square root's coefficients up to T, with its exact sensitivity.

    c_k = (1/pi) int_0^1 x^k dx / sqrt(x (1 - x)); with x = 1/(1 + e^{-s}) the integrand is x^k sqrt(x (1 - x)) ds, smooth and
    decaying at both ends, so the trapezoidal rule in s converges geometrically. Whatever the approximation error, privacy is exact: C is *defined* as
    B^{-1} A and its column norm is computed for this B. The largest noise is within 1e-4 (relative) of the exact square root's, the mean within 2e-3.
    """
    s = np.arange(_LOW, np.log(T + 1.0) + _HIGH, _STEP)
    decay = 1 / (1 + np.exp(-s))
    weight = _STEP / np.pi * np.sqrt(decay * (1 - decay))
    weight[0] += 1 - weight.sum()  # b_0 = 1 exactly: the mass left out sits at decay ~ 0
    impulse = np.zeros(T)
    impulse[0] = 1.0
    b = sum(w * lfilter([1.0], [1.0, -a], impulse) for w, a in zip(weight, decay, strict=True))
    c = power_series_quotient(np.ones(T), b)
    return Factor(decay, weight, float(np.sqrt(np.sum(c**2))), np.cumsum(b**2))


def power_series_quotient(a: Array, b: Array) -> Array:
    """The first len(a) coefficients of a(z) / b(z), b_0 != 0, by Newton's iteration on 1/b with FFT products."""
    n, size = len(a), 1
    inverse = np.array([1 / b[0]])
    while size < n:
        size = min(2 * size, n)
        correction = -fftconvolve(inverse, b[:size])[:size]
        correction[0] += 2
        inverse = fftconvolve(inverse, correction)[:size]
    return fftconvolve(a, inverse)[:n]


class StreamState(NamedTuple):
    step: int
    total: Array  # (R, size) exact sum; never leaves the curator
    exact: Array  # (q, R, size) filter memory of the exact rows
    noise: Array  # (q, R, size) filter memory of the rows' noise


@dataclass(frozen=True)
class SquareRoot(PrefixSums):
    """The streaming square root: O(log T) memory, no noise drawn in advance, within 1e-4 of the exact factorisation's largest noise.

    Guarantee: as `SquareRootFFT`, with the column norm of the factor actually used.

    >>> round(SquareRoot.calibrated(horizon=1024, mu=1.0).max_std, 4)
    3.2727
    """

    @property
    def factor(self) -> Factor:
        return streaming_factor(self.horizon)

    @property
    def rows(self) -> Gaussian:
        return Gaussian(self.Delta * self.factor.column_norm, self.sigma)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (Entry("square-root rows", self.rows),)

    def std(self, t: ArrayLike) -> Array:
        return self.sigma * np.sqrt(self.factor.row_variance[self._check_t(t) - 1])

    def init(self, R: int, size: int, noise: np.random.Generator) -> StreamState:
        total = np.zeros(self._shape(R, size, noise))
        memory = np.zeros((len(self.factor.decay), *total.shape))
        return StreamState(0, total, memory, memory)

    def release(self, state: StreamState, increment: Array, noise: np.random.Generator) -> tuple[StreamState, Array]:
        increment = self._checked(increment, state.step, state.total.shape)
        decay, weight = self.factor.decay, self.factor.weight
        total = state.total + increment
        row = total - np.tensordot(weight, state.exact, 1)  # the exact row of C x
        fresh = self.row_noise(row, noise)
        prefix = total + fresh + np.tensordot(weight, state.noise, 1)
        advance = decay[:, None, None]
        return StreamState(state.step + 1, total, advance * (state.exact + row), advance * (state.noise + fresh)), prefix

    def row_noise(self, row: Array, noise: np.random.Generator) -> Array:
        """The noise of one row, drawn by the event itself: with sigma = 0 exactly zero, so prefixes are exact to the bit."""
        return self.rows.release(row, noise) - row
