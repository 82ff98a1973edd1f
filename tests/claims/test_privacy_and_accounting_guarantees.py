"""Privacy: what a guarantee says, and the exact guarantee of one Gaussian release."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from privbandit.accounting import classical_sigma, compose_mu, gaussian_delta, gaussian_epsilon, gaussian_mu, gaussian_sigma
from privbandit.formulas.privacy import CLASSICAL_SIGMA, ZCDP_RHO
from privbandit.ledger import Entry, Gaussian, Ledger

from .altered import mutant
from .claim import claim
from .exact_laws import hockey_stick

# A broken accountant -----------------------------------------------------------------------------------------------------------


def attack(mu, releases, n, rng):
    """True and false positive rates of the test "mean release > mu/2", when one user moves every release by mu standard deviations."""
    mean = rng.standard_normal((2, n, releases)).mean(-1)
    return np.mean(mean[0] + mu > mu / 2), np.mean(mean[1] > mu / 2)


@claim("broken-accountant", subject=lambda mus: max(mus), mutants={"quadrature": lambda mus: compose_mu(*mus), "nine tenths of quadrature": lambda mus: 9 * max(mus)})
def check_broken(account):
    """n = 20,000 pairs, seed 1. Refuted means: true positive rate > e^epsilon * false positive rate + delta by more than five standard
    errors. True rates .882 and .118: the excess over the claim is .56, its standard error below .007, so the power is 1 to many digits; under
    the true account (epsilon = 13.6) the right side is far above 1, so there is no false alarm."""
    delta, n = 1e-6, 20_000
    mu = gaussian_mu(1.0, delta)
    found, alarm = attack(mu, 100, n, np.random.default_rng(1))
    epsilon = gaussian_epsilon(account([mu] * 100), delta)
    error = math.sqrt((found * (1 - found) + math.exp(2 * epsilon) * alarm * (1 - alarm)) / n)
    assert found > math.exp(epsilon) * alarm + delta + 5 * error


test_broken = check_broken


# What a guarantee says ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SilentLedger(Ledger):
    """Fills in what was not said."""

    unit: str = "one user"
    trust: str = "central"
    entries: tuple = ()


class ForgetfulLedger(Ledger):
    def guarantee(self, delta):
        return replace(super().guarantee(delta), trust="central")


@claim("complete-guarantee", subject=Ledger, mutants={"silent defaults": SilentLedger, "forgets the trust model": ForgetfulLedger})
def check_complete(kind):
    entries = (Entry("sum", Gaussian(1.0, 2.0)),)
    for unit, trust, neighbours in itertools.product(["one user", "one visit"], ["central", "joint", "shuffle", "local"], ["replace", "add-remove"]):
        said = kind(unit, trust, entries, neighbours).guarantee(1e-5)
        assert (said.unit, said.trust, said.neighbours) == (unit, trust, neighbours)
        assert unit in str(said) and trust in str(said) and neighbours in str(said)
    for wrong in ({"trust": "someone"}, {"neighbours": "nearby"}):
        with pytest.raises(ValueError, match="must be one of"):
            kind(**({"unit": "one user", "trust": "central", "entries": entries} | wrong))
    try:
        kind(entries=entries)
    except TypeError:
        return
    raise AssertionError("a ledger without unit and trust model was accepted")


test_complete = check_complete


def reach(statistic, values, relation, n):
    """Largest change of `statistic` between neighbouring tuples of `values`, by enumeration of all tuples of length n."""
    data = list(itertools.product(values, repeat=n))
    if relation == "replace":
        pairs = ((a, a[:i] + (v,) + a[i + 1 :]) for a in data for i in range(n) for v in values)
    else:
        pairs = ((a, a[:i] + a[i + 1 :]) for a in data for i in range(n))
    return max(abs(statistic(a) - statistic(b)) for a, b in pairs)


@claim(
    "neighbour-factor",
    subject=reach,
    mutants={
        "same for both relations": lambda s, v, relation, n: reach(s, v, "add-remove", n),
        "one direction only": lambda s, v, relation, n: reach(s, [x for x in v if x >= 0], relation, n),
    },
)
def check_neighbours(reach):
    """All data sets of three users with values in {-1, -1/2, 0, 1/2, 1}."""
    values = [-1.0, -0.5, 0.0, 0.5, 1.0]
    assert reach(sum, values, "add-remove", 3) == 1.0
    assert reach(sum, values, "replace", 3) == 2.0
    assert reach(lambda a: sum(abs(x) for x in a), values, "replace", 3) == 1.0
    for statistic in (sum, lambda a: sum(x * x for x in a), lambda a: len(a)):
        assert reach(statistic, values, "replace", 3) <= 2 * reach(statistic, values, "add-remove", 3) + 1e-12


test_neighbours = check_neighbours


def process(P, Q, kernel):
    """The laws after a random function of the output alone."""
    return P @ kernel[0], Q @ kernel[0]


def safe_up_to_one(P, Q, kernel):
    """Keeps delta at every epsilon <= 1, but for larger epsilon too: with that probability it names P."""
    delta = hockey_stick(P, Q, 1.0)
    return np.array([1 - delta, delta]), np.array([1.0, 0.0])


def tradeoff(P, Q):
    """Corners (false alarm, miss) of the best tests of P against Q: reject where Q/P is large, one atom after the other."""
    order = np.argsort(P / (P + Q), kind="stable")
    return np.concatenate([[0.0], np.cumsum(P[order])]), np.concatenate([[1.0], 1 - np.cumsum(Q[order])])


@claim(
    "post-processing",
    subject=process,
    mutants={"reads the data again": lambda P, Q, kernel: (P @ kernel[0], Q @ kernel[1]), "keeps delta up to epsilon = 1 only": safe_up_to_one},
)
def check_post_processing(process):
    """Exact on 300 random pairs of laws on five points, random kernels to four points and all deterministic kernels to two points. A trade-off
    function is convex and, on finite sets, a broken line: the processed one is nowhere below if it is not at its own corners."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        P, Q = rng.dirichlet(np.ones(5), 2)
        kernels = [rng.dirichlet(np.ones(4) / 4, (2, 5))]
        kernels += [np.stack([np.eye(2)[list(f)]] * 2) for f in itertools.product([0, 1], repeat=5)]
        for epsilon, kernel in itertools.product((0.0, 0.3, 1.0), kernels):
            assert hockey_stick(*process(P, Q, kernel), epsilon) <= hockey_stick(P, Q, epsilon) + 1e-12
        for kernel in kernels:
            p, q = process(P, Q, kernel)
            alarm, miss = tradeoff(*(law[p + q > 0] for law in (p, q)))
            assert np.all(miss >= np.interp(alarm, *tradeoff(P, Q)) - 1e-12)


