"""The claims ledger: what the book asserts, at which level, and whether its check still holds.

Each chapter keeps its claims in ``<chapter>.toml`` and the recorded results of their checks in ``<chapter>.json`` beside it.
A result carries fingerprints of the statement, of the check and of the module under test; when one of them changes,
the claim is *stale* until its check is run and recorded again (``make claims``).
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping

FOLDER = Path(__file__).parent
KINDS = ("definition", "lemma", "theorem", "bound", "algorithm", "constant", "empirical")
LEVELS = {
    "S": "symbolic: derived or checked by computer algebra, under the assumptions listed",
    "E": "exact enumeration on the instances printed beside the claim",
    "I": "interval or high-precision arithmetic",
    "T": "statistical: sample size, seed, level and effect are stated with the check",
    "C": "cited: the source is exact, nothing is checked here",
    "X": "refuted or corrected: the counterexample or the corrected value is attached",
}
REQUIRED = ("id", "kind", "level", "statement", "source")
OPTIONAL = ("domain", "test", "uses")


class LedgerError(ValueError):
    """A claim in the ledger is malformed; the message names the file, the claim and the field."""


@dataclass(frozen=True)
class Result:
    """What one run of a claim's check recorded: the fingerprints it ran on and the mutants it rejected."""

    statement: str
    check: str
    subject: Mapping[str, str]
    mutants: tuple[str, ...]
    killed: tuple[str, ...]
    passed: bool


@dataclass(frozen=True)
class Claim:
    """One claim of the book, with the last recorded result of its check (None: never recorded)."""

    id: str
    kind: str
    level: str
    statement: str
    source: str
    chapter: str
    domain: str = ""
    test: str = ""
    uses: tuple[str, ...] = ()
    result: Result | None = None

    @property
    def status(self) -> str:
        """``checked``, ``cited``, ``stale``, ``failed`` or ``unchecked``."""
        if self.level == "C":
            return "cited"
        if self.result is None:
            return "unchecked"
        if not self.result.passed or set(self.result.killed) != set(self.result.mutants):
            return "failed"
        return "checked" if self._current(self.result) else "stale"

    def _current(self, result: Result) -> bool:
        current = all(module_fingerprint(name) == seen for name, seen in result.subject.items())
        return current and fingerprint(self.statement) == result.statement

    def row(self) -> dict[str, Any]:
        """The claim as a flat record, as the command line prints it."""
        variants = list(self.result.mutants) if self.result else []
        rejected = [name for name in variants if name in self.result.killed] if self.result else []
        return {
            "id": self.id, "chapter": self.chapter, "kind": self.kind, "level": self.level, "status": self.status,
            "statement": self.statement, "domain": self.domain, "source": self.source, "test": self.test, "uses": list(self.uses),
            "mutants": len(variants), "mutants_killed": len(rejected), "variants": variants, "rejected": rejected,
        }  # fmt: skip


def fingerprint(text: str) -> str:
    """A short fingerprint (16 hexadecimal digits of SHA-256) of a text, whatever its line endings."""
    return hashlib.sha256("\n".join(text.splitlines()).encode()).hexdigest()[:16]


def module_fingerprint(name: str) -> str:
    """The fingerprint of a module's source, or ``""`` if there is no such module."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return ""
    return fingerprint(Path(spec.origin).read_text("utf-8")) if spec and spec.origin else ""


def parse(chapter: str, text: str, results: Mapping[str, Any] | None = None) -> list[Claim]:
    """The claims of one chapter from the text of its TOML file and the recorded results.

    Raises
    ------
    LedgerError
        If a field is missing, unknown or outside its range.
    """
    try:
        tables = tomllib.loads(text).get("claim", [])
    except tomllib.TOMLDecodeError as error:
        raise LedgerError(f"{chapter}.toml is not valid TOML: {error}") from error
    return [_claim(chapter, table, (results or {}).get(table.get("id"))) for table in tables]


def _claim(chapter: str, table: Mapping[str, Any], result: Mapping[str, Any] | None) -> Claim:
    where = f"{chapter}.toml, claim {table.get('id', '(no id)')!r}"
    _validate(where, table)
    fields = {**table, "uses": tuple(table.get("uses", ())), "domain": str(table.get("domain", ""))}
    recorded = Result(**{**result, "mutants": tuple(result["mutants"]), "killed": tuple(result["killed"])}) if result else None
    return Claim(chapter=chapter, result=recorded, **fields)


def _validate(where: str, table: Mapping[str, Any]) -> None:
    missing = [field for field in REQUIRED if not str(table.get(field, "")).strip()]
    if missing:
        raise LedgerError(f"{where}: {', '.join(missing)} must be given and not empty")
    if unknown := sorted(set(table) - set(REQUIRED) - set(OPTIONAL)):
        raise LedgerError(f"{where}: unknown field {', '.join(unknown)}, expected {', '.join(REQUIRED + OPTIONAL)}")
    if table["kind"] not in KINDS:
        raise LedgerError(f"{where}: kind must be one of {', '.join(KINDS)}, got {table['kind']!r}")
    if table["level"] not in LEVELS:
        raise LedgerError(f"{where}: level must be one of {', '.join(LEVELS)}, got {table['level']!r}")
    if table["level"] != "C" and not table.get("test"):
        raise LedgerError(f"{where}: test must name the file of its check (only level C goes without)")


def ledger(folder: Path = FOLDER) -> tuple[Claim, ...]:
    """All claims of the book in the order of their files; ids are unique and `uses` names claims that exist."""
    claims = [claim for path in sorted(folder.glob("*.toml")) for claim in parse(path.stem, path.read_text("utf-8"), recorded(path))]
    seen: dict[str, Claim] = {}
    for claim in claims:
        if claim.id in seen:
            raise LedgerError(f"claim id {claim.id!r} stands in {seen[claim.id].chapter}.toml and in {claim.chapter}.toml")
        seen[claim.id] = claim
    for claim in claims:
        if unknown := sorted(set(claim.uses) - set(seen)):
            raise LedgerError(f"{claim.chapter}.toml, claim {claim.id!r}: uses unknown claim {', '.join(unknown)}")
    return tuple(claims)


def recorded(path: Path) -> dict[str, Any]:
    """The recorded results beside a chapter's TOML file (empty if there are none)."""
    results = path.with_suffix(".json")
    return json.loads(results.read_text("utf-8")) if results.exists() else {}


def load() -> list[dict[str, Any]]:
    """One row per claim: its fields and status, and the names of the wrong variants its check tries and rejects."""
    return [claim.row() for claim in ledger()]
