"""One grid and one budget of tuning for every generalised linear method, on random numbers that no table uses.

Every method has one knob. Where a theory asks for a width the knob is a multiple of it; where none does (the private policies) it is
their public bonus, over a grid with as many points. The rule was fixed before the runs: of each method the value with the smallest mean
over settings and budgets of its regret relative to uniform choice. One value serves all settings, horizons and budgets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from privbandit.environments.glm import GLMEnvironment
from privbandit.experiments.base import Experiment, Run
from privbandit.links import Link, Logistic, Probit
from privbandit.policies.algorithm2 import RepairedAlgorithm2
from privbandit.policies.base import Policy
from privbandit.policies.ecolog import ECOLog
from privbandit.policies.glm_ucb import GLMUCB
from privbandit.policies.gloc import GLOC
from privbandit.policies.one_release import OneRelease
from privbandit.policies.rs_glincb import RSGLinCB
from privbandit.policies.uniform import Uniform

WIDTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
BONUSES = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
BUDGETS = ((1.0, 0.02), (4.0, 1e-5), (8.0, 0.02))
NO_NOISE = math.inf
SETTINGS: tuple[tuple[Link, int, float], ...] = ((Probit(), 3, 2.0), (Probit(), 3, 3.0), (Logistic(), 5, 3.5))


def widths(link: Link, d: int, S: float, T: int, factor: float) -> list[Policy]:
    """The non-private methods at a multiple of the width of their theory; ECOLog's is for the logistic link."""
    theory = RSGLinCB(link, d, S, T).beta
    found = [
        GLOC(link, d, S, width=factor),
        GLMUCB(link, d, S, T, bonus="self-normalised", width=factor),
        RSGLinCB.tuned(link, d, S, T, beta=factor * theory),
    ]
    return [*found, ECOLog(d, S, width=factor)] if isinstance(link, Logistic) else found


def build(horizon: int | None) -> Iterator[Run]:
    T = 5000 if horizon is None else horizon
    for link, d, S in SETTINGS:
        setting, world = f"{link.name}-d{d}-S{S:g}", GLMEnvironment(link, d, 20, S)
        yield Run(setting, "tuning", Uniform(), world, T)
        for factor in WIDTHS:
            for policy in widths(link, d, S, T, factor):
                yield Run(setting, "tuning", policy, world, T, name=f"{policy.name.split(' (')[0]}, width {factor:g}")
        for bonus in BONUSES:
            free = OneRelease(link, d, S, T, NO_NOISE, 0.02, bonus=bonus)
            yield Run(setting, "tuning", free, world, T, name=f"OneRelease, bonus {bonus:g}")
            for epsilon, delta in BUDGETS:
                one = OneRelease(link, d, S, T, epsilon, delta, bonus=bonus)
                repaired = RepairedAlgorithm2(link, d, S, T, epsilon, delta, beta=bonus)
                yield Run(setting, "tuning", one, world, T, epsilon, delta, f"OneRelease, bonus {bonus:g}")
                yield Run(setting, "tuning", repaired, world, T, epsilon, delta, f"Algorithm 2 (repaired), bonus {bonus:g}")


def relative(table: pd.DataFrame) -> pd.DataFrame:
    """The study's rows with columns method, value (of its knob) and ratio (mean regret over that of uniform choice in the setting)."""
    chance = table[table.policy.eq("uniform")].set_index("setting")["mean"]
    rows = table[table.policy.ne("uniform")].copy()
    rows["method"] = rows.policy.str.rsplit(", ", n=1).str[0]
    rows["value"] = rows.policy.str.rsplit(" ", n=1).str[1].astype(float)
    rows["ratio"] = rows["mean"] / rows.setting.map(chance)
    return rows


def scores(table: pd.DataFrame) -> pd.Series:
    """What the rule compares: the mean ratio by (method, value), of a private method over its private runs only."""
    rows = relative(table)
    private = rows.groupby("method")["epsilon"].transform("count") > 0
    return rows[rows.epsilon.notna() | ~private].groupby(["method", "value"], sort=False)["ratio"].mean()


def chosen(table: pd.DataFrame) -> dict[str, float]:
    """The rule: of each method the value with the smallest score, of equal ones the first in the grid."""
    best = scores(table).groupby("method", sort=False).idxmin()
    return {method: value for method, value in best}


EXPERIMENTS = (
    Experiment("tuning", "one grid of widths and one budget for every GLM method, on seeds no table uses", build, replications=25, seed=11),
)
