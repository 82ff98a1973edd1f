"""Kernels on R^d with k(x, x) <= 1 and their spectral densities.

A stationary kernel is k(x, y) = profile(|x - y|) = E cos(w^T (x - y)) for a frequency w drawn from its spectral density
(Bochner). It is a *product form* if k(x, y) = prod_j k_j(|x_j - y_j|): then one-dimensional quadrature rules can be multiplied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, kv

from privbandit import validate

Array = NDArray[np.float64]


def _lengthscale(value: float | tuple[float, ...]) -> None:
    for part in value if isinstance(value, tuple) else (value,):
        validate.positive("lengthscale", part)


class Kernel(ABC):
    """k(x, y) for points x (..., n, d), y (..., m, d): the matrix (..., n, m)."""

    @abstractmethod
    def __call__(self, x: Array, y: Array) -> Array: ...

    @abstractmethod
    def diagonal(self, x: Array) -> Array:
        """k(x, x) for x (..., d), shape (...)."""


class Stationary(Kernel):
    """A kernel of one distance, with lengthscale a number or one per coordinate."""

    lengthscale: float | tuple[float, ...]

    @abstractmethod
    def profile(self, r: ArrayLike) -> Array:
        """k at distance r >= 0 in units of the lengthscale."""

    @abstractmethod
    def sample_frequencies(self, n: int, d: int, rng: np.random.Generator) -> Array:
        """n draws from the d-dimensional spectral density, (n, d)."""

    @abstractmethod
    def unit_density(self, omega: ArrayLike) -> Array:
        """One-dimensional spectral density at lengthscale 1 (a probability density on the line)."""

    @property
    @abstractmethod
    def unit_curvature(self) -> float:
        """A bound on |profile''(r)| over r > 0 (inf if there is none)."""

    def __call__(self, x: Array, y: Array) -> Array:
        scaled = (np.asarray(x, float)[..., :, None, :] - np.asarray(y, float)[..., None, :, :]) / self.lengthscale
        return self.profile(np.sqrt(np.sum(scaled**2, axis=-1)))

    def diagonal(self, x: Array) -> Array:
        return np.ones(np.shape(x)[:-1])

    def spectral_density(self, omega: ArrayLike) -> Array:
        """One-dimensional spectral density p(w), integrating to 1: k(r) = int p(w) cos(w r) dw."""
        (scale,) = self.lengthscales(1)
        return scale * self.unit_density(scale * np.asarray(omega, dtype=float))

    def lengthscales(self, d: int) -> tuple[float, ...]:
        if not isinstance(self.lengthscale, tuple):
            return (float(self.lengthscale),) * d
        if len(self.lengthscale) != d:
            raise ValueError(f"lengthscale must be one number or {d} of them, got {self.lengthscale!r}")
        return self.lengthscale

    def factors(self, d: int) -> tuple[Stationary, ...]:
        """The one-dimensional kernels whose product this kernel is on R^d."""
        if d == 1:
            return (self,)
        raise ValueError(f"kernel must be a product of one-dimensional kernels for d = {d}, got {self!r}; see Product")


@dataclass(frozen=True)
class SquaredExponential(Stationary):
    """exp(-|x - y|^2 / (2 l^2)); with one lengthscale per coordinate, the anisotropic form. Normal spectral density.

    >>> float(SquaredExponential(0.2).profile(1.0).round(6))
    0.606531
    """

    lengthscale: float | tuple[float, ...] = 1.0
    unit_curvature = 1.0

    def __post_init__(self) -> None:
        _lengthscale(self.lengthscale)

    def profile(self, r: ArrayLike) -> Array:
        return np.exp(-0.5 * np.square(r))

    def unit_density(self, omega: ArrayLike) -> Array:
        return np.exp(-0.5 * np.square(omega)) / np.sqrt(2 * np.pi)

    def sample_frequencies(self, n: int, d: int, rng: np.random.Generator) -> Array:
        return rng.standard_normal((n, d)) / np.asarray(self.lengthscales(d))

    def factors(self, d: int) -> tuple[Stationary, ...]:
        return tuple(SquaredExponential(scale) for scale in self.lengthscales(d))


@dataclass(frozen=True)
class Matern(Stationary):
    """Isotropic Matern kernel of smoothness nu > 0: 2^(1-nu)/Gamma(nu) z^nu K_nu(z), z = sqrt(2 nu) |x - y| / l.

    Student-t spectral density with 2 nu degrees of freedom. For d > 1 it is not a product form: use `Product`.

    >>> float(Matern(nu=0.5).profile(1.0).round(6))
    0.367879
    """

    lengthscale: float | tuple[float, ...] = 1.0
    nu: float = 2.5

    def __post_init__(self) -> None:
        _lengthscale(self.lengthscale)
        validate.positive("nu", self.nu)

    def profile(self, r: ArrayLike) -> Array:
        z = np.sqrt(2 * self.nu) * np.asarray(r, dtype=float)
        closed = {0.5: lambda: 1.0, 1.5: lambda: 1 + z, 2.5: lambda: 1 + z + z**2 / 3}.get(self.nu)
        if closed is not None:
            return closed() * np.exp(-z)
        safe = np.where(z > 0, z, 1.0)
        bessel = kv(self.nu, safe)
        value = np.exp((1 - self.nu) * np.log(2) - gammaln(self.nu) + self.nu * np.log(safe)) * bessel
        return np.where(z > 1e-12, value, 1.0)

    def unit_density(self, omega: ArrayLike) -> Array:
        a = 2 * self.nu
        log = gammaln(self.nu + 0.5) - gammaln(self.nu) - 0.5 * np.log(np.pi * a)
        return np.exp(log - (self.nu + 0.5) * np.log1p(np.square(omega) / a))

    @property
    def unit_curvature(self) -> float:
        if self.nu == 0.5:
            return 1.0
        return self.nu / (self.nu - 1) if self.nu > 1 else np.inf  # the second moment of the spectral density

    def sample_frequencies(self, n: int, d: int, rng: np.random.Generator) -> Array:
        chi2 = rng.chisquare(2 * self.nu, size=(n, 1))
        return rng.standard_normal((n, d)) * np.sqrt(2 * self.nu / chi2) / np.asarray(self.lengthscales(d))


@dataclass(frozen=True)
class Product(Kernel):
    """prod_j k_j(|x_j - y_j|) of one-dimensional stationary kernels (product Matern, mixed smoothness)."""

    parts: tuple[Stationary, ...]

    def __post_init__(self) -> None:
        if not self.parts or not all(isinstance(p, Stationary) for p in self.parts):
            raise ValueError(f"parts must be a non-empty tuple of stationary kernels, got {self.parts!r}")

    def __call__(self, x: Array, y: Array) -> Array:
        x, y = np.asarray(x, float), np.asarray(y, float)
        return np.prod([k(x[..., j : j + 1], y[..., j : j + 1]) for j, k in enumerate(self.factors(x.shape[-1]))], axis=0)

    def diagonal(self, x: Array) -> Array:
        return np.ones(np.shape(x)[:-1])

    def sample_frequencies(self, n: int, d: int, rng: np.random.Generator) -> Array:
        return np.hstack([k.sample_frequencies(n, 1, rng) for k in self.factors(d)])

    def factors(self, d: int) -> tuple[Stationary, ...]:
        if d != len(self.parts):
            raise ValueError(f"x must have {len(self.parts)} coordinates for this product kernel, got {d}")
        return self.parts


@dataclass(frozen=True)
class Linear(Kernel):
    """x^T y: Bayesian linear regression; on the unit ball k(x, x) <= 1."""

    def __call__(self, x: Array, y: Array) -> Array:
        return np.asarray(x, float) @ np.swapaxes(np.asarray(y, float), -1, -2)

    def diagonal(self, x: Array) -> Array:
        return np.sum(np.square(x), axis=-1)


def make_kernel(name: str, lengthscale: float = 0.2, nu: float = 2.5, d: int = 1) -> Kernel:
    """"se", "matern" (a product form for d > 1) or "linear", for callers that have only a word."""
    validate.one_of("kernel", name, ("se", "matern", "linear"))
    validate.positive("lengthscale", lengthscale), validate.positive("nu", nu), validate.positive_int("d", d)
    if name == "linear":
        return Linear()
    if name == "se":
        return SquaredExponential(lengthscale)
    part = Matern(lengthscale, nu)
    return part if d == 1 else Product((part,) * d)
