"""Checks of the claims in the chapter on optimal design."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import minimize

from privbandit import design
from privbandit.design import Design, DistributionalDesign, g_optimal, information, leverages, reduce_support

from .claim import claim


def ball(rng, R, K, d):
    x = rng.standard_normal((R, K, d))
    return x / np.linalg.norm(x, axis=2, keepdims=True) * rng.random((R, K, 1)) ** (1 / d)


def log_det(X, p, ridge):
    return np.linalg.slogdet(information(X, p, ridge))[1]


def certified(X, p, ridge):
    w = leverages(X, p, ridge)
    mean = np.einsum("rk,rk->r", p, w)
    return Design(p, w.max(axis=1), w.max(axis=1) / mean - 1, 0)


def uniform(X, ridge, **options):
    return certified(X, np.full(X.shape[:2], 1 / X.shape[1]), ridge)


def longest(X, ridge, **options):
    p = np.zeros(X.shape[:2])
    p[np.arange(len(X)), np.linalg.norm(X, axis=2).argmax(axis=1)] = 1
    return certified(X, p, ridge)


def stops_at_d(X, ridge, **options):
    flat = uniform(X, ridge)
    best = g_optimal(X, ridge, **options)
    return certified(X, np.where((flat.leverage <= X.shape[2])[:, None], flat.p, best.p), ridge)


# Leverage ----------------------------------------------------------------------------------------------------------------------


@claim(
    "design-gradient",
    subject=leverages,
    mutants={
        "ridge forgotten": lambda X, p, ridge: leverages(X, p, ridge * 1e-3),
        "not squared": lambda X, p, ridge: np.sqrt(leverages(X, p, ridge)),
    },
)
def check_gradient(leverage):
    """Symbolic for two arms; the code against differences and eigenvalues, ranks 1 to 4 in four dimensions."""
    p, r, a, b, c, e = sp.symbols("p r a b c e", positive=True)
    x1, x2 = sp.Matrix([a, b]), sp.Matrix([c, e])
    A = r * sp.eye(2) + p * x1 * x1.T + (1 - p) * x2 * x2.T
    w1, w2 = ((x.T * A.inv() * x)[0] for x in (x1, x2))
    assert sp.simplify(sp.diff(sp.log(A.det()), p) - (w1 - w2)) == 0
    assert sp.simplify(p * w1 + (1 - p) * w2 - 2 + r * A.inv().trace()) == 0
    rng, ridge, h = np.random.default_rng(1), 0.2, 1e-6
    for rank in (1, 2, 3, 4):
        X = ball(rng, 50, 7, 4)
        X[..., rank:] = 0
        q = rng.dirichlet(np.ones(7), 50)
        w = leverage(X, q, ridge)
        for k in range(7):
            e_k = h * np.eye(7)[k]
            slope = (log_det(X, q + e_k, ridge) - log_det(X, q - e_k, ridge)) / (2 * h)
            np.testing.assert_allclose(w[:, k], slope, rtol=1e-6, atol=1e-8)
        s = np.linalg.eigvalsh(information(X, q, 0.0)).clip(0)
        mean = np.sum(q * w, axis=1)
        np.testing.assert_allclose(mean, np.sum(s / (s + ridge), axis=1), rtol=1e-8)
        assert np.all(mean <= rank)


test_gradient = check_gradient


def best_log_det(x, ridge):
    """By a generic optimiser over softmax weights."""

    def negative(v):
        q = np.exp(v - v.max())
        return -log_det(x[None], (q / q.sum())[None], ridge)[0]

    return -minimize(negative, np.zeros(len(x)), method="BFGS", options={"gtol": 1e-9}).fun


@claim("design-equivalence", subject=g_optimal, mutants={"uniform": uniform, "longest arm": longest, "stops at d": stops_at_d})
def check_equivalence(optimise):
    """The certified design reaches the generic optimum; deficiency of 20 random designs a set is at most their gap."""
    rng = np.random.default_rng(2)
    for ridge in (0.01, 0.3):
        X = ball(rng, 30, 5, 2)
        best = optimise(X, ridge, tolerance=1e-5)
        top = log_det(X, best.p, ridge)
        generic = np.array([best_log_det(x, ridge) for x in X])  # now and then it stops early; it is never above
        assert np.all(top >= generic - 2e-5) and np.median(np.abs(top - generic)) < 2e-5
        for _ in range(20):
            p = rng.dirichlet(np.ones(5), 30)
            w = leverages(X, p, ridge)
            assert np.all(top - log_det(X, p, ridge) <= w.max(axis=1) - np.sum(p * w, axis=1) + 1e-9)
        played = best.p > 1e-3
        w = leverages(X, best.p, ridge)
        assert np.all(w[played] >= np.repeat(w.max(axis=1), played.sum(axis=1)) * (1 - 0.02))


test_equivalence = check_equivalence

DEGENERATE = (
    np.zeros((3, 2)),
    [[1.0, 0.0]],
    [[0.6, 0.0], [0.6, 0.0], [-0.6, 0.0]],
    [[0.3, 0.3, 0.0], [0.0, 0.0, 0.0], [0.1, -0.5, 0.0]],
    [[0.7], [0.2]],
    [[1.0, 0.0], [0.999, 0.0], [0.998, 0.0], [0.0, 1.0]],
)


@claim("design-leverage", subject=g_optimal, mutants={"uniform": uniform, "longest arm": longest})
def check_leverage(optimise):
    rng = np.random.default_rng(3)
    sets = [ball(rng, 30, 12, 4), *(np.array([x]) for x in DEGENERATE)]
    for method in ("away", "multiplicative"):
        for X in sets:
            best = optimise(X, 1e-3, tolerance=1e-3, method=method)
            assert np.all(best.p >= 0) and best.p.sum(axis=1) == pytest.approx(1)
            rank = [np.linalg.matrix_rank(x) for x in X]
            assert np.all(leverages(X, best.p, 1e-3).max(axis=1) <= np.array(rank) * 1.001 + 1e-12)
            assert np.all(best.gap <= 1e-3)


test_leverage = check_leverage


@claim("ridge-not-g", subject=g_optimal, mutants={"uniform": uniform, "no ridge to speak of": lambda X, ridge, **o: g_optimal(X, 1e-6, **o)})
def check_not_g(optimise):
    X, ridge = np.array([[[1.3, -0.35], [0.85, -0.5], [1.75, 0.2]]]), 0.3
    chosen = optimise(X, ridge, tolerance=1e-9)
    other = np.array([[0.2625, 0.0, 0.7375]])
    assert leverages(X, other, ridge).max() == pytest.approx(1.06005, abs=1e-5)
    assert chosen.leverage[0] == pytest.approx(1.07323, abs=1e-5) and chosen.gap[0] <= 1e-9
    assert log_det(X, chosen.p, ridge)[0] > log_det(X, other, ridge)[0]


test_not_g = check_not_g


# Rules -------------------------------------------------------------------------------------------------------------------------


def half_a_step(X, p, w, mean, inverse, ridge):
    return (p + design._away_step(X, p, w, mean, inverse, ridge)) / 2


def towards_the_longest(X, p, w, mean, inverse, ridge):
    q = 0.9 * p
    q[np.arange(len(X)), np.linalg.norm(X, axis=2).argmax(axis=1)] += 0.1
    return q


def out_for_good(X, p, w, mean, inverse, ridge):
    """An arm without weight gets none again."""
    q = design._away_step(X, p, w, mean, inverse, ridge) * (p > 0)
    total = q.sum(axis=1, keepdims=True)
    return np.where(total > 0.5, q / total, p)


@claim(
    "design-away",
    subject=design._away_step,
    mutants={"half a step": half_a_step, "towards the longest arm": towards_the_longest, "a dropped arm stays out": out_for_good},
)
def check_away(step):
    """60 steps in 40 sets: no loss, no better length on the same line (200 lengths), arms are dropped exactly, and one of them comes back."""
    rng, ridge = np.random.default_rng(4), 0.01
    X, dropped, back = ball(rng, 40, 8, 3), 0, 0
    p = np.full((40, 8), 1 / 8)
    for _ in range(60):
        inverse = np.linalg.inv(information(X, p, ridge))
        w = leverages(X, p, ridge)
        mean = np.sum(p * w, axis=1)
        q = step(X, p, w, mean, inverse, ridge)
        assert np.all(q >= 0) and q.sum(axis=1) == pytest.approx(1)
        after = log_det(X, q, ridge)
        assert np.all(after >= log_det(X, p, ridge) - 1e-12)
        direction = q - p
        for s in np.linspace(0, 3, 41):
            trial = p + s * direction
            legal = np.all(trial >= -1e-12, axis=1)
            assert np.all(log_det(X, trial.clip(0), ridge)[legal] <= after[legal] + 1e-9)
        dropped += int(np.sum((p > 0) & (q == 0)))
        back += int(np.sum((p == 0) & (q > 0)))
        p = q
    assert dropped > 40 and back >= 1


test_away = check_away


def power(exponent):
    def step(X, p, w, mean, inverse, ridge):
        q = p * w**exponent
        return q / q.sum(axis=1, keepdims=True)

    return step


@claim("multiplicative-monotone", subject=design._multiplicative_step, mutants={"cubed": power(3), "square root": power(0.5), "no move": lambda X, p, w, mean, inverse, ridge: p})
def check_multiplicative(step):
    """The gain against w KL(q | p) of the rule's q, on random designs; no move gains nothing where the bound is positive."""
    rng = np.random.default_rng(5)
    for d in (1, 2, 5):
        for ridge in (1e-6, 0.05, 1.0, 10.0):
            X = ball(rng, 170, 6, d)
            p = rng.dirichlet(np.ones(6), 170)
            w = leverages(X, p, ridge)
            mean = np.sum(p * w, axis=1)
            q = step(X, p, w, mean, np.linalg.inv(information(X, p, ridge)), ridge)
            np.testing.assert_allclose(q, p * w / mean[:, None], rtol=1e-9)
            bound = mean * np.sum(q * np.log(q / p), axis=1)
            assert np.all(log_det(X, q, ridge) - log_det(X, p, ridge) >= bound - 1e-10)
            # the proof's expansion: the p-average of the log ratios is the same number
            np.testing.assert_allclose(np.sum(p * w * np.log(q / p), axis=1), bound, atol=1e-10)


