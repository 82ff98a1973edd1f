"""Generalised linear models: moments of canonical models, the probit link, and its losses."""

from __future__ import annotations

from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
import sympy as sp
from scipy.optimize import minimize

from privbandit.environments.glm import uniform_ball
from privbandit.links import Logistic, Probit, TruncatedPoisson

from .claim import claim

Z = np.linspace(-4, 4, 81)
PHI = sp.exp(-sp.Symbol("z") ** 2 / 2) / sp.sqrt(2 * sp.pi)


def variant(link, **functions):
    """`link` with some of its functions replaced."""
    names = ("b", "mu", "dmu", "ddmu", "loss", "variance", "sample", "dispersion", "reward_range", "nll", "nll_gradient")
    return SimpleNamespace(**{n: getattr(link, n) for n in names if hasattr(link, n)} | functions)


# Canonical models ----------------------------------------------------------------------------------------------------------------


@claim(
    "canonical-moments",
    subject=(Logistic(), TruncatedPoisson(5)),
    mutants={
        "third moment doubled": (Logistic(), variant(TruncatedPoisson(5), ddmu=lambda z: 2 * TruncatedPoisson(5).ddmu(z))),
        "raw second moment": (variant(Logistic(), dmu=Logistic().mu), TruncatedPoisson(5)),
    },
)
def check_moments(links):
    """Symbolic for three atoms; the package against sums over the atoms."""
    z = sp.Symbol("z", real=True)
    for weights in ((1, 1), (1, 1, sp.Rational(1, 2)), (2, 1, 3)):
        partition = sum(w * sp.exp(k * z) for k, w in enumerate(weights))
        p = [w * sp.exp(k * z) / partition for k, w in enumerate(weights)]
        mean = sum(k * q for k, q in enumerate(p))
        for order in (2, 3):
            central = sum((k - mean) ** order * q for k, q in enumerate(p))
            assert sp.simplify(sp.diff(sp.log(partition), z, order) - central) == 0
    for link in links:
        low, high = link.reward_range(1.0)
        k = np.arange(int(high) + 1)
        base = [1.0] * len(k) if high == 1 else [1 / float(mpmath.factorial(i)) for i in k]
        p = np.array(base) * np.exp(np.outer(Z, k) - link.b(Z)[:, None])
        assert np.allclose(p.sum(1), 1) and np.allclose(p @ k, link.mu(Z))
        deviation = k - link.mu(Z)[:, None]
        for order, function in ((2, link.dmu), (3, link.ddmu)):
            assert np.allclose(np.sum(p * deviation**order, axis=1), function(Z), atol=1e-12)
        assert np.all(np.abs(link.ddmu(Z)) <= high * link.dmu(Z)) and np.all(link.dmu(Z) <= high**2 / 4 + 1e-12)
    assert Logistic().dmu(0.0) == 0.25


test_moments = check_moments


# Probit --------------------------------------------------------------------------------------------------------------------------


@claim(
    "probit-variance",
    subject=Probit(),
    mutants={
        "constant 0.62": variant(Probit(), dispersion=0.62),
        "constant 1": variant(Probit(), dispersion=1.0),
        "canonical variance": variant(Probit(), variance=Probit().dmu),
    },
)
def check_variance(link):
    """50 digits for |z| <= 30, with the disc inequality of the proof; the package's floats beside it."""
    with mpmath.workdps(50):
        for z in mpmath.linspace(0, 30, 121):
            variance = mpmath.ncdf(z) * mpmath.ncdf(-z)
            assert 4 * variance <= mpmath.exp(-(z**2) / 2)
            assert abs(link.variance(float(z)) / variance - 1) < 1e-12
    z = np.linspace(-30, 30, 2401)
    assert np.all(link.variance(z) <= link.dispersion * link.dmu(z) * (1 + 1e-12))
    assert link.variance(0.0) == pytest.approx(link.dispersion * link.dmu(0.0), rel=1e-12)


test_variance = check_variance


