"""Both exploitation blocks side by side (this book): the constants of the corollary.

`events(p)` is the problem for whose failure probability all radii are computed, so that all events together fail with `p.zeta`.
The noise of both exploitation blocks is sqrt(2) times that of the exploration block, whose standard deviation is `nu`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from privbandit.formulas import self_weighted, two_block
from privbandit.formulas.two_block import Problem

NOISE = math.sqrt(2)
"""Each block has half of the leaf's squared budget: (D + (D + 1/3)) / 2 = D + 1/6."""

EVENTS = 5 / 4
"""Failures in units of the zeta of the radii: 7/8 of the two blocks, 1/8 + 1/16 + 1/16 for the second block's noises, 1/8 for its rewards."""


class Halves(NamedTuple):
    """Constants of the two exploitation blocks, both with the threshold of the pair."""

    plain: two_block.Exploit
    weighted: self_weighted.Weighted

    @property
    def Delta(self) -> float:
        return self.plain.Delta


def events(p: Problem) -> Problem:
    return p._replace(zeta=p.zeta / EVENTS)


def halves(q: Problem, nu: float) -> Halves:
    """Constants for q = events(p); the threshold is the smaller of the two, which both proofs allow."""
    plain, weighted = two_block.exploit(q, NOISE * nu), self_weighted.weighted(q, NOISE * nu)
    Delta = min(plain.Delta, weighted.Delta)
    return Halves(plain._replace(Delta=Delta), weighted._replace(Delta=Delta))


def exploration_rounds(p: Problem, nu: float) -> float:
    """Bound on the number of exploration rounds."""
    q = events(p)
    return two_block.exploration_rounds(q, nu, halves(q, nu).Delta)


def exploitation_regret(p: Problem, nu: float, kappa_star: float) -> float:
    """Regret of the exploitation rounds, with probability 1 - zeta together with the bound on exploration."""
    q = events(p)
    return min(
        two_block.exploitation_regret(q, NOISE * nu, kappa_star),
        self_weighted.weighted_regret(q, NOISE * nu, kappa_star),
    )
