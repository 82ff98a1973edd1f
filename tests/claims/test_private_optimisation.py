"""Checks of the claims in the chapter *Private optimisation*."""

import math
from dataclasses import replace
from functools import cache, cached_property, partial

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi2, norm

from privbandit.accounting import gaussian_epsilon, gaussian_mu
from privbandit.audit import Recorder, Replayer
from privbandit.formulas.glm import JOINT_LEAF
from privbandit.links import Logistic, Probit
from privbandit.mechanisms.minibatch import MiniBatchDescent, sampled_gaussian_rdp
from privbandit.mechanisms.objective import ObjectivePerturbation
from privbandit.mechanisms.optimisers import NoisyGradientDescent, NoisyNewton, excess_loss_bound, predictions, theory_rate

from .claim import claim

LINK = Logistic()


def data(R, n, d, S, seed):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((R, d))
    theta *= S / np.linalg.norm(theta, axis=1, keepdims=True)
    x = rng.standard_normal((R, n, d))
    x /= np.maximum(1, np.linalg.norm(x, axis=2, keepdims=True))
    return x, LINK.sample(predictions(x, theta), rng.random((R, n)))


def ball(S):
    return lambda theta: theta * (S / np.maximum(S, np.linalg.norm(theta, axis=1, keepdims=True)))


def loss(theta, x, r):
    return LINK.loss(predictions(x, theta), r).sum(axis=1)


# Gradients -----------------------------------------------------------------------------------------------------------------------


class OneClip(NoisyGradientDescent):
    """Charged as if replacement moved the sum by one clip."""

    @property
    def event(self):
        return replace(super().event, Delta=self.L)


class Unclipped(NoisyGradientDescent):
    def gradient(self, theta, x, r, noise):
        residual = self.link.mu(predictions(x, theta)) - r
        return self.event.release((residual[:, None] @ x)[:, 0], noise)


@claim("gradient-sensitivity", subject=NoisyGradientDescent, mutants={"one clip": OneClip, "no clip": Unclipped})
def check_gradient(kind):
    """All pairs of 32 directions, three lengths, rewards 0 and 1 at 60 parameters up to |theta| = 1000, clip 1 and .2; rows longer than 1 are
    clipped too. More than .99 of 2L is reached; a row against none moves the sum by at most L."""
    angle = np.arange(32) * np.pi / 16
    x = np.concatenate([length * np.stack([np.cos(angle), np.sin(angle)], -1) for length in (0.3, 1.0, 3.0)])
    x, r = np.repeat(x, 2, axis=0), np.tile([0.0, 1.0], 96)
    # nearly orthogonal to theta, on the side where the residual is nearly 1
    near = np.array([[0.02, 1.0], [0.02, -1.0]]) / math.hypot(0.02, 1.0)
    x, r = np.concatenate([x, near]), np.concatenate([r, np.zeros(2)])
    for L in (1.0, 0.2):
        optimiser, reached = kind(LINK, 1, 0.0, L), 0.0
        for size in (0.0, 2.0, 1000.0):
            theta = np.tile([size, 0.0], (len(x), 1))
            g = optimiser.gradient(theta, x[:, None], r[:, None], np.random.default_rng(0))
            assert np.linalg.norm(g, axis=1).max() <= L * (1 + 1e-12)
            reached = max(reached, np.linalg.norm(g[:, None] - g[None], axis=-1).max())
        assert 0.99 * 2 * L < reached <= optimiser.event.Delta * (1 + 1e-12)


test_gradient = check_gradient


def realised(optimiser, x, r, other, start, **options):
    """mu of replacing data (x, r) by `other`, behind the same released gradients."""
    recorder = Recorder(len(x), 0)
    first = optimiser.descend(x, r, start, noise=recorder, **options)
    replayer = Replayer(recorder)
    second = optimiser.descend(*other, start, noise=replayer, **options)
    replayer.finish()
    assert np.allclose(first, second, rtol=0, atol=1e-9)
    return replayer.mu


