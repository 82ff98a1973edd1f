"""Table 2 and Figure 1 of Sarmasarkar (2026), under two protocols.

*Published*: one frozen parameter and one frozen context sequence, the public code's constants, oracle kappas where the code uses
them, delta = 0.02. *Honest*: parameter and contexts redrawn in every run, public constants only, with the constants of theory and
as chosen by the study `tuning`, and smaller deltas beside 0.02.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from privbandit.environments.glm import GLMEnvironment
from privbandit.experiments.base import Experiment, Run
from privbandit.links import Link, Logistic, Probit
from privbandit.policies.algorithm2 import RepairedAlgorithm2
from privbandit.policies.algorithm2_published import Algorithm2
from privbandit.policies.ecolog import ECOLog
from privbandit.policies.glm_ucb import GLMUCB
from privbandit.policies.gloc import GLOC
from privbandit.policies.greedy_glm import GreedyGLM
from privbandit.policies.one_release import OneRelease, QuadraticSurrogate, Tangent
from privbandit.policies.rs_glincb import RSGLinCB
from privbandit.policies.uniform import Uniform

ZETA = 0.02
PUBLISHED_DELTA = 0.02
INSTANCE = 109832  # seed of the frozen instances
K = 20
BONUS, BETA = 0.3, 0.1  # of one release and of the repaired Algorithm 2, as the study `tuning` chose; their defaults are 0.1 and 0.3


@lru_cache(maxsize=16)
def frozen(link: Link, d: int, S: float, T: int) -> tuple[GLMEnvironment, float, float]:
    """The frozen instance of a setting with its own kappa and kappa* (oracle knowledge, as the public code uses it)."""
    world = GLMEnvironment(link, d, K, S, theta="cube", instance_seed=INSTANCE)
    return world, *world.instance_kappas(T)


def baselines(link: Link, d: int, S: float, T: int, kappa: float) -> list:
    """The public code's non-private policies with its constants."""
    found = [GLMUCB.published(link, d, S, T, ZETA, kappa), GLOC.published(link, d, S, ZETA, kappa)]
    found.append(RSGLinCB.published(link, d, S, T, ZETA, kappa))
    return [*found, ECOLog.published(d, S, ZETA)] if isinstance(link, Logistic) else found


def published(setting: str, link: Link, d: int, S: float, T: int, epsilons: tuple[float, ...]) -> Iterator[Run]:
    """The paper's own comparison, and the repaired policies on the same instance."""
    world, kappa, star = frozen(link, d, S, T)
    for policy in baselines(link, d, S, T, kappa):
        yield Run(setting, "published", policy, world, T)
    delta = PUBLISHED_DELTA
    for epsilon in epsilons:
        for policy in (
            Algorithm2.published(link, d, S, T, epsilon, delta, ZETA, kappa, star),
            RepairedAlgorithm2(link, d, S, T, epsilon, delta),
            OneRelease(link, d, S, T, epsilon, delta),
        ):
            yield Run(setting, "published", policy, world, T, epsilon, delta)


