"""Runs share random numbers, resume from disk, and do not depend on the number of jobs."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

from privbandit.environments.base import Environment, Feedback
from privbandit.experiments.base import Experiment, Run, as_json
from privbandit.experiments.output import write
from privbandit.policies.base import Policy


@dataclass(frozen=True)
class Coin(Environment):
    """Two arms; the first pays with the replication's own probability."""

    K: int = 2
    d: int = 2

    def init(self, R, rng):
        return rng.random(R)

    def contexts(self, state, t, rng):
        return state, np.broadcast_to(np.eye(2), (len(state), 2, 2))

    def step(self, state, contexts, action, rng):
        means = np.stack([state, 1 - state], axis=1)
        chosen = means[np.arange(len(state)), action]
        return Feedback((rng.random(len(state)) < chosen).astype(float), means.max(axis=1) - chosen)


@dataclass(frozen=True)
class Fixed(Policy):
    arm: int = 0
    name: str = "fixed"

    def init(self, R, noise):
        return R

    def act(self, state, contexts, rng):
        return state, np.full(len(contexts), self.arm)

    def update(self, state, x, reward, noise):
        return state


def build(horizon):
    return [Run("coin", "honest", Fixed(arm), Coin(), horizon or 20) for arm in (0, 1)]


EXPERIMENT = Experiment("coin", "two arms", build, replications=60, seed=3)


def test_all_runs_meet_the_same_hidden_parameters():
    first, second = EXPERIMENT.run()
    # each replication pays |2p - 1| a round for one of the two arms and nothing for the other
    assert np.all(np.minimum(first.regret[:, -1], second.regret[:, -1]) == 0)
    assert np.all(first.regret[:, -1] + second.regret[:, -1] > 0)


def test_jobs_change_nothing():
    alone, together = EXPERIMENT.run(jobs=1), EXPERIMENT.run(jobs=2)
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a.regret, b.regret)


def test_a_stored_run_is_not_played_again(tmp_path):
    before = EXPERIMENT.run(store=tmp_path)
    files = sorted(tmp_path.glob("*.npz"))
    assert len(files) == 2
    with np.load(files[0]) as data:
        changed = {**data, "regret": data["regret"] + 1.0}
    np.savez(files[0], **changed)
    after = EXPERIMENT.run(store=tmp_path)
    moved = [np.any(a.regret != b.regret) for a, b in zip(before, after, strict=True)]
    assert sorted(moved) == [False, True]
    assert len(EXPERIMENT.run(store=tmp_path, seed=4)) == 2
    assert len(list(tmp_path.glob("*.npz"))) == 4


def test_rows_and_files(tmp_path):
    results = EXPERIMENT.run(replications=5)
    row = results[0].row()
    assert {"setting", "protocol", "policy", "epsilon", "delta", "mean", "std", "ci_low", "ci_high", "replications", "horizon"} <= set(row)
    assert row["ci_low"] < row["mean"] < row["ci_high"] and row["epsilon"] is None and row["horizon"] == 20
    write("coin", results, tmp_path)
    lines = (tmp_path / "coin.csv").read_text().splitlines()
    assert len(lines) == 3 and lines[0].startswith("setting,protocol,policy")
    assert len((tmp_path / "coin-curves.csv").read_text().splitlines()) == 2 * 20 + 1
    ends = (tmp_path / "coin-final.csv").read_text().splitlines()
    assert len(ends) == 2 * 5 + 1 and float(ends[1].split(",")[-1]) == results[0].regret[0, -1]
    assert (tmp_path / "coin.png").read_bytes()[:4] == b"\x89PNG"


def test_one_replication_has_no_interval():
    row = EXPERIMENT.run(replications=1)[0].row()
    assert row["std"] is None and row["ci_low"] is None
    assert json.loads(as_json(row))["ci_high"] is None


@pytest.mark.parametrize(("name", "value"), [("replications", 0), ("horizon", -1), ("seed", -2), ("jobs", 0), ("replications", 1.5)])
def test_bad_arguments_are_named(name, value):
    with pytest.raises((ValueError, TypeError), match=f"{name} must be"):
        EXPERIMENT.run(**{name: value})


def test_json_has_no_nan_or_infinity():
    assert json.loads(as_json({"a": np.inf, "b": [np.float64("nan"), np.int64(3)]})) == {"a": None, "b": [None, 3]}
