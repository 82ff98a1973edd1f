"""Generalised linear models: self-concordance of the links, and the constants kappa."""

from __future__ import annotations

from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad

from privbandit.environments.glm import uniform_ball
from privbandit.kappa import kappa, kappa_hat, kappa_hat_simulated, kappa_star
from privbandit.links import Linear, Logistic, Poisson, Probit, TruncatedPoisson

from .claim import claim

# Self-concordance ----------------------------------------------------------------------------------------------------------------

CONSTANTS = (Logistic(), Probit(), Linear(), Poisson(), TruncatedPoisson(3), TruncatedPoisson(5), TruncatedPoisson(10))


class ProbitOne(Probit):
    def self_concordance(self, S):
        return 1.0


class LogisticOne(Logistic):
    def self_concordance(self, S):
        return 1.0


@claim(
    "self-concordance-constants",
    subject=CONSTANTS,
    mutants={"probit with 1": (Logistic(), ProbitOne(), *CONSTANTS[2:]), "logistic with 1": (LogisticOne(), *CONSTANTS[1:])},
)
def check_constants(links):
    """The smallest M on |z| <= S against a fine grid, and the closed forms."""
    S = 3.0
    z = np.linspace(-S, S, 20001)
    for link in links:
        assert link.self_concordance(S) == pytest.approx(np.max(np.abs(link.ddmu(z)) / link.dmu(z)), rel=1e-6)
        low, high = link.reward_range(S)
        assert not link.canonical or link.self_concordance(S) <= high - low
    closed = [np.tanh(S / 2), S, 0.0, 1.0]
    assert [link.self_concordance(S) for link in links[:4]] == pytest.approx(closed)
    assert [round(link.self_concordance(S), 2) for link in links[4:]] == [1.05, 1.23, 1.68]


test_constants = check_constants

BOUNDS = SimpleNamespace(plain=lambda a: 1 / (1 + a), weighted=lambda a: 1 / (2 + a), above=lambda a: np.expm1(a) / a)


@claim(
    "self-concordance-integrals",
    subject=BOUNDS,
    mutants={
        "1/(1 + a/3)": SimpleNamespace(plain=lambda a: 1 / (1 + a / 3), weighted=BOUNDS.weighted, above=BOUNDS.above),
        "1/(2 + a/3)": SimpleNamespace(plain=BOUNDS.plain, weighted=lambda a: 1 / (2 + a / 3), above=BOUNDS.above),
        "above by 1 + a/2": SimpleNamespace(plain=BOUNDS.plain, weighted=BOUNDS.weighted, above=lambda a: 1 + a / 2),
    },
)
def check_integrals(bounds):
    """The extremal slope e^{-a v} symbolically, and 900 integrals of the package's links; the derivative arguments by sympy."""
    a, v = sp.symbols("a v", positive=True)
    plain = sp.integrate(sp.exp(-a * v), (v, 0, 1))
    weighted = sp.integrate((1 - v) * sp.exp(-a * v), (v, 0, 1))
    assert sp.simplify(plain - (1 - sp.exp(-a)) / a) == 0
    assert sp.simplify(weighted - (sp.exp(-a) - 1 + a) / a**2) == 0
    h = a - 2 + (2 + a) * sp.exp(-a)
    assert h.subs(a, 0) == 0 and sp.diff(h, a).subs(a, 0) == 0 and sp.simplify(sp.diff(h, a, 2) - a * sp.exp(-a)) == 0
    for value in (0.01, 0.5, 1, 3, 10, 40):
        assert bounds.plain(value) <= float(plain.subs(a, value)) + 1e-15
        assert bounds.weighted(value) <= float(weighted.subs(a, value)) + 1e-15
        assert bounds.above(value) >= float(sp.integrate(sp.exp(a * v), (v, 0, 1)).subs(a, value)) * (1 - 1e-12)
    S = 3.0
    for link in (Logistic(), Probit(), TruncatedPoisson(5)):
        size = link.self_concordance(S)
        for z in (-3, -1, 0, 0.5, 2):
            for shift in set(np.linspace(-S, S, 13) - z) - {0.0}:
                reach, base = size * abs(shift), link.dmu(float(z))
                full = quad(lambda v: link.dmu(z + v * shift), 0, 1)[0] / base  # noqa: B023
                half = quad(lambda v: (1 - v) * link.dmu(z + v * shift), 0, 1)[0] / base  # noqa: B023
                assert bounds.plain(reach) <= full + 1e-9 and bounds.weighted(reach) <= half + 1e-9
                assert full <= bounds.above(reach) + 1e-9


