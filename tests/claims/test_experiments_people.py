"""Experiments: recorded people.

Empirical claims are about stored runs. Each check reads them and plays the first rounds of one stored row again with the package's
present code: if policy, environment or random streams had changed, the stored numbers would no longer be its own.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import combinations, permutations

import numpy as np
from scipy.stats import norm

from privbandit.environments.actg175 import actg175
from privbandit.environments.visits import RecordedPersons, visits
from privbandit.links import Logistic, TruncatedPoisson
from privbandit.policies.greedy_glm import GreedyGLM
from privbandit.policies.one_release import OneRelease, Tangent

from .claim import claim
from .stored_runs import FIXED, ends, replays


def trial(policy, epsilon=None):
    return ends("trial-logistic", "event-free", "replay", policy, epsilon, None if epsilon is None else 1e-5)


@claim("trial-greedy", subject=GreedyGLM, mutants={"strong ridge": partial(GreedyGLM, lambda_=50.0)})
def check_greedy(make):
    """n = 100 orders, seed 1; greedy and repaired against uniform at 3 standard errors of the difference."""
    world = actg175((), "event-free")
    run = ("trial-logistic", "event-free", "replay", "greedy")
    assert replays(make(Logistic(), world.d), world, *run, replications=100)
    for run in (("greedy",), (FIXED, 1.0), (FIXED, 4.0)):
        difference = trial(*run) - trial("uniform")
        assert difference.mean() > 3 * difference.std(ddof=1) / 10
    for bonus, larger in ((0.1, (1.0, 4.0, 10.0)), (0.3, (1.0, 4.0, 10.0)), (1, ())):
        free = trial(f"OneRelease without noise, bonus {bonus:g}").mean()
        assert all(free > trial(f"OneRelease, bonus {bonus:g}", epsilon).mean() for epsilon in larger)
    assert free < trial("OneRelease, bonus 1", 1.0).mean()


test_greedy = check_greedy


@claim("trial-cost", subject=OneRelease, mutants={"tangent": partial(OneRelease, linearisation=Tangent())})
def check_trial(make):
    """n = 100 orders, seed 1; standard errors 5 to 8% of the means."""
    world = actg175((), "event-free")
    policy = make(Logistic(), world.d, 3.0, world.n, 4.0, 1e-5, bonus=1.0)
    assert replays(policy, world, "trial-logistic", "event-free", "replay", "OneRelease, bonus 1", 4.0, 1e-5, replications=100)
    for epsilon, limit in ((1.0, 0.7), (4.0, 0.5), (10.0, 0.5)):
        assert trial("OneRelease, bonus 1", epsilon).mean() < limit * trial("uniform").mean()


test_trial = check_trial


class Greedy(RecordedPersons):
    """A wrong twin: pays the best recorded outcome of the round, whoever was picked."""

    def step(self, state, contexts, action, rng):
        feedback = super().step(state, contexts, action, rng)
        return feedback._replace(reward=self.outcome[state.shown].max(axis=1))


@claim("recorded-choice", subject=RecordedPersons, mutants={"best outcome": Greedy})
def check_recorded(make):
    """All 720 orders of six rows: every round's mean reward of a fixed rule is its average over K-subsets."""
    rng = np.random.default_rng(1)
    features, outcome, theta = rng.uniform(-0.7, 0.7, (6, 2)), rng.integers(0, 5, 6).astype(float), np.array([1.0, -2.0])
    orders = np.array(list(permutations(range(6))))
    for K in (2, 3):
        world = make(features, outcome, TruncatedPoisson(4), K)
        subsets = np.mean([outcome[max(c, key=lambda i: features[i] @ theta)] for c in combinations(range(6), K)])
        state = world.init(len(orders), rng)._replace(order=orders)
        for t in range(world.rounds):
            state, x = world.contexts(state, t, rng)
            assert math.isclose(world.step(state, x, (x @ theta).argmax(axis=1), rng).reward.mean(), subsets)


test_recorded = check_recorded


def group(mu, m):
    return m * mu


@claim("person-years", subject=group, mutants={"composition": lambda mu, m: math.sqrt(m) * mu, "one more": lambda mu, m: (m + 1) * mu})
def check_group(group):
    """alpha -> 1 - f(alpha) for f = G_mu, iterated m times, is 1 - G_(m mu): equality at 400 levels."""
    alpha = np.linspace(0.001, 0.5, 400)
    for mu in (0.1, 0.5, 1.0):
        for m in range(1, 6):
            reject = alpha
            for _ in range(m):
                reject = norm.cdf(norm.ppf(reject) + mu)
            np.testing.assert_allclose(norm.isf(reject), norm.isf(alpha) - group(mu, m), atol=1e-6)


test_group = check_group


@claim("visits-cap", subject=OneRelease, mutants={"tangent": partial(OneRelease, linearisation=Tangent()), "ridge": partial(OneRelease, ridge=0.3)})
def check_visits(make):
    """n = 50 orders, seed 1; neighbouring caps differ by more than 3 standard errors of the paired difference."""
    world = visits()
    policy = make(TruncatedPoisson(3), world.d, 3.0, world.rounds, 1.0, 1e-5)
    assert replays(policy, world, "visits-count", "visits", "recorded", "OneRelease, cap 3, ridge 1.5", 1.0, 1e-5)
    for epsilon in (1.0, 4.0, 10.0):
        runs = [ends("visits-count", "visits", "recorded", f"OneRelease, cap {cap}, ridge 1.5", epsilon, 1e-5) for cap in (3, 5, 10)]
        for few, many in zip(runs, runs[1:], strict=False):
            difference = many - few
            assert difference.mean() > 3 * difference.std(ddof=1) / math.sqrt(50)


test_visits = check_visits
