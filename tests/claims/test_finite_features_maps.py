"""Finite features: Fourier feature maps, random features, and regret with features in place of a kernel."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import sympy as sp

from privbandit.environments.gp import random_functions, unit_grid
from privbandit.features import (
    Matern,
    Product,
    SquaredExponential,
    equispaced_features,
    gegenbauer_features,
    hermite_features,
    nodes_for,
    random_features,
)
from privbandit.features.fourier import FourierFeatures
from privbandit.features.quadrature import hermite_rule
from privbandit.formulas.gp import MISSPECIFICATION

from .claim import claim

SE = SquaredExponential(0.4)


def families(make):
    """One feature map of each kind from the four constructors."""
    random, hermite, equispaced, gegenbauer = make
    yield random(SE, 30, 2, np.random.default_rng(0))
    yield hermite(SE, 5, 3)
    yield equispaced(SquaredExponential((0.3, 0.6)), 7, 2)
    yield gegenbauer(Product((Matern(0.4, 1.5), Matern(0.4, 2.5))), 6, 2)
    yield gegenbauer(Matern(0.4, 0.5), 9)


CONSTRUCTORS = (random_features, hermite_features, equispaced_features, gegenbauer_features)


def heavier(*args):
    """Weights of sum 1.01."""
    phi = hermite_features(*args)
    return replace(phi, weights=1.01 * phi.weights)


class CosinesOnly(FourierFeatures):
    """sqrt(2 w) cos(omega x): right on average over a random phase only."""

    def __call__(self, x):
        values = super().__call__(x)
        return np.sqrt(2) * values[..., : len(self.weights)]


def cosines(*args):
    phi = hermite_features(*args)
    return CosinesOnly(phi.kernel, phi.frequencies, phi.weights, phi.sides, phi.rules)


@claim(
    "fourier-features",
    subject=CONSTRUCTORS,
    mutants={
        "weights of sum 1.01": (random_features, heavier, equispaced_features, gegenbauer_features),
        "cosines only": (random_features, cosines, equispaced_features, gegenbauer_features),
    },
)
def check_features(make):
    """Norms and inner products at 60 random points, five feature maps, to 1e-12."""
    for phi in families(make):
        x = np.random.default_rng(1).random((60, phi.d))
        F = phi(x)
        assert np.allclose(np.sum(F**2, axis=1), 1, atol=1e-12) and F.shape == (60, phi.m)
        angles = (x[:, None] - x[None]) @ phi.frequencies.T
        assert np.allclose(F @ F.T, np.cos(angles) @ phi.weights, atol=1e-12)
        assert np.all(phi.weights > 0) and abs(phi.weights.sum() - 1) < 1e-12


test_features = check_features


def orthant(kernel, n, d=1):
    """Positive nodes of each coordinate, tensor product: the bug."""
    rule, phi = hermite_rule(kernel, n), hermite_features(kernel, n, d)
    keep = rule.nodes >= 0
    weight = np.where(rule.nodes[keep] > 0, 2, 1) * rule.weights[keep]
    grid = np.array(list(product(rule.nodes[keep], repeat=d)))
    return replace(phi, frequencies=grid, weights=np.array([np.prod(w) for w in product(weight, repeat=d)]))


def full_grid(kernel, n, d=1):
    """All n^d frequencies with both signs: right, but twice the features."""
    rule, phi = hermite_rule(kernel, n), hermite_features(kernel, n, d)
    grid = np.array(list(product(rule.nodes, repeat=d)))
    return replace(phi, frequencies=grid, weights=np.array([np.prod(w) for w in product(rule.weights, repeat=d)]))


@claim("half-space", subject=hermite_features, mutants={"positive orthant": orthant, "full grid": full_grid})
def check_half_space(make):
    """Against the sum over the full signed tensor grid, and the number of features, d = 1 to 3."""
    kernel = SquaredExponential(0.5)
    for d in (1, 2, 3):
        z = np.random.default_rng(d).uniform(-1, 1, (80, d))
        for n in (2, 3, 4, 5):
            phi = make(kernel, n, d)
            assert phi.m == n**d
            assert np.allclose(phi.approximate(z), full_grid(kernel, n, d).approximate(z), atol=1e-12)


test_half_space = check_half_space


def hoeffding(N, zeta, M):
    return math.sqrt(2 * math.log(2 * N / zeta) / M)


@claim(
    "random-features-error",
    subject=(random_features, hoeffding),
    mutants={
        "no union": (random_features, lambda N, zeta, M: math.sqrt(math.log(1 / zeta) / (2 * M))),
        "rate 1/M": (random_features, lambda N, zeta, M: 2 * math.log(2 * N / zeta) / M),
    },
)
def check_random(case):
    """n = 400 draws, seed 3, zeta = 0.1: at most 10% above the bound, with the true rate below 1% (6 standard errors); without the union
    the rate is above 30%, 13 standard errors on the other side. The bound halves when M is four times larger. Mean zero at one difference within 5 standard errors."""
    make, bound = case
    z, rng, M = np.linspace(0, 1, 101)[:, None], np.random.default_rng(3), 50
    truth = SE(z, np.zeros((1, 1)))[:, 0]
    errors = np.array([make(SE, M, 1, rng).approximate(z) - truth for _ in range(400)])
    assert np.mean(np.abs(errors).max(axis=1) > bound(101, 0.1, M)) <= 0.1
    assert np.all(np.abs(errors.mean(0)) <= 5 * errors.std(0) / 20 + 1e-12)
    assert bound(101, 0.1, 4 * M) == pytest.approx(bound(101, 0.1, M) / 2, rel=1e-12)


test_random = check_random


# Transfer ----------------------------------------------------------------------------------------------------------------------


def game(f, Phi, eta, rounds=3000):
    """The best |theta|^2 + max gap^2 / eta of the parameters met while the points are reweighted: an upper value of the game."""
    n, m = Phi.shape
    q, best = np.full(n, 1 / n), math.inf
    for step in range(rounds):
        theta = np.linalg.solve((Phi.T * q) @ Phi + eta * np.eye(m), Phi.T @ (q * f))
        gap2 = (f - Phi @ theta) ** 2
        best = min(best, theta @ theta + gap2.max() / eta)
        q = q * np.exp(np.clip(2.0 / math.sqrt(step + 1) * (gap2 / gap2.max() - 1), -50, 0))
        q /= q.sum()
    return best


def one_ridge(f, Phi, eta):
    """Equal weights only, as in a single ridge regression."""
    return game(f, Phi, eta, rounds=1)


@claim(
    "transfer-lemma",
    subject=(game, lambda phi: phi.uniform_error),
    mutants={
        "one ridge regression": (one_ridge, lambda phi: phi.uniform_error),
        "a third of the error": (game, lambda phi: phi.uniform_error / 3),
    },
)
def check_transfer(case):
    """A feasible theta for each of 12 functions on 60 points, three feature maps; the value is above 0.3 of B^2 somewhere."""
    value, error = case
    x, rng, worst = unit_grid(60), np.random.default_rng(0), 0.0
    maps = (hermite_features(SquaredExponential(0.3), 6), equispaced_features(SquaredExponential(0.2), 7), equispaced_features(Matern(0.3, 1.5), 9))
    for phi in maps:
        functions = random_functions(phi.kernel, x, 4, rng)
        for f, B in zip(functions.values, functions.norm, strict=True):
            reached = value(f, phi(x), error(phi))
            assert reached <= B**2 * (1 + 1e-9)
            worst = max(worst, reached / B**2)
    assert worst > 0.3


test_transfer = check_transfer


@claim(
    "one-over-T",
    subject=MISSPECIFICATION,
    mutants={
        "error itself": replace(MISSPECIFICATION, expression=MISSPECIFICATION.expression**2),
        "one side only": replace(MISSPECIFICATION, expression=MISSPECIFICATION.expression / 2),
    },
)
def check_one_over_T(formula):
    """sympy: 2 B T sqrt(1/T) = 2 B sqrt(T); the bias vector: T eta B^2 <= B^2; and two-sided errors b at two points cost 2 max|b|."""
    B, T = sp.symbols("B T", positive=True)
    values = {s.name: s for s in formula.expression.free_symbols}
    expression = formula.expression.subs({values["B"]: B, values["T"]: T, values["error"]: 1 / T})
    assert sp.simplify(expression - 2 * B * sp.sqrt(T)) == 0
    rng, eta, b = np.random.default_rng(1), 0.01, 1.3
    gaps = b * math.sqrt(eta) * rng.uniform(-1, 1, (1000, 50, 2))
    assert np.all(np.sum(gaps[..., 0] - gaps[..., 1], axis=1) <= float(formula(B=b, T=50, error=eta)))
    assert np.all(np.linalg.norm(gaps[..., 0], axis=1) <= b * math.sqrt(50 * eta))


test_one_over_T = check_one_over_T


@claim("nodes-for-horizon", subject=nodes_for, mutants={"tolerance 1/sqrt(T)": lambda k, tol, rule="equispaced": nodes_for(k, math.sqrt(tol), rule), "always 24": lambda k, tol, rule="equispaced": 24})
def check_nodes(count):
    """Exact counts at T = 2^20; the certified error is at most 1/T there, and above it with one step fewer nodes."""
    for lengthscale, hermite, equispaced in ((0.2, 24, 17), (0.1, 56, 25)):
        kernel = SquaredExponential(lengthscale)
        assert (count(kernel, 2.0**-20, "hermite"), count(kernel, 2.0**-20)) == (hermite, equispaced)
        assert hermite_features(kernel, hermite).uniform_error <= 2.0**-20 < hermite_features(kernel, hermite - 1).uniform_error
        assert equispaced_features(kernel, equispaced).uniform_error <= 2.0**-20 < equispaced_features(kernel, equispaced - 2).uniform_error


test_nodes = check_nodes
