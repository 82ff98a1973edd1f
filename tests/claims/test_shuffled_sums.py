"""Checks of the claims in the chapter on sums from shuffled messages."""

from __future__ import annotations

import dataclasses
import math
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp
from scipy.stats import binom, chi2, chisquare

from privbandit.accounting import compose_mu, gaussian_delta
from privbandit.formulas.shuffle import BIT_SUM_VARIANCE, PGD_EXCESS, PGD_MEAN_EXCESS, PGD_STEP, PGD_STEP_EPSILON, SCALAR_BITS, SUM_VARIANCE
from privbandit.ledger import Entry, Ledger
from privbandit.linalg import outer
from privbandit.mechanisms.shuffle.bits import BitSum
from privbandit.mechanisms.shuffle.certificate import BinomialNoise, inflation
from privbandit.mechanisms.shuffle.gradient_descent import ShuffleGradientDescent, clip
from privbandit.mechanisms.shuffle.hockey_stick import binomial_shift, binomial_shift_vector, bit_sum_delta, divergence
from privbandit.mechanisms.shuffle.messages import count
from privbandit.mechanisms.shuffle.sums import ScalarSum, VectorSum, symmetric_range

from .claim import claim


def formula(original, expression):
    return dataclasses.replace(original, expression=expression)


def symbol(original, name):
    return next(s for s in original.symbols if s.name == name)


def convolve(*laws):
    total = np.ones(1)
    for law in laws:
        total = np.convolve(total, law)
    return total


def both_ways(P, Q, epsilon):
    return max(divergence(P, Q, epsilon), divergence(Q, P, epsilon))


# Bits --------------------------------------------------------------------------------------------------------------------------


class ForgetsCoins(BitSum):
    def _debias(self, total):
        return total / (1 - self.flip)


class CoinsCountedWhole(BitSum):
    def _debias(self, total):
        return (total - self.users * self.flip) / (1 - self.flip)


q_, n_ = symbol(BIT_SUM_VARIANCE, "q"), symbol(BIT_SUM_VARIANCE, "n")


@claim(
    "bit-sum-moments",
    subject=(BIT_SUM_VARIANCE, BitSum),
    mutants={
        "variance before debiasing": (formula(BIT_SUM_VARIANCE, n_ * q_ / 2 * (1 - q_ / 2)), BitSum),
        "coins forgotten": (BIT_SUM_VARIANCE, ForgetsCoins),
        "coins counted as ones": (BIT_SUM_VARIANCE, CoinsCountedWhole),
    },
)
def check_bit_moments(pair):
    """Symbolic variance for both values of a bit; the package's debiasing on exact laws."""
    variance, kind = pair
    for b in (0, 1):
        pi = q_ / 2 + (1 - q_) * b
        assert sp.simplify(n_ * pi * (1 - pi) / (1 - q_) ** 2 - variance.expression) == 0
    for ones in range(6):
        protocol = kind(5, 0.3)
        law = convolve(binom.pmf(np.arange(ones + 1), ones, 0.85), binom.pmf(np.arange(6 - ones), 5 - ones, 0.15))
        estimate = protocol._debias(np.arange(6))
        assert law @ estimate == pytest.approx(ones, abs=1e-12)
        assert law @ estimate**2 - ones**2 == pytest.approx(float(variance(n=5, q=0.3)), abs=1e-12)


test_bit_moments = check_bit_moments


def direct(n, q, epsilon, m):
    others = convolve(binom.pmf(np.arange(m + 1), m, 1 - q / 2), binom.pmf(np.arange(n - m), n - 1 - m, q / 2))
    return both_ways(*(np.convolve(others, [1 - x, x]) for x in (q / 2, 1 - q / 2)), epsilon)


def only_ends(n, q, epsilon, ones=None):
    return bit_sum_delta(n, q, epsilon, [0, n - 1])


