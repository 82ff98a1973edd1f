"""What the commands share: their answer, the parser, the longest horizon, and tables as text."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from privbandit import validate

LONGEST = 5_000_000  # rounds; the noise of every prefix is computed: 2 GB and half a minute
WIDTH = 120  # characters, where the output is no terminal


class Answer(NamedTuple):
    """What a command found: for --json, for people, and on standard error; `failure` says which check failed (exit code 1)."""

    result: dict[str, Any]
    text: str
    notes: tuple[str, ...] = ()
    failure: str = ""


class Parser(argparse.ArgumentParser):
    """A parser whose help may end with a list, put together only if somebody asks for help."""

    late: Callable[[], str] | None = None

    def format_help(self) -> str:
        return super().format_help() + (f"\n{self.late()}\n" if self.late else "")


def leaf(commands: Any, name: str, perform: Callable[[argparse.Namespace], Answer], help: str, description: str = "") -> Parser:
    """A command that is not divided further."""
    sub = commands.add_parser(name, help=help, description=description or help)
    sub.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    sub.set_defaults(perform=perform, parser=sub)
    return sub


def horizon(value: int) -> int:
    """The value, if a mechanism of that many rounds fits into memory."""
    if validate.positive_int("horizon", value) > LONGEST:
        raise ValueError(f"horizon must be at most {LONGEST} on the command line, got {value}")
    return value


def table(rows: Sequence[dict[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Rows as aligned text."""
    if not rows:
        return "(nothing)"
    columns = list(columns or rows[0])
    text = [[cell(row.get(c)) for c in columns] for row in rows]
    widths = [max(len(c), *(len(line[i]) for line in text)) for i, c in enumerate(columns)]
    return "\n".join("  ".join(one.ljust(w) for one, w in zip(line, widths, strict=True)).rstrip() for line in [columns, *text])


def fields(values: dict[str, Any]) -> str:
    """One line for each value, names to the right."""
    width = max(map(len, values))
    return "\n".join(f"{name:>{width}}  {cell(value)}" for name, value in values.items())


def cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def clipped(text: str) -> str:
    """Every line cut to the width of the terminal."""
    width = shutil.get_terminal_size((WIDTH, 24)).columns
    return "\n".join(line if len(line) <= width else f"{line[: width - 1]}…" for line in text.split("\n"))
