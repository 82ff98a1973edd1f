"""Stored runs of the experiments: their rows, and whether present code plays them again."""

from __future__ import annotations

import csv
import math
from functools import cache
from pathlib import Path

import numpy as np

from privbandit.environments.glm import GLMEnvironment
from privbandit.links import Probit
from privbandit.simulate import simulate

DATA = Path(__file__).parents[2] / "book" / "data"
HEAD = 5
ONE, FREE, CODE, FIXED = "OneRelease (Statistical)", "OneRelease without noise", "Algorithm 2 (as published)", "Algorithm 2 (repaired)"
PRINTED = {2.0: (674.17, 516.58, 425.53), 2.5: (721.26, 546.97, 445.27), 3.0: (744.35, 559.04, 452.60)}  # epsilon = 4, 6, 8
LINK, T = Probit(), 5000


@cache
def stored(study, part):
    with (DATA / study / f"{study}-{part}.csv").open() as file:
        return list(csv.reader(file))


def row(study, part, setting, protocol, policy, epsilon=None, delta=None):
    """(column names, numbers) of one run."""
    head, *lines = stored(study, part)

    def same(text, value):
        return text == "" if value is None else text != "" and math.isclose(float(text), value, rel_tol=1e-3)

    (found,) = [x for x in lines if x[:3] == [setting, protocol, policy] and same(x[3], epsilon) and same(x[4], delta)]
    filled = [(name, float(x)) for name, x in zip(head[HEAD:], found[HEAD:], strict=True) if x]
    return [name for name, _ in filled], np.array([x for _, x in filled])


def ends(*run):
    return row(run[0], "final", *run[1:])[1]


def table2(S, protocol, policy, epsilon=None, delta=None):
    return ends("table2", f"probit-d3-S{S:g}", protocol, policy, epsilon, delta)


def replays(policy, world, *run, replications=50, seed=1):
    """The first stored point of the mean curve comes out again, to the stored six digits."""
    rounds, mean = row(run[0], "curves", *run[1:])
    again = simulate(policy, world, horizon=int(rounds[0]), replications=replications, seed=seed, progress=False)
    return math.isclose(again.final.mean(), mean[0], rel_tol=1e-5)


def honest(S):
    return GLMEnvironment(LINK, 3, 20, S)
