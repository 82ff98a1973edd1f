"""Finite Fourier features: k(x, y) ~ sum_i w_i cos(w_i^T (x - y)) = Phi(x)^T Phi(y) with |Phi(x)| = 1 for every x.

Every rule below has positive weights of sum 1. Frequencies come in pairs +-omega that give the same cosine, so only half of
them is kept (half-space form): a tensor grid of n nodes a side has n^d features instead of 2 n^d.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.features.certificate import certified_sup
from privbandit.features.kernels import Kernel

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rule:
    """A one-dimensional quadrature rule for a spectral density: nodes (n,) symmetric about 0, weights (n,) > 0 of sum 1."""

    nodes: Array
    weights: Array

    def kernel(self, r: Array) -> Array:
        """sum_i w_i cos(node_i r), the approximate kernel at difference r (...)."""
        return np.cos(np.multiply.outer(r, self.nodes)) @ self.weights


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """Phi(x) = [sqrt(w_i) cos(omega_i^T x), sqrt(w_i) sin(omega_i^T x)]; a zero frequency has a cosine only.

    frequencies (n, d): one of each pair +-omega, in radians per unit of x. weights (n,): positive, sum 1. `rules` holds the
    one-dimensional rules of a tensor grid (empty for random features), `sides` the sides of the box prod [0, a_j] of points x.
    `step` (equispaced grids only): all frequencies are whole multiples of it.
    """

    kernel: Kernel
    frequencies: Array
    weights: Array
    sides: tuple[float, ...]
    rules: tuple[Rule, ...] = ()
    step: tuple[float, ...] | None = None

    @property
    def d(self) -> int:
        return self.frequencies.shape[1]

    @cached_property
    def nonzero(self) -> NDArray[np.bool_]:
        return np.any(self.frequencies != 0, axis=1)

    @cached_property
    def m(self) -> int:
        """Number of features."""
        return len(self.weights) + int(self.nonzero.sum())

    @cached_property
    def feature_weights(self) -> Array:
        """(m,): the weight w_i behind each feature, cosines first."""
        return np.concatenate([self.weights, self.weights[self.nonzero]])

    @cached_property
    def feature_frequencies(self) -> Array:
        """(m, d): the frequency behind each feature, cosines first."""
        return np.concatenate([self.frequencies, self.frequencies[self.nonzero]])

    def __call__(self, x: Array) -> Array:
        """Phi(x) for finite x (..., d), shape (..., m); rows have norm 1."""
        x = validate.array("x", x)
        if x.shape[-1:] != (self.d,):
            raise ValueError(f"x must have {self.d} coordinates in its last axis, got shape {x.shape}")
        angles = x @ self.frequencies.T
        root = np.sqrt(self.weights)
        return np.concatenate([root * np.cos(angles), (root * np.sin(angles))[..., self.nonzero]], axis=-1)

    def approximate(self, z: Array) -> Array:
        """The approximate kernel at differences z (..., d)."""
        return np.cos(np.asarray(z, dtype=float) @ self.frequencies.T) @ self.weights

    @cached_property
    def uniform_error(self) -> float:
        """Certified bound on sup |k(x, y) - Phi(x)^T Phi(y)| over the box.

        Tensor grids: the sum of the one-dimensional errors (factors lie in [-1, 1], so products telescope). Random features: a
        grid certificate in at most three dimensions.
        """
        if self.rules:
            return sum(rule_error(k, r, a) for k, r, a in zip(self.kernel.factors(self.d), self.rules, self.sides, strict=True))
        origin = np.zeros((1, self.d))
        gap = lambda z: np.abs(self.kernel(z, origin)[:, 0] - self.approximate(z))  # noqa: E731
        return certified_sup(gap, self._curvature(), self.sides)

    def _curvature(self) -> float:
        scale = np.min(getattr(self.kernel, "lengthscale", np.nan))
        bound = getattr(self.kernel, "unit_curvature", np.inf) / scale**2
        if self.d > 1 and getattr(self.kernel, "nu", np.inf) <= 1 or not np.isfinite(bound):
            raise ValueError(f"kernel must have a bounded second derivative for a certified error, got {self.kernel!r}")
        return float(bound + self.weights @ np.sum(self.frequencies**2, axis=1))


def rule_error(kernel: Kernel, rule: Rule, side: float = 1.0, points: int | None = None) -> float:
    """Certified sup over [0, side] of |k(r) - sum_i w_i cos(node_i r)| for a one-dimensional stationary kernel.

    Between grid points, by the second derivative if it is bounded, otherwise because k decreases and the cosines are Lipschitz.
    """
    (scale,) = kernel.lengthscales(1)
    curvature = kernel.unit_curvature / scale**2 + float(rule.weights @ rule.nodes**2)
    gap = lambda z: np.abs(kernel.profile(z[:, 0] / scale) - rule.kernel(z[:, 0]))  # noqa: E731
    if np.isfinite(curvature):
        return certified_sup(gap, curvature, (side,), points)
    r = np.linspace(0, side, points or 20001)
    k, slope = kernel.profile(r / scale), float(rule.weights @ np.abs(rule.nodes))
    return float(np.max(np.abs(k - rule.kernel(r))) + np.max(k[:-1] - k[1:]) + slope * (r[1] - r[0]) / 2)


def half_space(frequencies: Array, weights: Array) -> tuple[Array, Array]:
    """One of each pair +-omega of a symmetric grid (first non-zero coordinate positive), with the pair's weight."""
    nonzero = frequencies != 0
    first = np.take_along_axis(frequencies, np.argmax(nonzero, axis=1)[:, None], axis=1)[:, 0]
    keep = first >= 0
    return frequencies[keep], np.where(first[keep] > 0, 2.0, 1.0) * weights[keep]


def tensor_features(kernel: Kernel, rules: tuple[Rule, ...], sides: tuple[float, ...], step=None) -> FourierFeatures:
    """The product of one-dimensional rules in half-space form: prod n_j features, the same kernel as the full tensor grid."""
    grid = np.array(list(product(*(r.nodes for r in rules))))
    weights = np.array([np.prod(w) for w in product(*(r.weights for r in rules))])
    frequencies, weights = half_space(grid, weights)
    return FourierFeatures(kernel, frequencies, weights / weights.sum(), sides, rules, step)


def box(sides: float | tuple[float, ...], d: int) -> tuple[float, ...]:
    """Sides of the box as a tuple of d positive numbers."""
    sides = tuple(sides) if isinstance(sides, tuple) else (sides,) * validate.positive_int("d", d)
    if len(sides) != d:
        raise ValueError(f"sides must be one number or {d} of them, got {sides!r}")
    return tuple(validate.positive("sides", a) for a in sides)


def random_features(kernel: Kernel, n: int, d: int, rng: np.random.Generator, sides: float | tuple[float, ...] = 1.0) -> FourierFeatures:
    """n frequencies drawn from the spectral density: m = 2n features, error O(sqrt(d ln n / n)) (Rahimi and Recht 2007).

    The one-cosine variant sqrt(2/m) cos(w x + b) is not offered: its norm is not constant, which doubles the sensitivity.
    """
    n = validate.positive_int("n", n)
    frequencies = validate.instance("kernel", kernel, Kernel).sample_frequencies(n, d, validate.generator("rng", rng))
    return FourierFeatures(kernel, frequencies, np.full(n, 1 / n), box(sides, d))
