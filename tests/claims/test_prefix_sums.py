"""Checks of the claims in the chapter on private prefix sums."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy as sp
from numpy.polynomial import polynomial

from privbandit.accounting import gaussian_delta
from privbandit.audit.covariance import data_matrix, exact_mu, noise_matrix
from privbandit.formulas.linear import MATRIX_NORM
from privbandit.ledger import Entry, Gaussian
from privbandit.linalg import outer, smat, svec
from privbandit.mechanisms import HonakerTree, PerUser, SquareRoot, SquareRootFFT, TreeMechanism
from privbandit.mechanisms.square_root import Factor, power_series_quotient, square_root_coefficients, streaming_factor
from privbandit.sensitivity import OUTER, outer_distance
from privbandit.spectra import sample_eigenvalues

from .claim import claim

HORIZONS = (1, 2, 3, 7, 8, 1023, 1024, 1025)
SMALL = (1, 2, 3, 7, 8, 21)


def row_norms(matrix):
    return np.sqrt(np.sum(matrix**2, axis=1))


def is_honest(kind, horizons=SMALL, tight=True):
    """Calibrated to mu = 1, the published prefixes are unbiased and reveal at most (exactly, if tight) mu = 1, by measured covariance."""
    for T in horizons:
        mechanism = kind.calibrated(T, 1.0)
        assert np.allclose(data_matrix(mechanism), np.tri(T), atol=1e-12)
        assert np.allclose(row_norms(noise_matrix(mechanism)), mechanism.std(np.arange(1, T + 1)), rtol=1e-9)
        assert exact_mu(mechanism) <= 1 + 1e-9
        assert not tight or exact_mu(mechanism) == pytest.approx(1.0, rel=1e-9)


# Naive ways --------------------------------------------------------------------------------------------------------------------


class FreshNoise(PerUser):
    """Fresh noise in every prefix."""

    @property
    def entries(self):
        return (Entry("prefix", self.report, self.horizon),)

    def std(self, t):
        return self.sigma + 0 * super().std(t)

    def release(self, state, increment, noise):
        total = state.total + increment
        return state._replace(step=state.step + 1, total=total), self.report.release(total, noise)


class ChargedOnce(FreshNoise):
    @property
    def entries(self):
        return (Entry("prefix", self.report),)


class ChargedByLevels(FreshNoise):
    @property
    def entries(self):
        return (Entry("prefix", self.report, self.horizon.bit_length()),)


@claim("fresh-noise", subject=FreshNoise, mutants={"charged once": ChargedOnce, "charged by levels": ChargedByLevels})
def check_fresh(kind):
    """Exact, by the covariance of what is published; least noise sqrt(T) at mu = 1."""
    is_honest(kind)
    assert kind.calibrated(1024, 1.0).max_std == pytest.approx(32.0)


test_fresh = check_fresh


class HalfReports(PerUser):
    @property
    def report(self):
        return Gaussian(self.Delta, self.sigma / 2)


class GrowsLinearly(PerUser):
    def std(self, t):
        return self.sigma * self._check_t(t).astype(float)


@claim("local-noise", subject=PerUser, mutants={"half the noise": HalfReports, "adds deviations": GrowsLinearly})
def check_local(kind):
    is_honest(kind)
    assert kind.calibrated(1024, 1.0).std(np.array([1, 4, 1024])) == pytest.approx([1.0, 2.0, 32.0])


test_local = check_local


# Tree --------------------------------------------------------------------------------------------------------------------------


def nodes(T):
    """All complete dyadic blocks of 1..T, as (first, last)."""
    return [(a * 2**h + 1, (a + 1) * 2**h) for h in range(T.bit_length()) for a in range(T // 2**h)]


class LevelsOfCeiling(TreeMechanism):
    @property
    def levels(self):
        return max(1, (self.horizon - 1).bit_length())


class OneLevelMore(TreeMechanism):
    @property
    def levels(self):
        return self.horizon.bit_length() + 1


@claim("tree-levels", subject=TreeMechanism, mutants={"ceiling of log2": LevelsOfCeiling, "one level more": OneLevelMore})
def check_levels(kind):
    """Exact: the blocks that hold a user, counted, at eight horizons; the measured cost at six."""
    for T in HORIZONS:
        first, last = np.array(nodes(T)).T
        held = [int(np.sum((first <= i) & (i <= last))) for i in range(1, T + 1)]
        assert kind(T, 1.0).levels == max(held) == math.floor(math.log2(T)) + 1
    is_honest(kind)


test_levels = check_levels


class Flat(TreeMechanism):
    def std(self, t):
        return self.sigma * math.sqrt(self.levels) + 0 * super().std(t)


class Redrawn(TreeMechanism):
    """Reads every node with fresh noise."""

    def release(self, state, increment, noise):
        state, prefix = super().release(state, increment, noise)
        return state, prefix + self.node.release(np.zeros_like(prefix), noise)


@claim("tree-noise", subject=TreeMechanism, mutants={"all levels": Flat, "fresh noise at each reading": Redrawn})
def check_tree_noise(kind):
    """Exact: weights of all draws in all prefixes of the running code."""
    for T in (1, 2, 3, 7, 8, 255, 256, 257):
        tree = kind(T, 1.5)
        t = np.arange(1, T + 1)
        ones = np.array([int(i).bit_count() for i in t])
        assert np.allclose(row_norms(noise_matrix(tree)) ** 2, 1.5**2 * ones)
        assert np.allclose(tree.std(t) ** 2, 1.5**2 * ones)


test_tree_noise = check_tree_noise


class EqualWeights(HonakerTree):
    def _merge(self, level, node, right, left):
        return (node + left + right) / 2


class ClaimsMore(HonakerTree):
    @staticmethod
    def variance_factor(level):
        return HonakerTree.variance_factor(level) / 2


@claim("honaker-variance", subject=HonakerTree, mutants={"plain tree": TreeMechanism, "equal weights": EqualWeights, "claims half": ClaimsMore})
def check_honaker(kind):
    """sympy: the recursion v = 2u/(1 + 2u) has the closed form; then the running code, and that no other weight does better."""
    h = sp.Symbol("h", integer=True, nonnegative=True)
    v = 2**h / (2 ** (h + 1) - 1)
    u = v.subs(h, h - 1)
    assert v.subs(h, 0) == 1 and sp.simplify(v - 2 * u / (1 + 2 * u)) == 0
    w, U = sp.symbols("w U", positive=True)
    assert sp.solve(sp.diff(w**2 + (1 - w) ** 2 * U, w), w) == [U / (1 + U)]
    is_honest(kind, tight=False)
    for T in (7, 64):
        level = np.arange(T.bit_length())
        t = np.arange(1, T + 1)
        expected = ((t[:, None] >> level) & 1) @ (2.0**level / (2.0 ** (level + 1) - 1))
        assert np.allclose(row_norms(noise_matrix(kind(T, 1.0))) ** 2, expected)


test_honaker = check_honaker


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


# Matrices ----------------------------------------------------------------------------------------------------------------------


def upper(M):
    """The upper triangle without its weights."""
    return M[..., *np.triu_indices(M.shape[-1])]


@claim("svec-isometry", subject=svec, mutants={"no root of two": upper, "all entries twice": lambda M: np.sqrt(2) * upper(M)})
def check_svec(svec):
    """sympy for d = 3 (the squared norms agree as polynomials), and d = 1 to 6 numerically with the inverse."""
    a = sp.symbols("a0:6")
    M = sp.Matrix([[a[0], a[1], a[2]], [a[1], a[3], a[4]], [a[2], a[4], a[5]]])
    scale = svec(np.ones((3, 3)))
    squares = sum(sp.nsimplify(round(w**2, 9)) * x**2 for w, x in zip(scale, a, strict=True))
    assert sp.expand(squares - sum(x**2 for x in M)) == 0
    for d in range(1, 7):
        G = np.random.default_rng(d).standard_normal((5, d, d))
        G = G + np.swapaxes(G, 1, 2)
        assert np.allclose(np.linalg.norm(svec(G), axis=-1), np.linalg.norm(G, axis=(1, 2)))
        assert np.allclose(smat(svec(G), d), G)


test_svec = check_svec


def spread(divisor):
    """svec-covariance of (Z + Z^T)/divisor for independent standard normal entries Z, d = 3, from the definition."""
    def covariance(d):
        columns = [svec((E + E.T) / divisor) for E in np.eye(d * d).reshape(-1, d, d)]
        return np.array(columns).T @ np.array(columns)

    return covariance


@claim("symmetrised-noise", subject=spread(2.0), mutants={"divided by the root of two": spread(math.sqrt(2)), "not divided": spread(1.0)})
def check_symmetrised(covariance):
    """Exact covariance in svec coordinates for d = 1 to 5, hence mu = |D|_F / s; the divergence of two such laws symbolically for d = 2."""
    for d in range(1, 6):
        assert np.allclose(covariance(d), np.eye(d * (d + 1) // 2))
    s = sp.Symbol("s", positive=True)
    p, q, r = sp.symbols("p q r", real=True)
    law = sp.diag(s**2, s**2 / 2, s**2)  # (Z + Z^T)/2: diagonal, off-diagonal, diagonal
    D = sp.Matrix([p, q, r])
    frobenius = p**2 + 2 * q**2 + r**2
    assert sp.simplify((D.T * law.inv() * D)[0] - frobenius / s**2) == 0


test_symmetrised = check_symmetrised


def scaled(name, factor):
    return {**OUTER, name: replace(OUTER[name], expression=factor * OUTER[name].expression)}


@claim(
    "frobenius-sensitivity",
    subject=OUTER,
    mutants={"operator norm": scaled("replace", 1 / sp.sqrt(2)), "triangle inequality": scaled("replace", sp.sqrt(2)), "one relation": {**OUTER, "add-remove": OUTER["replace"]}},
)
def check_frobenius(formulas):
    """All pairs from a grid of lengths and 64 directions in the plane (the worst pair spans a plane), and random pairs in five dimensions."""
    angle = np.arange(64) * np.pi / 32
    x = np.concatenate([r * np.stack([np.cos(angle), np.sin(angle)], -1) for r in (0.0, 0.3, 0.7, 1.0)])
    distance = outer_distance(x[:, None], x[None, :])
    assert np.allclose(distance, np.linalg.norm(outer(x)[:, None] - outer(x)[None, :], axis=-1), atol=1e-7)
    assert distance.max() == pytest.approx(float(formulas["replace"]()), rel=1e-9)
    assert np.linalg.norm(outer(x), axis=-1).max() == pytest.approx(float(formulas["add-remove"]()), rel=1e-9)
    y = np.random.default_rng(4).standard_normal((2, 2000, 5))
    y /= np.linalg.norm(y, axis=-1, keepdims=True)
    weight = np.random.default_rng(5).random((2, 2000, 1))
    assert np.all(np.linalg.norm(weight[0] * outer(y[0]) - weight[1] * outer(y[1]), axis=-1) <= float(formulas["replace"]()))


test_frobenius = check_frobenius


@claim(
    "matrix-noise-norm",
    subject=MATRIX_NORM,
    mutants={
        "no tail": lambda d, sigma, zeta: sigma * math.sqrt(2 * d),
        "half": lambda d, sigma, zeta: MATRIX_NORM(d=d, sigma=sigma, zeta=zeta) / 2,
        "quarter of the dimension": lambda d, sigma, zeta: MATRIX_NORM(d=d / 4, sigma=sigma, zeta=zeta),
    },
)
def check_norm(bound):
    """n = 5,000 matrices for each d in 1, 3, 10, 20; seed 6; zeta = 0.05. Passes while the failure rate is below zeta: the true rates are
    below .01, so a false alarm is more than 20 standard errors away; the mutants' rates at one d at least are above .1, 10 standard errors
    on the other side. Mean: E lambda_max <= sqrt(2 d) within 5 standard errors."""
    n, zeta = 5_000, 0.05
    for d in (1, 3, 10, 20):
        eigenvalues = sample_eigenvalues(d, 1.0, n, np.random.default_rng(6))
        rate = np.mean(np.abs(eigenvalues).max(1) > float(bound(d=d, sigma=1.0, zeta=zeta)))
        assert rate <= zeta
        top = eigenvalues[:, -1]
        assert top.mean() <= math.sqrt(2 * d) + 5 * top.std() / math.sqrt(n)


test_norm = check_norm


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