test_integrals = check_integrals


# Kappa ---------------------------------------------------------------------------------------------------------------------------


@claim(
    "kappa-order",
    subject=(kappa_star, kappa_hat, kappa),
    mutants={
        "reversed": (kappa, kappa_hat, kappa_star),
        "maximum for minimum": (lambda link, S: link.L_mu(S), kappa_hat, kappa),
        "kappa without its inverse": (kappa_star, kappa_hat, lambda link, S: link.c_mu(S)),
    },
)
def check_order(functions):
    star, hat, top = functions
    for link in (Logistic(), Probit(), Linear(), Poisson(), TruncatedPoisson(5)):
        for S in (0.5, 1, 3):
            for dimension, K in ((1, 1), (2, 20), (5, 3)):
                assert star(link, S) <= hat(link, S, dimension, K) * (1 + 1e-9) <= top(link, S) * (1 + 2e-9)
            z = np.linspace(-S, S, 2001)
            assert star(link, S) == pytest.approx(1 / link.dmu(z).max(), rel=1e-5)
            assert top(link, S) == pytest.approx(1 / link.dmu(z).min(), rel=1e-9)


test_order = check_order


@claim(
    "kappa-hat-quadrature",
    subject=kappa_hat,
    mutants={
        "sphere instead of ball": lambda link, S, d, K: kappa_hat(link, S, max(d - 2, 1), K),
        "one arm too few": lambda link, S, d, K: kappa_hat(link, S, d, K - 1),
        "mean of 1/slope": lambda link, S, d, K: 1.1 * kappa_hat(link, S, d, K),
    },
)
def check_quadrature(hat):
    """Adaptive quadrature of the definition (25 digits), and 20,000 drawn rounds (seed 3) within 5 standard errors."""
    rng = np.random.default_rng(3)
    for link, S, d, K in ((Logistic(), 3.5, 5, 20), (Probit(), 2.0, 3, 20), (Probit(), 1.0, 2, 3)):
        with mpmath.workdps(25):
            a = mpmath.mpf(d + 1) / 2
            F = lambda u: mpmath.betainc(a, a, 0, (1 + u) / 2, regularized=True)  # noqa: B023, E731
            f = lambda u: (1 - u * u) ** (a - 1)  # noqa: B023, E731
            top = mpmath.quad(lambda u: K * F(u) ** (K - 1) * f(u) * float(link.dmu(S * float(u))), [-1, 0, 0.5, 0.8, 1])  # noqa: B023
            bottom = mpmath.quad(lambda u: K * F(u) ** (K - 1) * f(u), [-1, 0, 0.5, 0.8, 1])  # noqa: B023
        assert hat(link, S, d, K) == pytest.approx(float(bottom / top), rel=1e-8)
        theta = np.zeros(d)
        theta[0] = S
        drawn = kappa_hat_simulated(link, theta, uniform_ball(rng, (20_000, K), d))
        assert abs(drawn.value - hat(link, S, d, K)) < 5 * drawn.standard_error


test_quadrature = check_quadrature


@claim(
    "kappa-values",
    subject=(kappa, kappa_star, kappa_hat),
    mutants={
        "19 arms": (kappa, kappa_star, lambda link, S, d, K: kappa_hat(link, S, d, K - 1)),
        "slope at S/2": (lambda link, S: kappa(link, S / 2), kappa_star, kappa_hat),
    },
)
def check_values(functions):
    top, star, hat = functions
    cases = [(Probit(), 3, 2.0), (Probit(), 3, 2.5), (Probit(), 3, 3.0), (Probit(), 5, 3.0), (Logistic(), 5, 3.5)]
    assert [round(float(hat(link, S, d, 20)), 2) for link, d, S in cases] == [7.74, 13.72, 26.06, 15.04, 11.75]
    assert [round(float(top(link, S)), 2) for link, d, S in cases] == [18.52, 57.05, 225.64, 225.64, 35.15]
    assert [round(float(star(link, S)), 3) for link, d, S in cases] == [2.507, 2.507, 2.507, 2.507, 4.0]


test_values = check_values
