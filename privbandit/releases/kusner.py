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
    """The recommendation of one of `size` candidates at the end of a run.

    Guarantee: (epsilon, delta)-DP of the validation set, *under the prior*: with probability 1 - delta over objectives and observation
    noise the two laws are within e^epsilon, for any two validation sets whose objectives are each drawn from the prior (centred,
    variance 1 at each candidate), however they depend on each other. Central trust; final release only.
    """

    epsilon: float
    delta: float
    size: int

    def __post_init__(self) -> None:
        validate.positive("epsilon", self.epsilon)
        validate.probability("delta", self.delta)
        validate.positive_int("size", self.size)

    @property
    def sensitivity(self) -> float:
        """Of the posterior mean at all candidates at once, with probability 1 - delta: 2 sqrt(2 ln(2 size/delta)); this book."""
        return 2 * math.sqrt(2 * math.log(2 * self.size / self.delta))

    def published_sensitivity(self, T: int, correlation: float) -> float:
        """2 sqrt(beta_{T+1}) + c after T rounds, for objectives of correlation k(V, V'): the shape in kusner2015, constants second-hand."""
        validate.positive_int("T", T)
        if not 0 <= correlation <= 1:
            raise ValueError(f"correlation must be a number in [0, 1], got {correlation!r}")
        beta = 2 * math.log(self.size * (T + 1) ** 2 * math.pi**2 / (3 * self.delta))
        return 2 * math.sqrt(beta) + 2 * math.sqrt((1 - correlation) * math.log(3 * self.size / self.delta))

    def recommend(self, mean: Array, noise: np.random.Generator) -> NDArray[np.intp]:
        """A candidate (R,) by the exponential mechanism on the posterior means (R, size), by Gumbel noise."""
        mean = validate.array("mean", mean, (None, self.size))
        score = self.epsilon * mean / (2 * self.sensitivity)
        return np.argmax(score + validate.generator("noise", noise).gumbel(size=score.shape), axis=1)

    @property
    def ledger(self) -> Ledger:
        return Ledger(UNIT, "central", (Entry("candidate", ApproximateDP(self.epsilon, self.delta)),))
