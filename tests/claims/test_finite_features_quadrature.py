"""Finite features: errors of the Gauss-Hermite rule, of other Gauss rules and of equispaced rules."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
import sympy as sp
from scipy.stats import norm
from scipy.stats import t as student

from privbandit.features import Matern, SquaredExponential, equispaced_features, gegenbauer_features, hermite_features
from privbandit.features.fourier import rule_error
from privbandit.features.quadrature import gegenbauer_rule, hermite_rule
from privbandit.formulas.gp import HERMITE_ERROR, PUBLISHED_HERMITE_ERROR

from .claim import claim

# Gauss-Hermite -----------------------------------------------------------------------------------------------------------------


def high_precision(n, lengthscale):
    """Supremum over 41 differences with 40 digits: nodes as roots, weights from the classical formula."""
    with mpmath.workdps(40):
        roots = [mpmath.findroot(lambda u: mpmath.hermite(n, u), mpmath.mpf(float(r))) for r in np.polynomial.hermite.hermgauss(n)[0]]
        weights = [2 ** (n - 1) * mpmath.factorial(n) / (n * mpmath.hermite(n - 1, u)) ** 2 for u in roots]
        worst = 0
        for i in range(41):
            r = mpmath.mpf(i) / 40
            rule = mpmath.fsum(w * mpmath.cos(mpmath.sqrt(2) * u * r / lengthscale) for u, w in zip(roots, weights, strict=True))
            worst = max(worst, abs(rule - mpmath.exp(-((r / mpmath.mpf(lengthscale)) ** 2) / 2)))
        return float(worst)


@claim(
    "gauss-hermite-error",
    subject=HERMITE_ERROR,
    mutants={"published form": PUBLISHED_HERMITE_ERROR, "half": replace(HERMITE_ERROR, expression=HERMITE_ERROR.expression / 2, stable=None)},
)
def check_hermite(bound):
    """A 40-digit oracle at 16 settings; the printed expression and the code agree; the remainder's integral by sympy for n up to 6."""
    for lengthscale in (0.3, 0.5, 1.0, 10.0):
        for n in (1, 2, 4, 8):
            value = float(bound(d=1, lengthscale=lengthscale, n=n))
            assert high_precision(n, lengthscale) <= value * (1 + 1e-12)
            literal = math.factorial(n) / math.factorial(2 * n) * lengthscale ** (-2 * n)
            assert value == pytest.approx(literal, rel=1e-9)
    u = sp.Symbol("u", real=True)
    for n in range(1, 7):
        square = sp.integrate(sp.expand(sp.hermite(n, u) ** 2) / 4**n * sp.exp(-(u**2)), (u, -sp.oo, sp.oo))
        assert sp.simplify(square - sp.factorial(n) * sp.sqrt(sp.pi) / 2**n) == 0


test_hermite = check_hermite


def repaired(d, lengthscale, n):
    return PUBLISHED_HERMITE_ERROR(d=d, lengthscale=lengthscale, n=n) * math.exp(1 / (24 * n))


@claim("published-hermite-error", subject=PUBLISHED_HERMITE_ERROR, mutants={"repaired": repaired, "exact factorials": HERMITE_ERROR})
def check_published(bound):
    """The counterexamples at lengthscale 10 with 40 digits, and the ratio's range for n = 1 to 200."""
    excess = [high_precision(n, 10.0) / float(bound(d=1, lengthscale=10.0, n=n)) - 1 for n in (1, 2, 4)]
    assert np.allclose(excess, [0.038, 0.018, 0.008], atol=6e-4)
    with mpmath.workdps(40):
        for n in range(1, 201):
            ratio = mpmath.sqrt(2) * mpmath.factorial(n) / mpmath.factorial(2 * n) * (4 * mpmath.mpf(n) / mpmath.e) ** n
            assert 1 < ratio < mpmath.exp(mpmath.mpf(1) / (24 * n))
            if n <= 40:
                ours = float(HERMITE_ERROR(d=1, lengthscale=1.0, n=n))
                assert ours / float(bound(d=1, lengthscale=1.0, n=n)) == pytest.approx(float(ratio), rel=1e-9)


test_published = check_published


def telescoped(phi):
    return phi.uniform_error


def largest(phi):
    """The largest error of a factor in place of the sum."""
    return max(rule_error(k, r, a) for k, r, a in zip(phi.kernel.factors(phi.d), phi.rules, phi.sides, strict=True))


@claim("product-error", subject=(hermite_features, telescoped), mutants={"largest factor": (hermite_features, largest), "one d less": (hermite_features, lambda phi: telescoped(phi) * (phi.d - 1) / phi.d)})
def check_product(case):
    """The error on a grid of differences is at most the sum; at lengthscale 2 it is close enough to the sum to reject smaller bounds."""
    make, bound = case
    for d in (2, 3):
        axis = np.linspace(-1, 1, 81 if d == 2 else 17)
        z = np.stack(np.meshgrid(*[axis] * d), -1).reshape(-1, d)
        for lengthscale in (0.5, 2.0):
            kernel = SquaredExponential(lengthscale)
            for n in (2, 3, 6):
                phi = make(kernel, n, d)
                gap = np.abs(phi.approximate(z) - kernel(z, np.zeros((1, d)))[:, 0]).max()
                assert gap <= bound(phi) + 1e-13


