"""`privbandit audit`: attack the mechanisms and policies, and their broken twins."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any

from privbandit.cli.base import Answer, leaf, table

LEGEND = """
claimed_epsilon: what the ledger promises at delta. lower_bound: an epsilon that the audit shows to be needed at least, at this confidence
(1: computed, not sampled; replay: the dearest transcript seen). passed: the claim stands, lower_bound <= claimed_epsilon.
twin_caught: the audit refutes every broken twin. An audit can refute a claim; only a proof establishes one."""


def add(commands: Any) -> None:
    about = "Attack the mechanisms and policies, and their broken twins. Exit code 1 if a claim falls or a twin is not caught."
    sub = leaf(commands, "audit", perform, "attack the mechanisms and their broken twins", about)
    sub.add_argument("name", nargs="?", help="one of the names below, or one without its method: 'tree' for tree-covariance, tree-replay and "
                     "tree-attack (default: all, some minutes)")  # fmt: skip
    sub.late = _names


def _names() -> str:
    from privbandit.audit import AUDITS

    return textwrap.fill(f"names: {', '.join(AUDITS)}", 100, break_on_hyphens=False)


def perform(options: argparse.Namespace) -> Answer:
    from privbandit.audit import matching, run

    rows = [vars(run(one)) for one in matching(options.name)]
    bad = [row["name"] for row in rows if not (row["passed"] and row["twin_caught"])]
    return Answer({"audits": rows}, table(rows) + LEGEND, failure=f"{len(bad)} of {len(rows)} audits failed: {', '.join(bad)}" if bad else "")
