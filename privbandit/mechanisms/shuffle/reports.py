"""Shuffled local reports: each user adds Gaussian noise at home, and shuffling makes it count for more."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.ledger import ApproximateDP, Entry, Gaussian, Ledger
from privbandit.mechanisms.shuffle.amplification import gaussian_local_sigma, gaussian_shuffled_delta

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ShuffledReports:
    """The sum of `users` vectors, L2 replace sensitivity `Delta`, each sent with N(0, noise^2) in every coordinate and shuffled.

    Guarantee: (epsilon, delta)-DP of the shuffled messages for replacement of one user (trust: shuffle), by amplification (see
    `gaussian_shuffled_delta`); without trust in the shuffler each message is still (Delta/noise)-GDP. A message is d numbers, not a bit,
    and the noise of the sum grows with the square root of `users`, unlike that of a vector sum. Source: P_Amp of chowdhury2022; the noise
    is the least that the clone bound proves.
    """

    users: int
    Delta: float
    epsilon: float
    delta: float
    noise: float

    def __post_init__(self) -> None:
        validate.positive_int("users", self.users)
        validate.positive("Delta", self.Delta), validate.positive("noise", self.noise), validate.probability("delta", self.delta)
        proved = gaussian_shuffled_delta(self.epsilon, self.noise, self.users, self.Delta)
        alone = Ledger("one user", "local", (Entry("report", self.report),)).delta(self.epsilon)
        if min(proved, alone) > self.delta * (1 + 1e-9):
            raise ValueError(
                f"noise must be large enough for delta = {self.delta} at epsilon = {self.epsilon}, got {self.noise}: proves {proved:.3g}"
            )

    @classmethod
    def calibrated(cls, users: int, epsilon: float, delta: float, Delta: float) -> ShuffledReports:
        return cls(users, Delta, epsilon, delta, gaussian_local_sigma(epsilon, delta, users, Delta))

    @property
    def report(self) -> Gaussian:
        return Gaussian(self.Delta, self.noise)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (Entry("shuffled local reports", ApproximateDP(self.epsilon, self.delta)),)

    @property
    def std(self) -> float:
        """Standard deviation of one coordinate of the sum."""
        return self.noise * math.sqrt(self.users)

    proxy = std

    def encode(self, x: Array, noise: np.random.Generator) -> Array:
        """What a user sends for x (R, D)."""
        return self.report.release(validate.array("x", x), noise)

    def release(self, total: Array, noise: np.random.Generator) -> Array:
        """The sum of the messages is the estimate."""
        return total
