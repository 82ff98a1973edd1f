"""`privbandit run`: play an experiment."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privbandit import catalogue
from privbandit.cli.base import Answer, horizon, leaf, table

if TYPE_CHECKING:
    from privbandit.experiments.base import Experiment, Result

SHOWN = ("setting", "protocol", "policy", "epsilon", "delta", "regret", "ci_low", "ci_high", "worst", "replications", "horizon")
LEGEND = """
regret: sum over the horizon, mean of the replications; ci_low, ci_high: its 95% Student interval; worst: the replication with the
largest. Unit: {unit}. The column is called mean in JSON and CSV."""


def add(commands: Any) -> None:
    sub = leaf(commands, "run", perform, "play an experiment", "Play an experiment: final regret of every policy in it.")
    sub.add_argument("experiment", help="one of the names below")
    sub.add_argument("--replications", type=int, help="independent repetitions (default: the number beside the name below)")
    sub.add_argument("--horizon", type=int, help="rounds (default: each setting's own)")
    sub.add_argument("--seed", type=int, help="whole number >= 0; all policies of a setting share it (default: the one beside the name below)")
    sub.add_argument("--jobs", type=int, default=1, help="processes; changes no number (default 1)")
    out = "folder for CSV and PNG; an interrupted study goes on from OUT/runs, as long as the package's code is the same"
    sub.add_argument("--out", type=Path, help=out)
    sub.late = lambda: table(catalogue.experiments(), ("name", "replications", "seed", "summary"))


def perform(options: argparse.Namespace) -> Answer:
    from privbandit.experiments.output import write

    experiment, store = _named(options.experiment), _store(options.out)
    if options.horizon is not None and experiment.longest is None:
        horizon(options.horizon)
    results = experiment.run(
        replications=options.replications,
        horizon=options.horizon,
        seed=options.seed,
        jobs=options.jobs,
        store=store,
        progress=sys.stderr.isatty(),
    )
    if options.out:
        write(experiment.name, results, options.out, experiment.unit)
    rows = [result.row() for result in results]
    reused = sum(result.reused for result in results)
    found = {"experiment": experiment.name, "unit": experiment.unit, "runs": len(rows), "reused": reused, "rows": rows}
    text = table([row | {"regret": row["mean"]} for row in rows], SHOWN) + LEGEND.format(unit=experiment.unit)
    return Answer(found, text, _notes(results, reused, store, options.horizon))


def _named(name: str) -> Experiment:
    from privbandit.experiments import experiments

    known = experiments()
    if name not in known:
        raise ValueError(f"experiment must be one of {', '.join(known)}, got {name!r}")
    return known[name]


def _store(out: Path | None) -> Path | None:
    """The folder of finished runs, made before hours of work depend on it."""
    if out is None:
        return None
    try:
        (out / "runs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"out must be a folder that exists or can be made, got {str(out)!r} ({error.strerror})") from None
    return out / "runs"


def _notes(results: list[Result], reused: int, store: Path | None, asked: int | None) -> tuple[str, ...]:
    notes = []
    if store:
        notes.append(f"{reused} of {len(results)} runs were taken from {store}, the others played")
    longest = max(result.run.horizon for result in results)
    if asked is not None and longest < asked:
        notes.append(f"the longest run has horizon {longest}, not {asked}")
    return tuple(notes)
