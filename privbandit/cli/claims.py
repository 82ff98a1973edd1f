"""`privbandit claims`: every claim of the book with its check."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from privbandit.claims import LEVELS, load
from privbandit.cli.base import Answer, clipped, fields, leaf, table

FINE = ("checked", "cited")
SHOWN = ("id", "kind", "level", "status", "rejected", "source")


def add(commands: Any) -> None:
    about = "Every claim of the book with its check. Exit code 1 if one of those shown is stale, failed or unchecked."
    sub = leaf(commands, "claims", perform, "every claim of the book with its check", about)
    help = "one claim by its id (statement, domain, wrong variants), or a chapter (gp_bandits); default: all claims"
    sub.add_argument("name", nargs="?", help=help)


def perform(options: argparse.Namespace) -> Answer:
    rows = selected(load(), options.name)
    found = Counter(row["status"] for row in rows)
    open = [f"{row['id']} ({row['status']})" for row in rows if row["status"] not in FINE]
    failure = f"{len(open)} of {len(rows)} claims are not checked: {', '.join(open)}" if open else ""
    if options.name == rows[0]["id"]:
        return Answer({"claims": rows}, _detail(rows[0]), failure=failure)
    shown = [row | {"rejected": f"{row['mutants_killed']} of {row['mutants']}"} for row in rows]
    legend = "".join(f"\n{level}  {meaning}" for level, meaning in LEVELS.items())
    counts = f"{len(rows)} claims: {', '.join(f'{n} {status}' for status, n in found.items())}"
    note = "\nrejected: wrong variants that the check rejects, of those it tries; 'privbandit claims ID' names them"
    return Answer({"claims": rows}, f"{clipped(table(shown, SHOWN))}\n{counts}{note}{legend}", failure=failure)


def selected(rows: list[dict[str, Any]], name: str | None) -> list[dict[str, Any]]:
    """The claim called `name`, the claims of the chapter `name`, or all."""
    found = [row for row in rows if name is None or name == row["id"]] or [row for row in rows if name.replace("-", "_") == row["chapter"]]
    if not found:
        chapters = ", ".join(dict.fromkeys(row["chapter"] for row in rows))
        raise ValueError(f"name must be the id of a claim ('privbandit claims' lists them) or a chapter, {chapters}; got {name!r}")
    return found


def _detail(row: dict[str, Any]) -> str:
    head = {key: row[key] for key in ("id", "chapter", "kind")} | {"level": f"{row['level']}, {LEVELS[row['level']]}"}
    rest = {key: row[key] or None for key in ("status", "statement", "domain", "source", "test")}
    rejected = "".join(f"\n  - {name}{'' if name in row['rejected'] else ' (NOT rejected)'}" for name in row["variants"])
    return f"{fields(head | rest | {'uses': ', '.join(row['uses']) or None})}\nwrong variants that the check rejects:{rejected or ' none'}"
