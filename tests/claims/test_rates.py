"""Checks of the claims in the chapter on rates; the stored study is read and a small part of it played again."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from privbandit.experiments.gp import LongRun, rates, surface

from .claim import claim

FOLDER = Path(__file__).parents[2] / "book" / "data" / "gp-rates"
RANDOM = "se-d1"


def stored():
    return pd.read_csv(FOLDER / "gp-rates-final.csv")


def wide(data, setting, policy, column):
    """One row a function, one column a horizon."""
    part = data[(data.setting == setting) & (data.policy == policy)]
    return part.pivot(index="replication", columns="horizon", values=column)


def slopes(table):
    """Least-squares slopes (R,) of the logarithm on the logarithm of the horizon."""
    x = np.log(table.columns.to_numpy(float))
    x = x - x.mean()
    return np.log(table.to_numpy()) @ x / (x @ x)


def interval(values, rows):
    """95% Student interval, Bonferroni over `rows`."""
    half = student.ppf(1 - 0.025 / rows, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values))
    return values.mean() - half, values.mean() + half


def test_the_stored_study_is_the_one_its_manifest_names():
    manifest = json.loads((FOLDER / "manifest.json").read_text())
    for name, digest in manifest["files"].items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest


HORIZONS = 2.0 ** np.arange(4, 21, 2)


def exponents(values):
    return np.diff(np.log(values)) / np.log(4)


def naive(R, U):
    """The faulty test: no local exponent of R above that of U."""
    return bool(np.all(exponents(R) <= exponents(U) + 1e-12))


@claim("exponent-test", subject=naive, mutants={"comparing the values": lambda R, U: bool(np.all(R <= U))})
def check_naive(test):
    """Both counterexamples, at T = 2^4 .. 2^20."""
    U = 300 * np.sqrt(HORIZONS)
    below = np.minimum(HORIZONS / 50, 20 * np.sqrt(HORIZONS))
    above = 5 * U * HORIZONS**-0.02
    assert np.all(below <= U) and not test(below, U)
    assert np.all(above > U) and test(above, U)


test_exponent_test = check_naive


def shifted(factor):
    return lambda: stored().assign(regret=lambda d: d.regret * factor)


@claim("stored-chain", subject=(stored, LongRun), mutants={"regret times 30": (shifted(30.0), LongRun)})
def check_chain(subject):
    """Every stored run; no statistics: the inequalities are to hold on each. Then the four policies cheapest to play, at T = 2^10,
    reproduce the stored regrets to six digits, in at least 10 of 12 runs: another processor's last digit can send a run another way."""
    data = subject[0]()
    assert len(data) == 984
    assert (data.regret <= data.width_sum).all() and (data.width_sum <= data.bound * (1 + 1e-6)).all()
    assert (data.misses == 0).all() and (data.excess <= 0).all()
    says = data.bound < 2 * data.horizon * (1 - 1e-6)  # elsewhere the second inequality holds by construction
    assert says.sum() == 456 and (data.width_sum <= 0.8 * data.bound)[says].all()
    again = [run for run in rates(2**10) if run.name in {"not private", "local"}]
    assert len(again) == 4
    for run in again:
        regret = run.record(12, 1)["regret"][:, 0]
        assert np.isclose(regret, wide(data, run.setting, run.name, "regret")[2**10], rtol=1e-6).sum() >= 10


test_stored_chain = check_chain


def last(policy):
    return wide(stored(), RANDOM, policy, "regret")[2**20].to_numpy()


def best_over_tree():
    return last("square root, moments, blocks of 4096") / last("tree")


@claim("joint-against-tree", subject=best_over_tree, mutants={"published over tree": lambda: last("published constants") / last("tree")})
def check_half(ratio):
    """12 paired ratios."""
    values = ratio()
    low, high = interval(values, 1)
    assert values.max() <= 0.4
    assert 0.19 < low < high < 0.29


test_joint_against_tree = check_half


def trends(column="width_sum"):
    data = stored()
    names = data[data.setting == RANDOM].policy.unique()
    found = {}
    for name in names:
        found[name] = interval(slopes(wide(data, RANDOM, name, column)) - slopes(wide(data, RANDOM, name, "bound")), len(names))
    return found


@claim("width-sum-trend", subject=trends, mutants={"bound against itself": lambda: trends("bound")})
def check_trends(found):
    """Eleven simultaneous intervals."""
    intervals = found()
    assert len(intervals) == 11
    assert all(high < 0 for _, high in intervals.values())


test_width_sum_trend = check_trends

ATTAINED = (
    ("bump T^(-1/2)", "not private", 0.50, 0.54),
    ("bump T^(-1/2)", "square root, moments, blocks of 64", 0.50, 0.54),
    ("bump T^(-1/4)", "local", 0.75, 0.80),
)


def attained(column="regret"):
    data = stored()
    return [interval(slopes(wide(data, setting, name, column)), 3) for setting, name, *_ in ATTAINED]


@claim("rate-attained", subject=attained, mutants={"the trivial bound's slope": lambda: [(1.0, 1.0)] * 3, "the width sum's": lambda: attained("width_sum")})
def check_attained(found):
    """Three simultaneous intervals inside the printed ranges."""
    for (low, high), (_, _, least, most) in zip(found(), ATTAINED, strict=True):
        assert least <= low <= high <= most


test_rate_attained = check_attained


@claim("trend-interval", subject=slopes, mutants={"slope of the values": lambda t: t.to_numpy() @ np.log(t.columns.to_numpy(float))})
def check_slopes(slope):
    """50 random tables."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        X, Z = (pd.DataFrame(np.exp(rng.standard_normal((3, 5))), columns=4.0 ** np.arange(5, 10)) for _ in range(2))
        assert np.allclose(slope(X / Z), slope(X) - slope(Z))
        assert np.allclose(slope(7 * X), slope(X))


test_trend_interval = check_slopes


def test_a_power_law_has_its_exponent():
    table = pd.DataFrame([[3 * T**0.7 for T in (16.0, 64.0, 256.0)]], columns=[16.0, 64.0, 256.0])
    assert slopes(table)[0] == pytest.approx(0.7)

def surface_shares():
    """95% intervals of the regret at epsilon = 1 over the mean of a uniform choice."""
    table = pd.read_csv(FOLDER.parent / "gp-surface" / "gp-surface.csv")
    uniform = table[table.policy == "uniform"]["mean"].item()
    part = table[table.epsilon == 1].set_index("policy")
    return {name: (row.ci_low / uniform, row.ci_high / uniform) for name, row in part.iterrows()}


def as_if_blocks_were_free():
    return surface_shares() | {"square root, moments, blocks of 64": (0.16, 0.18)}


@claim("surface-cost", subject=(surface_shares, surface), mutants={"cost of no privacy": (as_if_blocks_were_free, surface)})
def check_surface(subject):
    """The stored intervals; the non-private row at T = 2^16 is played again and agrees to 1e-5."""
    shares = subject[0]()
    for name, low, high in (("square root, moments, blocks of 64", 0.45, 0.55), ("tree", 0.70, 0.76), ("local", 0.8, 2.0)):
        assert low <= shares[name][0] <= shares[name][1] <= high
    table = pd.read_csv(FOLDER.parent / "gp-surface" / "gp-surface.csv")
    (plain,) = [run for run in subject[1](None) if run.name == "not private"]
    again = plain.record(12, 1)["regret"][:, 0].mean()
    assert abs(again / table[table.policy == "not private"]["mean"].item() - 1) < 1e-5


test_surface_cost = check_surface
