"""Private release of a tuned hyperparameter, after Kusner et al. (ICML 2015): GP-UCB runs without privacy, only its end is protected.

The sensitivity holds with probability 1 - delta under the Gaussian-process prior (proved in the book, *Releasing what was learnt*); for
a fixed objective it is an assumption. The actions of the run itself are not private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.ledger import ApproximateDP, Entry, Ledger

Array = NDArray[np.float64]
UNIT = "the validation set of a tuning run whose objective is drawn from the Gaussian-process prior"


@dataclass(frozen=True)
class KusnerRelease:
    """The recommendation of one of `size` candidates after T rounds; `correlation` = k(V, V') between the objectives on two
    neighbouring validation sets (1: they coincide).

    Guarantee: (epsilon, delta)-DP of the validation set, *under the prior assumption* (variance 1 at each candidate): with
    probability 1 - delta over objectives and observation noise the two laws are within e^epsilon. Central trust; final release only.
    """

    epsilon: float
    delta: float
    size: int
    T: int
    correlation: float = 1.0

    def __post_init__(self) -> None:
        validate.positive("epsilon", self.epsilon)
        validate.probability("delta", self.delta)
        validate.positive_int("size", self.size)
        validate.positive_int("T", self.T)
        if not 0 <= self.correlation <= 1:
            raise ValueError(f"correlation must be a number in [0, 1], got {self.correlation!r}")

    def beta(self, t: int) -> float:
        return 2 * math.log(self.size * t**2 * math.pi**2 / (3 * self.delta))

    @property
    def drift(self) -> float:
        """c = 2 sqrt((1 - k(V, V')) ln(3 size/delta)): how far the objectives of neighbouring sets lie apart."""
        return 2 * math.sqrt((1 - self.correlation) * math.log(3 * self.size / self.delta))

    @property
    def sensitivity(self) -> float:
        """Of the posterior mean at any candidate: 2 sqrt(beta_{T+1}) + c (the prior variance is 1)."""
        return 2 * math.sqrt(self.beta(self.T + 1)) + self.drift

    def recommend(self, mean: Array, noise: np.random.Generator) -> NDArray[np.intp]:
        """A candidate (R,) by the exponential mechanism on the posterior means (R, size), by Gumbel noise."""
        mean = validate.array("mean", mean, (None, self.size))
        score = self.epsilon * mean / (2 * self.sensitivity)
        return np.argmax(score + validate.generator("noise", noise).gumbel(size=score.shape), axis=1)

    @property
    def ledger(self) -> Ledger:
        return Ledger(UNIT, "central", (Entry("candidate", ApproximateDP(self.epsilon, self.delta)),))
