"""What a trusted shuffler buys: batched policies on stochastic contexts, and the trust models side by side on one instance."""

from __future__ import annotations

import math
from collections.abc import Iterator

from privbandit.environments.base import Environment
from privbandit.environments.glm import GLMEnvironment
from privbandit.environments.linear import LinearBandit
from privbandit.experiments.base import Experiment, Run
from privbandit.links import Logistic, Probit
from privbandit.policies.b_glincb import BGLinCB
from privbandit.policies.ldp_glm import LDPGLM
from privbandit.policies.ldp_linucb import LDPLinUCB
from privbandit.policies.linucb import LinUCB
from privbandit.policies.one_release import OneRelease
from privbandit.policies.private_linucb import PrivateLinUCB
from privbandit.policies.shuffle_glm import ShuffleGLM
from privbandit.policies.shuffle_linucb import ShuffleLinUCB
from privbandit.policies.shuffle_one_sum import ShuffleOneSum
from privbandit.policies.uniform import Uniform

K = 20
DELTA = 1e-5
SETTINGS = ((Probit(), 3, 2.0), (Probit(), 5, 3.0), (Logistic(), 3, 2.0), (Logistic(), 5, 3.5))
LONGEST_HISTORY = 50_000  # rounds up to which policies that keep the records of a batch are played
SMALL_WIDTH = 1e-4  # of the theory's width: below it elimination is premature, above it nothing is eliminated


def stochastic(horizon: int | None) -> Iterator[Run]:
    """Algorithm 1 as printed, with small widths, and with one sum a batch, beside the versions without noise."""
    T = 10_000 if horizon is None else horizon
    for link, d, S in SETTINGS:
        world, setting = GLMEnvironment(link, d, K, S), f"{link.name}-d{d}-S{S:g}"
        fields = {"link": link, "d": d, "S": S, "horizon": T}
        yield Run(setting, "honest", Uniform(), world, T)
        yield Run(setting, "honest", ShuffleOneSum(**fields, epsilon=math.inf, delta=DELTA), world, T)
        for epsilon in (0.5, 1.0, 4.0, 8.0):
            yield Run(setting, "honest", ShuffleOneSum(**fields, epsilon=epsilon, delta=DELTA), world, T, epsilon, DELTA)
        printed = ShuffleGLM(**fields, epsilon=4.0, delta=DELTA, form="printed")
        yield Run(setting, "honest", printed, world, T, 4.0, DELTA)
        if T <= LONGEST_HISTORY:
            yield from with_small_widths(setting, world, fields)


def with_small_widths(setting: str, world: Environment, fields: dict) -> Iterator[Run]:
    """Elimination with the width that works, 0.0001 of the theory's, and a first batch of sqrt(T)."""
    T = fields["horizon"]
    tuned = {"width": SMALL_WIDTH, "first_batch": math.ceil(math.sqrt(T))}
    for distributional in (False, True):
        yield Run(setting, "honest", BGLinCB(**fields, **tuned, lambda_=1.0, distributional=distributional), world, T)
    for epsilon in (4.0, 8.0):
        policy = ShuffleGLM(**fields, **tuned, epsilon=epsilon, delta=DELTA, rounds=20)
        yield Run(setting, "honest", policy, world, T, epsilon, DELTA, "shuffle GLM (corrected, small widths)")


def trust(horizon: int | None) -> Iterator[Run]:
    """Joint, shuffle and local privacy on a linear and a GLM instance, at four horizons a factor 4 apart, epsilon 1 and 4."""
    longest = 32_000 if horizon is None else horizon
    for T in sorted({max(1, longest // 4**i) for i in range(4)}):
        yield from trust_linear(T)
        yield from trust_glm(T)


def trust_linear(T: int) -> Iterator[Run]:
    world, setting = LinearBandit(K=10, d=3), f"linear-d3-T{T}"
    fields = {"d": 3, "Y": world.reward_bound}
    yield Run(setting, "honest", Uniform(), world, T)
    yield Run(setting, "honest", LinUCB(alpha=0.1, **fields), world, T, name="nobody: LinUCB")
    for epsilon in (1.0, 4.0):
        for name, policy in {
            "joint: private LinUCB": PrivateLinUCB.practical(epsilon, DELTA, horizon=T, **fields),
            "shuffle: LinUCB, sums": ShuffleLinUCB.practical(epsilon, DELTA, horizon=T, **fields),
            "shuffle: LinUCB, amplified": ShuffleLinUCB.practical(epsilon, DELTA, horizon=T, protocol="amplified", **fields),
            "local: LinUCB": LDPLinUCB.practical(epsilon, DELTA, horizon=T, **fields),
        }.items():
            yield Run(setting, "honest", policy, world, T, epsilon, DELTA, name)


def trust_glm(T: int) -> Iterator[Run]:
    link, d, S = Probit(), 3, 2.0
    world, setting = GLMEnvironment(link, d, K, S), f"probit-d3-T{T}"
    batched = {"link": link, "d": d, "S": S, "horizon": T, "delta": DELTA}
    yield Run(setting, "honest", Uniform(), world, T)
    yield Run(setting, "honest", OneRelease(link, d, S, T, math.inf, DELTA), world, T, name="nobody: one release")
    yield Run(setting, "honest", ShuffleOneSum(epsilon=math.inf, **batched), world, T, name="nobody: one sum a batch")
    for epsilon in (1.0, 4.0):
        for name, policy in {
            "joint: one release": OneRelease(link, d, S, T, epsilon, DELTA),
            "shuffle: one sum a batch": ShuffleOneSum(epsilon=epsilon, **batched),
            "local: noisy gradients": LDPGLM(link=link, d=d, S=S, epsilon=epsilon, delta=DELTA),
        }.items():
            yield Run(setting, "honest", policy, world, T, epsilon, DELTA, name)


EXPERIMENTS = (
    Experiment("shuffle-stochastic", "shuffled GLM bandits: probit and logistic, d = 3 and 5, four epsilon, T = 10,000", stochastic),
    Experiment("trust-models", "joint, shuffle and local privacy side by side, T = 500 to 32,000", trust),
)
