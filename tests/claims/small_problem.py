"""The small problem on which runs of Algorithm 1 are checked."""

from __future__ import annotations

from privbandit.links import Probit

SMALL = {"link": Probit(), "d": 2, "S": 2.0}
