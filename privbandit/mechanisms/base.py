"""Noisy prefix sums: the one protocol behind every private policy of this package.

Each of `horizon` users adds one vector (a matrix goes through `linalg.svec`); after each, the sum so far is released.
Replacing one user moves one increment by at most `Delta` in L2. Every mechanism is `A = B C`: the *rows* C x + noise are what is
released and charged, the prefixes B (C x + noise) are post-processing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbandit import validate
from privbandit.accounting import compose_mu
from privbandit.ledger import BudgetExceeded, Entry

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PrefixSums(ABC):
    """Noisy prefix sums of `horizon` increments, each moved by at most `Delta` when its user is replaced.

    `sigma` is the noise standard deviation of one released row (a tree's node, a factorisation's row, a local report).
    Guarantee: the sequence of all prefixes is mu-GDP with `mu` below, against adaptive choice of later increments, for replacement
    of one increment; under add/remove neighbours use the Delta of that relation. See each class for the proof.
    """

    horizon: int
    sigma: float
    Delta: float = 1.0

    def __post_init__(self) -> None:
        validate.positive_int("horizon", self.horizon)
        validate.nonnegative("sigma", self.sigma)
        validate.positive("Delta", self.Delta)

    @classmethod
    def calibrated(cls, horizon: int, mu: float, Delta: float = 1.0, **options: Any) -> PrefixSums:
        """The least noise for which the whole sequence is mu-GDP (mu = inf: no noise)."""
        mu = validate.positive("mu", mu, allow_inf=True)
        unit = cls(horizon, 1.0, Delta, **options)
        return cls(horizon, unit.mu / mu, Delta, **options)

    @property
    @abstractmethod
    def entries(self) -> tuple[Entry, ...]:
        """What one user touches."""

    @property
    def mu(self) -> float:
        return compose_mu(*(e.event.mu * math.sqrt(e.count) for e in self.entries))

    @abstractmethod
    def std(self, t: ArrayLike) -> Array:
        """Noise standard deviation of one coordinate of the prefix of t increments, t in 1..horizon."""

    @property
    def max_std(self) -> float:
        return float(np.max(self.std(np.arange(1, self.horizon + 1))))

    @property
    def mean_std(self) -> float:
        return float(np.mean(self.std(np.arange(1, self.horizon + 1))))

    @abstractmethod
    def init(self, R: int, size: int, noise: np.random.Generator) -> Any:
        """State for R replications of `size`-vectors; `noise` is used by mechanisms that draw everything up front."""

    @abstractmethod
    def release(self, state: Any, increment: Array, noise: np.random.Generator) -> tuple[Any, Array]:
        """Add `increment` (R, size); return the new state and the noisy prefix (R, size)."""

    @staticmethod
    def _shape(R: int, size: int, noise: np.random.Generator) -> tuple[int, int]:
        """The shape of everything to come, once the arguments of `init` are found right."""
        validate.generator("noise", noise)
        return validate.positive_int("R", R), validate.positive_int("size", size)

    def _checked(self, increment: Array, step: int, shape: tuple[int, ...]) -> Array:
        """The increment of a release that the budget covers: finite, and of the shape announced to `init`."""
        if step >= self.horizon:
            raise BudgetExceeded(f"all {self.horizon} releases are spent")
        return validate.array("increment", increment, shape)

    def _check_t(self, t: ArrayLike) -> NDArray[np.int64]:
        t = np.asarray(t)
        if not np.issubdtype(t.dtype, np.integer) or np.any(t < 1) or np.any(t > self.horizon):
            raise ValueError(f"t must be whole numbers in 1..{self.horizon}, got {t!r}")
        return t
