"""LinUCB under local differential privacy (Zheng et al. 2020): every user adds noise before anything is sent."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from privbandit.mechanisms import PerUser
from privbandit.policies.base import Array
from privbandit.policies.linucb import LinearState
from privbandit.policies.private_linucb import PrivateLinUCB


@dataclass(frozen=True, kw_only=True)
class LDPLinUCB(PrivateLinUCB):
    """`PrivateLinUCB` on local reports, with a regulariser that grows as the noise does, like sqrt(t).

    *Guarantee.* (epsilon, delta)-local DP of each user's report (x x', weight y x), nobody trusted, any two records. One Gaussian vector
    where the paper noises the two parts with half the budget each. With a fixed `alpha` the shift after t reports is `shift` times the
    typical noise norm std(t) sqrt(2 d); the theory's width keeps the constant regulariser of its proof. Regret grows like T^(3/4).
    """

    trust = "local"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.mechanism, PerUser):
            raise ValueError(f"mechanism must be PerUser for local privacy, got {self.mechanism!r}")

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, **fields: Any) -> LDPLinUCB:  # type: ignore[override]
        """The theory's width at the exact least noise."""
        return super().calibrated(epsilon, delta, mechanism=PerUser, **fields)

    @classmethod
    def practical(cls, epsilon: float, delta: float, *, ridge: float = 1.0, **fields: Any) -> LDPLinUCB:  # type: ignore[override]
        """A small fixed width and a shift of 1.5 typical noise norms of the moment: no coverage claimed."""
        return replace(super().practical(epsilon, delta, mechanism=PerUser, ridge=ridge, **fields), ridge=ridge, shift=1.5)

    @property
    def name(self) -> str:
        return "LDP LinUCB"

    def _estimate(self, memory: Any, prefix: Array) -> LinearState:
        if self.shift is None:
            return super()._estimate(memory, prefix)
        norm = self.mechanism.sigma * math.sqrt(memory.step * 2 * self.d)
        return self._solve(memory, prefix, max(self.ridge, self.shift * norm), max(self.ridge, norm / 2))
