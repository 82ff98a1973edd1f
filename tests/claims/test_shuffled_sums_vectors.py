"""Sums of vectors from shuffled messages: certificates of their privacy, and how these compose."""

from __future__ import annotations

import dataclasses
import math
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

from privbandit.accounting import compose_mu, gaussian_delta
from privbandit.ledger import Entry, Ledger
from privbandit.linalg import into_ball, outer
from privbandit.mechanisms.shuffle.certificate import BinomialNoise, inflation
from privbandit.mechanisms.shuffle.hockey_stick import binomial_shift, binomial_shift_vector
from privbandit.mechanisms.shuffle.sums import VectorSum, symmetric_range

from .claim import claim
from .exact_laws import both_ways


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
    x, y = (into_ball(v, 1.0) for v in rng.standard_normal((2, 20_000, 3)))
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
