"""Gaussian process bandits: the posterior, what it reveals, the widths of its bands, and regret."""

from __future__ import annotations

import math

import numpy as np
import sympy as sp
from scipy.special import ndtr

from privbandit.environments.gp import random_functions, unit_grid
from privbandit.estimators.gp import FeaturePosterior, KernelPosterior
from privbandit.features import SquaredExponential, equispaced_features
from privbandit.features.information_gain import kernel_features, relaxed_gain
from privbandit.formulas.gp import CONFIDENCE_WIDTH, GP_UCB_WIDTH, IGP_WIDTH
from tests.feature_kernel import FeatureKernel

from .claim import claim

# Posterior ---------------------------------------------------------------------------------------------------------------------


class NoLambda(FeaturePosterior):
    """The variance as printed in the excerpt: without the factor lambda."""

    def predict(self, state, phi):
        mean, std = super().predict(state, phi)
        return mean, std / np.sqrt(self.lambda_)


class WrongRidge(FeaturePosterior):
    """Starts from G = lambda^2 I."""

    def init(self, R):
        state = super().init(R)
        return state._replace(factor=np.sqrt(self.lambda_) * state.factor)


class SumOnly(FeaturePosterior):
    """Takes u = sum phi y itself for the coefficients."""

    def coefficients(self, state):
        return state.moment


@claim(
    "gp-posterior",
    subject=(KernelPosterior, FeaturePosterior),
    mutants={
        "no factor lambda": (KernelPosterior, NoLambda),
        "wrong ridge": (KernelPosterior, WrongRidge),
        "u for G^-1 u": (KernelPosterior, SumOnly),
    },
)
def check_posterior(forms):
    """Both forms against conditioning the joint normal law of (f(x*), y), 40 points of which many repeat, to 1e-10."""
    phi, rho = equispaced_features(SquaredExponential(0.3), 11), 1.7
    kernel = FeatureKernel(phi)
    rng, star = np.random.default_rng(0), unit_grid(9)
    for lambda_ in (0.1, 1.0, 7.0):
        x, y = rng.choice([0.1, 0.2, 0.21, 0.9], (40, 1)), rng.normal(size=40)
        a, b = forms[0](kernel, lambda_, rho), forms[1](phi.m, lambda_, rho)
        s, z = a.init(1, 1), b.init(1)
        for xi, yi in zip(x, y, strict=True):
            s, z = a.update(s, xi[None], yi[None]), b.update(z, phi(xi)[None], yi[None])
        noisy = rho**2 * (kernel(x, x) + lambda_ * np.eye(40))
        cross = rho**2 * kernel(star, x)
        mean = cross @ np.linalg.solve(noisy, y)
        variance = rho**2 - np.sum(cross * np.linalg.solve(noisy, cross.T).T, axis=1)
        for m, std in (a.predict(s, star[None]), b.predict(z, phi(star)[None])):
            assert np.allclose(m[0], mean, atol=1e-9) and np.allclose(std[0] ** 2, variance, atol=1e-9)
        assert np.allclose(s.log_det, b.log_det(z), atol=1e-9)


test_posterior = check_posterior


class Rounded(KernelPosterior):
    """A posterior whose published deviations carry noise of 0.05."""

    def predict(self, state, x):
        mean, std = super().predict(state, x)
        return mean, std + 0.05 * np.random.default_rng(state.y.shape[1]).standard_normal(std.shape)


@claim("posterior-attack", subject=KernelPosterior, mutants={"noisy deviations": Rounded})
def check_attack(kind):
    """20 streams (seeds 0 to 19) of 30 users: all 600 points read. A guesser without the posterior is right with probability 1/40 each."""
    kernel, grid, lambda_ = SquaredExponential(0.2), unit_grid(40), 0.25
    for seed in range(20):
        rng = np.random.default_rng(seed)
        C, model = kernel(grid, grid), kind(kernel, lambda_)
        state, mean = model.init(1, 1), np.zeros(40)
        for _ in range(30):
            i, y = int(rng.integers(40)), rng.normal(size=1)
            state = model.update(state, grid[[i]], y)
            new, std = (a[0] for a in model.predict(state, grid[None]))
            explained = C**2 / (C.diagonal() + lambda_)
            j = int(np.argmin(np.sum((explained - (C.diagonal() - std**2)[:, None]) ** 2, axis=0)))
            step = C[:, j] / (C[j, j] + lambda_)
            assert j == i and abs(mean[j] + (new - mean) @ step / (step @ step) - y[0]) < 1e-6
            C, mean = C - np.outer(C[:, j], step), new


test_attack = check_attack


# Widths ------------------------------------------------------------------------------------------------------------------------


