"""Experiments: the same tuning for every method.

Empirical claims are about stored runs. Each check reads them and plays the first rounds of one stored row again with the package's
present code: if policy, environment or random streams had changed, the stored numbers would no longer be its own.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import product

import pandas as pd

from privbandit.environments.glm import GLMEnvironment
from privbandit.experiments.glm_tables import BETA, BONUS
from privbandit.experiments.tuning import BONUSES, WIDTHS, chosen, relative, scores
from privbandit.links import Logistic
from privbandit.policies.algorithm2 import RepairedAlgorithm2
from privbandit.policies.ecolog import ECOLog
from privbandit.policies.glm_ucb import GLMUCB
from privbandit.policies.gloc import GLOC
from privbandit.policies.one_release import OneRelease
from privbandit.policies.rs_glincb import RSGLinCB

from .claim import claim
from .stored_runs import DATA, LINK, ONE, PRINTED, T, honest, replays, table2


def study():
    return pd.read_csv(DATA / "tuning" / "tuning.csv")


def worst(table):
    return dict(scores(table).groupby("method", sort=False).idxmax())


@claim(
    "tuning-choice",
    subject=(chosen, GLOC.tuned, GLMUCB.tuned, ECOLog.tuned),
    mutants={
        "largest score": (worst, GLOC.tuned, GLMUCB.tuned, ECOLog.tuned),
        "GLOC of theory": (chosen, GLOC, GLMUCB.tuned, ECOLog.tuned),
        "another width": (chosen, GLOC.tuned, partial(GLMUCB.tuned, width=0.01), ECOLog.tuned),
    },
)
def check_tuning(subject):
    """n = 25 runs a cell, seed 11: a statement about the stored study and the package's constants. Two of its rows are played again."""
    rule, gloc, glm_ucb, ecolog = subject
    picks = rule(study())
    policies = gloc(LINK, 3, 3.0), glm_ucb(LINK, 3, 3.0, T), ecolog(5, 3.5)
    for policy, world, setting in zip(policies[1:], (honest(3.0), GLMEnvironment(Logistic(), 5, 20, 3.5)), ("probit-d3-S3", "logistic-d5-S3.5"), strict=True):
        run = "tuning", setting, "tuning", f"{policy.name.split(' (')[0]}, width {policy.width:g}"
        assert replays(policy, world, *run, replications=25, seed=11)
    found = {policy.name.split(" (")[0]: policy.width for policy in policies}
    assert picks == found | {"RS-GLinCB": 0.01, "OneRelease": BONUS, "Algorithm 2 (repaired)": BETA}
    for method, value in picks.items():
        grid = BONUSES if method in ("OneRelease", "Algorithm 2 (repaired)") else WIDTHS
        assert min(grid) < value < max(grid)
    theory = RSGLinCB(LINK, 3, 3.0, T).beta, RSGLinCB(LINK, 5, 3.0, T).beta, RSGLinCB(Logistic(), 5, 3.5, 15_000).beta
    assert all(0.7 < 0.01 * beta / RSGLinCB.tuned(LINK, 3, 3.0, T).beta < 1.1 for beta in theory)


test_tuning = check_tuning


@claim("tuning-flat", subject=scores, mutants={"best cell": lambda t: relative(t).groupby(["method", "value"])["ratio"].min()})
def check_flat(scores):
    """n = 25 runs in nine cells a value (three settings, three budgets), common random numbers, seed 11: a statement about these scores."""
    score = scores(study())
    for method, default, limit in (("OneRelease", OneRelease.bonus, 1.04), ("Algorithm 2 (repaired)", RepairedAlgorithm2.beta, 1.02)):
        small = [score[method, bonus] for bonus in BONUSES if bonus <= 1]
        assert max(small) < limit * min(small) and score[method, default] < 1.02 * min(small)
        assert score[method, 30.0] > 2 * min(small)


test_flat = check_flat


@claim(
    "tuned-baselines",
    subject=(GLMUCB.tuned, GLOC.tuned),
    mutants={"theory": (partial(GLMUCB, bonus="self-normalised"), GLOC), "a tenth": (partial(GLMUCB.tuned, width=0.1), partial(GLOC.tuned, width=0.1))},
)
def check_baselines(subject):
    """n = 50 runs, seed 1; standard errors 4 to 10% of the tuned means; private against tuned in 50 paired runs at 3 standard errors."""
    for make, more in zip(subject, ((T,), ()), strict=True):
        policy = make(LINK, 3, 3.0, *more)
        assert replays(policy, honest(3.0), "table2", "probit-d3-S3", "honest", f"{policy.name.split(' (')[0]} (tuned)")
    for S in PRINTED:
        for name, limit in (("GLM-UCB", 13), ("GLOC", 28)):
            tuned = table2(S, "honest", f"{name} (tuned)")
            assert tuned.mean() < limit and table2(S, "honest", name).mean() > 15 * tuned.mean()
        for epsilon, delta in product((1.0, 4.0, 8.0), (0.02, 1e-5)):
            for name in (ONE, "OneRelease (tuned)"):
                difference = table2(S, "honest", name, epsilon, delta) - table2(S, "honest", "GLM-UCB (tuned)")
                assert difference.mean() > 3 * difference.std(ddof=1) / math.sqrt(50)


test_baselines = check_baselines
