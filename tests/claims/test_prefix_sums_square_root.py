"""Private prefix sums: the square root of the sum matrix, its streaming form, and adaptive increments."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.polynomial import polynomial

from privbandit.accounting import gaussian_delta
from privbandit.audit.covariance import noise_matrix
from privbandit.mechanisms import HonakerTree, PerUser, SquareRoot, SquareRootFFT, TreeMechanism
from privbandit.mechanisms.square_root import Factor, power_series_quotient, square_root_coefficients, streaming_factor

from .claim import claim
from .measured_noise import is_honest, row_norms

# Square root -------------------------------------------------------------------------------------------------------------------


@claim(
    "square-root-factor",
    subject=square_root_coefficients,
    mutants={
        "inverse roots": lambda T: 1 / np.sqrt(np.arange(1, T + 1)),
        "shifted": lambda T: np.concatenate([[1.0], np.cumprod((2 * np.arange(1, T) - 1) / (2 * np.arange(1, T) + 1))]),
    },
)
def check_factor(coefficients):
    """Exact rationals up to 200 coefficients; floating point up to 4096."""
    exact = [Fraction(math.comb(2 * k, k), 4**k) for k in range(200)]
    assert all(sum(exact[j] * exact[k - j] for j in range(k + 1)) == 1 for k in range(200))
    assert np.allclose(coefficients(200), [float(c) for c in exact], rtol=1e-13)
    c = coefficients(4096)
    assert np.allclose(polynomial.polymul(c, c)[:4096], 1.0, atol=1e-10)


test_factor = check_factor


class OneTermLess(SquareRootFFT):
    @property
    def column_norm(self):
        c = square_root_coefficients(self.horizon)
        return float(np.sqrt(np.sum(c[: max(1, self.horizon - 1)] ** 2)))


class ChargesLargest(SquareRootFFT):
    column_norm = 1.0


@claim("square-root-cost", subject=SquareRootFFT, mutants={"one term less": OneTermLess, "largest entry": ChargesLargest})
def check_cost(kind):
    is_honest(kind)
    for n, known in ((8, 1.7183792591095), (100, 2.5313521126356), (1000, 3.2650030806724), (1024, 3.2725541502731)):
        assert kind.calibrated(n, 1.0).max_std == pytest.approx(known, rel=1e-12)


test_cost = check_cost


@claim(
    "square-root-growth",
    subject=lambda T: (np.log(T) + np.euler_gamma + 4 * math.log(2)) / np.pi,
    mutants={
        "no Euler constant": lambda T: (np.log(T) + 4 * math.log(2)) / np.pi,
        "two ln 2": lambda T: (np.log(T) + np.euler_gamma + 2 * math.log(2)) / np.pi,
        "rate one half": lambda T: (np.log(T) + np.euler_gamma + 4 * math.log(2)) / 2,
    },
)
def check_growth(limit):
    """The gap is positive and at most 1/(4 pi T) for every T up to 100,000; the generating function to 30 digits."""
    T = np.arange(1, 100_001)
    gap = limit(T) - np.cumsum(square_root_coefficients(len(T)) ** 2)
    assert np.all(gap > 0) and np.all(4 * np.pi * T * gap <= 1 + 1e-6)
    with mpmath.workdps(30):
        series = mpmath.taylor(lambda m: 2 / mpmath.pi * mpmath.ellipk(m), 0, 8)
        assert all(abs(a - mpmath.mpf(math.comb(2 * k, k)) ** 2 / 16**k) < 1e-12 for k, a in enumerate(series))
        m = 1 - mpmath.mpf(10) ** -12
        assert abs(mpmath.ellipk(m) - mpmath.log(16 / (1 - m)) / 2) < 1e-10


test_growth = check_growth


def nuclear_bound(T):
    k = np.arange(1, T + 1)
    return float(np.mean(1 / (2 * np.sin((2 * k - 1) * np.pi / (4 * T + 2)))))


@claim(
    "factorisation-bound",
    subject=nuclear_bound,
    mutants={
        "angles of the cycle": lambda T: float(np.mean(1 / (2 * np.sin((2 * np.arange(1, T + 1) - 1) * np.pi / (4 * T))))),
        "one tenth more": lambda T: 1.1 * nuclear_bound(T),
    },
)
def check_lower(bound):
    """Singular values at T up to 300; no mechanism of the package and none of 200 random factorisations at T = 12 lies below."""
    for T in (1, 2, 5, 40, 300):
        assert bound(T) == pytest.approx(np.linalg.svd(np.tri(T), compute_uv=False).sum() / T, rel=1e-9)
        for kind in (TreeMechanism, HonakerTree, SquareRoot, SquareRootFFT, PerUser):
            assert kind.calibrated(T, 1.0).max_std >= bound(T) - 1e-12
    rng = np.random.default_rng(3)
    for _ in range(200):
        C = np.tri(12) * rng.standard_normal((12, 12)) + 3 * np.eye(12)
        B = np.linalg.solve(C.T, np.tri(12).T).T
        assert row_norms(B).max() * row_norms(C.T).max() >= bound(12)


test_lower = check_lower


class Coarse(SquareRoot):
    """Two exponentials only, charged for what they are."""

    @property
    def factor(self):
        decay, weight = np.array([0.2, 0.9]), np.array([0.7, 0.3])
        b = (weight[:, None] * decay[:, None] ** np.arange(self.horizon)).sum(0)
        c = power_series_quotient(np.ones(self.horizon), b)
        return Factor(decay, weight, float(np.sqrt(np.sum(c**2))), np.cumsum(b**2))


class ChargedAsIdeal(Coarse):
    """Uses two exponentials and charges the ideal square root."""

    @property
    def factor(self):
        ideal = float(np.sqrt(np.sum(square_root_coefficients(self.horizon) ** 2)))
        return super().factor._replace(column_norm=ideal)


class ForgetsMemory(SquareRoot):
    """Adds fresh noise to the exact prefix and forgets the earlier rows."""

    def release(self, state, increment, noise):
        state, prefix = super().release(state, increment, noise)
        return state._replace(noise=np.zeros_like(state.noise)), prefix


@claim("streaming-cost", subject=(SquareRoot, Coarse), mutants={"charged as ideal": (SquareRoot, ChargedAsIdeal), "no memory": (ForgetsMemory, Coarse)})
def check_streaming(kinds):
    """Measured covariance: a good and a deliberately crude approximation both cost what they charge."""
    for kind in kinds:
        is_honest(kind)


test_streaming = check_streaming


def halved(T):
    """Half of the exponentials."""
    full = streaming_factor(T)
    decay, weight = full.decay[::2], full.weight[::2] / full.weight[::2].sum()
    b = (weight[:, None] * decay[:, None] ** np.arange(T)).sum(0)
    c = power_series_quotient(np.ones(T), b)
    return Factor(decay, weight, float(np.sqrt(np.sum(c**2))), np.cumsum(b**2))


@claim("streaming-size", subject=streaming_factor, mutants={"every second term": halved})
def check_size(factor):
    """At 14 horizons from 1 to 65,536: at most ln T + 19 terms; largest deviation within 1e-4, mean deviation within 2e-3 of the exact root's."""
    for T in [2**k for k in range(0, 17, 2)] + [3, 1000, 1023, 1025, 5000]:
        f, exact = factor(T), np.cumsum(square_root_coefficients(T) ** 2)
        assert len(f.decay) <= math.log(T) + 19
        assert f.column_norm * math.sqrt(f.row_variance[-1]) == pytest.approx(exact[-1], rel=1e-4)
        assert f.column_norm * np.sqrt(f.row_variance).mean() == pytest.approx(np.sqrt(exact[-1] * exact).mean(), rel=2e-3)


