"""Algorithm 2 and its leak: the attack on the printed rule."""

import math

import numpy as np

from privbandit.accounting import gaussian_delta
from privbandit.audit.attack import clopper_pearson
from privbandit.audit.timing import SHORT, arcs, hits, spirals, tuned, with_room
from privbandit.environments.glm import GLMEnvironment
from privbandit.formulas.algorithm2 import CALL_RHO
from privbandit.links import Logistic
from privbandit.mechanisms import TreeMechanism
from privbandit.mechanisms.optimisers import NoisyGradientDescent
from privbandit.mechanisms.published_descent import PrintedDescent
from privbandit.policies.algorithm2_published import Algorithm2
from privbandit.policies.base import choose

from .claim import claim

LINK = Logistic()
ALPHA = 1e-3


class RefitsAlways(Algorithm2):
    """The exploration estimate is computed anew after every round."""

    def explored(self, state, noise):
        return super().explored(state._replace(exploring=np.ones_like(state.exploring)), noise)._replace(exploring=state.exploring)


class RefitsNever(Algorithm2):
    def explored(self, state, noise):
        return state


def of(kind, policy):
    return kind(**vars(policy))


def small(kind, R=40):
    """Two streams at work within 30 rounds, and their states; noise everywhere."""
    descent = PrintedDescent(NoisyGradientDescent(LINK, 5, 3.0), 1.0)
    policy = kind(
        LINK, 2, 2.0, 30, 1.0, 0.01, 2.0, 2.0, gamma=0.8, beta=0.5, threshold=0.2, growth=1.2, caps=(99, 99),
        trees=(TreeMechanism(30, 0.05),) * 2, fits=(descent,) * 2,
    )  # fmt: skip
    rng, environment = np.random.default_rng(0), GLMEnvironment(LINK, 2, 4, 2.0)
    world, state, steps = environment.init(R, rng), policy.init(R, rng), []
    for t in range(30):
        world, contexts = environment.contexts(world, t, rng)
        state, action = policy.act(state, contexts, rng)
        before, explored = state.theta_o, state.exploring
        state = policy.update(state, choose(contexts, action), environment.step(world, contexts, action, rng).reward, rng)
        steps.append((explored, np.any(state.theta_o != before, axis=1)))
    return np.array(steps)


@claim("published-refresh-leak", subject=Algorithm2, mutants={"refits always": RefitsAlways, "refits never": RefitsNever})
def check_refresh(kind):
    """40 runs of 30 rounds: the estimate moved exactly in the rounds that explored; both kinds of round occur."""
    explored, moved = small(kind).swapaxes(0, 1)
    assert 0.1 < explored.mean() < 0.9
    np.testing.assert_array_equal(explored, moved)


test_refresh = check_refresh


@claim("accomplice-attack", subject=Algorithm2, mutants={"refits always": RefitsAlways, "refits never": RefitsNever})
def check_attack(kind):
    """n = 1,000 runs on each data set, seeds 1 and 2, each limit exact at 1e-3. Seen: all and 1. The limits give
    delta >= .95; both mutants give less than 0."""
    policy = of(kind, with_room(LINK, 4.0, 1.0, 1e-3, 100))
    assert 1e13 < policy.horizon < 3e13
    stays, moves = (hits(policy, own, lambda theta: arcs(theta, 0.02, 2000), 1000, seed) for own, seed in ((SHORT, 1), (1.0, 2)))
    assert stays == 1000 and moves <= 5
    assert clopper_pearson(stays, 1000, ALPHA)[0] - math.e * clopper_pearson(moves, 1000, ALPHA)[1] > 0.95


test_attack = check_attack


def feasible(kind, epsilon):
    return of(kind, tuned(Algorithm2.printed(LINK, 2, 4.0, 8192, epsilon, 0.02, 0.02, 20), 600.0, 7.9))


def either(below, above, epsilon):
    """The delta that an event of probability >= below, <= above on the neighbour, or its complement, needs."""
    return max(below - math.exp(epsilon) * above, (1 - above) - math.exp(epsilon) * (1 - below))


def event_only(below, above, epsilon):
    return below - math.exp(epsilon) * above


@claim(
    "accomplice-attack-tuned",
    subject=(Algorithm2, either),
    mutants={"refits always": (RefitsAlways, either), "refits never": (RefitsNever, either), "event without complement": (Algorithm2, event_only)},
)
def check_tuned(subject):
    """n = 1,000 a data set at epsilon = 1, seeds 1 and 2, and 3,000 at epsilon = 4, seeds 5 and 6, limits exact at 1e-3. Seen: .94 against
    .06 and .997 against .08; the rates asserted are 5 standard errors away. delta >= .5 and .1 needed, where the claim is .02: up to 18
    misses of 3,000 give .1 at epsilon = 4 (9 expected). A Gaussian account of the printed noise allows total variation .05 and .17."""
    kind, need = subject
    for epsilon, low, variation, delta, runs, seeds in ((1.0, 0.90, 0.74, 0.5, 1000, (1, 2)), (4.0, 0.98, 0.8, 0.1, 3000, (5, 6))):
        policy = feasible(kind, epsilon)
        stays, moves = (hits(policy, own, lambda theta: spirals(), runs, seed) for own, seed in zip((SHORT, 1.0), seeds, strict=True))
        assert stays >= runs * low and moves <= 0.125 * runs
        below, above = clopper_pearson(stays, runs, ALPHA)[0], clopper_pearson(moves, runs, ALPHA)[1]
        assert below - above > variation and need(below, above, epsilon) > delta
        tree = policy.trees[0]
        noise = math.sqrt(2 * tree.levels / tree.sigma**2 + 2 * CALL_RHO(epsilon=epsilon, delta=0.02, count=1.0))
        assert gaussian_delta(noise, 0.0) < (0.05 if epsilon == 1 else 0.17)


test_tuned = check_tuned


@claim("accomplice-attack-limits", subject=1, mutants={"a hundred steps": 100})
def check_limits(steps):
    """n = 1,000 a data set, seeds 1 and 2, S = 2: with one step no arm is eliminated and both rates are above .98 (seen: .998, 1)."""
    policy = with_room(LINK, 2.0, 1.0, 1e-3, steps)
    for own, seed in ((SHORT, 1), (1.0, 2)):
        assert hits(policy, own, lambda theta: arcs(theta, 0.02), 1000, seed) > 980


test_limits = check_limits
