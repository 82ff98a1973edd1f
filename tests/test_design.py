"""Experimental design against brute force, a generic optimiser and its own certificate."""

import numpy as np
import pytest
from scipy.optimize import minimize

from privbandit.design import DistributionalDesign, draw, g_optimal, information, leverages, reduce_support


def ball(rng, R, K, d):
    x = rng.standard_normal((R, K, d))
    return x / np.linalg.norm(x, axis=2, keepdims=True) * rng.random((R, K, 1)) ** (1 / d)


def log_det(X, p, ridge):
    return np.linalg.slogdet(information(X, p, ridge))[1]


@pytest.mark.parametrize("method", ["away", "multiplicative"])
def test_certificate_bounds_leverage_by_d_and_equals_the_identity(method):
    X, ridge = ball(np.random.default_rng(1), 30, 12, 4), 0.1
    design = g_optimal(X, ridge, tolerance=1e-4, method=method)
    inverse = np.linalg.inv(information(X, design.p, ridge))
    at_optimum = 4 - ridge * np.trace(inverse, axis1=1, axis2=2)
    np.testing.assert_allclose(design.leverage, leverages(X, design.p, ridge).max(axis=1), rtol=1e-9)
    np.testing.assert_allclose(design.leverage, at_optimum, rtol=2e-4)
    assert np.all(design.leverage <= 4) and np.all(design.gap <= 1e-4)
    np.testing.assert_allclose(design.p.sum(axis=1), 1, rtol=1e-12)


def test_stopping_at_leverage_d_would_stop_at_the_uniform_design():
    """With ridge 0.1 and d = 5 nearly every uniform design has leverage <= d while its gap is far from 0."""
    X = ball(np.random.default_rng(2), 200, 20, 5)
    w = leverages(X, np.full((200, 20), 1 / 20), 0.1)
    gap = w.max(axis=1) / w.mean(axis=1) - 1
    assert np.mean((w.max(axis=1) <= 5) & (gap > 0.1)) > 0.9


@pytest.mark.parametrize("method", ["away", "multiplicative"])
def test_matches_a_generic_optimiser(method):
    X, ridge = ball(np.random.default_rng(3), 1, 6, 2), 0.05
    design = g_optimal(X, ridge, tolerance=1e-6, method=method)

    def negative(q):
        return -log_det(X, (np.exp(q) / np.exp(q).sum())[None], ridge)[0]

    best = minimize(negative, np.zeros(6), method="BFGS", options={"gtol": 1e-10})
    assert -best.fun == pytest.approx(log_det(X, design.p, ridge)[0], abs=1e-5)


def test_known_optimum_of_orthogonal_arms():
    """Arms e_1, e_2 and e_1 / 2: half and half on the two unit vectors, leverage 1 / (1/2 + ridge)."""
    X = np.array([[[1.0, 0.0], [0.0, 1.0], [0.5, 0.0]]])
    design = g_optimal(X, 0.25, tolerance=1e-8)
    np.testing.assert_allclose(design.p[0], [0.5, 0.5, 0.0], atol=1e-6)
    np.testing.assert_allclose(design.leverage, 1 / 0.75, rtol=1e-7)


@pytest.mark.parametrize("method", ["away", "multiplicative"])
@pytest.mark.parametrize(
    "arms",
    [
        np.zeros((3, 2)),  # only zero arms
        [[1.0, 0.0]],  # K = 1 < d
        [[0.6, 0.0], [0.6, 0.0], [-0.6, 0.0]],  # duplicates on a line in the plane
        [[0.3, 0.3, 0.0], [0.0, 0.0, 0.0], [0.1, -0.5, 0.0]],  # rank 2 in 3 dimensions, with a zero arm
        [[0.7], [0.2]],  # d = 1
    ],
)
def test_degenerate_sets(arms, method):
    X = np.array([arms])
    design = g_optimal(X, 1e-3, tolerance=1e-4, method=method)
    rank = np.linalg.matrix_rank(X[0])
    assert np.isfinite(design.p).all() and design.p.sum() == pytest.approx(1)
    assert design.leverage[0] <= rank * (1 + 1e-4)


