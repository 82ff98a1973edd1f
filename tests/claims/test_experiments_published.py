"""Experiments: what delta permits, and the published protocol.

Empirical claims are about stored runs. Each check reads them and plays the first rounds of one stored row again with the package's
present code: if policy, environment or random streams had changed, the stored numbers would no longer be its own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from privbandit.experiments.glm_tables import ZETA, frozen
from privbandit.mechanisms import TreeMechanism
from privbandit.policies.algorithm2 import RepairedAlgorithm2
from privbandit.policies.algorithm2_published import Algorithm2
from privbandit.policies.base import choose
from privbandit.policies.one_release import OneRelease, Tangent

from .claim import claim
from .stored_runs import CODE, FIXED, LINK, ONE, PRINTED, T, honest, replays, table2

# What delta permits ----------------------------------------------------------------------------------------------------------------


def publish(records, delta):
    """Law of the output: each record shown with probability delta."""
    law = {}
    for shown in product((False, True), repeat=len(records)):
        output = tuple(r if s else None for r, s in zip(records, shown, strict=True))
        law[output] = math.prod(delta if s else 1 - delta for s in shown)
    return law


@claim("delta-publishes", subject=publish, mutants={"two chances": lambda r, delta: publish(r, 1 - (1 - delta) ** 2)})
def check_delta(publish):
    """Total variation between neighbours is exactly delta; expected number shown is delta T."""
    for delta in (0.02, 0.3):
        for records in product((0, 1), repeat=3):
            law = publish(records, delta)
            assert math.isclose(sum(p * sum(x is not None for x in out) for out, p in law.items()), 3 * delta)
            for i in range(3):
                other = publish((*records[:i], 1 - records[i], *records[i + 1 :]), delta)
                distance = sum(max(p - other.get(out, 0.0), 0.0) for out, p in law.items())
                assert math.isclose(distance, delta)


test_delta = check_delta


# Published protocol ----------------------------------------------------------------------------------------------------------------


def preset(S, epsilon, **changes):
    world, kappa, star = frozen(LINK, 3, S, T)
    return replace(Algorithm2.published(LINK, 3, S, T, epsilon, 0.02, ZETA, kappa, star), **changes), world


def printed_preset(S, epsilon):
    return Algorithm2.printed(LINK, 3, S, T, epsilon, 0.02), frozen(LINK, 3, S, T)[0]


@claim(
    "published-reproduced",
    subject=(preset, Algorithm2),
    mutants={"printed constants": (printed_preset, Algorithm2), "another arm order": (lambda S, e: (preset(S, e)[0], honest(S)), Algorithm2)},
)
def check_published(subject):
    """n = 50 runs a cell, standard errors below 1% of the mean, limit 7%; seed 1."""
    policy, world = subject[0](2.0, 4.0)
    assert replays(policy, world, "table2", "probit-d3-S2", "published", CODE, 4.0, 0.02)
    for S, printed in PRINTED.items():
        for epsilon, value in zip((4.0, 6.0, 8.0), printed, strict=True):
            assert abs(table2(S, "published", CODE, epsilon, 0.02).mean() / value - 1) < 0.07


test_published = check_published


@claim(
    "repaired-tenth",
    subject=RepairedAlgorithm2,
    mutants={"rarer": partial(RepairedAlgorithm2, growth=1.1), "tree": partial(RepairedAlgorithm2, mechanism=TreeMechanism)},
)
def check_repaired(make):
    """n = 50 runs a cell, seed 1; the ratio of means is at most .092, standard errors 3% of it."""
    world = frozen(LINK, 3, 2.0, T)[0]
    assert replays(make(LINK, 3, 2.0, T, 8.0, 0.02), world, "table2", "probit-d3-S2", "published", FIXED, 8.0, 0.02)
    for S in PRINTED:
        for epsilon in (4.0, 6.0, 8.0):
            assert table2(S, "published", FIXED, epsilon, 0.02).mean() <= 0.1 * table2(S, "published", CODE, epsilon, 0.02).mean()


test_repaired = check_repaired


def wait(policy, world, rounds=1800, R=5):
    """(first switch, regret before it, exploration rounds) (R,), and whether the longest arm was played until then."""
    rng = [np.random.default_rng((1, i)) for i in range(4)]
    place, state = world.init(R, rng[0]), policy.init(R, rng[3])
    first, lost, explored, longest = np.full(R, rounds), np.zeros(R), np.zeros(R), True
    for t in range(rounds):
        place, x = world.contexts(place, t, rng[0])
        state, arm = policy.act(state, x, rng[2])
        first = np.minimum(first, np.where(state.calls[1] > 0, t, rounds))
        before, explored = first > t, explored + state.exploring
        longest &= bool(np.all((arm == np.linalg.norm(x, axis=2).argmax(axis=1)) | ~before))
        back = world.step(place, x, arm, rng[1])
        lost += before * back.regret
        state = policy.update(state, choose(x, arm), back.reward, rng[3])
    return first, lost, explored, longest


@claim(
    "waiting-for-the-switch",
    subject=(preset, Algorithm2),
    mutants={"printed threshold": (lambda S, e: preset(S, e, threshold=3e-4), Algorithm2), "small ridge": (lambda S, e: preset(S, e, lambda_=20.0), Algorithm2)},
)
def check_wait(subject):
    """n = 5 runs for each S, seed 1; first switches vary by about 8% between runs, the noise is the same for both S."""
    when = {}
    for S in (2.0, 3.0):
        first, lost, explored, longest = wait(*subject[0](S, 4.0))
        assert longest and explored.sum() == 0 and np.all(first < 1800)
        assert lost.mean() > 0.9 * table2(S, "published", CODE, 4.0, 0.02).mean()
        when[S] = first.mean()
    assert abs(when[2.0] / when[3.0] - 1) < 0.05


test_wait = check_wait


@claim("frozen-changes-little", subject=OneRelease, mutants={"tangent": partial(OneRelease, linearisation=Tangent())})
def check_frozen(make):
    """n = 50 + 50 independent runs, six comparisons, limit 3 standard errors; effects of 35% would show at S = 2, epsilon = 8."""
    assert replays(make(LINK, 3, 2.0, T, 8.0, 0.02), frozen(LINK, 3, 2.0, T)[0], "table2", "probit-d3-S2", "published", ONE, 8.0, 0.02)
    for S in PRINTED:
        for epsilon in (4.0, 8.0):
            x, y = table2(S, "published", ONE, epsilon, 0.02), table2(S, "honest", ONE, epsilon, 0.02)
            assert abs(x.mean() - y.mean()) < 3 * math.sqrt((x.var(ddof=1) + y.var(ddof=1)) / 50)


test_frozen = check_frozen