test_product = check_product


# Gauss rules and equispaced rules ----------------------------------------------------------------------------------------------


def separation_bound(w_max, omega, outside):
    return np.min(w_max * (4 + 2 * omega) + 2 * outside)


@claim(
    "gauss-separation",
    subject=(hermite_rule, gegenbauer_rule, separation_bound, 1.0),
    mutants={
        "a third of the largest weight": (hermite_rule, gegenbauer_rule, separation_bound, 1 / 3),
        "tail alone": (hermite_rule, gegenbauer_rule, lambda w_max, omega, outside: np.min(2 * outside), 1.0),
        "squared weight": (hermite_rule, gegenbauer_rule, lambda w_max, omega, outside: separation_bound(w_max**2, omega, outside) / 10, 1.0),
    },
)
def check_separation(case):
    """Distribution functions within the largest weight (both sides of every jump), and the certified errors below the bound."""
    hermite, gegenbauer, bound, constant = case
    scale, omega = 0.3, np.geomspace(0.1, 1e3, 300)
    laws = [(SquaredExponential(scale), hermite, norm(scale=1 / scale))]
    laws += [(Matern(scale, nu), gegenbauer, student(2 * nu, scale=1 / scale)) for nu in (1.5, 2.5)]
    for kernel, make, law in laws:
        for n in (3, 8, 21, 65):
            rule = make(kernel, n)
            after, exact = np.cumsum(rule.weights), law.cdf(rule.nodes)
            gap = max(np.max(np.abs(after - exact)), np.max(np.abs(after - rule.weights - exact)))
            w_max = rule.weights.max()
            assert gap <= constant * w_max + 1e-12
            assert rule_error(kernel, rule) <= bound(w_max, omega, 2 * law.sf(omega)) + 1e-12


test_separation = check_separation


def alias(kernel, period):
    scale = kernel.lengthscale
    return 2 * sum(float(kernel.profile((i * period - 1) / scale)) for i in range(1, 60))


def tail(kernel, period, J):
    h = 2 * np.pi / period
    return 2 * h * float(np.sum(kernel.spectral_density(h * np.arange(J + 1, 20_000))))


@claim(
    "equispaced-error",
    subject=(equispaced_features, alias, tail),
    mutants={
        "aliasing alone": (equispaced_features, alias, lambda kernel, period, J: 0.0),
        "tail alone": (equispaced_features, lambda kernel, period: 0.0, tail),
    },
)
def check_equispaced(case):
    """The error on 2,001 differences is at most 2e/(1 - e) wherever e < 1."""
    make, aliasing, rest = case
    r = np.linspace(0, 1, 2001)
    for kernel in (SquaredExponential(0.2), Matern(0.2, 2.5)):
        for period in (1.4, 1.9, 2.5, 4.0):
            for n in (9, 19, 41):
                e = aliasing(kernel, period) + rest(kernel, period, n // 2)
                gap = np.abs(make(kernel, n, period=period).approximate(r[:, None]) - kernel.profile(r / 0.2)).max()
                assert e >= 1 or gap <= 2 * e / (1 - e) + 1e-13


test_equispaced = check_equispaced


def feature_lower(density, m):
    return math.pi * float(density(math.sqrt(2) * math.pi * (m + 1)))


@claim(
    "feature-lower-bound",
    subject=feature_lower,
    mutants={
        "frequency m + 1": lambda density, m: math.pi * float(density(m + 1.0)),
        "one hundred times": lambda density, m: 100 * feature_lower(density, m),
    },
)
def check_feature_lower(bound):
    """Below the (m + 1)-st eigenvalue of the operator (400 midpoints) and below the errors of two constructions; sympy: half the energy."""
    x = (np.arange(400)[:, None] + 0.5) / 400
    for nu in (0.5, 1.5, 2.5):
        kernel = Matern(0.2, nu)
        eigenvalues = np.linalg.eigvalsh(kernel(x, x) / 400)[::-1]
        for m in (1, 2, 4, 9, 16, 33, 64):
            assert bound(kernel.spectral_density, m) <= eigenvalues[m]
        for m in (3, 9, 33):
            assert bound(kernel.spectral_density, m) <= min(gegenbauer_features(kernel, m).uniform_error, equispaced_features(kernel, m).uniform_error)
    y, d = sp.symbols("y delta", positive=True)
    slope = sp.integrate(sp.diff(sp.sin(sp.pi * y / d), y) ** 2, (y, 0, d)) / sp.integrate(sp.sin(sp.pi * y / d) ** 2, (y, 0, d))
    assert sp.simplify(slope * 2 * sp.pi / (sp.sqrt(2) * sp.pi / d) ** 2 - sp.pi) == 0


test_feature_lower = check_feature_lower
