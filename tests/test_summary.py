"""Tables out of trajectories."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp, ttest_rel

from privbandit.environments.bernoulli import BernoulliBandit
from privbandit.policies.private_ucb import PrivateUCB
from privbandit.policies.ucb import UCB
from privbandit.policies.uniform import Uniform
from privbandit.simulate import simulate
from privbandit.summary import curves, final_regret, paired_difference, write

ENV = BernoulliBandit((0.3, 0.7))


def play(policy, R=6, seed=1, horizon=40):
    return simulate(policy, ENV, horizon=horizon, replications=R, seed=seed)


def test_curves_are_tidy():
    runs = [play(UCB(2)), play(Uniform())]
    table = curves(runs)
    assert list(table.columns) == ["policy", "replication", "round", "regret"] and len(table) == 2 * 6 * 40
    last = table[(table["policy"] == "UCB1") & (table["round"] == 40)].sort_values("replication")
    np.testing.assert_array_equal(last["regret"], runs[0].final)


def test_final_regret_has_the_agreed_columns_and_numbers():
    private = PrivateUCB.calibrated(2.0, 1e-5, K=2, horizon=40)
    runs = [play(UCB(2)), play(private)]
    table = final_regret(runs, setting="two arms", protocol="short", level=0.9)
    assert list(table.columns) == [
        "setting", "protocol", "policy", "epsilon", "delta", "mean", "std", "ci_low", "ci_high", "replications", "horizon",
    ]  # fmt: skip
    assert pd.isna(table["epsilon"][0]) and table["epsilon"][1] == pytest.approx(2.0, rel=1e-9)
    oracle = ttest_1samp(runs[1].final, 0).confidence_interval(0.9)
    assert (table["ci_low"][1], table["ci_high"][1]) == pytest.approx((oracle.low, oracle.high))
    assert table["std"][1] == pytest.approx(np.std(runs[1].final, ddof=1))


def test_one_replication_has_no_interval():
    table = final_regret([play(UCB(2), R=1)])
    assert table["std"][0] is None and table["ci_low"][0] is None
    assert paired_difference(play(UCB(2), R=1), play(Uniform(), R=1)).high == np.inf


def test_paired_difference_is_the_paired_t_interval():
    a, b = play(UCB(2), R=20), play(Uniform(), R=20)
    difference, oracle = paired_difference(a, b), ttest_rel(a.final, b.final).confidence_interval(0.95)
    assert difference.mean == pytest.approx(np.mean(a.final - b.final))
    assert (difference.low, difference.high) == pytest.approx((oracle.low, oracle.high))


@pytest.mark.parametrize(
    ("other", "message"),
    [(dict(seed=2), "share the run's seed 1, got 2"), (dict(horizon=41), "share the run's horizon"), (dict(R=5), "must have 6 replications, got 5")],
)
def test_unpaired_runs_are_refused(other, message):
    with pytest.raises(ValueError, match=message):
        paired_difference(play(UCB(2)), play(UCB(2), **other))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_written_tables_come_back(tmp_path, ending):
    table = final_regret([play(UCB(2)), play(PrivateUCB.calibrated(2.0, 1e-5, K=2, horizon=40))])
    path = write(table, tmp_path / "deep" / f"out.{ending}")
    back = pd.read_csv(path, keep_default_na=True) if ending == "csv" else pd.read_parquet(path)
    np.testing.assert_array_equal(back["mean"], table["mean"])
    assert pd.isna(back["epsilon"][0])


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match="path ending must be one of '.csv', '.parquet', got '.xls'"):
        write(pd.DataFrame(), tmp_path / "a.xls")
    with pytest.raises(ValueError, match="runs must hold at least one trajectory"):
        curves([])
