"""P_GD: projected gradient descent whose gradients arrive as shuffled vector sums.

The loss is sum_i l_i(theta) + (ridge / 2) |theta|^2 over the ball |theta| <= S with |grad l_i| <= L. The ridge is data-free and often
large, so it is taken implicitly: theta <- Proj((theta - eta g) / (1 + eta ridge)). An explicit ridge step needs a bound n L + ridge S on
the gradient and oscillates with a step made for n L. The average is over the points where gradients were taken, theta_0 = 0 included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.formulas.shuffle import PGD_EXCESS, PGD_MEAN_EXCESS, PGD_ROUNDS, PGD_STEP, PGD_STEP_EPSILON
from privbandit.ledger import ApproximateDP, Entry, Ledger
from privbandit.linalg import into_ball
from privbandit.mechanisms.shuffle.sums import VectorSum

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ShuffleGradientDescent:
    """`rounds` gradient steps for `users` losses that are `L`-Lipschitz, over the ball of radius `S` in dimension `d`.

    `gradients` is the shuffled sum of one round; give `claim` to state a published theorem in the ledger instead of its
    certificates. All parameters are public; every iterate is released.

    Guarantee: one user sends a gradient in every round, so the ledger holds `rounds` adaptive vector sums (trust: shuffle, unit: one
    user's loss, replacement). Users stay online for all rounds. Source: Cheu et al. (2022), Algorithm 7 of Sarmasarkar (v2), with the
    implicit ridge, the averaging and the step of this book.
    """

    gradients: VectorSum
    rounds: int
    S: float
    L: float = 1.0
    ridge: float = 0.0
    claim: ApproximateDP | None = None

    def __post_init__(self) -> None:
        validate.instance("gradients", self.gradients, VectorSum)
        validate.positive_int("rounds", self.rounds)
        validate.positive("S", self.S)
        validate.positive("L", self.L)
        validate.nonnegative("ridge", self.ridge)

    @classmethod
    def calibrated(
        cls, users: int, d: int, S: float, epsilon: float, delta: float, *, L: float = 1.0, ridge: float = 0.0, rounds: int = 50
    ) -> ShuffleGradientDescent:
        """The whole run is certified (epsilon, delta)-DP."""
        validate.positive("L", L), validate.positive_int("d", d)
        return cls(VectorSum.ball(users, d, epsilon, delta, L, rounds), rounds, S, L, ridge)

    @classmethod
    def published(
        cls, users: int, d: int, S: float, epsilon: float, delta: float, *, L: float = 1.0, ridge: float = 0.0, most_rounds: int = 1000
    ) -> ShuffleGradientDescent:
        """The printed rounds (capped at `most_rounds`), budget of a round, and vector-sum constants. Advanced composition must really
        cover the run: refused where sqrt(2 T log(2/delta)) e + T e (exp(e) - 1) exceeds epsilon for the round's budget e."""
        validate.positive("S", S), validate.positive("L", L)
        rounds = published_rounds(users, d, epsilon, delta, most_rounds)
        each = float(PGD_STEP_EPSILON(epsilon=epsilon, delta=delta, T=rounds))
        spent = math.sqrt(2 * rounds * math.log(2 / delta)) * each + rounds * each * math.expm1(each)
        if spent > epsilon:
            raise ValueError(f"epsilon must be small enough for the printed split: {rounds} rounds spend {spent:.4g}, got {epsilon}")
        claim = ApproximateDP(epsilon, delta)
        return cls(VectorSum.published(users, d, each, delta / (2 * rounds), L), rounds, S, L, ridge, claim)

    @property
    def users(self) -> int:
        return self.gradients.users

    @property
    def entries(self) -> tuple[Entry, ...]:
        if self.claim is not None:
            return (Entry("shuffled optimiser, by advanced composition", self.claim),)
        return (Entry("shuffled gradient sum", self.gradients.event, self.rounds),)

    @property
    def ledger(self) -> Ledger:
        return Ledger("one user", "shuffle", self.entries)

    @property
    def _scales(self) -> dict[str, float]:
        """Arguments of the formulas; `sigma` is the sub-Gaussian proxy of a coordinate of the summed gradient."""
        return {"T": self.rounds, "S": self.S, "L": self.L, "n": self.users, "d": self.gradients.size, "sigma": self.gradients.proxy}

    @property
    def eta(self) -> float:
        """Step of the summed gradient; it reads public numbers only."""
        return float(PGD_STEP(**self._scales))

    @property
    def mean_excess(self) -> float:
        """Bound on the expected excess of the (summed, penalised) loss."""
        return float(PGD_MEAN_EXCESS(eta=self.eta, **self._scales))

    def excess(self, zeta: float) -> float:
        """Bound on that excess which holds with probability 1 - `zeta`: what a confidence width may use (the expectation may not)."""
        return float(PGD_EXCESS(eta=self.eta, zeta=validate.probability("zeta", zeta), **self._scales))

    @property
    def bits_per_user(self) -> int:
        return self.rounds * self.gradients.bits_per_user

    def run(self, gradient: Callable[[Array], Array], R: int, noise: np.random.Generator) -> Array:
        """The average iterate (R, d). `gradient` maps theta (R, d) to every user's gradient (R, n, d); longer ones are clipped to L."""
        theta = np.zeros((validate.positive_int("R", R), self.gradients.size))
        total = np.zeros_like(theta)
        for _ in range(self.rounds):
            total += theta
            g = self.gradients.sum(into_ball(gradient(theta), self.L), noise)
            theta = into_ball((theta - self.eta * g) / (1 + self.eta * self.ridge), self.S)
        return total / self.rounds


def published_rounds(users: int, d: int, epsilon: float, delta: float, most: int = 1000) -> int:
    """The printed number of rounds epsilon^2 n^2 / (d log^3(n d / delta)), at least 1 and at most `most`."""
    validate.positive_int("users", users), validate.positive_int("d", d), validate.positive_int("most_rounds", most)
    validate.positive("epsilon", epsilon), validate.probability("delta", delta)
    rounds = float(PGD_ROUNDS(n=users, d=d, epsilon=epsilon, delta=delta))
    return int(min(max(1, math.ceil(rounds)), most))
