"""`privbandit list`: what there is."""

from __future__ import annotations

import argparse
from typing import Any

from privbandit import catalogue
from privbandit.cli.base import Answer, clipped, leaf, table

FORMULA = 50  # characters, so that the source beside it stays in sight
SHOWN = {
    "policies": ("name", "trust", "module", "summary"),
    "formulas": ("name", "formula", "source"),
    "claims": ("id", "kind", "level", "status", "source"),
    "experiments": ("name", "replications", "summary"),
}
LEGENDS = {"policies": "trust: where a guarantee holds with the right options (none: no privacy); 'privbandit list policies --json' has whole lines"}


def add(commands: Any) -> None:
    about = "What there is. Lines are cut to the terminal; --json has everything, formulas as LaTeX too."
    sub = leaf(commands, "list", perform, "what there is", about)
    sub.add_argument("kind", nargs="?", choices=list(catalogue.KINDS), help="only this kind (default: all)")


def perform(options: argparse.Namespace) -> Answer:
    kinds = [options.kind] if options.kind else list(catalogue.KINDS)
    found = {kind: catalogue.KINDS[kind]() for kind in kinds}
    return Answer(found, clipped("\n\n".join(_section(kind, rows) for kind, rows in found.items())))


def _section(kind: str, rows: catalogue.Rows) -> str:
    short = [{key: _short(key, value) for key, value in row.items()} for row in rows]
    return "\n".join(filter(None, (kind, table(short, SHOWN.get(kind)), LEGENDS.get(kind))))


def _short(key: str, value: Any) -> Any:
    if key == "module":
        return value.removeprefix("privbandit.")
    return f"{value[: FORMULA - 1]}…" if key == "formula" and len(value) > FORMULA else value