test_post_processing = check_post_processing


# One Gaussian release ----------------------------------------------------------------------------------------------------------


def integrated_delta(mu, epsilon):
    """The integral of (phi(x - mu) - e^epsilon phi(x))_+ to 25 digits."""
    with mpmath.workdps(40):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        start = epsilon / mu + mu / 2
        density = lambda x: mpmath.npdf(x - mu) - mpmath.exp(epsilon) * mpmath.npdf(x)  # noqa: E731
        scale = 1 / (1 + start)  # the integrand decays at about this length
        return float(mpmath.quad(density, [start + scale * step for step in (0, 1, 4, 10, 25, 60)] + [mpmath.inf]))


@claim(
    "gaussian-delta",
    subject=gaussian_delta,
    mutants={
        "tail of the loss": lambda mu, e: float(ndtr(mu / 2 - e / mu)),
        "second sign": lambda mu, e: max(0.0, float(ndtr(mu / 2 - e / mu) - math.exp(e) * ndtr(mu / 2 + e / mu))),
        "half the shift": lambda mu, e: gaussian_delta(mu / 2, e),
    },
)
def check_delta(delta):
    """Against quadrature in 40-digit arithmetic, and against values of an independent computation."""
    for sigma, epsilon, known in ((1, 1, 0.126936737506644), (1, 0, 0.382924922548026), (2, 0.5, 0.0524403232876697), (1, 5, 5.79372169191949e-7)):
        assert delta(1 / sigma, epsilon) == pytest.approx(known, rel=1e-12)
    for mu, epsilon in itertools.product((0.05, 0.5, 2.0, 8.0), (0.1, 1.0, 4.0)):
        expected = integrated_delta(mu, epsilon)
        assert delta(mu, epsilon) == pytest.approx(expected, rel=1e-8, abs=1e-200)


