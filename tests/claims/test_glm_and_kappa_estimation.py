"""Generalised linear models: certified fits, the estimation error, and the order of the baselines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

from privbandit.environments.glm import GLMEnvironment, uniform_ball
from privbandit.estimators.glm import fit_glm
from privbandit.formulas.glm_nonprivate import ESTIMATION_ERROR, SELF_NORMALISED, M, g, log_det, nu
from privbandit.links import Linear, Logistic, Probit, TruncatedPoisson
from privbandit.policies.ecolog import ECOLog
from privbandit.policies.glm_ucb import GLMUCB
from privbandit.policies.gloc import GLOC
from privbandit.simulate import simulate

from .altered import scaled
from .claim import claim

# Fits ----------------------------------------------------------------------------------------------------------------------------


def separable(seed, sets=40, n=8, d=3):
    rng = np.random.default_rng(seed)
    x = uniform_ball(rng, (sets, n), d)
    direction = rng.standard_normal((sets, d))
    return x, (np.einsum("rnd,rd->rn", x, direction) > 0).astype(float), direction


def small_gradient(link, x, r, lambda_, **options):
    fit = fit_glm(link, x, r, lambda_, **options)
    return fit._replace(converged=np.linalg.norm(fit.gradient, axis=1) < 1e-6)


def hopeful(link, x, r, lambda_, **options):
    fit = fit_glm(link, x, r, lambda_, **options)
    return fit._replace(converged=np.ones_like(fit.converged))


@claim("separable-fits", subject=fit_glm, mutants={"stops at a small gradient": small_gradient, "always converged": hopeful})
def check_separable(fit):
    """40 separable data sets for each link: no minimiser without a penalty, one with it."""
    for link in (Logistic(), Probit()):
        x, r, direction = separable(seed=4)
        lengths = [fit_glm_loss(link, x, r, scale * direction) for scale in (1, 10, 100)]
        assert np.all(lengths[0] > lengths[1]) and np.all(lengths[1] > lengths[2])
        assert not fit(link, x, r, 0.0).converged.any()
        ridged = fit(link, x, r, 0.1)
        assert ridged.converged.all() and np.linalg.norm(ridged.gradient, axis=1).max() < 1e-6


def fit_glm_loss(link, x, r, theta):
    return link.loss(np.einsum("rnd,rd->rn", x, theta), r).sum(1)


test_separable = check_separable


def stale(link, x, r, lambda_, **options):
    fit = fit_glm(link, x, r, lambda_, **options)
    return fit._replace(gradient=fit.gradient / 10)


@claim("fit-certificate", subject=fit_glm, mutants={"gradient too small by ten": stale})
def check_certificate(fit):
    """Fits stopped after 0 to 5 steps: excess loss and distance against the bounds from their own gradient."""
    x, r, _ = separable(seed=5)
    for link in (Logistic(), Probit()):
        for ridge in (0.1, 1.0):
            best = fit_glm(link, x, r, ridge)
            assert best.converged.all()
            for steps in range(1, 6):
                early = fit(link, x, r, ridge, max_iterations=steps)
                norm = np.linalg.norm(early.gradient, axis=1)
                assert np.all(early.loss - best.loss <= norm**2 / (2 * ridge) + 1e-9)
                assert np.all(np.linalg.norm(early.theta - best.theta, axis=1) <= norm / ridge + 1e-7)


test_certificate = check_certificate


# Confidence ----------------------------------------------------------------------------------------------------------------------


def sums(link, S, T, runs, seed, lambda_):
    """sup over t of |s_t|_{H_t^-1} minus its bound, each run with contexts that react to the last reward."""
    rng = np.random.default_rng(seed)
    theta = np.array([S, 0.0])
    x, s, H = np.tile([1.0, 0.0], (runs, 1)), np.zeros((runs, 2)), lambda_ * np.tile(np.eye(2), (runs, 1, 1))
    norms, dets = np.empty((T, runs)), np.empty((T, runs))
    for t in range(T):
        z = x @ theta
        r = link.sample(z, rng.random(runs))
        s += (r - link.mu(z))[:, None] * x
        H += link.dmu(z)[:, None, None] * x[:, :, None] * x[:, None, :]
        norms[t] = np.sqrt(np.einsum("rd,rd->r", s, np.linalg.solve(H, s[..., None])[..., 0]))
        dets[t] = np.linalg.slogdet(H / lambda_)[1]
        turned = np.stack([-x[:, 1], x[:, 0]], axis=1)
        x = np.where((r > 0)[:, None], x, turned)
    return norms, dets


@claim(
    "self-normalised-bernstein",
    subject=SELF_NORMALISED,
    mutants={
        "a third": scaled(SELF_NORMALISED, sp.Rational(1, 3)),
        "no determinant": replace(SELF_NORMALISED, expression=SELF_NORMALISED.expression.subs(log_det, log_det / 10**9)),
        "variance counted twice": replace(SELF_NORMALISED, expression=SELF_NORMALISED.expression.subs(log_det, log_det / 2)),
    },
)
def check_bernstein(bound):
    """The proof's two inequalities by quadrature: exp(y) <= 1 + y + y^2 for y <= 1, and the mixture against its lower bound in d = 1.

    Statistical: 2 x 400 runs of 300 adaptive rounds, seeds 6 and 7, zeta = 0.05; if the bound holds, failures are at most 20 + 5 sqrt(19)
    = 42 a setting up to 5 sigma. None is expected, as the bound is loose: that alone could not refute a bound 2.5 times smaller.
    """
    y = np.linspace(-20, 1, 2101)
    assert np.all(np.exp(y) <= 1 + y + y**2 + 1e-12)
    xi, weight = np.polynomial.legendre.leggauss(400)
    for ridge in (0.5, 4.0, 40.0):
        for h in ridge * np.array([1.0, 3.0, 30.0, 1000.0]):
            for norm in np.sqrt(ridge) * np.array([0.3, 1.0, 1.5]):
                Z = weight @ np.exp(xi * norm * np.sqrt(h) - xi**2 * h) / (weight @ np.exp(-ridge * xi**2))
                assert bound(lambda_=ridge, R=1.0, zeta=1 / Z, d=1.0, log_det=np.log(h / ridge)) >= norm
    for seed, (link, ridge) in enumerate(((Logistic(), 4.0), (Probit(), 16.0)), start=6):
        norms, dets = sums(link, 2.0, 300, 400, seed, ridge)
        limit = bound(lambda_=ridge, R=1.0, zeta=0.05, d=2.0, log_det=dets)
        assert np.sum(np.any(norms > limit, axis=0)) <= 42


test_bernstein = check_bernstein


def instances(link, S, dimension, n, count, seed, ridge, adverse=False):
    """Left side, g and nu of the theorem for random data and random points of the ball."""
    rng = np.random.default_rng(seed)
    x = uniform_ball(rng, (count, n), dimension)
    theta, guess = (S * uniform_ball(rng, (count,), dimension) for _ in range(2))
    if adverse:
        guess = -theta * rng.uniform(0.2, 1, (count, 1))
    r = link.sample(np.einsum("rnd,rd->rn", x, theta if not adverse else guess), rng.random((count, n)))

    def loss(v):
        return link.loss(np.einsum("rnd,rd->rn", x, v), r).sum(1) + ridge / 2 * np.sum(v * v, axis=1)

    z = np.einsum("rnd,rd->rn", x, theta)
    score = np.einsum("rn,rnd->rd", link.mu(z) - r, x)
    H = np.einsum("rn,rnd,rne->rde", link.dmu(z), x, x) + ridge * np.eye(dimension)
    size = np.sqrt(np.einsum("rd,rd->r", score, np.linalg.solve(H, score[..., None])[..., 0])) + S * np.sqrt(ridge)
    gap = guess - theta
    return np.sqrt(np.einsum("rd,rde,re->r", gap, H, gap)), size, np.maximum(loss(guess) - loss(theta), 0)


@claim(
    "glm-estimation-error",
    subject=ESTIMATION_ERROR,
    mutants={
        "no self-concordance": replace(ESTIMATION_ERROR, expression=ESTIMATION_ERROR.expression.subs(M, M / 100)),
        "half the constant": replace(ESTIMATION_ERROR, expression=ESTIMATION_ERROR.expression / 2),
        "perfect optimiser": replace(ESTIMATION_ERROR, expression=ESTIMATION_ERROR.expression.subs(nu, nu / 100)),
    },
)
def check_error(bound):
    """Deterministic: 4 links x 3 dimensions x 2 ridges x 2 designs, 200 instances each; equality for the linear link without ridge."""
    a = sp.Symbol("a", positive=True)
    root = (a * g + sp.sqrt(a**2 * g**2 + 4 * a * nu)) / 2
    assert sp.simplify(root**2 - a * (nu + g * root)) == 0
    for link in (Logistic(), Probit(), TruncatedPoisson(5), Linear(0.5)):
        for dimension, n in ((1, 60), (2, 30), (4, 80)):
            for ridge in (1e-6, 1.0):
                for adverse in (False, True):
                    left, size, excess = instances(link, 3.0, dimension, n, 200, 7 + dimension, ridge, adverse)
                    right = bound(g=size, nu=excess, M=max(link.self_concordance(3.0), 1e-12), S=3.0)
                    assert np.all(left <= right * (1 + 1e-9))
    z = np.linspace(-3, 3, 61)
    for link in (Logistic(), Probit(), TruncatedPoisson(5)):  # one noise-free observation: only the optimiser errs
        for truth in (-3.0, 0.0, 2.0):
            excess = link.loss(z, link.mu(truth)) - link.loss(truth, link.mu(truth))
            right = bound(g=0.0, nu=np.maximum(excess, 0), M=link.self_concordance(3.0), S=3.0)
            assert np.all(np.sqrt(link.dmu(truth)) * np.abs(z - truth) <= right + 1e-7)
    for slack in (0.0, 0.5, 7.0):  # one linear observation: the loss at theta* + u is g u / 1 + u^2 / 2 below or above
        step = 1.3 + np.sqrt(1.3**2 + 2 * slack)
        assert bound(g=1.3, nu=slack, M=1e-12, S=1.0) == pytest.approx(step, rel=1e-6)


test_error = check_error


# Baselines -----------------------------------------------------------------------------------------------------------------------


def comparison(horizon=500, S=3.0):
    glm_ucb = GLMUCB(Logistic(), 2, S, horizon, bonus="self-normalised")
    return ECOLog(2, S), glm_ucb, GLOC(Logistic(), 2, S), GLMUCB(Logistic(), 2, S, horizon)


@claim(
    "baseline-order",
    subject=comparison(),
    mutants={"reversed": comparison()[::-1], "GLOC first": tuple(comparison()[i] for i in (2, 1, 0, 3))},
)
def check_baselines(policies):
    """d = 2, K = 20, S = 3, T = 500, 20 runs, seed 1, common random numbers: each paired difference exceeds 5 standard errors."""
    environment = GLMEnvironment(Logistic(), 2, 20, 3.0)
    finals = [simulate(p, environment, horizon=500, replications=20, seed=1, progress=False).final for p in policies]
    for better, worse in zip(finals, finals[1:]):
        difference = worse - better
        assert difference.mean() > 5 * difference.std(ddof=1) / np.sqrt(len(difference))


test_baselines = check_baselines