class ReadsRows(NoisyGradientDescent):
    """Divides by the number of rows that are not zero."""

    def descend(self, x, r, start, rates, noise, **options):
        n = np.maximum(1, np.any(x != 0, axis=2).sum(axis=1))
        return super().descend(x, r, start, rates[:, None, None] / n[:, None], noise, **options)


@claim("descent-cost", subject=NoisyGradientDescent, mutants={"one clip": OneClip, "step reads the rows": ReadsRows})
def check_cost(kind):
    """sigma is 2 L sqrt(N)/mu and does not know n. Replays of 60 neighbours, n = 1, 10, 100, N = 1 and 8, and of rows replaced by padding: all
    released iterates coincide and the cost is at most mu; at |theta| = 1000 it is reached to a percent."""
    for N in (1, 8):
        optimiser = kind.calibrated(LINK, N, 0.7)
        assert optimiser.sigma == pytest.approx(2 * math.sqrt(N) / 0.7) and optimiser.mu == pytest.approx(0.7)
        for n in (1, 10, 100):
            x, r = data(10, n, 2, 2.0, n)
            other = x.copy(), r.copy()
            other[0][:, 0], other[1][:, 0] = -x[:, 0], 1 - r[:, 0]
            other[0][:5, 0] = 0.0
            start = np.zeros((10, 2))
            assert realised(optimiser, x, r, other, start, rates=np.full(N, 0.1)).max() <= 0.7 * (1 + 1e-9)
    near = np.array([[0.02, 1.0], [0.02, -1.0]]) / math.hypot(0.02, 1.0)
    start = np.array([[1000.0, 0.0]])
    pair = (near[[0]][None], np.zeros((1, 1))), (near[[1]][None], np.zeros((1, 1)))
    assert realised(kind.calibrated(LINK, 1, 0.7), *pair[0], pair[1], start, rates=np.zeros(1)).max() == pytest.approx(0.7, rel=0.01)


test_cost = check_cost


@claim(
    "descent-excess",
    subject=(excess_loss_bound, theory_rate),
    mutants={
        "a twentieth": (lambda *a: excess_loss_bound(*a) / 20, theory_rate),
        "step 100 times smaller": (excess_loss_bound, lambda *a: theory_rate(*a) / 100),
    },
)
def check_excess(pair):
    """40 data sets each, seeds 2 and 3; mean excess less 5 standard errors below the bound; four settings, noise-free ones among them. Then a
    start at the far end: one direction, all rewards 1, |theta| <= 10, 16 steps without noise."""
    bound, rate = pair
    S, d, R = 2.0, 3, 40
    for n, N, mu in ((300, 50, 1.0), (100, 200, 0.27), (300, 5, math.inf), (20, 400, math.inf)):
        x, r = data(R, n, d, S, 2)
        optimiser = NoisyGradientDescent.calibrated(LINK, N, mu)
        start = ball(S)(np.full((R, d), -1.0))
        rates = np.full(N, rate(optimiser, n, d, 2 * S))
        found = optimiser.descend(x, r, start, rates, np.random.default_rng(3), project=ball(S))
        best = NoisyNewton(LINK, S, 40, 0.0).fit(x, r, 0 * start, np.random.default_rng(0), ridge=1e-9)
        excess = loss(found, x, r) - loss(best, x, r)
        assert excess.mean() - 5 * excess.std() / math.sqrt(R) <= bound(optimiser, n, d, 2 * S)
        assert excess.mean() > 0
    optimiser, one = NoisyGradientDescent.calibrated(LINK, 16, math.inf), np.ones((1, 50, 1))
    rates = np.full(16, rate(optimiser, 50, 1, 20.0))
    found = optimiser.descend(one, one[..., 0], np.full((1, 1), -10.0), rates, np.random.default_rng(0), project=ball(10.0))
    assert loss(found, one, one[..., 0])[0] - loss(np.full((1, 1), 10.0), one, one[..., 0])[0] <= bound(optimiser, 50, 1, 20.0)