def honest(setting: str, link: Link, d: int, S: float, T: int, epsilons: tuple[float, ...]) -> Iterator[Run]:
    """Public constants only; every policy meets the same theta, contexts and reward draws, redrawn in each run."""
    world = GLMEnvironment(link, d, K, S)
    plain = [Uniform(), GLMUCB(link, d, S, T, bonus="self-normalised"), GLOC(link, d, S), RSGLinCB(link, d, S, T)]
    plain += [GLMUCB.tuned(link, d, S, T), GLOC.tuned(link, d, S), RSGLinCB.tuned(link, d, S, T), GreedyGLM(link, d)]
    plain += [ECOLog(d, S), ECOLog.tuned(d, S)] if isinstance(link, Logistic) else []
    for policy in plain:
        yield Run(setting, "honest", policy, world, T)
    for bonus, name in ((OneRelease.bonus, "OneRelease without noise"), (BONUS, "OneRelease (tuned), no noise")):
        free = OneRelease(link, d, S, T, float("inf"), PUBLISHED_DELTA, bonus=bonus)
        yield Run(setting, "honest", free, world, T, name=name)
    for epsilon in epsilons:
        for delta in (PUBLISHED_DELTA, 1e-5, 1 / T**2):
            yield Run(setting, "honest", OneRelease(link, d, S, T, epsilon, delta), world, T, epsilon, delta)
        for delta in (PUBLISHED_DELTA, 1e-5):
            yield Run(setting, "honest", OneRelease(link, d, S, T, epsilon, delta, linearisation=Tangent()), world, T, epsilon, delta)
            surrogate = OneRelease(link, d, S, T, epsilon, delta, linearisation=QuadraticSurrogate())
            yield Run(setting, "honest", surrogate, world, T, epsilon, delta)
            yield Run(setting, "honest", RepairedAlgorithm2(link, d, S, T, epsilon, delta), world, T, epsilon, delta)
            one = OneRelease(link, d, S, T, epsilon, delta, bonus=BONUS)
            yield Run(setting, "honest", one, world, T, epsilon, delta, "OneRelease (tuned)")
            repaired = RepairedAlgorithm2(link, d, S, T, epsilon, delta, beta=BETA)
            yield Run(setting, "honest", repaired, world, T, epsilon, delta, "Algorithm 2 (tuned)")


def table2(horizon: int | None) -> Iterator[Run]:
    T = 5000 if horizon is None else horizon
    for S in (2.0, 2.5, 3.0):
        yield from published(f"probit-d3-S{S:g}", Probit(), 3, S, T, (4.0, 6.0, 8.0))
        yield from honest(f"probit-d3-S{S:g}", Probit(), 3, S, T, (1.0, 4.0, 8.0))


def figure1a(horizon: int | None) -> Iterator[Run]:
    T = 15_000 if horizon is None else horizon
    yield from published("logistic-d5-S3.5", Logistic(), 5, 3.5, T, (2.0, 8.0))
    yield from honest("logistic-d5-S3.5", Logistic(), 5, 3.5, T, (2.0, 8.0))


def figure1b(horizon: int | None) -> Iterator[Run]:
    T = 5000 if horizon is None else horizon
    yield from published("probit-d5-S3", Probit(), 5, 3.0, T, (2.0, 8.0))
    yield from honest("probit-d5-S3", Probit(), 5, 3.0, T, (2.0, 8.0))


def mix(horizon: int | None) -> Iterator[Run]:
    """Contexts made to expose the bias of the quadratic surrogate."""
    T = 20_000 if horizon is None else horizon
    for link, S in ((Probit(), 3.0), (Logistic(), 3.5)):
        world = GLMEnvironment(link, 3, K, S, contexts_kind="mix")
        setting = f"mix-{link.name}-d3-S{S:g}"
        yield Run(setting, "honest", OneRelease(link, 3, S, T, float("inf"), PUBLISHED_DELTA), world, T, name="OneRelease without noise")
        for epsilon in (1.0, 4.0, 8.0):
            for delta in (PUBLISHED_DELTA, 1e-5):
                yield Run(setting, "honest", OneRelease(link, 3, S, T, epsilon, delta), world, T, epsilon, delta)
                surrogate = OneRelease(link, 3, S, T, epsilon, delta, linearisation=QuadraticSurrogate())
                yield Run(setting, "honest", surrogate, world, T, epsilon, delta)


EXPERIMENTS = (
    Experiment("table2", "probit, d = 3, T = 5000: the paper's Table 2 as published, and redrawn with public constants", table2),
    Experiment("figure1a", "logistic, d = 5, T = 15,000: the paper's Figure 1(a), as published and redrawn", figure1a),
    Experiment("figure1b", "probit, d = 5, T = 5000: the paper's Figure 1(b), as published and redrawn", figure1b),
    Experiment("mix", "non-elliptical contexts, T = 20,000: where a quadratic surrogate fails", mix),
)
