"""Tables out of trajectories: tidy curves, final regrets with intervals, paired differences, CSV and Parquet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t as student

from privbandit import validate
from privbandit.simulate import Trajectory


def curves(runs: Sequence[Trajectory]) -> pd.DataFrame:
    """One row per run, replication and recorded round: policy, replication, round, regret (cumulative)."""
    return pd.concat([pd.DataFrame(run.table()) for run in _some(runs)], ignore_index=True)


def final_regret(
    runs: Sequence[Trajectory], *, delta: float = 1e-5, setting: str = "", protocol: str = "", level: float = 0.95
) -> pd.DataFrame:
    """One row per run: what it was, what its ledger proves at `delta`, and the final cumulative regret with a Student interval.

    Columns: setting, protocol, policy, epsilon (missing if nothing is proved), delta, mean, std, ci_low, ci_high, replications,
    horizon. std and interval are missing for a single replication.
    """
    rows = []
    for run in _some(runs):
        R, interval = len(run.final), run.interval(level)
        epsilon = run.policy.ledger.epsilon(delta)
        rows.append(
            {
                "setting": setting,
                "protocol": protocol,
                "policy": run.policy.name,
                "epsilon": None if math.isinf(epsilon) else epsilon,
                "delta": delta,
                "mean": float(interval.mean[-1]),
                "std": float(run.final.std(ddof=1)) if R > 1 else None,
                "ci_low": float(interval.low[-1]) if R > 1 else None,
                "ci_high": float(interval.high[-1]) if R > 1 else None,
                "replications": R,
                "horizon": run.horizon,
            }
        )
    return pd.DataFrame(rows)


class Difference(NamedTuple):
    """Mean paired difference with a Student interval."""

    mean: float
    low: float
    high: float


def paired_difference(run: Trajectory, baseline: Trajectory, level: float = 0.95) -> Difference:
    """Final regret of `run` minus that of `baseline`, replication by replication.

    Both must have met the same contexts and reward draws: same environment, seed, horizon and number of replications. The common
    randomness cancels, so the interval is usually narrower than those of the two means suggest.
    """
    for field in ("seed", "horizon", "environment"):
        ours, theirs = getattr(run, field), getattr(baseline, field)
        if ours != theirs:
            raise ValueError(f"baseline must share the run's {field} {ours!r}, got {theirs!r}")
    if len(run.final) != len(baseline.final):
        raise ValueError(f"baseline must have {len(run.final)} replications, got {len(baseline.final)}")
    gap = run.final - baseline.final
    R, mean = len(gap), float(gap.mean())
    if R < 2:
        return Difference(mean, -math.inf, math.inf)
    half = float(student.ppf((1 + validate.probability("level", level)) / 2, R - 1) * gap.std(ddof=1) / np.sqrt(R))
    return Difference(mean, mean - half, mean + half)


def write(frame: pd.DataFrame, path: str | Path) -> Path:
    """Save as .csv or .parquet, by the ending of `path`; numbers keep all their digits."""
    path = Path(path)
    validate.one_of("path ending", path.suffix, (".csv", ".parquet"))
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
    return path


def _some(runs: Sequence[Trajectory]) -> Sequence[Trajectory]:
    if not runs:
        raise ValueError(f"runs must hold at least one trajectory, got {runs!r}")
    return runs
