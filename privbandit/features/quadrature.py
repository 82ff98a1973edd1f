"""Deterministic rules for one-dimensional spectral densities, and features with a chosen accuracy.

Gauss-Hermite for the squared exponential (Mutny and Krause 2018), Gauss-Gegenbauer for Matern, and the equispaced
(trapezoidal) rule for any stationary kernel, whose frequencies j h make Phi Phi^T a Toeplitz-plus-Hankel matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.polynomial.hermite import hermgauss
from scipy.optimize import minimize_scalar
from scipy.special import roots_gegenbauer

from privbandit import validate
from privbandit.features.fourier import FourierFeatures, Rule, box, rule_error, tensor_features
from privbandit.features.kernels import Kernel, Matern, SquaredExponential, Stationary

LIMIT = 1024  # most nodes a side that are tried


def _normalised(nodes: np.ndarray, weights: np.ndarray) -> Rule:
    """Symmetrised to the last bit, without nodes of zero weight, weights of sum 1."""
    nodes, weights = (nodes - nodes[::-1]) / 2, (weights + weights[::-1]) / 2
    keep = weights > 0
    return Rule(nodes[keep], weights[keep] / weights[keep].sum())


@lru_cache(maxsize=512)
def hermite_rule(kernel: SquaredExponential, n: int) -> Rule:
    """n Gauss-Hermite nodes: omega = sqrt(2) u / l, w = v / sqrt(pi). Error on [0, 1] <= n!/(2n)! l^(-2n)."""
    if not isinstance(kernel, SquaredExponential):
        raise ValueError(f"kernel must be SquaredExponential for Gauss-Hermite nodes, got {kernel!r}")
    nodes, weights = hermgauss(validate.positive_int("n", n))
    return _normalised(np.sqrt(2) * nodes / kernel.lengthscales(1)[0], weights)


@lru_cache(maxsize=512)
def gegenbauer_rule(kernel: Matern, n: int) -> Rule:
    """n Gauss-Gegenbauer nodes for Matern: omega = sqrt(a) s / sqrt(1 - s^2), a = 2 nu / l^2, turns the density into (1 - s^2)^(nu - 1)."""
    if not isinstance(kernel, Matern):
        raise ValueError(f"kernel must be Matern for Gauss-Gegenbauer nodes, got {kernel!r}")
    n = validate.positive_int("n", n)
    if kernel.nu == 0.5:  # Chebyshev: the Gegenbauer weight degenerates
        s, weights = np.cos(np.pi * (2 * np.arange(n, 0, -1) - 1) / (2 * n)), np.ones(n)
    else:
        s, weights = roots_gegenbauer(n, kernel.nu - 0.5)
    return _normalised(np.sqrt(2 * kernel.nu / (1 - s**2)) * s / kernel.lengthscales(1)[0], weights)


def equispaced_rule(kernel: Stationary, n: int, period: float) -> Rule:
    """n = 2J + 1 frequencies j 2 pi / period, |j| <= J, weights proportional to the spectral density.

    By Poisson summation the error is aliasing, 2 sum_k k(k period - side), plus the tail of the density beyond J; both are
    super-exponentially small for the squared exponential, and about 1/l nodes suffice (Gauss-Hermite needs 1/l^2).
    """
    if validate.positive_int("n", n) % 2 == 0:
        raise ValueError(f"n must be odd for an equispaced rule, got {n}")
    nodes = 2 * np.pi / validate.positive("period", period) * np.arange(-(n // 2), n // 2 + 1)
    return _normalised(nodes, kernel.spectral_density(nodes))


@lru_cache(maxsize=512)
def best_period(kernel: Stationary, n: int, side: float = 1.0) -> float:
    """The period that makes the n-node equispaced rule most accurate on [0, side] (searched on a grid, then refined)."""
    r = np.linspace(0, side, 301)
    k = kernel.profile(r / kernel.lengthscales(1)[0])
    worst = lambda p: float(np.max(np.abs(k - equispaced_rule(kernel, n, p).kernel(r))))  # noqa: E731
    periods = side * np.geomspace(1.02, 60.0, 80)
    best = int(np.argmin([worst(p) for p in periods]))
    bracket = (periods[max(best - 1, 0)], periods[min(best + 1, len(periods) - 1)])
    return float(minimize_scalar(worst, bounds=bracket, method="bounded", options={"xatol": 1e-4 * side}).x)


def _factors(kernel: Kernel, d: int) -> tuple[Stationary, ...]:
    """The kernel's factors, one a coordinate."""
    return validate.instance("kernel", kernel, Kernel).factors(validate.positive_int("d", d))