@claim(
    "bit-sum-delta",
    subject=bit_sum_delta,
    mutants={"only the ends": only_ends, "twice the coins": lambda n, q, e: bit_sum_delta(n, min(2 * q, 0.99), e)},
)
def check_bit_delta(delta):
    """Against the sum over all outcomes, for every number of ones among the others."""
    for n, q, epsilon in ((1, 0.5, 0.3), (2, 0.2, 1.0), (7, 0.6, 0.5), (30, 0.4, 1.0), (60, 0.8, 0.2)):
        assert delta(n, q, epsilon) == pytest.approx(max(direct(n, q, epsilon, m) for m in range(n)), rel=1e-8, abs=1e-15)


test_bit_delta = check_bit_delta


@claim("bit-sum-ends", subject=bit_sum_delta, mutants={"the ends stand for all": only_ends})
def check_ends(delta):
    assert delta(30, 0.4, 1.0) == pytest.approx(4.2612e-4, rel=1e-3)
    assert max(direct(30, 0.4, 1.0, m) for m in (0, 29)) == pytest.approx(3.9667e-4, rel=1e-3)


test_ends = check_ends


class ThirtyTimesFewer(BitSum):
    @classmethod
    def published(cls, users, epsilon, delta):
        return cls(users, BitSum.published(users, epsilon, delta).flip / 30)


class TwiceAsMany(BitSum):
    @classmethod
    def calibrated(cls, users, epsilon, delta, accuracy=1e-3):
        return cls(users, min(0.99, 2 * BitSum.calibrated(users, epsilon, delta).flip))


@claim("bit-sum-published", subject=BitSum, mutants={"a thirtieth": ThirtyTimesFewer, "calibrated to twice the flips": TwiceAsMany})
def check_bit_published(kind):
    ratios = []
    for n, epsilon, delta in ((400, 1, 1e-2), (400, 2, 1e-3), (400, 4, 1e-3), (1000, 4, 1e-5)):
        public, exact = kind.published(n, epsilon, delta), kind.calibrated(n, epsilon, delta)
        assert public.delta(epsilon) <= delta and exact.delta(epsilon) <= delta
        ratios.append(public.flip / exact.flip)
    assert min(ratios) == pytest.approx(2.43, abs=0.02) and max(ratios) == pytest.approx(28.9, abs=0.2)


test_bit_published = check_bit_published


# Numbers -----------------------------------------------------------------------------------------------------------------------


def encoded_law(s, x, points=1000):
    """Law of one user's encoded coordinate, the package's rounding evaluated on a grid of uniforms (exact when x / step has 3 decimals)."""
    grid = SimpleNamespace(random=lambda shape: (np.arange(points) + 0.5).reshape(-1, 1) / points)
    values = s.encode(np.full((points, 1), x), grid)[:, 0]
    return np.bincount(values, minlength=int(s.grid[0]) + 1) / points


def count_law(s, x):
    N = s.users * s.bits
    return convolve(*(encoded_law(s, v) for v in x), binom.pmf(np.arange(N + 1), N, s.p))


class RoundsDown(VectorSum):
    def encode(self, x, noise):
        z = np.clip((x - np.array(self.low)) / self.step, 0.0, self.grid)
        return np.floor(z + 0 * noise.random(np.shape(z))).astype(np.int64)


class ForgetsNoiseBits(VectorSum):
    def debias(self, total):
        return self.step * total + self.users * np.array(self.low)


names = {s.name: s for s in SUM_VARIANCE.symbols}
NO_ROUNDING = names["step"] ** 2 * names["n"] * names["b"] * names["p"] * (1 - names["p"])


