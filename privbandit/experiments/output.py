"""Results on disk: final figures, curves and every replication's end as CSV, one picture per setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.rcsetup import cycler

from privbandit.experiments.base import Result
from privbandit.summary import write as write_table


def write(name: str, results: list[Result], folder: Path, unit: str = "") -> None:
    """Write `NAME.csv`, `NAME-curves.csv`, `NAME-final.csv` (one row a replication, for paired differences) and `NAME.png`.

    `unit` of regret is written beside the picture's axis.
    """
    rows = {
        "": [r.row() for r in results],
        "-curves": [point for r in results for point in _curve(r)],
        "-final": [end for r in results for end in _ends(r)],
    }
    for suffix, table in rows.items():
        write_table(pd.DataFrame(table), folder / f"{name}{suffix}.csv")
    _picture(folder / f"{name}.png", name, results, f"cumulative regret\n(unit: {unit})" if unit else "cumulative regret")


def _curve(result: Result) -> list[dict[str, Any]]:
    mean, low, high = result.interval()
    columns = zip(result.rounds, mean, low, high, strict=True)
    return [result.head | {"round": int(t), "mean": m, "ci_low": a, "ci_high": b} for t, m, a, b in columns]


def _ends(result: Result) -> list[dict[str, Any]]:
    ends = {"regret": result.regret[:, -1]} | dict(result.more)
    shared = result.head | {"horizon": int(result.rounds[-1])}
    return [shared | {"replication": r} | {name: values[r] for name, values in ends.items()} for r in range(len(result.regret))]


def _picture(path: Path, name: str, results: list[Result], ylabel: str) -> None:
    """Mean cumulative regret with 95% intervals, one panel a setting and protocol."""
    from matplotlib.figure import Figure

    colours, dashes = matplotlib.rcParams["axes.prop_cycle"], cycler(linestyle=["-", "--", ":", "-."])
    panels: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        panels.setdefault((result.run.setting, result.run.protocol), []).append(result)
    with matplotlib.rc_context({"axes.grid": True, "grid.alpha": 0.3, "axes.prop_cycle": dashes * colours}):
        heights = [max(4.2, 0.8 + 0.21 * len(members)) for members in panels.values()]  # inches: room for the legend
        figure = Figure(figsize=(11, sum(heights)), layout="constrained")
        rows = figure.subplots(len(panels), squeeze=False, height_ratios=heights)[:, 0]
        for axes, ((setting, protocol), members) in zip(rows, panels.items(), strict=True):
            for result in members:
                mean, low, high = result.interval()
                private = "" if result.run.epsilon is None else f", ε={result.run.epsilon:g}, δ={result.run.delta:.2g}"
                (line,) = axes.plot(result.rounds, mean, label=f"{result.run.name}{private}")
                axes.fill_between(result.rounds, low, high, color=line.get_color(), alpha=min(0.2, 2 / len(members)), lw=0)
            axes.set(title=f"{name}: {setting} ({protocol})", xlabel="round", ylabel=ylabel)
            axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.01, 1))
        figure.savefig(path, dpi=150)
