"""Accounting: composition of guarantees, also adaptive, and conversions between them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import sympy as sp
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import ndtr
from scipy.stats import binom

from privbandit.accounting import compose_mu, gaussian_delta, gaussian_epsilon, pure_to_mu
from privbandit.formulas.privacy import ADVANCED_EPSILON, GAUSSIAN_RHO, ZCDP_EPSILON, ZCDP_RHO, delta, epsilon, k, rho
from privbandit.ledger import Account, ApproximateDP, Entry, Gaussian, Laplace, Ledger

from .altered import mutant
from .claim import claim
from .exact_laws import hockey_stick

# Composition -------------------------------------------------------------------------------------------------------------------


def response(epsilon):
    """Randomised response: the laws of the answer under the two inputs."""
    keep = 1 / (1 + math.exp(-epsilon))
    return np.array([[keep, 1 - keep], [1 - keep, keep]])


def adaptive_responses(first, second_if_0, second_if_1):
    """The laws of both answers when the second randomised response is chosen after seeing the first answer."""
    a, seconds = response(first), (response(second_if_0), response(second_if_1))
    return [np.concatenate([a[i, y] * seconds[y][i] for y in (0, 1)]) for i in (0, 1)]


class LargestEpsilon(Ledger):
    def _basic(self):
        return max(e.event.epsilon for e in self.entries), super()._basic()[1]


class LargestDelta(Ledger):
    def _basic(self):
        return super()._basic()[0], max(e.event.delta for e in self.entries)


@claim("basic-composition", subject=Ledger, mutants={"largest epsilon": LargestEpsilon, "largest delta": LargestDelta})
def check_basic(kind):
    """Exact: pairs of randomised responses, the second chosen by the first answer; each gives the input away with probability tau."""
    for e1, e2, tau in itertools.product((0.1, 0.7, 2.0), (0.2, 1.0, 1.5), (0.0, 0.05)):
        entries = tuple(Entry("response", ApproximateDP(e, tau)) for e in (e1, e2))
        promised = kind("one user", "central", entries).delta(e1 + e2)
        assert kind("one user", "central", entries).delta((e1 + e2) * 0.999) == 1.0  # nothing is promised below the sum
        P, Q = adaptive_responses(e1, e2, e2 / 2)
        kept = (1 - tau) ** 2
        assert kept * max(hockey_stick(P, Q, e1 + e2), hockey_stick(Q, P, e1 + e2)) + (1 - kept) <= promised + 1e-12
        if tau == 0:  # tight
            assert hockey_stick(P, Q, (e1 + e2) * 0.999) > 0


test_basic = check_basic

GAUSS = hermegauss(200)


def two_stage_delta(first, second, epsilon):
    """Exact delta of two Gaussian releases with shifts first and second(y1), by 200-point quadrature over the first output under shift."""
    nodes, weights = GAUSS[0] + first, GAUSS[1] / math.sqrt(2 * math.pi)
    loss = first * nodes - first**2 / 2  # what the first output has revealed
    deltas = [_conditional(second(y), epsilon - spent) for y, spent in zip(nodes, loss, strict=True)]
    return float(weights @ deltas)


def _conditional(mu, epsilon):
    """E over the second output of (1 - e^(epsilon - loss))_+ for shift mu; epsilon may be negative here."""
    if mu < 1e-9:
        return max(0.0, -math.expm1(epsilon))
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


@claim(
    "gdp-composition",
    subject=compose_mu,
    mutants={"largest": lambda *mus: max(mus), "sum": lambda *mus: sum(mus), "mean square": lambda *mus: math.sqrt(np.mean(np.square(mus)))},
)
def check_composition(compose):
    """Against quadrature of the two-dimensional hockey stick, and against an independent library for 17 releases."""
    for a, b, epsilon in itertools.product((0.3, 1.0), (0.4, 1.5), (0.5, 2.0)):
        exact = two_stage_delta(a, lambda y, b=b: b, epsilon)
        assert gaussian_delta(compose(a, b), epsilon) == pytest.approx(exact, rel=1e-6)
    mu = compose(*[1 / 17.4187973] * 17)
    assert gaussian_epsilon(mu, 1e-6) == pytest.approx(1.0, abs=1e-7)
    oracle = PLDAccountant()
    oracle.compose(dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(17.4187973), 17))
    assert gaussian_epsilon(mu, 1e-6) == pytest.approx(oracle.get_epsilon(1e-6), abs=2e-4)


test_composition = check_composition


class ForgetfulAccount(Account):
    """Every event may cost the whole budget."""

    @property
    def left(self):
        return self.budget


class LinearAccount(Account):
    """Subtracts parameters as if they, not their squares, added up to less."""

    @property
    def left(self):
        return math.sqrt(max(0.0, self.budget**2 - self.spent**2 / 2))


@claim("adaptive-gaussian", subject=Account, mutants={"forgets": ForgetfulAccount, "half price": LinearAccount})
def check_adaptive(kind):
    """Two releases; the second takes what the account has left, or a part of it that depends on the first output. By quadrature: never more
    than one release of the whole budget reveals, and exactly as much when the budget is used up on every path."""
    account = kind(1.2)
    shapes = {"all": lambda y: 1.0, "only if large": lambda y: float(y > 0.5), "wave": lambda y: math.sin(y) ** 2}
    for (name, share), first, epsilon in itertools.product(shapes.items(), (0.4, 0.9), (0.2, 1.0, 2.5)):
        left = account.spend("first", Gaussian(first, 1.0)).left
        bound = gaussian_delta(account.budget, epsilon)
        reached = two_stage_delta(first, lambda y, left=left, share=share: left * share(y), epsilon)
        assert reached <= bound * (1 + 1e-7)
        assert name != "all" or reached == pytest.approx(bound, rel=1e-6)


test_adaptive = check_adaptive


DRIFT = k * epsilon * (sp.exp(epsilon) - 1)


@claim(
    "advanced-composition",
    subject=ADVANCED_EPSILON,
    mutants={
        "half the deviation": mutant(ADVANCED_EPSILON, lambda e: DRIFT + (e - DRIFT) / 2),
        "no drift": mutant(ADVANCED_EPSILON, lambda e: e - DRIFT),
    },
)
def check_advanced(formula):
    """Exact delta of k randomised responses (binomial), k up to 10,000; symbolically, at epsilon >= ln 2 it is never below k epsilon."""
    for count, e, d in itertools.product((1, 10, 100, 10_000), (0.01, 0.1, 0.5, 1.0, 3.0), (1e-1, 1e-6)):
        assert responses_delta(count, e, float(formula(k=count, epsilon=e, delta=d))) <= d
    at_delta_1 = formula.expression.subs(delta, 1)  # what is left when nothing is paid for a small delta
    assert sp.simplify(at_delta_1 - k * epsilon - k * epsilon * (sp.exp(epsilon) - 2)) == 0


def responses_delta(k, epsilon, total):
    """delta at `total` of k randomised responses with parameter epsilon: the loss is (2 j - k) epsilon with j binomial."""
    j = np.arange(k + 1)
    loss = (2 * j - k) * epsilon
    p = binom.pmf(j, k, 1 / (1 + math.exp(-epsilon)))
    return float(np.sum(p * -np.expm1(np.minimum(0.0, total - loss))))


test_advanced = check_advanced


# Conversions -------------------------------------------------------------------------------------------------------------------


@claim(
    "gaussian-zcdp",
    subject=GAUSSIAN_RHO,
    mutants={"no half": mutant(GAUSSIAN_RHO, lambda e: 2 * e), "quarter": mutant(GAUSSIAN_RHO, lambda e: e / 2)},
)
def check_renyi(formula):
    """sympy: E_Q[(P/Q)^alpha] for P = N(Delta, sigma^2), Q = N(0, sigma^2) by completing the square, all alpha > 1."""
    x = sp.Symbol("x", real=True)
    alpha, sigma, Delta = sp.symbols("alpha sigma Delta", positive=True)
    exponent = sp.expand(-alpha * (x - Delta) ** 2 / 2 - (1 - alpha) * x**2 / 2)  # times 1/sigma^2
    peak = sp.solve(sp.diff(exponent, x), x)[0]
    assert sp.simplify(exponent - exponent.subs(x, peak) + (x - peak) ** 2 / 2) == 0  # a unit Gaussian about the peak, so
    divergence = exponent.subs(x, peak) / sigma**2 / (alpha - 1)
    assert sp.simplify(divergence - alpha * formula.expression) == 0


test_renyi = check_renyi


@claim(
    "zcdp-conversion",
    subject=(ZCDP_EPSILON, ZCDP_RHO),
    mutants={
        "root without its two": (mutant(ZCDP_EPSILON, lambda e: (e + rho) / 2), ZCDP_RHO),
        "inverse of something else": (ZCDP_EPSILON, mutant(ZCDP_RHO, lambda e: 2 * e)),
    },
)
def check_zcdp(formulas):
    """sympy: the best Renyi order; then the inverse on a grid, the known value at rho = 1/2, and validity against the exact conversion."""
    forward, inverse = formulas
    L, a = sp.symbols("L a", positive=True)  # L = ln(1/delta), a = alpha - 1
    bound = rho * (1 + a) + L / a
    best = sp.sqrt(L / rho)
    assert sp.simplify(sp.diff(bound, a).subs(a, best)) == 0 and sp.diff(bound, a, 2).is_positive
    assert sp.simplify(bound.subs(a, best) - forward.expression.subs(delta, sp.exp(-L))) == 0
    assert forward(rho=0.5, delta=1e-6) == pytest.approx(5.756522, abs=1e-6)
    for r, d in itertools.product((1e-4, 0.1, 0.5, 5.0), (1e-2, 1e-6, 1e-12)):
        assert inverse(epsilon=forward(rho=r, delta=d), delta=d) == pytest.approx(r, rel=1e-10)
        assert forward(rho=r, delta=d) >= gaussian_epsilon(math.sqrt(2 * r), d)


test_zcdp = check_zcdp


@claim(
    "pure-to-gdp",
    subject=pure_to_mu,
    mutants={"epsilon itself": lambda e: e, "one tenth less": lambda e: 0.9 * pure_to_mu(e), "root": lambda e: math.sqrt(2 * e)},
)
def check_pure(mu_of):
    """The trade-off curve of N(0,1) against N(mu,1) lies below that of randomised response, and touches it at its kink; Laplace noise agrees."""
    from scipy.special import ndtri

    alpha = np.linspace(1e-6, 1 - 1e-6, 20_001)
    for epsilon in (0.01, 0.1, 1.0, 3.0, 8.0):
        curve = ndtr(ndtri(1 - alpha) - mu_of(epsilon))
        response = np.maximum.reduce([np.zeros_like(alpha), 1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha)])
        assert np.all(curve <= response + 1e-9)
        kink = 1 / (1 + math.exp(epsilon))
        assert ndtr(ndtri(1 - kink) - mu_of(epsilon)) == pytest.approx(kink, rel=1e-9)
    assert Laplace(1.0, 2.0).epsilon == 0.5


test_pure = check_pure
