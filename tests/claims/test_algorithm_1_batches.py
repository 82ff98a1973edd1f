"""Algorithm 1 against its printed steps, and the lengths and number of its batches."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp

from privbandit.design import g_optimal
from privbandit.environments.glm import uniform_ball
from privbandit.estimators.glm import fit_glm
from privbandit.formulas import shuffle
from privbandit.links import Probit
from privbandit.policies.batched import growth, schedule
from privbandit.policies.shuffle_glm import ShuffleGLM

from .altered import formula, symbol
from .claim import claim
from .small_problem import SMALL

# The algorithm -----------------------------------------------------------------------------------------------------------------


class NoScaling(ShuffleGLM):
    def scales(self, models, contexts):
        return np.ones(contexts.shape[:2])


class NoElimination(ShuffleGLM):
    def probabilities(self, state, contexts):
        return super().probabilities(state._replace(models=state.models._replace(width=state.models.width + 1e9)), contexts)


def literal(policy, state, data, X):
    """Models and arm probabilities from the finished batches' data [(x (n, d), r (n,)), ..] of one replication, step by step."""
    link, d, S = policy.link, policy.d, policy.S
    models = []
    for k, (x, r) in enumerate(data):
        protocol = policy.protocols[k]
        theta = fit_glm(link, x[None], r[None], protocol.loss_ridge, radius=S).theta[0]
        H = protocol.ridge * np.eye(d)
        for row in x:
            weight = 1.0
            if k:
                t1, V, w1 = models[0]
                beta = math.exp(policy.self_concordance * min(2 * S, w1 * math.sqrt(row @ np.linalg.solve(V, row))))
                weight = float(link.dmu(row @ t1)) / beta
            H = H + weight * np.outer(row, row)
        models.append((theta, H, policy.width * protocol.gamma * (1.0 if k else math.sqrt(policy.kappa))))
    kept = list(range(len(X)))
    for theta, H, w in models:
        half = {i: w * math.sqrt(X[i] @ np.linalg.solve(H, X[i])) for i in kept}
        best = max(X[i] @ theta - half[i] for i in kept)
        kept = [i for i in kept if X[i] @ theta + half[i] >= best]
    t1, V, w1 = models[0]
    beta = np.exp([policy.self_concordance * min(2 * S, w1 * math.sqrt(x @ np.linalg.solve(V, x))) for x in X])
    scaled = X * np.sqrt(link.dmu(X @ t1) / beta)[:, None]
    mask = np.isin(np.arange(len(X)), kept)
    ridge = min(policy.design_ridge(len(data)), 1e-3 * np.max(np.sum(scaled[mask] ** 2, axis=1)))
    tolerance = policy.design_tolerance
    p = g_optimal(scaled[None], ridge, tolerance=tolerance, method="multiplicative", available=mask[None]).p[0]
    return models, p


@claim("algorithm-1-printed", subject=ShuffleGLM, mutants={"arms not scaled": NoScaling, "nothing eliminated": NoElimination})
def check_algorithm(kind):
    """Two finished batches of 40 and 80 users, no noise; then ten context sets. Some arm is eliminated in most of them."""
    policy = kind(**SMALL, horizon=200, first_batch=40, batches=3, epsilon=math.inf, delta=0.1, width=4e-4)
    ends, rng = policy.ends, np.random.default_rng(1)
    state, data = policy.init(1, rng), []
    for k in range(2):
        x = uniform_ball(rng, (policy.length(k),), 2)
        r = (rng.random(len(x)) < Probit().mu(x @ np.array([1.6, -0.8]))).astype(float)
        data.append((x, r))
        for row, reward in zip(x, r, strict=True):
            state = policy.update(state, row[None], np.array([reward]), rng)
    assert state.batch == 2 and len(ends) >= 3
    dropped = 0
    for _ in range(10):
        X = uniform_ball(rng, (6,), 2)
        models, p = literal(policy, state, data, X)
        np.testing.assert_allclose(policy.probabilities(state, X[None])[0], p, atol=1e-6)
        dropped += np.any(p == 0)
    for j, (theta, H, w) in enumerate(models):
        np.testing.assert_allclose(state.models.theta[0, j], theta, atol=1e-7)
        np.testing.assert_allclose(np.linalg.inv(state.models.inverse[0, j]), H, rtol=1e-7)
        assert state.models.width[j] == pytest.approx(w)
    assert dropped >= 5


test_algorithm = check_algorithm


# Batches -----------------------------------------------------------------------------------------------------------------------

alpha, k = symbol(shuffle.BATCH, "alpha"), symbol(shuffle.BATCH, "K")


@claim(
    "batch-lengths",
    subject=(shuffle.BATCH, growth),
    mutants={
        "exponent 2 - 2^(1-k)": (formula(shuffle.BATCH, alpha ** (2 - 2 ** (1 - k))), growth),
        "alpha = sqrt(T)": (shuffle.BATCH, lambda T, M=None: math.sqrt(T)),
    },
)
def check_lengths(pair):
    """Start and induction step symbolically, the recursion numerically, and B_M = T."""
    lengths, rate = pair
    at = lambda j: lengths.expression.subs(k, j)  # noqa: E731
    assert sp.simplify(at(2) - alpha) == 0
    step = sp.simplify(sp.log(at(k + 1)) - sp.log(alpha) - sp.log(at(k)) / 2)
    assert sp.simplify(sp.expand_log(step, force=True)) == 0
    for T in (10, 1000, 10**6, 10**9):
        for M in range(2, 7):
            if M <= math.log2(math.log2(T)):
                assert float(lengths(alpha=rate(T, M), K=float(M))) == pytest.approx(T, rel=1e-9)
        assert float(lengths(alpha=rate(T), K=60.0)) >= T


test_lengths = check_lengths


@claim(
    "batch-count",
    subject=(schedule, growth),
    mutants={
        "alpha = sqrt(T)": (schedule, math.sqrt),
        "equal batches": (lambda T, first, a: (*range(first, T, math.ceil(a)), T) if first < T else (T,), growth),
    },
)
def check_count(pair):
    """Exact for every T up to 3000; attained for first = 1."""
    cut, rate = pair
    attained = False
    for T in [*range(2, 3001), *(int(10**e) for e in np.linspace(3.6, 12, 40))]:
        most = math.ceil(math.log2(2 + math.log2(T)) - 1e-12)
        for first in (1, 7, T // 2 + 1, T):
            ends = cut(T, first, rate(T))
            assert ends[-1] == T and len(ends) <= most
        attained |= len(cut(T, 1, rate(T))) == most
    assert attained


test_count = check_count