test_excess = check_excess


def scale_delta(ratio, dof, epsilon):
    """Hockey-stick divergence between N(0, I) and N(0, ratio^2 I) in `dof` dimensions, the larger direction; ratio > 1."""
    slope = (1 - 1 / ratio**2) / 2
    t, s = (epsilon + dof * math.log(ratio)) / slope, (dof * math.log(ratio) - epsilon) / slope
    up = chi2.sf(t / ratio**2, dof) - math.exp(epsilon) * chi2.sf(t, dof)
    down = chi2.cdf(s, dof) - math.exp(epsilon) * chi2.cdf(s / ratio**2, dof) if s > 0 else 0.0
    return max(up, down)


def own_rate(optimiser, n, d, diameter):
    return theory_rate(optimiser, n, d, diameter)


@claim("step-reads-rows", subject=own_rate, mutants={"public bound on n": lambda optimiser, n, d, diameter: theory_rate(optimiser, 1000, d, diameter)})
def check_reads(rate):
    """Exact chi-square laws of the iterates' increments when a row x = 0 (no gradient) is added at n = sqrt(d) sigma: needs mu' > .35 mu, and
    more than mu at small delta for one step; the direct divergence integral agrees in one dimension."""
    for N, d in ((100, 3), (20, 2), (1, 1)):
        optimiser = NoisyGradientDescent.calibrated(LINK, N, 1.0)
        n = round(math.sqrt(d) * optimiser.sigma)
        ratio = rate(optimiser, n, d, 4.0) / rate(optimiser, n + 1, d, 4.0)
        assert ratio > 1
        assert gaussian_mu(1.0, scale_delta(ratio, N * d, 1.0)) > 0.35
    assert gaussian_mu(5.0, scale_delta(ratio, 1, 5.0)) > 1.1 > gaussian_mu(2.0, scale_delta(ratio, 1, 2.0))
    direct = quad(lambda t: max(norm.pdf(t, scale=ratio) - math.e * norm.pdf(t), 0.0), -30, 30, limit=400, points=[-3, 3])[0]
    assert scale_delta(ratio, 1, 1.0) == pytest.approx(direct, rel=1e-4)


test_reads = check_reads


# Batches -------------------------------------------------------------------------------------------------------------------------


def exact_rdp(q, s, alpha):
    """One user's value moves from 0 to 1 behind noise s, all others are 0: both directions of the divergence, by quadrature."""
    one, mixed = partial(norm.pdf, loc=0, scale=s), lambda t: (1 - q) * norm.pdf(t, 0, s) + q * norm.pdf(t, 1, s)
    moments = [quad(lambda t: a(t) ** alpha * b(t) ** (1 - alpha), -15, 16, limit=500, points=[0, 1])[0] for a, b in ((one, mixed), (mixed, one))]  # noqa: B023
    return math.log(max(moments)) / (alpha - 1)


@claim("batch-account", subject=sampled_gaussian_rdp, mutants={"squared ratio": lambda q, s, a: q**2 * a / (2 * s**2) / 2, "linear": lambda q, s, a: q**3 * sampled_gaussian_rdp(1.0, s, a)})
def check_batch(bound):
    """Six ratios and orders: never below the exact divergence of a pair of neighbours, and the Gaussian mechanism's at ratio 1."""
    for q in (0.05, 0.3, 0.9):
        for alpha in (2, 3, 6):
            assert exact_rdp(q, 1.2, alpha) <= bound(q, 1.2, alpha) * (1 + 1e-9)
    assert bound(1.0, 2.0, 5) == pytest.approx(5 / 8)


test_batch = check_batch


# Newton --------------------------------------------------------------------------------------------------------------------------


class Residual(NoisyNewton):
    """Charges the root of two for the Hessian and forgets the response."""

    @property
    def event(self):
        return replace(super().event, Delta=math.sqrt(2))


