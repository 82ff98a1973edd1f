"""UCB on private counts and sums: one continual release carries both."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privbandit import validate
from privbandit.accounting import gaussian_mu
from privbandit.ledger import Ledger
from privbandit.mechanisms import PerUser, PrefixSums, SquareRoot
from privbandit.policies.base import Array
from privbandit.policies.ucb import UCB
from privbandit.sensitivity import ARMS

LEAF = float(ARMS["replace"](tau=1.0))  # (e_a, y e_a) with |y| <= 1: the sums cost nothing beyond the counts


@dataclass(frozen=True, kw_only=True)
class PrivateUCB(UCB):
    """UCB1 whose counts and sums are noisy prefix sums of the leaves (e_a, (2 reward - 1) e_a).

    The index adds what the noise may hide, at the same confidence 1 - t^-4 as UCB1 grants the rewards: with standard deviation s_t
    both statistics are off by at most s_t sqrt(8 ln t) a side. It reads released quantities and public constants only.

    *Guarantee.* Joint differential privacy of one round's user (arm played, and reward under every arm), neighbours by replacement,
    a trusted curator; with `PerUser` noise nobody is trusted. Two leaves are at most 2 apart in L2, the released prefixes are as
    private as `mechanism` says, actions of the other users are post-processing (billboard lemma). Unconditional: rewards are clipped.
    Source: tree counts for bandits, Mishra and Thakurta (2015); joint leaf and Gaussian noise derived in this book.
    """

    mechanism: PrefixSums
    trust = "joint or local"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.instance("mechanism", self.mechanism, PrefixSums)
        if self.mechanism.Delta < LEAF * (1 - 1e-12):
            raise ValueError(f"mechanism.Delta must be at least {LEAF:.6g}, the sensitivity of a leaf, got {self.mechanism.Delta!r}")

    @classmethod
    def calibrated(
        cls, epsilon: float, delta: float, *, K: int, horizon: int, mechanism: type[PrefixSums] = SquareRoot
    ) -> PrivateUCB:
        """The policy whose whole run is exactly (epsilon, delta)-private; epsilon = inf gives UCB1."""
        return cls(K=K, mechanism=mechanism.calibrated(horizon, gaussian_mu(epsilon, delta), LEAF))

    @property
    def name(self) -> str:
        return f"private UCB ({type(self.mechanism).__name__})"

    @property
    def ledger(self) -> Ledger:
        return mechanism_ledger(self.mechanism)

    def _open(self, R: int, noise: np.random.Generator):
        return self.mechanism.init(R, 2 * self.K, noise)

    def _add(self, memory, leaf: Array, noise: np.random.Generator):
        return self.mechanism.release(memory, leaf, noise)

    def _error(self, step: int) -> tuple[float, float]:
        if self.mechanism.sigma == 0:
            return 0.0, 0.0
        error = float(self.mechanism.std(min(step, self.mechanism.horizon))) * math.sqrt(8 * math.log(step))
        return error, error


def mechanism_ledger(mechanism) -> Ledger:
    """The ledger of a policy whose every statistic leaves through `mechanism`."""
    if math.isinf(mechanism.mu):
        return Ledger.nonprivate()
    return Ledger("one round's user", "local" if isinstance(mechanism, PerUser) else "joint", mechanism.entries)
