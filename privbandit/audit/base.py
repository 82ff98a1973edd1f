"""What an audit is: a subject with a claim, a check that tries to refute it, and twins that the check must refute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ROUNDING = 1e-7
"""Relative excess over the claim that is put down to rounding."""


@dataclass(frozen=True)
class Finding:
    """What one check found: the claim is refuted at `confidence` if `lower_bound` exceeds `claimed_epsilon`, both at `delta`.

    `confidence` is 1 for checks without sampling. For a replay `lower_bound` is the cost of the dearest transcript seen; for the
    other methods it is a lower bound on the true epsilon. A leak without any noise has lower bound infinity; `note` says where.
    """

    claimed_epsilon: float
    delta: float
    lower_bound: float
    confidence: float = 1.0
    note: str = ""

    @property
    def refuted(self) -> bool:
        return not self.lower_bound <= self.claimed_epsilon * (1 + ROUNDING)


@dataclass(frozen=True)
class AuditResult:
    """One row of `privbandit audit`. `passed`: the claim stands; `twin_caught`: every failing twin was refuted."""

    name: str
    method: str
    claimed_epsilon: float
    delta: float
    lower_bound: float
    confidence: float
    passed: bool
    twin_caught: bool


@dataclass(frozen=True)
class Audit:
    """`check(subject, seed)` gives a Finding; `subject` and `twins` build what is checked (a twin: the same claim, broken)."""

    name: str
    method: str
    check: Callable[[Any, int], Finding]
    subject: Callable[[], Any]
    twins: tuple[Callable[[], Any], ...]

    def __call__(self, seed: int = 0) -> AuditResult:
        """The same seed gives the same result."""
        found = self.check(self.subject(), seed)
        caught = bool(self.twins) and all(self.check(twin(), seed).refuted for twin in self.twins)
        return AuditResult(
            self.name, self.method, found.claimed_epsilon, found.delta, found.lower_bound, found.confidence, not found.refuted, caught
        )
