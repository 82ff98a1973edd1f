"""Private release of a tuned hyperparameter (Kusner et al., ICML 2015): run GP-UCB without privacy, protect only the end.

The constants are those of the paper as we remember it and were not checked against it; the sensitivity holds with high
probability under the Gaussian-process prior, which is what the delta pays for. The actions of the run itself are not private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.ledger import ApproximateDP, Entry, Laplace, Ledger

Array = NDArray[np.float64]
UNIT = "the validation set of a tuning run whose objective is drawn from the Gaussian-process prior"


@dataclass(frozen=True)
class KusnerRelease:
    """epsilon, delta for each of the two releases; `size` candidates; T rounds; `gain` = gamma_T; `variance` of the observation noise;
    `correlation` = k(V, V') between the objectives on two neighbouring validation sets (1: they coincide).

    Guarantee: (epsilon, delta)-DP of the validation set per release, *under the prior assumption*; central trust; final release only.
    """

    epsilon: float
    delta: float
    size: int
    T: int
    gain: float
    variance: float = 0.25
    correlation: float = 1.0

    def __post_init__(self) -> None:
        validate.positive("epsilon", self.epsilon)
        validate.probability("delta", self.delta)
        validate.positive_int("size", self.size)
        validate.positive_int("T", self.T)
        validate.nonnegative("gain", self.gain)
        validate.positive("variance", self.variance)
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
    def value_event(self) -> Laplace:
        """The release of the best observed value."""
        c1 = 8 / math.log1p(1 / self.variance)
        q = math.sqrt(self.variance * 4 * math.log(3 / self.delta))
        Delta = math.sqrt(c1 * self.beta(self.T) * self.gain / self.T) + self.drift + q
        return Laplace(Delta, Delta / self.epsilon)

    def value(self, best: Array, noise: np.random.Generator) -> Array:
        """The best observed value (R,) with Laplace noise."""
        return self.value_event.release(np.asarray(best, dtype=float), validate.generator("noise", noise))

    @property
    def ledger(self) -> Ledger:
        event = ApproximateDP(self.epsilon, self.delta)
        return Ledger(UNIT, "central", (Entry("candidate", event), Entry("value", event)))
