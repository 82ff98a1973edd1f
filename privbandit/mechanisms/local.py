"""Per-user noise: no curator is trusted, each user reports a noisy increment and the server adds the reports up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from privbandit.ledger import Entry, Gaussian
from privbandit.mechanisms.base import Array, PrefixSums


class SumState(NamedTuple):
    step: int
    total: Array  # (R, size)


@dataclass(frozen=True)
class PerUser(PrefixSums):
    """Local model: every increment is released once with noise sigma; the prefix of t increments has noise sigma sqrt(t).

    Guarantee: each report is (Delta/sigma)-GDP for any two inputs of its user, with nobody trusted; neighbours are replacement.
    """

    @property
    def report(self) -> Gaussian:
        return Gaussian(self.Delta, self.sigma)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (Entry("local report", self.report),)

    def std(self, t: ArrayLike) -> Array:
        return self.sigma * np.sqrt(self._check_t(t).astype(float))

    def init(self, R: int, size: int, noise: np.random.Generator) -> SumState:
        return SumState(0, np.zeros(self._shape(R, size, noise)))

    def release(self, state: SumState, increment: Array, noise: np.random.Generator) -> tuple[SumState, Array]:
        increment = self._checked(increment, state.step, state.total.shape)
        total = state.total + self.report.release(increment, noise)
        return SumState(state.step + 1, total), total
