"""The command line: list, calibrate, run, claims, audit; one file a command. With --json one JSON object on standard output, nothing else.

Exit codes: 0 fine; 1 a check failed (an audit refuted a claim, a claim is stale); 2 the request makes no sense or cannot be met.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from privbandit import __version__
from privbandit.cli import audit, calibrate, claims, listing, run
from privbandit.cli.base import Answer, Parser
from privbandit.experiments.base import as_json
from privbandit.ledger import BudgetExceeded

COMMANDS = (listing, calibrate, run, claims, audit)
REFUSALS = (ValueError, TypeError, OverflowError, BudgetExceeded, OSError, MemoryError)


def parser() -> Parser:
    top = Parser(prog="privbandit", description="Differentially private bandits: calibrate, run, check, audit.")
    top.add_argument("--version", action="version", version=f"privbandit {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    options, unknown = parser().parse_known_args(arguments)
    if unknown:
        options.parser.error(f"no such option here: {' '.join(unknown)}")
    try:
        answer = options.perform(options)
    except REFUSALS as error:
        print(f"privbandit: {error}", file=sys.stderr)
        return 2
    return show(answer, options.json)


def show(answer: Answer, json: bool) -> int:
    """Print; the exit code. A reader that has seen enough (`| head`) is no error of ours."""
    for note in filter(None, (*answer.notes, answer.failure)):
        print(f"privbandit: {note}", file=sys.stderr)
    try:
        print(as_json(answer.result) if json else answer.text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains when it flushes at exit
    return 1 if answer.failure else 0