@claim(
    "quasi-loss",
    subject=Probit(),
    mutants={
        "density left out of b": variant(Probit(), b=lambda z: z * Probit().mu(z), loss=lambda z, r: z * Probit().mu(z) - r * z),
        "likelihood value": variant(Probit(), loss=Probit().nll),
    },
)
def check_quasi(link):
    """Symbolic b' = Phi, b'' = phi; package against 40 digits in both tails; population minimiser at the truth."""
    z = sp.Symbol("z")
    cdf = (1 + sp.erf(z / sp.sqrt(2))) / 2
    b = z * cdf + PHI
    assert sp.simplify(sp.diff(b, z) - cdf) == 0 and sp.simplify(sp.diff(b, z, 2) - PHI) == 0
    with mpmath.workdps(40):
        for point in (-20, -3, 0, 1, 9):
            exact = point * mpmath.ncdf(point) + mpmath.npdf(point)
            assert abs(link.b(float(point)) / exact - 1) < 1e-10
    truth, step = 0.7, 1e-4
    mean = link.mu(truth)
    for r in (0.0, 1.0):
        slope = (link.loss(Z + step, r) - link.loss(Z - step, r)) / (2 * step)
        assert np.allclose(slope, link.mu(Z) - r, atol=1e-7) and np.all(np.abs(slope) <= 1)
    risk = mean * link.loss(Z, 1.0) + (1 - mean) * link.loss(Z, 0.0)
    assert np.all(np.diff(risk, 2) > 0) and abs(Z[np.argmin(risk)] - truth) < 0.051


test_quasi = check_quasi


@claim(
    "likelihood-gradient",
    subject=Probit(),
    mutants={
        "quasi-gradient": variant(Probit(), nll_gradient=lambda z, r: Probit().mu(z) - r),
        "clipped at 3": variant(Probit(), nll_gradient=lambda z, r: np.clip(Probit().nll_gradient(z, r), -3, 3)),
    },
)
def check_likelihood(link):
    with mpmath.workdps(40):
        for z in (0.01, 0.5, 1, 2, 3, 8, 30):
            mills = mpmath.npdf(z) / mpmath.ncdf(-z)
            assert z < mills < z + mpmath.mpf(1) / z
            assert abs(link.nll_gradient(z, 0.0) / mills - 1) < 1e-10
            assert link.nll_gradient(-z, 1.0) == pytest.approx(-float(mills), rel=1e-10)
    assert link.nll_gradient(2.0, 0.0) == pytest.approx(2.373, abs=5e-4)
    assert link.nll_gradient(3.0, 0.0) == pytest.approx(3.283, abs=5e-4)


test_likelihood = check_likelihood


def mixed(link, z, r):
    return link.nll(z, r), link.mu(z) - r


def likelihood(link, z, r):
    return link.nll(z, r), link.nll_gradient(z, r)


def quasi(link, z, r):
    return link.loss(z, r), link.mu(z) - r


def probit_data(n=300, sets=50, S=3.0, seed=2):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((sets, 3))
    theta *= S / np.linalg.norm(theta, axis=1, keepdims=True)
    x = uniform_ball(rng, (sets, n), 3)
    return x, Probit().sample(np.einsum("rnd,rd->rn", x, theta), rng.random((sets, n)))


def lbfgs(pair, x, r, ridge=1.0):
    """Final points and success flags of a quasi-Newton fit with the (value, slope) `pair`, one fit for each data set."""

    def objective(theta, x, r):
        value, slope = pair(Probit(), x @ theta, r)
        return value.sum() + ridge / 2 * theta @ theta, slope @ x + ridge * theta

    fits = [minimize(objective, np.zeros(3), args=data, jac=True, method="L-BFGS-B") for data in zip(x, r, strict=True)]
    return np.array([f.x for f in fits]), np.array([f.success for f in fits])


@claim("mixed-probit-fit", subject=mixed, mutants={"likelihood with its gradient": likelihood, "quasi-loss with its gradient": quasi})
def check_mixed(pair):
    """50 data sets, n = 300, d = 3, seed 2. At least 3 failures and nearer to the quasi-likelihood fit; about 11 failures are seen, and a
    binomial of mean 11 has 3 or fewer with probability below 0.004. Matched pairs fail on none."""
    x, r = probit_data()
    end, success = lbfgs(pair, x, r)
    reference, good = lbfgs(quasi, x, r)
    other, fine = lbfgs(likelihood, x, r)
    assert good.all() and fine.all()
    assert np.sum(~success) >= 3
    gap, far = np.linalg.norm(end - reference, axis=1), np.linalg.norm(end - other, axis=1)
    assert np.median(gap) < 0.1 * np.median(far)
    value, slope = pair(Probit(), Z, 0.0)
    numeric = np.gradient(value, Z)
    assert np.abs(slope - numeric)[5:-5].max() > 1


test_mixed = check_mixed