class Halved(NoisyNewton):
    @cached_property
    def units(self):
        W, Y = super().units
        return W / 2, Y


@claim("newton-cost", subject=NoisyNewton, mutants={"Hessian only": Residual, "half the weight": Halved})
def check_newton(kind):
    """2,000 random pairs of rows at 50 parameters with |theta| up to 5 S, both links, d = 2 and 3: the joint shift never passes sqrt(D(1, tau));
    more than .75 of it is reached."""
    for link in (Logistic(), Probit()):
        for d in (2, 3):
            optimiser, reached, rng = kind(link, 2.0, 1, 0.0), 0.0, np.random.default_rng(d)
            W, Y = optimiser.units
            for _ in range(50):
                theta = np.tile(rng.standard_normal(d) * rng.choice([0.0, 0.5, 5.0]), (2000, 1))
                shifts = []
                x = rng.standard_normal((2, 2000, 1, d))
                x /= np.linalg.norm(x, axis=-1, keepdims=True)
                x[1, ::2] = -x[0, ::2]
                r = rng.integers(0, 2, (2, 2000, 1)).astype(float)
                for i in range(2):
                    H, y = optimiser.statistics(theta, x[i], r[i], rng)
                    shifts.append(np.concatenate([H.reshape(2000, -1) / W, y / Y], axis=1))
                reached = max(reached, np.linalg.norm(shifts[0] - shifts[1], axis=1).max())
            assert 0.75 * math.sqrt(JOINT_LEAF(a=1.0, b=optimiser.tau)) < reached <= optimiser.event.Delta * (1 + 1e-12)
    calibrated = kind.calibrated(LINK, 2.0, 3, 0.8)
    assert calibrated.mu == pytest.approx(0.8)


test_newton = check_newton


# Objective perturbation ----------------------------------------------------------------------------------------------------------


class TenthNoise(ObjectivePerturbation):
    @property
    def sigma(self):
        return super().sigma / 10


def divergence(mechanism):
    """The largest hockey-stick divergence of exact output densities in one dimension, all neighbours over 8 records, beside 0 or 3 others."""
    link, lam, sigma, worst = mechanism.link, mechanism.lambda_, mechanism.sigma, 0.0
    grid = np.linspace(-1, 1, 20_001) * (10 * sigma + 5) / lam
    for others in ([], [(1.0, 1.0), (-0.5, 1.0), (1.0, 0.0)]):
        p = []
        for record in [(x, r) for x in (-1.0, 0.0, 0.5, 1.0) for r in (0.0, 1.0)]:
            x, r = np.array([record, *others]).T
            z = grid[:, None] * x
            tilt = -np.sum((link.mu(z) - r) * x, axis=1) - lam * grid
            p.append(norm.pdf(tilt, scale=sigma) * (np.sum(link.dmu(z) * x**2, axis=1) + lam))
        assert np.allclose(np.trapezoid(p, grid, axis=1), 1, atol=1e-4)
        worst = max(worst, *(np.trapezoid(np.maximum(a - math.exp(mechanism.epsilon) * b, 0), grid) for a in p for b in p))
    return worst


@claim("objective-perturbation", subject=ObjectivePerturbation, mutants={"a tenth of the noise": TenthNoise})
def check_objective(kind):
    """Exact densities at four budgets and both links; sigma solves its equation; Q(a/sqrt v) is convex up to a^2/3."""
    for link in (Logistic(), Probit()):
        for epsilon, delta, lam in ((0.5, 0.01, 2.0), (1.0, 1e-3, 0.5), (3.0, 0.08, 0.2), (8.0, 0.02, 1.0)):
            mechanism = kind(link, epsilon, delta, lam)
            assert divergence(mechanism) <= delta
            a = mechanism.sigma * mechanism.slack - 2 / mechanism.sigma
            assert a >= math.sqrt(12) and 2 * norm.sf(a / 2) == pytest.approx(delta, rel=1e-6)
    for a in (math.sqrt(12), 5.0, 9.0):
        v = np.linspace(1e-3, a**2 / 3, 2001)
        assert np.all(np.diff(norm.sf(a / np.sqrt(v)), 2) >= -1e-15)
        split = norm.sf(a / np.sqrt(np.maximum(v[v <= 4], 1e-9))) + norm.sf(a / np.sqrt(np.maximum(4 - v[v <= 4], 1e-9)))
        assert np.all(split <= norm.sf(a / 2) * (1 + 1e-9))