test_multiplicative = check_multiplicative


def swapped(X, ridge, *, method, **options):
    return g_optimal(X, ridge, method={"away": "multiplicative", "multiplicative": "away"}[method], **options)


@claim("design-steps", subject=g_optimal, mutants={"methods swapped": swapped, "one method": lambda X, r, **o: g_optimal(X, r, **(o | {"method": "away"}))})
def check_steps(optimise):
    X = ball(np.random.default_rng(4), 12, 20, 4)

    def steps(method, tolerance):
        return np.median([optimise(x[None], 1e-3, tolerance=tolerance, method=method).iterations for x in X])

    assert steps("away", 0.1) > 2 * steps("multiplicative", 0.1)
    assert 2 * steps("away", 1e-4) < steps("multiplicative", 1e-4)


test_steps = check_steps


@claim("stopping-trap", subject=g_optimal, mutants={"stops at d": stops_at_d, "uniform": uniform})
def check_trap(optimise):
    """What a rule that stops at d accepts is far from optimal; the package's rule does not accept it."""
    X = ball(np.random.default_rng(5), 200, 20, 5)
    flat = uniform(X, 0.1)
    assert np.sum(flat.leverage <= 5) == 197 and np.median(flat.gap) == pytest.approx(0.503, abs=2e-3)
    best = optimise(X, 0.1, tolerance=1e-3)
    trace = np.trace(np.linalg.inv(information(X, best.p, 0.1)), axis1=1, axis2=2)
    np.testing.assert_allclose(best.leverage, 5 - 0.1 * trace, rtol=1.1e-3)


