"""Sums of bits and of numbers from shuffled messages: exact laws and exact privacy."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp
from scipy.stats import binom, chisquare

from privbandit.formulas.shuffle import BIT_SUM_VARIANCE, SCALAR_BITS, SUM_VARIANCE
from privbandit.mechanisms.shuffle.bits import BitSum
from privbandit.mechanisms.shuffle.hockey_stick import binomial_shift, binomial_shift_vector, bit_sum_delta, divergence
from privbandit.mechanisms.shuffle.messages import count
from privbandit.mechanisms.shuffle.sums import ScalarSum, VectorSum

from .altered import formula, symbol
from .claim import claim
from .exact_laws import both_ways, convolve

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
        "one bit in ten more": formula(SCALAR_BITS, SCALAR_BITS.expression * 1.1),
    },
)
def check_scalar_published(bits):
    """Sufficient on the grid for g >= 2; for g = 1, delta = 1e-5 the exact delta over the target at epsilon = 10, 12, 15 and three p."""
    for g in (2, 3, 4, 10):
        for epsilon in (0.5, 2.0, 8.0, 10.0, 15.0):
            for delta in (0.02, 1e-5):
                for p in (0.01, 0.25, 0.5):
                    N = math.ceil(float(bits(g=g, epsilon=epsilon, delta=delta)) / p)
                    if N < 300_000:
                        assert binomial_shift(N, g, epsilon, p) <= delta
    for epsilon, factors in {8.0: (0.0032, 0.00024, 2.9e-6), 10.0: (1.596, 0.318, 0.0238), 12.0: (46.7, 13.4, 1.53), 15.0: (734, 317, 97.7)}.items():
        for p, factor in zip((0.01, 0.25, 0.5), factors, strict=True):
            N = math.ceil(float(bits(g=1, epsilon=epsilon, delta=1e-5)) / p)
            assert binomial_shift(N, 1, epsilon, p) / 1e-5 == pytest.approx(factor, rel=0.01)


test_scalar_published = check_scalar_published


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