test_delta = check_delta

SIGMA = {  # epsilon: sigma at delta = 1e-2, 1e-5, 1e-6, 1e-10 (40-digit arithmetic, sensitivity 1)
    0.1: (9.54182308882886, 30.7495661319775, 36.3046904261958, 54.2062958369013),
    1.0: (1.87787556090739, 3.73063163481594, 4.22467888932684, 5.86777774963053),
    10.0: (0.350096686248232, 0.499888619709009, 0.541086831818366, 0.683043967227481),
    100.0: (0.0828540587585147, 0.0946699070147464, 0.0978372239744411, 0.108760426020127),
}


@claim(
    "gaussian-calibration",
    subject=gaussian_mu,
    mutants={
        "classical": lambda e, d: 1 / CLASSICAL_SIGMA(epsilon=e, delta=d, Delta=1.0),
        "simple zCDP": lambda e, d: math.sqrt(2 * ZCDP_RHO(epsilon=e, delta=d)),
        "bisection stopped early": lambda e, d: gaussian_mu(e, d) * (1 + 1e-8),
    },
)
def check_calibration(mu_of):
    for epsilon, sigmas in SIGMA.items():
        for delta, sigma in zip((1e-2, 1e-5, 1e-6, 1e-10), sigmas, strict=True):
            assert 1 / mu_of(epsilon, delta) == pytest.approx(sigma, rel=1e-11)
            assert gaussian_epsilon(mu_of(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-9)
            assert gaussian_delta(mu_of(epsilon, delta), epsilon) == pytest.approx(delta, rel=1e-9)
    assert 1 / mu_of(1e-9, 1e-5) == pytest.approx(39894.228040, rel=1e-3)  # the limit epsilon -> 0


test_calibration = check_calibration


@claim(
    "classical-domain",
    subject=CLASSICAL_SIGMA,
    mutants={
        "exact calibration": lambda epsilon, delta, Delta: gaussian_sigma(epsilon, delta, Delta),
        "twice the noise": mutant(CLASSICAL_SIGMA, lambda e: 2 * e),
        "half the noise": mutant(CLASSICAL_SIGMA, lambda e: e / 2),
    },
)
def check_classical(formula):
    """It suffices on a grid of its domain (epsilon < 1), and at delta = 1e-6 it fails from 8.79 on; the package refuses it from 1 on."""

    def reached(epsilon, delta):
        return gaussian_delta(1 / float(formula(epsilon=epsilon, delta=delta, Delta=1.0)), epsilon)

    for e, d in itertools.product(np.linspace(0.01, 0.99, 30), np.geomspace(1e-12, 0.999, 30)):
        assert reached(e, d) <= d
    assert reached(8.78, 1e-6) < 1e-6 < reached(8.79, 1e-6)
    assert reached(10.0, 1e-6) > 1.9e-6 and reached(100.0, 1e-6) > 1e-6
    with pytest.raises(ValueError, match="epsilon must be < 1"):
        classical_sigma(1.0, 1e-6)


test_classical = check_classical