@claim(
    "sum-moments",
    subject=(SUM_VARIANCE, VectorSum),
    mutants={
        "no rounding variance": (formula(SUM_VARIANCE, NO_ROUNDING), VectorSum),
        "rounds down": (SUM_VARIANCE, RoundsDown),
        "forgets the noise bits": (SUM_VARIANCE, ForgetsNoiseBits),
    },
)
def check_moments(pair):
    """The printed variance symbolically; mean, variance, their bound and the proxy on the exact law of three users."""
    variance, kind = pair
    bit = lambda r: r * (1 - r)  # noqa: E731
    expected = names["step"] ** 2 * names["n"] * (names["b"] * bit(names["p"]) + bit(names["f"]))
    assert sp.simplify(expected - variance.expression) == 0
    assert sp.maximum(bit(names["f"]), names["f"]) == sp.Rational(1, 4)
    s = kind(users=3, low=(-1.0,), high=(1.0,), Delta=2.0, step=0.5, bits=2, slack=1e-3, p=0.3)
    x = np.array([-0.85, 0.15, 0.65])  # every fractional part is 0.3
    law = count_law(s, x)
    estimate = s.debias(np.arange(len(law))[:, None])[:, 0]
    mean = law @ estimate
    assert mean == pytest.approx(x.sum(), abs=1e-9)
    spread = law @ (estimate - mean) ** 2
    assert spread == pytest.approx(float(variance(step=0.5, n=3, b=2, p=0.3, f=0.3)), rel=1e-9)
    assert spread <= s.std**2 * (1 + 1e-12) and s.std <= s.proxy
    for a in (-2.0, -0.5, 0.5, 2.0):
        assert law @ np.exp(a * (estimate - mean)) <= math.exp(a**2 * s.proxy**2 / 2)


test_moments = check_moments


def one_direction(N, shift, epsilon, p=0.5):
    P = binom.pmf(np.arange(N + shift + 1), N, p)
    return divergence(P, binom.pmf(np.arange(N + shift + 1) - shift, N, p), epsilon)


@claim(
    "scalar-sum-delta",
    subject=binomial_shift,
    mutants={"shift g - 1": lambda N, k, e, p=0.5: binomial_shift(N, max(k - 1, 0), e, p), "one direction": one_direction},
)
def check_scalar(delta):
    """Half-lines against all outcomes; no smaller shift and no fractional data worse; attained by 0 against L."""
    for p in (0.5, 0.25, 0.9):
        for epsilon in (0.0, 0.7, 2.0):
            exact = [binomial_shift_vector(40, [k], epsilon, p) for k in range(1, 11)]
            assert [delta(40, k, epsilon, p) for k in range(1, 11)] == pytest.approx(exact, abs=1e-12)
            assert np.all(np.diff(exact) >= -1e-15)
    s, epsilon, rng = ScalarSum(users=6, grid=4, bits=10, p=0.3), 0.8, np.random.default_rng(1)
    bound = delta(60, 4, epsilon, 0.3)
    tight = [count_law(s.vector, [0.25] * 5 + [v]) for v in (0.0, 1.0)]
    assert both_ways(*tight, epsilon) == pytest.approx(bound, rel=1e-9)
    for _ in range(20):
        others, x, y = rng.random(5), *rng.random(2)
        assert both_ways(*(count_law(s.vector, [*others, v]) for v in (x, y)), epsilon) <= bound + 1e-12


test_scalar = check_scalar


@claim(
    "scalar-sum-published",
    subject=SCALAR_BITS,
    mutants={
        "a thirtieth": formula(SCALAR_BITS, SCALAR_BITS.expression / 30),
        "twice, which would cover g = 1": formula(SCALAR_BITS, SCALAR_BITS.expression * 2),
    },
)
def check_scalar_published(bits):
    """Sufficient on the grid for g >= 2; at g = 1, epsilon = 10, delta = 1e-5, p = 0.01 the exact delta is 1.6e-5."""
    for g in (2, 3, 4, 10):
        for epsilon in (0.5, 2.0, 8.0, 10.0, 15.0):
            for delta in (0.02, 1e-5):
                for p in (0.01, 0.25, 0.5):
                    N = math.ceil(float(bits(g=g, epsilon=epsilon, delta=delta)) / p)
                    if N < 300_000:
                        assert binomial_shift(N, g, epsilon, p) <= delta
    N = math.ceil(float(bits(g=1, epsilon=10.0, delta=1e-5)) / 0.01)
    assert binomial_shift(N, 1, 10.0, 0.01) == pytest.approx(1.596e-5, rel=1e-3)