def test_unavailable_arms_are_never_played():
    X = ball(np.random.default_rng(5), 8, 6, 3)
    available = np.random.default_rng(6).random((8, 6)) < 0.5
    available[:, 2] = True
    for method in ("away", "multiplicative"):
        p = g_optimal(X, 1e-2, available=available, method=method).p
        assert np.all(p[~available] == 0)
    kept = g_optimal(X[:1, available[0]], 1e-2, tolerance=1e-6)
    masked = g_optimal(X[:1], 1e-2, tolerance=1e-6, available=available[:1])
    assert log_det(X[:1, available[0]], kept.p, 1e-2)[0] == pytest.approx(log_det(X[:1], masked.p, 1e-2)[0], abs=1e-6)


def test_away_steps_need_fewer_steps_at_high_accuracy_and_batches_do_not_interact():
    X = ball(np.random.default_rng(7), 10, 20, 3)
    alone = {m: [g_optimal(x[None], 1e-3, tolerance=1e-4, method=m) for x in X] for m in ("away", "multiplicative")}
    steps = {m: np.median([design.iterations for design in designs]) for m, designs in alone.items()}
    assert steps["away"] < 0.7 * steps["multiplicative"]
    together = g_optimal(X, 1e-3, tolerance=1e-4)
    np.testing.assert_allclose(together.p, np.concatenate([design.p for design in alone["away"]]), atol=1e-9)


def test_multiplicative_rule_never_decreases_the_determinant():
    X, ridge = ball(np.random.default_rng(8), 20, 10, 3), 0.01
    p = np.full((20, 10), 0.1)
    before = log_det(X, p, ridge)
    for _ in range(200):
        w = leverages(X, p, ridge)
        p = p * w / (p * w).sum(axis=1, keepdims=True)
        after = log_det(X, p, ridge)
        assert np.all(after >= before - 1e-10)
        before = after


def test_reduced_support_keeps_the_information_matrix():
    X = ball(np.random.default_rng(9), 5, 40, 3)
    p = np.random.default_rng(10).dirichlet(np.ones(40), size=5)
    q = reduce_support(X, p)
    assert np.all(np.count_nonzero(q, axis=1) <= 7) and np.all(q >= 0)
    np.testing.assert_allclose(information(X, q, 0.1), information(X, p, 0.1), atol=1e-10)
    np.testing.assert_allclose(q.sum(axis=1), 1, atol=1e-10)
    np.testing.assert_array_equal(reduce_support(X, q), q)


def test_draw_has_the_law_of_p():
    """n = 40000 draws, seed 11: every frequency within 5 standard errors (0.0125) of its probability; misses a shift of 0.02 never."""
    p = np.array([0.5, 0.0, 0.2, 0.3])
    arms = draw(np.tile(p, (40_000, 1)), np.random.default_rng(11))
    frequency = np.bincount(arms, minlength=4) / 40_000
    assert frequency[1] == 0
    assert np.all(np.abs(frequency - p) <= 5 * np.sqrt(p * (1 - p) / 40_000))


def test_distributional_design_beats_the_g_optimal_one_on_average():
    """A rare direction: each set holds e_1 with a small nuisance arm, one set in ten also e_2. The learnt design spends more on e_2."""
    rng = np.random.default_rng(12)
    common = np.array([[1.0, 0.0], [0.9, 0.1], [0.9, -0.1]])
    rare = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1]])
    sets = np.stack([rare if u < 0.1 else common for u in rng.random(2000)])
    learnt = DistributionalDesign.learn(sets, ridge=1.0)
    p = learnt.probabilities(sets, 1e-3)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-9)
    average = np.einsum("nk,nki,nkj->ij", p, sets, sets) / 2000
    worst = np.einsum("nkd,de,nke->nk", sets, np.linalg.inv(average), sets).max(axis=1).mean()
    assert worst <= 2 * 2  # d^2 is what G-optimal play alone guarantees
    assert learnt.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ridge": 0.0}, "ridge must be > 0"),
        ({"tolerance": -1.0}, "tolerance must be"),
        ({"method": "newton"}, "method must be one of"),
        ({"X": np.zeros((1, 0, 2))}, "X must have shape"),
        ({"X": np.full((1, 2, 2), np.nan)}, "X must have finite"),
        ({"available": np.zeros((1, 2), dtype=bool)}, "available must be"),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {"X": np.ones((1, 2, 2)), "ridge": 0.1} | change
    with pytest.raises(ValueError, match=message):
        g_optimal(arguments.pop("X"), arguments.pop("ridge"), **arguments)


def test_too_few_iterations_raise():
    with pytest.raises(RuntimeError, match="tolerance"):
        g_optimal(ball(np.random.default_rng(13), 1, 20, 3), 1e-3, tolerance=1e-8, max_iterations=2)
