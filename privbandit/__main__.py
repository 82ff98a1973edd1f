"""The command line: list, calibrate, run, claims, audit. With --json one JSON object on standard output and nothing else."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from privbandit import catalogue
from privbandit.experiments.base import as_json
from privbandit.ledger import NEIGHBOURS, BudgetExceeded


def table(rows: Sequence[dict[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Rows as aligned text."""
    if not rows:
        return "(nothing)"
    columns = list(columns or rows[0])
    text = [[_cell(row.get(c)) for c in columns] for row in rows]
    widths = [max(len(c), *(len(line[i]) for line in text)) for i, c in enumerate(columns)]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in [columns, *text])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def command_list(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    kinds = [options.kind] if options.kind else list(catalogue.KINDS)
    found = {kind: catalogue.KINDS[kind]() for kind in kinds}
    return found, "\n\n".join(f"{kind}\n{table(rows)}" for kind, rows in found.items())


def command_calibrate(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    result = catalogue.calibrate(**{k: v for k, v in vars(options).items() if k not in {"json", "command", "perform"}})
    return result, "\n".join(f"{key:>24}  {_cell(value)}" for key, value in result.items())


def command_run(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    from privbandit.experiments import experiments
    from privbandit.experiments.output import write

    known = experiments()
    if options.experiment not in known:
        raise ValueError(f"experiment must be one of {', '.join(known)}, got {options.experiment!r}")
    results = known[options.experiment].run(
        replications=options.replications,
        horizon=options.horizon,
        seed=options.seed,
        jobs=options.jobs,
        store=options.out / "runs" if options.out else None,
        progress=sys.stderr.isatty(),
    )
    rows = [result.row() for result in results]
    if options.out:
        write(options.experiment, results, options.out)
    shown = ("setting", "protocol", "policy", "epsilon", "delta", "mean", "ci_low", "ci_high", "worst", "replications", "horizon")
    return {"experiment": options.experiment, "rows": rows}, table(rows, shown)


def command_claims(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    rows = catalogue.claims()
    return {"claims": rows}, table(rows, ("id", "kind", "level", "status", "mutants_killed", "source"))


def command_audit(options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    rows = catalogue.audits(options.name)
    return {"audits": rows}, table(rows)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="privbandit", description="Differentially private bandits: calibrate, run, check, audit.")
    commands = top.add_subparsers(dest="command", required=True)

    def command(name: str, run: Any, help: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help)
        sub.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
        sub.set_defaults(perform=run)
        return sub

    sub = command("list", command_list, "what there is")
    sub.add_argument("kind", nargs="?", choices=list(catalogue.KINDS))

    sub = command("calibrate", command_calibrate, "the noise a guarantee needs")
    sub.add_argument("mechanism", choices=catalogue.CALIBRATIONS)
    sub.add_argument("--epsilon", type=float, required=True)
    sub.add_argument("--delta", type=float, required=True)
    sub.add_argument("--horizon", type=int, default=1, help="number of users, one release after each (default 1)")
    sub.add_argument("--sensitivity", type=float, default=1.0, help="L2 norm of one contribution under the chosen neighbours (default 1)")
    sub.add_argument("--neighbours", choices=NEIGHBOURS, default="replace")
    sub.add_argument("--kernel", choices=("se", "matern"), default="se", help="gp only")
    sub.add_argument("--lengthscale", type=float, default=0.2, help="gp only")
    sub.add_argument("--users", type=int, default=1000, help="shuffle-vector only: users whose messages are shuffled together")
    sub.add_argument("--dimension", type=int, default=1, help="shuffle-vector only: coordinates of each user's vector, |x| <= 1")

    sub = command("run", command_run, "play an experiment")
    sub.add_argument("experiment")
    sub.add_argument("--replications", type=int)
    sub.add_argument("--horizon", type=int)
    sub.add_argument("--seed", type=int)
    sub.add_argument("--jobs", type=int, default=1)
    sub.add_argument("--out", type=Path, help="folder for CSV and PNG; an interrupted run goes on from there")

    command("claims", command_claims, "every claim of the book with its check")

    sub = command("audit", command_audit, "attack the mechanisms and their broken twins")
    sub.add_argument("name", nargs="?")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    try:
        result, text = options.perform(options)
    except (ValueError, TypeError, BudgetExceeded) as error:
        print(f"privbandit: {error}", file=sys.stderr)
        return 2
    print(as_json(result) if options.json else text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