test_scalar_published = check_scalar_published


# Vectors -----------------------------------------------------------------------------------------------------------------------


class NoRoundingTerm(VectorSum):
    @property
    def shift(self):
        return self.Delta / self.step


class IndependentRounding(VectorSum):
    """Ignores the shared uniform of the coupling."""

    def encode(self, x, noise):
        z = np.clip((x - np.array(self.low)) / self.step, 0.0, self.grid)
        fresh = np.random.default_rng(zlib.crc32(np.asarray(x).tobytes()))
        return np.floor(z + fresh.random(np.shape(z))).astype(np.int64)


@claim("vector-shift", subject=VectorSum, mutants={"no rounding term": NoRoundingTerm, "independent roundings": IndependentRounding})
def check_shift(kind):
    """Random pairs at distance Delta and common uniforms: the largest move of the counts is within the bound, and near it for D = 1."""
    rng, closest = np.random.default_rng(2), 0.0
    for D in (1, 2, 5):
        s = kind(users=1, low=(-1.0,) * D, high=(1.0,) * D, Delta=0.3, step=0.125, bits=1, slack=1e-3)
        x = rng.uniform(-0.6, 0.6, (20_000, D))
        direction = rng.standard_normal((20_000, D))
        y = x + 0.3 * direction / np.linalg.norm(direction, axis=1, keepdims=True)
        U = rng.random((20_000, D))
        common = SimpleNamespace(random=lambda shape, U=U: U)
        move = np.linalg.norm(s.encode(x, common) - s.encode(y, common), axis=1)
        assert move.max() <= s.shift
        closest = max(closest, move.max() / s.shift)
    assert closest > 0.85


test_shift = check_shift


def certified(event, epsilon):
    return event.tau + (1 - event.tau) * gaussian_delta(event.mu, epsilon)


class GaussianOfSameVariance(BinomialNoise):
    @property
    def mu(self):
        return self.shift / self.sigma


class NoMassLeft(BinomialNoise):
    @property
    def tau(self):
        return 0.0


@claim(
    "gaussian-certificate",
    subject=BinomialNoise,
    mutants={"no inflation": GaussianOfSameVariance, "no uncovered mass": NoMassLeft},
)
def check_certificate(kind):
    """Exact delta of every shift against the certificate, one and three dimensions."""
    for p in (0.5, 0.25):
        for N in (60, 300):
            for k in range(1, 13):
                event = kind(N, float(k), 1, 1e-3, p)
                for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0, 8.0):
                    assert binomial_shift(N, k, epsilon, p) <= certified(event, epsilon) * (1 + 1e-9)
    event = kind(50, 6.0, 3, 1e-5)
    for a in range(7):
        for b in range(a + 1):
            for c in range(-b, b + 1):
                if 0 < a * a + b * b + c * c <= 36:
                    assert binomial_shift_vector(50, (a, b, c), 1.0) <= certified(event, 1.0) * (1 + 1e-9)


test_certificate = check_certificate


class LargestOnly(Ledger):
    @property
    def mu(self):
        return max(e.event.mu for e in self.entries)


class ForgetsMass(Ledger):
    @property
    def tau(self):
        return 0.0


