"""Results on disk: one CSV of final figures, one of curves, one picture per setting."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import matplotlib

from privbandit.experiments.base import Result


def write(name: str, results: list[Result], folder: Path) -> None:
    """Write `NAME.csv`, `NAME-curves.csv` and `NAME.png` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    _table(folder / f"{name}.csv", [r.row() for r in results])
    _table(folder / f"{name}-curves.csv", [point for r in results for point in _curve(r)])
    _picture(folder / f"{name}.png", name, results)


def _table(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _curve(result: Result) -> list[dict[str, Any]]:
    low, high = result.band()
    head = {k: v for k, v in result.row().items() if k in {"setting", "protocol", "policy", "epsilon", "delta"}}
    mean = result.regret.mean(axis=0)
    return [
        head | {"round": int(t), "mean": m, "ci_low": a, "ci_high": b}
        for t, m, a, b in zip(result.rounds, mean, low, high, strict=True)
    ]


def _picture(path: Path, name: str, results: list[Result]) -> None:
    """Mean cumulative regret with 95% intervals, one panel a setting and protocol."""
    from matplotlib.figure import Figure

    panels: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        panels.setdefault((result.run.setting, result.run.protocol), []).append(result)
    with matplotlib.rc_context({"axes.grid": True, "grid.alpha": 0.3}):
        figure = Figure(figsize=(7, 4.2 * len(panels)), layout="constrained")
        for axes, ((setting, protocol), members) in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels.items(), strict=True):
            for result in members:
                low, high = result.band()
                private = "" if result.run.epsilon is None else f", ε={result.run.epsilon:g}, δ={result.run.delta:.2g}"
                (line,) = axes.plot(result.rounds, result.regret.mean(axis=0), label=f"{result.run.name}{private}")
                axes.fill_between(result.rounds, low, high, color=line.get_color(), alpha=0.2, lw=0)
            axes.set(title=f"{name}: {setting} ({protocol})", xlabel="round", ylabel="cumulative regret")
            axes.legend(fontsize="small")
        figure.savefig(path, dpi=150)