test_objective = check_objective


# Which wins ----------------------------------------------------------------------------------------------------------------------


@cache
def excesses(n, epsilon, R, delta=1e-5, d=3, S=2.0):
    """Excess losses (R,) of four optimisers on the same R data sets of n users."""
    mu, (x, r) = gaussian_mu(epsilon, delta), data(R, n, d, S, 1)
    start = np.zeros((R, d))
    best = loss(NoisyNewton(LINK, S, 30, 0.0).fit(x, r, start, np.random.default_rng(0), ridge=1e-9), x, r)
    descent = NoisyGradientDescent.calibrated(LINK, 200, mu)
    rates = np.full(200, theory_rate(descent, n, d, 2 * S))
    found = {"descent": descent.descend(x, r, start, rates, np.random.default_rng(2), project=ball(S))}
    for k in (1, 3):
        newton = NoisyNewton.calibrated(LINK, S, k, mu)
        ridge = max(1.0, 3 * newton.sigma * newton.units[0] * math.sqrt(2 * d))
        found[f"newton {k}"] = newton.fit(x, r, start, np.random.default_rng(3), ridge=ridge)
    found["objective"] = ball(S)(ObjectivePerturbation(LINK, epsilon, delta, 1.0).fit(x, r, np.random.default_rng(4)))
    return {name: loss(theta, x, r) - best for name, theta in found.items()}


def relabelled(*names):
    """The table with the columns of two optimisers exchanged."""
    return lambda *cell: excesses(*cell) | dict(zip(names, map(excesses(*cell).get, reversed(names)), strict=True))


def least(table):
    """The optimisers that no other beats by 3 standard errors of the paired difference."""

    def beats(a, b):
        return (b - a).mean() > 3 * (b - a).std(ddof=1) / math.sqrt(len(a))

    return {name for name, own in table.items() if not any(beats(other, own) for other in table.values())}


@claim(
    "optimiser-comparison",
    subject=excesses,
    mutants={
        "the other way": lambda *cell: {k: -v for k, v in excesses(*cell).items()},
        "one step for three": relabelled("newton 1", "newton 3"),
        "descent for one step": relabelled("descent", "newton 1"),
        "descent for objective": relabelled("descent", "objective"),
    },
)
def check_comparison(excess):
    """Seeds 1 to 4, 1,000 data sets for n <= 300 and 30 above; paired differences at 3 standard errors. The differences that must show
    are 4.5 standard errors (n = 30: one step against descent) or above 6."""
    for epsilon, few in ((1.0, ({"newton 1"}, {"newton 1", "descent"}, {"descent", "objective"})), (4.0, ({"newton 1", "descent", "objective"},))):
        among = dict(zip((30, 100, 300), few, strict=False))
        for n in (30, 100, 300, 1000, 3000):
            best = least(excess(n, epsilon, 1000 if n <= 300 else 30))
            assert best <= among.get(n, {"objective"})
    many = {name: v.mean() for name, v in excess(3000, 1.0, 30).items()}
    assert 2 * many["objective"] < many["newton 3"] < many["newton 1"] < many["descent"]


test_comparison = check_comparison


def test_batches_have_an_account():
    """Full batches cost what the Gaussian mechanism costs under the same conversion, at least its exact epsilon."""
    full = MiniBatchDescent(LINK, n=50, batch=50, steps=4, sigma=8.0, delta=1e-5)
    assert full.epsilon >= gaussian_epsilon(2 * math.sqrt(4) / 8.0, 1e-5)