@claim("certificate-composition", subject=Ledger, mutants={"largest only": LargestOnly, "mass forgotten": ForgetsMass})
def check_composition(kind):
    """Two rounds of Bin(40, 1/2) noise, shift 4 first, then +5 or -5 according to the parity of the first count: exact enumeration."""
    N, slack = 40, 2e-3
    entries = tuple(Entry("round", BinomialNoise(N, k, 1, slack)) for k in (4.0, 5.0))
    ledger = kind("one user", "shuffle", entries)
    y = np.arange(-5, N + 6)
    first = np.arange(0, N + 5)
    second_P = binom.pmf(y, N, 0.5)
    second_Q = np.where((first % 2 == 0)[:, None], binom.pmf(y - 5, N, 0.5), binom.pmf(y + 5, N, 0.5))
    P = binom.pmf(first, N, 0.5)[:, None] * second_P
    Q = binom.pmf(first - 4, N, 0.5)[:, None] * second_Q
    for epsilon in (0.0, 1.0, 2.0, 4.0, 8.0, 14.0):
        exact = both_ways(P, Q, epsilon)
        assert exact <= ledger.delta(epsilon) * (1 + 1e-9)
    assert both_ways(P, Q, 1.0) > 0.7 * ledger.delta(1.0)
    assert ledger.mu == pytest.approx(compose_mu(*(e.event.mu for e in entries)))


test_composition = check_composition


@claim(
    "certificate-tightness",
    subject=inflation,
    mutants={"unfair coins": lambda N, k, tau, p=0.5: inflation(round(N * 4 / 3), k, tau, 0.25), "no factor": lambda N, k, tau, p=0.5: 1.0},
)
def check_tightness(factor):
    def extra(sigma, p):
        return factor(round(sigma**2 / (p * (1 - p))), sigma, 3e-8, p) ** 2 - 1

    fair = [extra(s, 0.5) for s in (10, 11, 14, 17, 22, 28, 40, 60, 90)]
    assert all(0 < e < 0.05 for e in fair) and all(e < 0.006 for e in fair[5:])
    assert extra(10, 0.25) == pytest.approx(0.239, abs=2e-3) and extra(28, 0.25) == pytest.approx(0.063, abs=1e-3)


test_tightness = check_tightness


