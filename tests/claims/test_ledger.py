"""The ledger, the checks and the recorded results agree; the machinery itself rejects wrong input."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

from privbandit import claims
from privbandit.claims import LedgerError, fingerprint, ledger, parse

from . import conftest
from .claim import claim

HERE = Path(__file__).parent
BIBLIOGRAPHY = HERE.parent.parent / "book" / "references.bib"
GOOD = 'id = "a"\nkind = "lemma"\nlevel = "E"\nstatement = "1 + 1 = 2"\nsource = "this book"\ntest = "tests/claims/test_a.py"\n'


def checks() -> dict:
    """Every check declared in this folder, by claim id, with the file it stands in."""
    modules = [importlib.import_module(f"tests.claims.{path.stem}") for path in sorted(HERE.glob("test_*.py")) if path.stem != "test_ledger"]
    return {v.check.id: (v.check, Path(m.__file__).name) for m in modules for v in vars(m).values() if hasattr(v, "check")}


CLAIMS = {c.id: c for c in ledger()}
CHECKS = checks()


@pytest.mark.parametrize("id", CLAIMS)
def test_claim_is_checked_and_not_stale(id):
    row = CLAIMS[id]
    if row.level == "C":
        key, _, place = row.source.partition(",")
        assert f"{{{key.strip()}," in BIBLIOGRAPHY.read_text("utf-8"), f"source of {id} must start with a key of references.bib"
        assert place.strip(), f"source of {id} must name the exact place in {key}"
        return
    check, file = CHECKS[id]
    assert row.test == f"tests/claims/{file}"
    assert row.status == "checked", f"claim {id} is {row.status}: run `make claims`"
    assert check.fingerprints == {"check": row.result.check, "subject": row.result.subject}, f"claim {id} is stale: run `make claims`"
    assert set(row.result.killed) == set(check.mutants), f"a mutant of {id} survives"


def test_files_of_checks_name_their_chapter():
    """`make claims CHAPTER=x` runs test_x.py and test_x_*.py: every check of the chapter, and no other chapter's."""
    chapters = {row.chapter for row in CLAIMS.values()}
    for row in CLAIMS.values():
        named = {chapter for chapter in chapters if re.match(rf"tests/claims/test_{chapter}[._]", row.test)}
        assert named == ({row.chapter} if row.test else set()), f"{row.test}, the file of {row.id}, must start with test_{row.chapter}"


@pytest.mark.parametrize("id", CHECKS)
def test_check_belongs_to_a_claim(id):
    assert id in CLAIMS, f"the check {id} has no entry in the ledger"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace('kind = "lemma"', 'kind = "lemon"'), "kind must be one of"),
        (GOOD.replace('level = "E"', 'level = "V"'), "level must be one of"),
        (GOOD.replace('statement = "1 + 1 = 2"', 'statement = " "'), "statement must be given"),
        (GOOD.replace('source = "this book"\n', ""), "source must be given"),
        (GOOD.replace('test = "tests/claims/test_a.py"\n', ""), "test must name the file"),
        (GOOD + "colour = 3\n", "unknown field colour"),
        ("id = \n", "not valid TOML"),
    ],
)
def test_malformed_claims_are_refused(text, message):
    with pytest.raises(LedgerError, match=message):
        parse("x", "[[claim]]\n" + text)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"x": "[[claim]]\n" + GOOD, "y": "[[claim]]\n" + GOOD}, r"'a' stands in x\.toml and in y\.toml"),
        ({"x": "[[claim]]\n" + GOOD + 'uses = ["b"]\n'}, "uses unknown claim b"),
    ],
)
def test_inconsistent_ledgers_are_refused(tmp_path, files, message):
    for name, text in files.items():
        (tmp_path / f"{name}.toml").write_text(text)
    with pytest.raises(LedgerError, match=message):
        ledger(tmp_path)


RECORDED = {
    "statement": fingerprint("1 + 1 = 2"), "check": "c", "subject": {"privbandit.claims": claims.module_fingerprint("privbandit.claims")},
    "mutants": ["m"], "killed": ["m"], "passed": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({}, "checked"),
        ({"statement": fingerprint("1 + 1 = 3")}, "stale"),
        ({"subject": {"privbandit.claims": "other"}}, "stale"),
        ({"subject": {"privbandit.no_such_module": "x"}}, "stale"),
        ({"killed": []}, "failed"),
        ({"passed": False}, "failed"),
        (None, "unchecked"),
    ],
)
def test_status_follows_the_fingerprints(change, status):
    results = {} if change is None else {"a": RECORDED | change}
    (row,) = parse("x", "[[claim]]\n" + GOOD, results)
    assert row.status == status
    assert row.row()["mutants"] == (0 if change is None else 1)


def test_a_check_runs_on_its_subject_and_must_reject_every_mutant():
    @claim("double", subject=lambda x: 2 * x, mutants={"square": lambda x: x * x, "same": lambda x: x + x})
    def check(double):
        assert double(3) == 6

    check(None)
    check("square")
    with pytest.raises(pytest.fail.Exception):
        check("same")  # not wrong at all, so it survives and the case fails


def test_a_check_without_mutants_is_refused():
    with pytest.raises(ValueError, match="mutants of claim 'x' must name"):
        claim("x", subject=None, mutants={})


def test_recording_keeps_what_did_not_run_and_drops_what_is_gone(tmp_path, monkeypatch):
    (tmp_path / "x.toml").write_text("[[claim]]\n" + GOOD)
    (tmp_path / "x.json").write_text('{"a": %s, "gone": {}}' % json.dumps(RECORDED))
    monkeypatch.setattr(conftest, "FOLDER", tmp_path)
    monkeypatch.setattr(conftest, "ledger", lambda: ledger(tmp_path))
    conftest.record({})
    assert claims.recorded(tmp_path / "x.toml") == {"a": RECORDED}

    @claim("a", subject=fingerprint, mutants={"m": None})
    def check(subject):
        assert subject

    conftest.record({"a": {None: (True, check.check), "m": (False, check.check)}})
    row = claims.recorded(tmp_path / "x.toml")["a"]
    assert (row["passed"], row["killed"], row["mutants"]) == (True, [], ["m"])
    assert list(row["subject"]) == ["privbandit.claims"]
