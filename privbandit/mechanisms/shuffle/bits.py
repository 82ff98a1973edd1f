"""The shuffled bit sum: every user sends one bit, now and then a coin flip instead of the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.formulas.shuffle import BIT_SUM_FLIPS, BIT_SUM_VARIANCE
from privbandit.ledger import ApproximateDP, Entry, Ledger
from privbandit.mechanisms.shuffle.hockey_stick import bit_sum_delta, moderate
from privbandit.mechanisms.shuffle.messages import Messages, count, shuffle, write

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class BitSum:
    """The number of ones among `users` bits; each user sends a fair coin with probability `flip`, the true bit otherwise.

    Guarantee: (epsilon, delta(epsilon))-DP of the shuffled messages for replacement of one user's bit (trust: shuffle), exact: the
    maximum over every number of ones among the others. Each user alone is protected by randomised response at
    epsilon = log((2 - flip) / flip) even against the shuffler. Source: Cheu et al. (2019), the bit sum.
    """

    users: int
    flip: float

    def __post_init__(self) -> None:
        validate.positive_int("users", self.users)
        validate.probability("flip", self.flip)

    @classmethod
    def published(cls, users: int, epsilon: float, delta: float) -> BitSum:
        """The sufficient choice of the source; refused where it needs more coin flips than users."""
        users, epsilon = validate.positive_int("users", users), moderate(epsilon)
        flips = float(BIT_SUM_FLIPS(epsilon=epsilon, delta=validate.probability("delta", delta)))
        if flips >= users:
            raise ValueError(f"users must exceed {flips:.1f} for the published choice at this epsilon and delta, got {users}")
        return cls(users, flips / users)

    @classmethod
    def calibrated(cls, users: int, epsilon: float, delta: float, accuracy: float = 1e-3) -> BitSum:
        """The least flip probability (to a relative `accuracy`) with exact delta <= `delta`, checked for every number of ones.

        More flips post-process every message, so delta falls with `flip` and bisection is valid.
        """
        users, epsilon = validate.positive_int("users", users), moderate(epsilon)
        delta, accuracy = validate.probability("delta", delta), validate.probability("accuracy", accuracy)
        coarse = np.unique(np.linspace(0, users - 1, 9).astype(int))
        low, high = 0.0, 1.0
        while high - low > accuracy * high:
            middle = (low + high) / 2
            enough = middle < 1 and bit_sum_delta(users, middle, epsilon, coarse) <= delta
            low, high = (low, middle) if enough else (middle, high)
        while bit_sum_delta(users, high, epsilon) > delta:
            high += accuracy * (1 - high)
        return cls(users, high)

    def delta(self, epsilon: float) -> float:
        """Exact delta at `epsilon`."""
        return bit_sum_delta(self.users, self.flip, epsilon)

    def ledger(self, epsilon: float) -> Ledger:
        """What one user spends, stated at `epsilon`."""
        return Ledger("one user's bit", "shuffle", (Entry("shuffled bit sum", ApproximateDP(epsilon, self.delta(epsilon))),))

    @property
    def variance(self) -> float:
        """Variance of the estimate; the same for all data."""
        return float(BIT_SUM_VARIANCE(n=self.users, q=self.flip))

    @property
    def bits_per_user(self) -> int:
        return 1

    def messages(self, bits: Integers, noise: np.random.Generator) -> Messages:
        """One message (n, 1) of each of n users."""
        validate.generator("noise", noise)
        bits = self._checked(np.asarray(bits), (self.users,))
        coin = noise.random(self.users) < self.flip
        sent = np.where(coin, noise.integers(0, 2, self.users), bits)
        return write(sent[:, None], np.ones(1, dtype=np.int64))

    def shuffled(self, bits: Integers, noise: np.random.Generator) -> Messages:
        """Randomise and shuffle: the view that the guarantee is about."""
        return shuffle(self.messages(bits, noise), noise)

    def analyse(self, messages: Messages) -> Array:
        """Unbiased estimate (1,) of the number of ones."""
        return self._debias(count(messages, 1))

    def release(self, ones: Integers, noise: np.random.Generator) -> Array:
        """Fast mode: the estimate (R,) from the exact numbers of ones (R,), in the same law as through messages."""
        validate.generator("noise", noise)
        ones = np.asarray(ones)
        if not np.issubdtype(ones.dtype, np.integer) or np.any((ones < 0) | (ones > self.users)):
            raise ValueError(f"ones must be whole numbers in 0..{self.users}, got {ones}")
        kept = noise.binomial(ones, 1 - self.flip / 2)
        return self._debias(kept + noise.binomial(self.users - ones, self.flip / 2))

    def _debias(self, total: Integers) -> Array:
        return (total - self.users * self.flip / 2) / (1 - self.flip)

    @staticmethod
    def _checked(bits: Integers, shape: tuple[int, ...]) -> Integers:
        if bits.shape != shape or not np.isin(bits, (0, 1)).all():
            raise ValueError(f"bits must be {shape[0]} zeros and ones, got {np.array2string(bits, threshold=8)} of shape {bits.shape}")
        return bits