def self_normalised(log_det, zeta, subgaussian):
    """The bound on |S|^2 in V^-1, read off the package's width with no other term left."""
    return CONFIDENCE_WIDTH(subgaussian=subgaussian, zeta=zeta, log_det=log_det, B=1e-300, lambda_max=1.0, t=1.0, error=0.0, kappa=0.0) ** 2


def adaptive_streams(n, T, m, seed):
    """n streams that always play the point most aligned with the current error; yields |S|^2 and ln det after each round."""
    rng = np.random.default_rng(seed)
    inverse, S, log_det = np.tile(np.eye(m), (n, 1, 1)), np.zeros((n, m)), np.zeros(n)
    for _ in range(T):
        x = rng.standard_normal((n, 3, m))
        x /= np.linalg.norm(x, axis=2, keepdims=True)
        pick = np.einsum("nkm,nm->nk", x, np.einsum("nij,nj->ni", inverse, S)).argmax(1)
        p = x[np.arange(n), pick]
        q = np.einsum("nij,nj->ni", inverse, p)
        grow = 1 + np.sum(p * q, 1)
        log_det += np.log(grow)
        inverse -= q[:, :, None] * q[:, None] / grow[:, None, None]
        S += p * rng.choice([-1.0, 1.0], n)[:, None]
        yield np.einsum("ni,nij,nj->n", S, inverse, S), log_det


@claim(
    "self-normalised",
    subject=self_normalised,
    mutants={
        "no determinant": lambda log_det, zeta, subgaussian: 2 * subgaussian**2 * math.log(1 / zeta) + 0 * log_det,
        "half": lambda log_det, zeta, subgaussian: self_normalised(log_det, zeta, subgaussian) / 2,
    },
)
def check_self_normalised(bound):
    """n = 2,000 adaptive streams of 200 rounds, seed 11, zeta = 0.1: any-time failures at most 10%. The true rate is below 2%, 12 standard
    errors away; the mutants fail in at least 20%, 10 standard errors on the other side. The mixture integral by sympy for m = 1."""
    failed = np.zeros(2000, dtype=bool)
    for left, log_det in adaptive_streams(2000, 200, 4, 11):
        failed |= left > bound(log_det, 0.1, 1.0)
    assert failed.mean() <= 0.1
    u, S = sp.symbols("u S", real=True)
    Sigma, lam = sp.symbols("Sigma lambda", positive=True)
    mixed = sp.integrate(sp.sqrt(lam / (2 * sp.pi)) * sp.exp(u * S - (Sigma + lam) * u**2 / 2), (u, -sp.oo, sp.oo))
    assert sp.simplify(mixed / (sp.sqrt(lam / (Sigma + lam)) * sp.exp(S**2 / (2 * (Sigma + lam))))) == 1


test_self_normalised = check_self_normalised


def kernel_width(lambda_, log_det, zeta, B, subgaussian):
    """The package's width at lambda_max = lambda, no privacy and no kernel error, in units of the posterior deviation."""
    width = CONFIDENCE_WIDTH(subgaussian=subgaussian, zeta=zeta, log_det=log_det, B=B, lambda_max=lambda_, t=1.0, error=0.0, kappa=0.0)
    return width / math.sqrt(lambda_)


@claim(
    "kernel-width",
    subject=(kernel_width, IGP_WIDTH),
    mutants={
        "no norm of f": (lambda lambda_, log_det, zeta, B, subgaussian: kernel_width(lambda_, log_det, zeta, B / 2, subgaussian), IGP_WIDTH),
        "IGP without the ridge": (kernel_width, lambda B, subgaussian, log_det, zeta: IGP_WIDTH(B=B, subgaussian=subgaussian, log_det=0.0, zeta=zeta)),
        "noise divided by lambda": (
            lambda lambda_, log_det, zeta, B, subgaussian: kernel_width(lambda_, log_det, zeta, B, subgaussian / lambda_**2),
            IGP_WIDTH,
        ),
    },
)
def check_kernel_width(widths):
    """Deterministic: for the worst noise allowed by the self-normalised event and the worst theta of norm B, the error at x is within
    beta sigma(x), and reaches 0.9 of it; IGP-UCB is at least as wide. 30 designs."""
    rng, zeta, B, r = np.random.default_rng(5), 0.05, 1.3, 0.5
    reached = 0.0
    for lambda_ in (1.0, 1.01, 2.0, 5.0):
        for _ in range(30):
            n, m = int(rng.integers(1, 30)), 4
            F = rng.standard_normal((n, m))
            F /= np.linalg.norm(F, axis=1, keepdims=True)
            V, phi = F.T @ F + lambda_ * np.eye(m), F[0]
            log_det = np.linalg.slogdet(V / lambda_)[1]
            sigma = math.sqrt(lambda_ * phi @ np.linalg.solve(V, phi))
            beta = widths[0](lambda_, log_det, zeta, B, r)
            w = np.linalg.solve(V, phi)
            noise = r * math.sqrt(2 * math.log(1 / zeta) + log_det) * math.sqrt(phi @ w)  # sup of <w, S> over |S|_{V^-1} <= bound
            bias = lambda_ * B * np.linalg.norm(w)  # sup of <w, lambda theta>
            assert noise + bias <= beta * sigma * (1 + 1e-12)
            reached = max(reached, (noise + bias) / (beta * sigma))
            assert beta <= widths[1](B=B, subgaussian=r, log_det=log_det + n * math.log(lambda_), zeta=zeta) * (1 + 1e-12)
    assert reached > 0.9


