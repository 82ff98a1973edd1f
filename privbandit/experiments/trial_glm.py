"""Generalised linear bandits on recorded people: a yes/no outcome of a trial, and a count of visits to a physician."""

from __future__ import annotations

from collections.abc import Iterator

from privbandit.environments.actg175 import PATIENTS, actg175
from privbandit.environments.visits import CAP, visits
from privbandit.experiments.base import Experiment, Run
from privbandit.links import Logistic, TruncatedPoisson
from privbandit.policies.algorithm2 import RepairedAlgorithm2
from privbandit.policies.greedy_glm import GreedyGLM
from privbandit.policies.one_release import OneRelease
from privbandit.policies.rs_glincb import RSGLinCB
from privbandit.policies.uniform import Uniform

EPSILONS = (1.0, 4.0, 10.0)
DELTA = 1e-5
S = 3.0  # odds, and rates of visits, between e^-3 and e^3
BONUS = 1.0
ROUNDS = 20_190 // 5  # person-years in the table, of which five are shown a round


def trial_logistic(horizon: int | None) -> Iterator[Run]:
    """ACTG 175, event-free or not, by matched actions; without covariates and with the treatment history, over a grid of bonuses."""
    for setting, covariates in (("event-free", ()), ("event-free-history", ("history",))):
        world = actg175(covariates, "event-free")
        d, T = world.d, PATIENTS if horizon is None else horizon
        yield Run(setting, "replay", Uniform(), world, T)
        yield Run(setting, "replay", GreedyGLM(Logistic(), d), world, T)
        yield Run(setting, "replay", RSGLinCB.tuned(Logistic(), d, S, T, beta=BONUS), world, T)
        for bonus in (0.1, 0.3, BONUS, 3.0):
            free = OneRelease(Logistic(), d, S, T, float("inf"), DELTA, bonus=bonus)
            yield Run(setting, "replay", free, world, T, name=f"OneRelease without noise, bonus {bonus:g}")
            for epsilon in EPSILONS:
                policy = OneRelease(Logistic(), d, S, T, epsilon, DELTA, bonus=bonus)
                yield Run(setting, "replay", policy, world, T, epsilon, DELTA, f"OneRelease, bonus {bonus:g}")
        for epsilon in EPSILONS:
            yield Run(setting, "replay", RepairedAlgorithm2(Logistic(), d, S, T, epsilon, DELTA, beta=BONUS), world, T, epsilon, DELTA)


def visits_count(horizon: int | None) -> Iterator[Run]:
    """One of five recorded person-years a round; the learner counts at most `cap` visits, regret counts at most ten."""
    world = visits()
    d, T = world.d, ROUNDS if horizon is None else horizon
    yield Run("visits", "recorded", Uniform(), world, T)
    yield Run("visits", "recorded", GreedyGLM(TruncatedPoisson(CAP), d), world, T)
    for cap, ridge in ((3, 1.5), (5, 1.5), (CAP, 1.5), (3, 0.3), (5, 0.3)):
        link, name = TruncatedPoisson(cap), f"cap {cap}, ridge {ridge:g}"
        if ridge == 1.5:  # without noise the ridge is its floor of 1 whatever the factor
            free = OneRelease(link, d, S, T, float("inf"), DELTA)
            yield Run("visits", "recorded", free, world, T, name=f"OneRelease without noise, cap {cap}")
        for epsilon in EPSILONS:
            policy = OneRelease(link, d, S, T, epsilon, DELTA, ridge=ridge)
            yield Run("visits", "recorded", policy, world, T, epsilon, DELTA, f"OneRelease, {name}")


EXPERIMENTS = (
    Experiment(
        "trial-logistic",
        "an HIV trial replayed with a yes/no outcome: one release against no privacy and chance",
        trial_logistic,
        replications=100,
        longest=PATIENTS,
        unit="one patient with an event",
    ),
    Experiment(
        "visits-count",
        "whom of five recorded people to call: counts of visits, truncated Poisson link",
        visits_count,
        longest=ROUNDS,
        unit="one visit to a physician",
    ),
)