test_trap = check_trap


@claim("ridge-scale", subject=g_optimal, mutants={"uniform": uniform, "ridge tied to the arms": lambda X, ridge, **o: g_optimal(X, min(ridge, 2e-7), **o)})
def check_scale(optimise):
    X = ball(np.random.default_rng(5), 200, 20, 5)[:40] * np.sqrt(2e-4)
    for ridge, large in ((1e-2, True), (1e-3, True), (1e-7, False)):
        bare = np.median(leverages(X, optimise(X, ridge, tolerance=1e-2).p, 1e-12).max(axis=1))
        assert bare > 1e7 if large else bare < 5 * 1.02


test_scale = check_scale


# Support -----------------------------------------------------------------------------------------------------------------------


def keeps_the_largest(X, p):
    m = X.shape[2] * (X.shape[2] + 1) // 2 + 1
    q = np.where(p >= np.sort(p, axis=1)[:, [-m]], p, 0)
    return q / q.sum(axis=1, keepdims=True)


@claim("design-support", subject=reduce_support, mutants={"keeps the largest": keeps_the_largest, "keeps all": lambda X, p: p})
def check_support(reduce):
    rng = np.random.default_rng(6)
    for d in (1, 2, 3):
        X, p = ball(rng, 10, 40, d), rng.dirichlet(np.ones(40), 10)
        q = reduce(X, p)
        assert np.all(np.count_nonzero(q, axis=1) <= d * (d + 1) // 2 + 1) and np.all(q >= 0)
        np.testing.assert_allclose(information(X, q, 0.0), information(X, p, 0.0), atol=1e-10)
        np.testing.assert_allclose(q.sum(axis=1), 1, atol=1e-10)


test_support = check_support


# Many sets ---------------------------------------------------------------------------------------------------------------------


def extremal(d, eta=0.05):
    sets = eta * np.tile(np.eye(d), (d, 1, 1))
    sets[np.arange(d), np.arange(d)] /= eta
    return sets


def expected(sets, p, ridge):
    M = np.einsum("nk,nki,nkj->ij", p, sets, sets) / len(sets) + ridge * np.eye(sets.shape[-1])
    return np.einsum("nki,ij,nkj->nk", sets, np.linalg.inv(M), sets).max(axis=1).mean()


@claim("design-d-squared", subject=g_optimal, mutants={"uniform": uniform, "longest arm": longest})
def check_squared(optimise):
    """Random sets with 30 near copies of one arm and a rare other one, and the extremal example."""
    rng = np.random.default_rng(7)
    for d in (2, 3, 5):
        copies = np.repeat(ball(rng, 100, 1, d), 30, axis=1) + 1e-3 * ball(rng, 100, 30, d)
        for sets, ridge in ((np.concatenate([copies, ball(rng, 100, 1, d)], axis=1), 1e-4), (ball(rng, 100, 6, d), 0.1)):
            best = optimise(sets, ridge, tolerance=1e-3)
            assert np.all(best.leverage <= d * 1.001)
            assert expected(sets, best.p, ridge) <= d**2 * 1.001
        p = optimise(extremal(d), 1e-9, tolerance=1e-6).p
        assert expected(extremal(d), p, 1e-9) == pytest.approx(d**2 / (1 + (d - 1) * 0.05**2), rel=1e-4)


test_squared = check_squared


class SetByItself(DistributionalDesign):
    def probabilities(self, X, ridge, tolerance=0.1):
        return g_optimal(X, ridge, tolerance=tolerance).p


class OnePhase(DistributionalDesign):
    """Softmax of lengths: no design has been learnt."""

    def probabilities(self, X, ridge, tolerance=0.1):
        return np.full(X.shape[:2], 1 / X.shape[1])


@claim("distributional-ablation", subject=DistributionalDesign, mutants={"each set by itself": SetByItself, "uniform": OnePhase})
def check_distributional(kind):
    rng = np.random.default_rng(7)
    for d in (2, 3, 5, 8):
        sets = extremal(d)
        past = np.repeat(sets, 100, axis=0)[rng.permutation(100 * d)]
        assert expected(sets, kind.learn(past, ridge=1.0).probabilities(sets, 1e-6), 1e-6) < 2 * d
        assert expected(sets, g_optimal(sets, 1e-6).p, 1e-6) > 0.98 * d**2


test_distributional = check_distributional
