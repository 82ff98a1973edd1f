"""Records the outcomes of the claims' checks: ``pytest tests/claims --record-claims`` (``make claims``)."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from privbandit.claims import FOLDER, fingerprint, ledger, recorded

OUTCOMES = pytest.StashKey[dict]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-claims", action="store_true", help="write the results of the claims' checks beside the ledger")


def recording(config: pytest.Config) -> bool:
    """Whether this run records (the option does not exist when pytest starts above this folder)."""
    return config.getoption("--record-claims", False)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[OUTCOMES] = defaultdict(dict)
    if recording(config) and config.getoption("numprocesses", None):
        raise pytest.UsageError("--record-claims must run in one process (drop -n)")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Any:
    report = (yield).get_result()
    check = getattr(getattr(item, "function", None), "check", None)
    if check is not None and report.when == "call":
        item.config.stash[OUTCOMES][check.id][item.callspec.params["variant"]] = (report.passed, check)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if recording(session.config):
        record(session.config.stash[OUTCOMES])


def record(outcomes: dict[str, dict]) -> None:
    """Merge the outcomes of this run into the chapters' result files; results of claims that are gone are dropped."""
    claims = ledger()
    for chapter in sorted({claim.chapter for claim in claims}):
        path = FOLDER / f"{chapter}.json"
        mine = [claim for claim in claims if claim.chapter == chapter]
        old = recorded(path)
        new = {c.id: result(c.statement, outcomes[c.id]) if None in outcomes.get(c.id, {}) else old.get(c.id) for c in mine}
        text = json.dumps({id: row for id, row in sorted(new.items()) if row}, indent=1, sort_keys=True) + "\n"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def result(statement: str, variants: dict[str | None, tuple]) -> dict[str, Any]:
    """The row to record for one claim, from the outcome of each of its cases."""
    passed, check = variants[None]
    killed = sorted(name for name, (rejected, _) in variants.items() if name is not None and rejected)
    return {"statement": fingerprint(statement), **check.fingerprints, "mutants": sorted(check.mutants), "killed": killed, "passed": passed}
