"""Gaussian process bandits: information gain, its maximum, and the potential."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest
import sympy as sp

from privbandit.environments.gp import unit_grid
from privbandit.features import SquaredExponential
from privbandit.features.information_gain import greedy_gain, kernel_features, log_det_gain, relaxed_gain
from privbandit.formulas.gp import FINITE_GAIN, POTENTIAL_CONSTANT

from .claim import claim


def gain(K, points, lambda_):
    """The definition: (1/2) ln det(I + K_A / lambda)."""
    A = K[np.ix_(points, points)]
    return 0.5 * np.linalg.slogdet(np.eye(len(points)) + A / lambda_)[1]


# Information gain --------------------------------------------------------------------------------------------------------------


def by_features(K, points, lambda_):
    counts = np.bincount(points, minlength=len(K)).astype(float)
    return log_det_gain(kernel_features(K), counts, lambda_)


@claim(
    "information-gain",
    subject=(log_det_gain, by_features),
    mutants={
        "points counted once": (log_det_gain, lambda K, points, lambda_: gain(K, sorted(set(points)), lambda_)),
        "no half": (log_det_gain, lambda K, points, lambda_: 2 * gain(K, points, lambda_)),
    },
)
def check_gain(case):
    """The package's determinant in features is the definition; one more point adds (1/2) ln(1 + posterior variance / lambda)."""
    rng, K = np.random.default_rng(2), SquaredExponential(0.3)(unit_grid(6), unit_grid(6))
    for _ in range(40):
        points, lambda_ = list(rng.integers(0, 6, 8)), float(rng.choice([0.3, 1.0, 5.0]))
        value = case[1](K, points, lambda_)
        assert value == pytest.approx(gain(K, points, lambda_), abs=1e-9)
        A, x = points[:-1], points[-1]
        inverse = np.linalg.inv(K[np.ix_(A, A)] + lambda_ * np.eye(7))
        variance = K[x, x] - K[x, A] @ inverse @ K[A, x]
        assert value - case[1](K, A, lambda_) == pytest.approx(0.5 * math.log1p(variance / lambda_), abs=1e-9)


test_gain = check_gain


def maxima():
    """(K, T, lambda, gamma_T) by enumeration of all multisets."""
    for lengthscale in (0.1, 0.3, 1.0):
        K = SquaredExponential(lengthscale)(unit_grid(6), unit_grid(6))
        for lambda_ in (0.3, 1.0, 5.0):
            for T in (1, 2, 3, 5):
                yield K, T, lambda_, max(gain(K, list(A), lambda_) for A in combinations_with_replacement(range(6), T))


def smallest(K, T, lambda_):
    """Greedy with argmin for argmax."""
    worst = int(np.argmin(np.linalg.inv(K + lambda_ * np.eye(len(K))).diagonal()))
    return None, np.array([gain(K, [worst] * t, lambda_) for t in range(1, T + 1)])


@claim(
    "gain-greedy",
    subject=(greedy_gain, 1 - math.exp(-1)),
    mutants={
        "always the same point": (smallest, 1 - math.exp(-1)),
        "greedy is optimal": (greedy_gain, 1.0),
        "counts twice": (lambda K, T, lambda_: (None, 2 * greedy_gain(K, T, lambda_)[1]), 1 - math.exp(-1)),
    },
)
def check_greedy(case):
    """Enumeration of all multisets of up to 5 of 6 points: between greedy and greedy over the factor; within 5 percent of greedy here."""
    for K, T, lambda_, best in maxima():
        reached = case[0](K, T, lambda_)[1][-1]
        assert reached <= best + 1e-10 and best <= reached / case[1] + 1e-10
        assert reached >= 0.9 * best


test_greedy = check_greedy


def without_gap(features, T, lambda_, iterations):
    upper, design, gap = relaxed_gain(features, T, lambda_, iterations=iterations)
    return upper - gap, design, gap


@claim(
    "gain-relaxation",
    subject=relaxed_gain,
    mutants={"without the gap": without_gap, "minus the gap": lambda *a, **k: (without_gap(*a, **k)[0] - without_gap(*a, **k)[2],)},
)
def check_relaxation(bound):
    """Upper bound for every stopping time of the optimiser, against enumeration."""
    for K, T, lambda_, best in maxima():
        for iterations in (1, 2, 5, 50, 3000):
            assert bound(kernel_features(K), T, lambda_, iterations=iterations)[0] >= best - 1e-9


test_relaxation = check_relaxation


@claim(
    "gain-finite",
    subject=FINITE_GAIN,
    mutants={
        "all in one direction": lambda m, T, lambda_: 0.5 * math.log1p(T / lambda_),
        "T for T/m": replace(FINITE_GAIN, expression=FINITE_GAIN.expression * 2),
    },
)
def check_finite(bound):
    """Attained by an orthonormal basis visited T/m times each; never exceeded by random features."""
    rng = np.random.default_rng(3)
    for m in (1, 2, 5):
        for lambda_ in (0.2, 1.0, 20.0):
            attained = log_det_gain(np.eye(m), np.full(m, 4.0), lambda_)
            assert attained == pytest.approx(float(bound(m=m, T=4 * m, lambda_=lambda_)), rel=1e-12)
            F = rng.standard_normal((50, m))
            F /= np.linalg.norm(F, axis=1, keepdims=True)
            assert log_det_gain(F, np.ones(50), lambda_) <= bound(m=m, T=50, lambda_=lambda_) + 1e-9


test_finite = check_finite


# The potential -----------------------------------------------------------------------------------------------------------------


@claim(
    "gp-potential",
    subject=POTENTIAL_CONSTANT,
    mutants={"constant one": lambda lambda_min: 1.0, "half": lambda lambda_min: POTENTIAL_CONSTANT(lambda_min=lambda_min) / 2},
)
def check_potential(c):
    """Equality for one unit vector; random and repetitive streams of 200 in three dimensions; sympy: c falls to 1."""
    rng = np.random.default_rng(4)
    for lambda_ in (0.1, 0.5, 1.0, 3.0, 30.0):
        assert c(lambda_min=lambda_) * math.log1p(1 / lambda_) == pytest.approx(1 / lambda_, rel=1e-12)
        x = rng.standard_normal((200, 3))
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
        x[50:120] = x[0]
        V, total = lambda_ * np.eye(3), 0.0
        for row in x:
            total += row @ np.linalg.solve(V, row)
            V += np.outer(row, row)
        assert total <= c(lambda_min=lambda_) * np.linalg.slogdet(V / lambda_)[1] + 1e-9
    z = sp.Symbol("z", positive=True)
    assert sp.limit(POTENTIAL_CONSTANT.expression.subs(sp.Symbol("lambda_min", positive=True), z), z, sp.oo) == 1


test_potential = check_potential