test_size = check_size


@claim(
    "prefix-noise-at-1024",
    subject=(TreeMechanism, SquareRoot),
    mutants={"Honaker for the tree": (HonakerTree, SquareRoot), "tree against itself": (TreeMechanism, TreeMechanism)},
)
def check_constants(kinds):
    tree, root = (kind.calibrated(1024, 1.0) for kind in kinds)
    assert tree.max_std == pytest.approx(math.sqrt(110), rel=1e-12)
    assert kinds[0].calibrated(1023, 1.0).max_std == pytest.approx(10.0, rel=1e-12)
    assert root.max_std == pytest.approx(3.2727, abs=5e-5)
    assert root.max_std < 10.0 / 3 * 0.99 and tree.mean_std / root.mean_std > 2.3


test_constants = check_constants


# Adaptive increments -----------------------------------------------------------------------------------------------------------


def reads_prefix(prefix, total):
    return np.tanh(prefix)


def reads_total(prefix, total):
    return np.tanh(total)


def losses(kind, feedback, swap, R, seed):
    """Realised privacy losses of R adaptive streams: each increment is a function of what came before; user `swap` gives +1/2 or -1/2.

    The loss compares the densities of the published prefixes when the same mechanism runs on the neighbouring stream.
    """
    T = 16
    mechanism, noise = kind.calibrated(T, 1.0), np.random.default_rng(seed)
    state, prefix = mechanism.init(R, 1, noise), np.zeros((R, 1))
    total, other, gaps = np.zeros((R, 1)), np.zeros((R, 1)), []
    for t in range(T):
        mine, theirs = feedback(prefix, total), feedback(prefix, other)
        if t == swap:
            mine, theirs = mine * 0 + 0.5, mine * 0 - 0.5
        total, other = total + mine, other + theirs
        state, prefix = mechanism.release(state, mine, noise)
        gaps.append((prefix - total, prefix - other))
    here, there = (np.array([g[i][:, 0] for g in gaps]) for i in (0, 1))
    root = np.linalg.cholesky(noise_matrix(mechanism) @ noise_matrix(mechanism).T)
    return 0.5 * np.sum(np.linalg.solve(root, there) ** 2 - np.linalg.solve(root, here) ** 2, axis=0)


@claim(
    "adaptive-prefixes",
    subject=(SquareRoot, reads_prefix, 0),
    mutants={"increments read unreleased sums": (SquareRoot, reads_total, 0), "charges the largest entry only": (ChargesLargest, reads_prefix, 0)},
)
def check_adaptive(case):
    """n = 20,000 streams of 16 users, seed 7. The loss must be N(1/2, 1): mean within 5 standard errors (0.035), variance within 5 standard
    errors (0.05), delta at epsilon = 1 within 5. Mutants move the mean by at least 0.2, so the power is 1 to many digits."""
    n = 20_000
    loss = losses(*case, R=n, seed=7)
    assert abs(loss.mean() - 0.5) < 5 / math.sqrt(n)
    assert abs(loss.var() - 1.0) < 5 * math.sqrt(2 / n)
    reached = np.maximum(0.0, -np.expm1(1.0 - loss))
    assert abs(reached.mean() - gaussian_delta(1.0, 1.0)) < 5 * reached.std() / math.sqrt(n)


test_adaptive = check_adaptive
