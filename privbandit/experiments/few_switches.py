"""What a non-private learner with few switches reaches when its bonus is tuned: the reference for the private policies."""

from collections.abc import Iterator
from dataclasses import replace

from privbandit.environments.glm import GLMEnvironment
from privbandit.experiments.base import Experiment, Run
from privbandit.links import Probit
from privbandit.policies.rs_glincb import RSGLinCB

BONUSES = (0.1, 0.3, 1.0, 3.0)


def build(horizon: int | None) -> Iterator[Run]:
    T = 5000 if horizon is None else horizon
    for S in (2.0, 3.0):
        for beta in BONUSES:
            policy = RSGLinCB.tuned(Probit(), 3, S, T, beta=beta)
            policy = replace(policy, name=f"RS-GLinCB (beta={beta:g})")
            yield Run(f"probit-d3-S{S:g}", "honest", policy, GLMEnvironment(Probit(), 3, 20, S), T)


EXPERIMENTS = (Experiment("few-switches", "non-private RS-GLinCB over a grid of bonuses, theta and contexts redrawn", build),)