test_kernel_width = check_kernel_width


@claim(
    "gp-ucb-width",
    subject=GP_UCB_WIDTH,
    mutants={
        "t for t^2": lambda size, t, zeta: np.sqrt(2 * np.log(size * t * math.pi**2 / (6 * zeta))),
        "forgets the factor two": lambda size, t, zeta: GP_UCB_WIDTH(size=size, t=t, zeta=zeta) / math.sqrt(2),
    },
)
def check_gp_ucb(width):
    """Exact two-sided normal tails summed over t up to 100,000; the rest is at most what e^(-c^2/2) = 6 zeta/(|D| pi^2 t^2) leaves."""
    t = np.arange(1, 100_001)
    for size in (1, 100, 10_000):
        for zeta in (0.5, 0.05, 1e-4):
            tails = size * 2 * ndtr(-width(size=size, t=t, zeta=zeta))
            assert tails.sum() + zeta * 6 / math.pi**2 / t[-1] <= zeta
    assert sp.summation(6 / (sp.pi**2 * sp.Symbol("t", positive=True, integer=True) ** 2), (sp.Symbol("t", positive=True, integer=True), 1, sp.oo)) == 1


test_gp_ucb = check_gp_ucb


# Regret ------------------------------------------------------------------------------------------------------------------------


def optimistic(mean, std, beta):
    return int(np.argmax(mean + beta * std))


def ucb_run(choose, f, K, lambda_, beta, T, rng):
    """One run on all points: regrets, posterior deviations at the choices, and whether the band held throughout."""
    C, mean = K.copy(), np.zeros(len(K))
    regrets, stds, held = [], [], True
    for _ in range(T):
        std = np.sqrt(np.maximum(C.diagonal(), 0))
        held &= bool(np.all(np.abs(mean - f) <= beta * std + 1e-12))
        i = choose(mean, std, beta)
        regrets.append(f.max() - f[i]), stds.append(std[i])
        step = C[:, i] / (C[i, i] + lambda_)
        mean = mean + step * (f[i] + 0.1 * rng.uniform(-1, 1) - mean[i])
        C = C - np.outer(step, C[:, i])
    return np.array(regrets), np.array(stds), held


@claim(
    "gp-ucb-regret",
    subject=(optimistic, relaxed_gain),
    mutants={
        "plays the lowest index": (lambda mean, std, beta: int(np.argmin(mean + beta * std)), relaxed_gain),
        "gain of one round": (optimistic, lambda features, T, lambda_, iterations: (0.5 * math.log1p(1 / lambda_),)),
    },
)
def check_regret(case):
    """The zero function and 20 random ones (seed 6), T = 60, noise 0.1: on each run whose band holds, every regret is at most 2 beta sigma(x_t), and the sum of the
    right-hand sides at most the bound."""
    grid, rng = unit_grid(40), np.random.default_rng(6)
    kernel, lambda_, T = SquaredExponential(0.2), 0.05, 60
    K, functions = kernel(grid, grid), random_functions(kernel, grid, 20, rng)
    upper = case[1](kernel_features(K), T, lambda_, iterations=100)[0]
    log_det, held_runs = 2 * relaxed_gain(kernel_features(K), T, lambda_, iterations=100)[0], 0
    flat = (np.zeros(40), 1e-9)  # no differences: pure exploration, where the sum is largest
    for f, norm in [flat, *zip(functions.values, functions.norm, strict=True)]:
        beta = kernel_width(lambda_, log_det, 0.05, norm, 0.1)
        regrets, stds, held = ucb_run(case[0], f, K, lambda_, beta, T, rng)
        held_runs += held
        if held:
            assert np.all(regrets <= 2 * beta * stds + 1e-9)
            assert 2 * beta * stds.sum() <= 2 * beta * math.sqrt(2 * T * upper / math.log1p(1 / lambda_)) + 1e-9
    assert held_runs >= 15


test_regret = check_regret