class HalfTheBits(VectorSum):
    @classmethod
    def ball(cls, *args, **options):
        exact = VectorSum.ball(*args, **options)
        return dataclasses.replace(exact, bits=exact.bits // 2)


class WithoutTheConstant(VectorSum):
    @classmethod
    def published(cls, users, *args, **options):
        public = VectorSum.published(users, *args, **options)
        return dataclasses.replace(public, bits=math.ceil(public.bits / 24e4))


@claim("vector-sum-published", subject=VectorSum, mutants={"half the bits": HalfTheBits, "scale 1 for 24e4": WithoutTheConstant})
def check_vector_published(kind):
    exact, public = kind.ball(1000, 3, 2.0, 0.01), kind.published(1000, 3, 2.0, 0.01)
    assert exact.ledger.delta(2.0) <= 0.01
    assert public.std == pytest.approx(1759, abs=1) and exact.std == pytest.approx(2.35, abs=0.01)


test_vector_published = check_vector_published


def plain_distance(d, W=1.0):
    return *symmetric_range(d, W)[:2], 2 * W


def unscaled_range(d, W=1.0):
    low, high, Delta = symmetric_range(d, W)
    return np.where(low < 0, -W, 0.0), np.full_like(high, W), Delta


@claim(
    "symmetric-sum",
    subject=symmetric_range,
    mutants={"2 W": plain_distance, "W everywhere": unscaled_range, "W": lambda d, W=1.0: (*symmetric_range(d, W)[:2], W)},
)
def check_symmetric(ranges):
    rng, W = np.random.default_rng(6), 0.25
    low, high, Delta = ranges(3, W)
    x, y = (clip(v, 1.0) for v in rng.standard_normal((2, 20_000, 3)))
    u, v = W * rng.random((20_000, 1)) * outer(x), W * outer(y)
    assert np.all((u >= low - 1e-12) & (u <= high + 1e-12) & (v >= low - 1e-12) & (v <= high + 1e-12))
    assert np.linalg.norm(u - v, axis=1).max() <= Delta + 1e-12
    e, s = np.eye(3), math.sqrt(0.5)
    between = np.array([[s, s, 0], [s, 0, s], [0, s, s], [s, -s, 0], [s, 0, -s], [0, s, -s], *e, [s, s, 0]])
    attained = W * outer(between)
    np.testing.assert_allclose(attained.max(axis=0), high, atol=1e-12)
    np.testing.assert_allclose(attained.min(axis=0), low, atol=1e-12)
    assert W * np.linalg.norm(outer(e[0]) - outer(e[1])) == pytest.approx(Delta)
    assert ranges(1, W)[2] == pytest.approx(W)


test_symmetric = check_symmetric


# Gradient descent --------------------------------------------------------------------------------------------------------------


class ExplicitRidge(ShuffleGradientDescent):
    def run(self, gradient, R, noise):
        theta = np.zeros((R, self.gradients.size))
        total = np.zeros_like(theta)
        for _ in range(self.rounds):
            total += theta
            g = self.gradients.sum(gradient(theta), noise)
            theta = clip(theta - self.eta * (g + self.ridge * theta), self.S)
        return total / self.rounds


class AveragesLater(ShuffleGradientDescent):
    def run(self, gradient, R, noise):
        seen = []
        super().run(lambda theta: seen.append(theta) or gradient(theta), R, noise)
        return np.mean(seen[1:], axis=0)


class Adversary:
    """Stands in for the vector sum: returns prescribed gradient sums and remembers the iterates they were returned for."""

    size, users, proxy, entries = 3, 1, 1.0, ()

    def __init__(self, g):
        self.g, self.seen = iter(g), []

    def sum(self, x, noise):
        self.seen.append(x[:, 0] * 1e6)  # the callback passes the iterate, scaled below the clip
        return next(self.g)


@claim("pgd-regret", subject=ShuffleGradientDescent, mutants={"explicit ridge": ExplicitRidge, "averages later iterates": AveragesLater})
def check_regret(kind):
    """200 sequences at once: random, and pushing to one side and back; every comparator at the boundary and inside."""
    rng, R, T, S = np.random.default_rng(7), 200, 12, 2.0
    for ridge in (0.0, 1.0, 500.0):
        g = rng.standard_normal((T, R, 3)) * rng.uniform(0.1, 5, (1, R, 1))
        g[:, ::2] = np.where(np.arange(T)[:, None, None] < 6, 3.0, -3.0) * rng.choice([-1, 1], (1, R // 2, 3))
        sums = Adversary(g)
        optimiser = kind(sums, T, S, 1.0, ridge)
        result = optimiser.run(lambda theta: theta[:, None] / 1e6, R, rng)
        theta = np.array(sums.seen)
        np.testing.assert_allclose(result, theta.mean(axis=0), atol=1e-6)
        assert np.all(np.linalg.norm(theta, axis=2) <= S + 1e-6)
        bound = optimiser.eta / 2 * np.sum(g**2, axis=(0, 2))
        for u in S * clip(rng.standard_normal((30, R, 3)), 1.0):
            left = np.sum(g * (theta - u), axis=(0, 2)) + ridge / 2 * np.sum(np.sum(theta**2, axis=2) - np.sum(u**2, axis=1), axis=0)
            assert np.all(left <= np.sum(u**2, axis=1) / (2 * optimiser.eta) + bound + 1e-5 * (1 + ridge))


test_regret = check_regret


v = {s.name: s for f in (PGD_EXCESS, PGD_MEAN_EXCESS) for s in f.symbols}


@claim(
    "pgd-excess",
    subject=(PGD_MEAN_EXCESS, PGD_EXCESS, PGD_STEP),
    mutants={
        "the mean stands for every run": (PGD_MEAN_EXCESS, formula(PGD_EXCESS, PGD_MEAN_EXCESS.expression), PGD_STEP),
        "no martingale term": (PGD_MEAN_EXCESS, formula(PGD_EXCESS, PGD_EXCESS.expression.subs(v["S"], 0) + v["S"] ** 2 / (2 * v["eta"] * v["T"])), PGD_STEP),
        "step without noise": (PGD_MEAN_EXCESS, PGD_EXCESS, formula(PGD_STEP, v["S"] / (v["n"] * v["L"] * sp.sqrt(v["T"])))),
    },
)
def check_excess(triple):
    """Assembly from the lemma, E|g|^2, the norm tail, |g|^2 <= 2|a|^2 + 2|b|^2 and Azuma; least step; the tail against chi-square."""
    mean, high, step = triple
    S, T, eta, n, L, d, sigma, zeta = (v[name] for name in ("S", "T", "eta", "n", "L", "d", "sigma", "zeta"))
    start = S**2 / (2 * eta * T)
    assert sp.simplify(mean.expression - start - eta / 2 * (n**2 * L**2 + d * sigma**2)) == 0
    noise = sigma * (sp.sqrt(d) + sp.sqrt(2 * sp.log(2 * T / zeta)))
    azuma = sp.sqrt(2 * T * (2 * S * sigma) ** 2 * sp.log(1 / (zeta / 2))) / T
    difference = high.expression - start - eta / 2 * (2 * n**2 * L**2 + 2 * noise**2) - azuma
    values = {S: 2.0, T: 30.0, eta: 0.01, n: 100.0, L: 1.0, d: 3.0, sigma: 7.0, zeta: 0.01}
    assert abs(float(difference.subs(values))) < 1e-9
    assert sp.simplify(sp.diff(mean.expression, eta).subs(eta, step.expression)) == 0
    for dimension in (1, 2, 5, 20):
        t = np.linspace(0.01, 30, 300)
        assert np.all(chi2.sf((math.sqrt(dimension) + np.sqrt(2 * t)) ** 2, dimension) <= np.exp(-t))


test_excess = check_excess


def proved(epsilon, delta, T, e0):
    l = np.log(2 / delta)
    return np.minimum(T * e0, e0 * np.sqrt(2 * T * l) + T * e0 * np.expm1(e0)) <= epsilon * (1 + 1e-12)


@claim(
    "pgd-split",
    subject=PGD_STEP_EPSILON,
    mutants={
        "without the 2 in front": formula(PGD_STEP_EPSILON, PGD_STEP_EPSILON.expression * 2),
        "three quarters": formula(PGD_STEP_EPSILON, PGD_STEP_EPSILON.expression * sp.Rational(3, 4)),
    },
)
def check_split(each):
    """Basic or advanced composition suffices for every T at the limit of the domain, and for no T = 37 at epsilon = 15, delta = 0.02."""
    T = np.arange(1.0, 20_001)
    for delta in (0.4, 0.1, 0.02, 1e-3, 1e-5, 1e-8, 1e-12, 1e-20):
        for share in (0.01, 0.3, 1.0):
            epsilon = share * 8 * math.log(1.5) * math.log(2 / delta)
            assert proved(epsilon, delta, T, each(epsilon=epsilon, delta=delta, T=T)).all()
    assert not proved(15.0, 0.02, 37.0, each(epsilon=15.0, delta=0.02, T=37.0))


test_split = check_split


# The algorithms ----------------------------------------------------------------------------------------------------------------


def follows(samples, law, level=1e-9):
    """Chi-square of integer samples against `law` on 0, 1, ...; cells with fewer than 8 expected are pooled."""
    observed, expected = np.bincount(samples, minlength=len(law)), law * len(samples)
    rare = expected < 8
    observed = np.append(observed[: len(law)][~rare], len(samples) - observed[: len(law)][~rare].sum())
    expected = np.append(expected[~rare], max(expected[rare].sum(), 1e-9))
    return chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > level


class CoinsOnZerosOnly(BitSum):
    def messages(self, bits, noise):
        sent = super().messages(bits, noise)
        return sent._replace(bit=np.maximum(sent.bit, np.asarray(bits)[:, None]))


class FastWithoutHalf(BitSum):
    def release(self, ones, noise):
        return self._debias(noise.binomial(ones, 1 - self.flip) + noise.binomial(self.users - ones, self.flip / 2))


@claim("shuffled-bit-sum", subject=BitSum, mutants={"ones sent truthfully": CoinsOnZerosOnly, "fast mode flips every coin": FastWithoutHalf})
def check_bit_algorithm(kind):
    """n = 8000 runs of each mode, seed 8, level 1e-9; a shift of the count by a sixth of its deviation is found with power above 0.99."""
    s, rng, runs = kind(11, 0.4), np.random.default_rng(8), 8_000
    bits = np.r_[np.ones(7, int), np.zeros(4, int)]
    law = convolve(binom.pmf(np.arange(8), 7, 0.8), binom.pmf(np.arange(5), 4, 0.2))
    assert follows(np.array([count(s.shuffled(bits, rng), 1)[0] for _ in range(runs)]), law)
    assert follows(np.rint(s.release(np.full(runs, 7), rng) * 0.6 + 2.2).astype(int), law)
    assert s.analyse(s.shuffled(bits, rng)).shape == (1,)


test_bit_algorithm = check_bit_algorithm


class UnfairBits(VectorSum):
    @property
    def noise_event(self):
        return dataclasses.replace(super().noise_event, p=0.33)


class BitTooFew(VectorSum):
    def messages(self, x, noise):
        return dataclasses.replace(self, bits=self.bits - 1).padded(x, noise)

    def padded(self, x, noise):
        return VectorSum.messages(self, x, noise)


@claim("shuffled-number-sum", subject=VectorSum, mutants={"fast mode with p = 0.33": UnfairBits, "a noise bit too few in the messages": BitTooFew})
def check_number_algorithm(kind):
    """n = 8000 runs of each mode, seed 9, level 1e-9."""
    s = kind(users=3, low=(-1.0,), high=(1.0,), Delta=2.0, step=0.5, bits=2, slack=1e-3, p=0.3)
    x, rng, runs = np.array([[0.1], [-0.9], [1.0]]), np.random.default_rng(9), 8_000
    law = count_law(s, x[:, 0])
    assert follows(np.array([count(s.shuffled(x, rng), 1)[0] for _ in range(runs)]), law)
    assert follows(np.rint((s.sum(np.tile(x, (runs, 1, 1)), rng)[:, 0] + 3) / 0.5 + 1.8).astype(int), law)


test_number_algorithm = check_number_algorithm


class NotClipped(ShuffleGradientDescent):
    def run(self, gradient, R, noise):
        return dataclasses.replace(self, L=1e9).started(gradient, R, noise, self.eta)

    def started(self, gradient, R, noise, eta):
        theta, total = np.zeros((R, self.gradients.size)), 0.0
        for _ in range(self.rounds):
            total = total + theta
            theta = clip((theta - eta * gradient(theta).sum(axis=1)) / (1 + eta * self.ridge), self.S)
        return total / self.rounds


@claim(
    "shuffled-descent",
    subject=ShuffleGradientDescent,
    mutants={"explicit ridge": ExplicitRidge, "averages later iterates": AveragesLater, "not clipped": NotClipped},
)
def check_descent(kind):
    exact = SimpleNamespace(size=2, users=4, proxy=1.0, entries=(), sum=lambda g, noise: g.sum(axis=1))
    targets = np.random.default_rng(10).standard_normal((5, 4, 2)) * 3
    for ridge in (0.0, 50.0):
        optimiser, theta, seen = kind(exact, 6, 1.5, 1.0, ridge), np.zeros((5, 2)), []
        for _ in range(6):
            seen.append(theta)
            g = np.zeros((5, 2))
            for i in range(4):
                pull = theta - targets[:, i]
                g += pull / np.maximum(1.0, np.linalg.norm(pull, axis=1, keepdims=True))
            free = (theta - optimiser.eta * g) / (1 + optimiser.eta * ridge)
            theta = free / np.maximum(1.0, np.linalg.norm(free, axis=1, keepdims=True) / 1.5)
        got = optimiser.run(lambda theta: theta[:, None] - targets, 5, np.random.default_rng(0))
        np.testing.assert_allclose(got, np.mean(seen, axis=0), atol=1e-12)


test_descent = check_descent
