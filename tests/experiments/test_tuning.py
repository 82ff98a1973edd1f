"""The tuning study: the same grid, worlds and budget for every method, other seeds than the tables, and the rule on made-up numbers."""

from __future__ import annotations

from collections import defaultdict

import pandas as pd
import pytest

from privbandit.experiments import experiments
from privbandit.experiments.tuning import BONUSES, BUDGETS, SETTINGS, WIDTHS, chosen, relative, scores
from privbandit.policies.algorithm2 import RepairedAlgorithm2
from privbandit.policies.one_release import OneRelease
from privbandit.policies.rs_glincb import RSGLinCB

STUDY = experiments()["tuning"]


@pytest.fixture(scope="module")
def runs():
    return list(STUDY.build(40))


def test_every_method_gets_the_same_number_of_values_in_the_same_worlds(runs):
    values, worlds = defaultdict(set), defaultdict(set)
    for run in runs:
        worlds[run.setting].add((run.environment, run.horizon))
        if run.name != "uniform":
            method, value = run.name.rsplit(" ", 1)
            values[method, run.setting, run.epsilon, run.delta].add(float(value))
    assert all(len(world) == 1 for world in worlds.values()) and len(worlds) == len(SETTINGS)
    assert len(WIDTHS) == len(BONUSES)
    for (method, *_), grid in values.items():
        assert grid == set(WIDTHS if method.endswith("width") else BONUSES)
    assert {(e, d) for method, _, e, d in values if method == "OneRelease, bonus"} == {(None, None), *BUDGETS}
    assert {(e, d) for method, _, e, d in values if method == "Algorithm 2 (repaired), bonus"} == set(BUDGETS)


def test_the_knob_is_what_the_name_says(runs):
    for run in runs:
        value, policy = float(run.name.rsplit(" ", 1)[-1]) if run.name != "uniform" else None, run.policy
        if isinstance(policy, OneRelease):
            assert policy.bonus == value
        elif isinstance(policy, RepairedAlgorithm2):
            assert policy.beta == value
        elif isinstance(policy, RSGLinCB):
            assert policy.beta == value * RSGLinCB(policy.link, policy.d, policy.S, policy.horizon).beta and not policy.explore
        elif value is not None:
            assert policy.width == value


def test_no_table_uses_its_seed():
    assert STUDY.seed not in {study.seed for name, study in experiments().items() if name != "tuning"}


def table(*rows):
    return pd.DataFrame(rows, columns=["setting", "policy", "epsilon", "mean"])


def test_the_rule():
    """Ratios to uniform, not regrets: width 0.1 loses more in the setting where everything is large, and is chosen all the same.
    A private method's run without noise does not count."""
    found = table(
        ("small", "uniform", None, 10.0),
        ("large", "uniform", None, 1000.0),
        ("small", "A, width 1", None, 8.0),
        ("large", "A, width 1", None, 100.0),
        ("small", "A, width 0.1", None, 2.0),
        ("large", "A, width 0.1", None, 200.0),
        ("small", "B (new), bonus 3", 1.0, 5.0),
        ("small", "B (new), bonus 3", 8.0, 1.0),
        ("small", "B (new), bonus 0.3", 1.0, 4.0),
        ("small", "B (new), bonus 0.3", 8.0, 2.0),
        ("small", "B (new), bonus 0.3", None, 9.0),
    )
    assert relative(found).ratio.round(9).tolist() == [0.8, 0.1, 0.2, 0.2, 0.5, 0.1, 0.4, 0.2, 0.9]
    assert scores(found).round(9).to_dict() == {("A", 1.0): 0.45, ("A", 0.1): 0.2, ("B (new)", 3.0): 0.3, ("B (new)", 0.3): 0.3}
    assert chosen(found) == {"A": 0.1, "B (new)": 3.0}  # of equal scores the first value of the grid


def test_a_short_study_yields_a_choice_for_every_method():
    results = STUDY.run(replications=2, horizon=5)
    picks = chosen(pd.DataFrame([result.row() for result in results]))
    assert set(picks) == {"GLOC", "GLM-UCB", "RS-GLinCB", "ECOLog", "OneRelease", "Algorithm 2 (repaired)"}