def hermite_features(kernel: Kernel, n: int, d: int = 1, sides: float | tuple[float, ...] = 1.0) -> FourierFeatures:
    """Tensor Gauss-Hermite features, n nodes a side: m = n^d in half-space form."""
    return tensor_features(kernel, tuple(hermite_rule(k, n) for k in _factors(kernel, d)), box(sides, d))


def gegenbauer_features(kernel: Kernel, n: int, d: int = 1, sides: float | tuple[float, ...] = 1.0) -> FourierFeatures:
    """Tensor Gauss-Gegenbauer features for (product) Matern, n nodes a side."""
    return tensor_features(kernel, tuple(gegenbauer_rule(k, n) for k in _factors(kernel, d)), box(sides, d))


def equispaced_features(
    kernel: Kernel, n: int, d: int = 1, sides: float | tuple[float, ...] = 1.0, period: float | None = None
) -> FourierFeatures:
    """Tensor equispaced features, n (odd) nodes a side; `period` in every coordinate, or the most accurate one."""
    sides, factors = box(sides, d), _factors(kernel, d)
    if period is not None:
        validate.positive("period", period)
    periods = tuple(period or best_period(k, n, a) for k, a in zip(factors, sides, strict=True))
    rules = tuple(equispaced_rule(k, n, p) for k, p in zip(factors, periods, strict=True))
    return tensor_features(kernel, rules, sides, tuple(2 * np.pi / p for p in periods))


RULES: dict[str, Callable[..., FourierFeatures]] = {
    "equispaced": equispaced_features,
    "hermite": hermite_features,
    "gegenbauer": gegenbauer_features,
}


def _one_dimensional(rule: str, kernel: Stationary, n: int, side: float) -> Rule:
    if rule == "equispaced":
        return equispaced_rule(kernel, n, best_period(kernel, n, side))
    return {"hermite": hermite_rule, "gegenbauer": gegenbauer_rule}[rule](kernel, n)


@lru_cache(maxsize=512)
def nodes_for(kernel: Stationary, tolerance: float, rule: str = "equispaced", side: float = 1.0) -> int:
    """The smallest number of nodes (odd for "equispaced") whose *certified* error on [0, side] is at most `tolerance`.

    Doubling, then bisection on the computed error, which decreases in n up to small oscillations; the answer itself is certified.
    """
    validate.one_of("rule", rule, RULES)
    tolerance = validate.positive("tolerance", tolerance)
    size = (lambda i: 2 * i + 1) if rule == "equispaced" else (lambda i: i)
    good = lambda i: rule_error(kernel, _one_dimensional(rule, kernel, size(i), side), side) <= tolerance  # noqa: E731
    high = 1
    while not good(high):
        high *= 2
        if size(high) > LIMIT:
            raise ValueError(f"tolerance must be reachable with {LIMIT} nodes, got {tolerance!r} for {kernel!r}")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return size(high)


def choose_features(
    kernel: Kernel, tolerance: float, d: int = 1, rule: str = "equispaced", sides: float | tuple[float, ...] = 1.0
) -> FourierFeatures:
    """The smallest tensor features of this rule whose certified uniform error is at most `tolerance` (split evenly over coordinates)."""
    sides = box(sides, d)
    validate.one_of("rule", rule, RULES), validate.positive("tolerance", tolerance)
    n = max(nodes_for(k, tolerance / d, rule, a) for k, a in zip(_factors(kernel, d), sides, strict=True))
    return RULES[rule](kernel, n, d, sides)


def features_for_horizon(
    kernel: Kernel, horizon: int, d: int = 1, rule: str = "equispaced", sides: float | tuple[float, ...] = 1.0
) -> FourierFeatures:
    """Features with certified error at most 1/T: then misspecification costs at most B sqrt(T) x 2 in regret and B in the width.

    By the minimax transfer lemma (one theta for all of the box, |theta|^2 + sup|f - Phi^T theta|^2 / error <= B^2) error 1/T
    suffices; the pointwise lemma would ask for 1/(2 T^2).
    """
    return choose_features(kernel, 1 / validate.positive_int("horizon", horizon), d, rule, sides)
