"""Tables out of trajectories: tidy curves, final regrets with intervals, paired differences, CSV and Parquet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from privbandit import validate
from privbandit.simulate import Array, Interval, Trajectory, student_interval


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
        epsilon = run.policy.ledger.epsilon(delta)
        head = {"setting": setting, "protocol": protocol, "policy": run.policy.name}
        rows.append(head | {"epsilon": None if math.isinf(epsilon) else epsilon, "delta": delta} | ending(run.final, level) | {"horizon": run.horizon})
    return pd.DataFrame(rows)


def ending(final: Array, level: float = 0.95) -> dict[str, Any]:
    """What tables say of final regrets (R,): mean, std, ci_low, ci_high (None for a single replication), replications."""
    R, (mean, low, high) = len(final), student_interval(final, level)
    spread = {"std": final.std(ddof=1), "ci_low": low, "ci_high": high} if R > 1 else dict.fromkeys(("std", "ci_low", "ci_high"))
    return {"mean": float(mean)} | {k: None if v is None else float(v) for k, v in spread.items()} | {"replications": R}


def paired_difference(run: Trajectory, baseline: Trajectory, level: float = 0.95) -> Interval:
    """Final regret of `run` minus that of `baseline`, replication by replication, with a Student interval.

    Both must have met the same contexts and reward draws: same environment, seed, horizon and number of replications. The common
    randomness cancels, so the interval is usually narrower than those of the two means suggest.
    """
    for field in ("seed", "horizon", "environment"):
        ours, theirs = getattr(run, field), getattr(baseline, field)
        if ours != theirs:
            raise ValueError(f"baseline must share the run's {field} {ours!r}, got {theirs!r}")
    if len(run.final) != len(baseline.final):
        raise ValueError(f"baseline must have {len(run.final)} replications, got {len(baseline.final)}")
    return student_interval(run.final - baseline.final, level)


def write(frame: pd.DataFrame, path: str | Path) -> Path:
    """Save as .csv or .parquet, by the ending of `path`; numbers keep all their digits."""
    path = Path(path)
    validate.one_of("path ending", path.suffix, (".csv", ".parquet"))
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False, lineterminator="\n")
    else:
        frame.to_parquet(path, index=False)
    return path


def _some(runs: Sequence[Trajectory]) -> Sequence[Trajectory]:
    if not runs:
        raise ValueError(f"runs must hold at least one trajectory, got {runs!r}")
    return runs
