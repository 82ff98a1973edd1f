"""Binomial noise is nearly Gaussian, and provably so: one (mu, tau) that covers every integer shift at once and composes adaptively.

For one coordinate and a shift of k, the trade-off curve of Bin(N, p) against Bin(N, p) + k is piecewise linear with breakpoints
(1 - F(t), F(t - k)), and (1 - tau) G_mu(alpha / (1 - tau)) is convex, so the curve lies above it if its breakpoints do. That gives
the least mu_k. With c = max_k mu_k sigma / k over all shifts k that can occur, D coordinates moved by integers of L2 norm at most k_max
are mu-GDP up to mass tau_D with mu = c k_max / sigma and 1 - tau_D = (1 - tau)^D: tensor products add mu in quadrature and multiply
the slack, and sum_j (c k_j / sigma)^2 <= (c k_max / sigma)^2. Signs are covered because Gaussian trade-off curves are symmetric.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privbandit import validate
from privbandit.accounting import gaussian_mu
from privbandit.ledger import door
from privbandit.mechanisms.shuffle.hockey_stick import tails

Array = NDArray[np.float64]
MARGIN = 1e-9
"""Relative margin on a certified mu for the rounding of the special functions."""


@lru_cache(maxsize=512)
def inflation(N: int, shifts: int, tau: float, p: float = 0.5) -> float:
    """c >= 1 up to rounding: how much more than Gaussian noise of the same variance the worst shift of 1..shifts costs (or inf)."""
    validate.positive_int("N", N), validate.positive_int("shifts", shifts), validate.probability("tau", tau), validate.probability("p", p)
    sigma = math.sqrt(N * p * (1 - p))
    reach = (8 - 1.5 * ndtri(tau)) * sigma + 40  # past the last outcome with tail above tau; were it not, `low` = 0 would say inf
    t = np.arange(max(0, math.floor(N * p - reach)), min(N, math.ceil(N * p + reach)) + 1)
    cdf, sf = tails(t, N, p)
    if not ((cdf > tau) & (sf > tau)).any():
        return math.inf
    low, high = int(np.argmax(cdf > tau)), int(np.flatnonzero(sf > tau)[-1])
    rejected, kept = _quantile(sf, cdf, tau), _quantile(cdf, sf, tau)
    if low < shifts or high + shifts >= np.count_nonzero(sf):
        return math.inf  # a shift by `shifts` reaches outcomes that the other law gives no mass
    worst = 0.0
    for k in range(1, shifts + 1):
        worst = max(worst, float(np.max(rejected[low : high + k + 1] + kept[low - k : high + 1])) / k)
    return worst * sigma * (1 + MARGIN)


def _quantile(value: Array, complement: Array, tau: float) -> Array:
    """-Phi^{-1}(value / (1 - tau)), from the complement where value is near 1, so that no digits cancel."""
    with np.errstate(invalid="ignore"):
        near_one = ndtri(np.clip((complement - tau) / (1 - tau), 0.0, 1.0))
        return np.where(value < 0.5, -ndtri(value / (1 - tau)), near_one)


@dataclass(frozen=True)
class BinomialNoise:
    """The event of a shuffled sum: independent Bin(trials, p) noise on `size` counts that neighbours move by at most `shift` in L2.

    Guarantee: mu-GDP up to mass tau (both properties), proved for every shift; the counts are integers, so the arithmetic is exact.
    `slack` is the mass a coordinate may leave uncovered.
    """

    trials: int
    shift: float
    size: int
    slack: float
    p: float = 0.5
    epsilon: float = field(default=0.0, init=False)
    delta: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        validate.positive_int("trials", self.trials, at_least=0)
        validate.positive("shift", self.shift)
        validate.positive_int("size", self.size)
        validate.probability("slack", self.slack)
        validate.probability("p", self.p)

    @property
    def sigma(self) -> float:
        return math.sqrt(self.trials * self.p * (1 - self.p))

    @property
    def mu(self) -> float:
        if self.trials == 0:
            return math.inf
        return inflation(self.trials, max(1, math.floor(self.shift)), self.slack, self.p) * self.shift / self.sigma

    @property
    def tau(self) -> float:
        return -math.expm1(self.size * math.log1p(-self.slack))

    def release(self, value: NDArray[np.int64], noise: np.random.Generator) -> NDArray[np.int64]:
        """The door: `value` (counts) plus the noise bits that arrive with it."""
        return door(self, value, noise, (lambda: noise.binomial(self.trials, self.p, np.shape(value))) if self.trials else None)


def target(epsilon: float, delta: float, coordinates: int) -> tuple[float, float]:
    """The total mu and the slack of one coordinate that (epsilon, delta)-DP leaves for `coordinates` counts in all rounds together.

    A fiftieth of delta goes to the uncovered mass.
    """
    slack = validate.probability("delta", delta) / (50 * validate.positive_int("coordinates", coordinates))
    covered = (1 - slack) ** coordinates
    return gaussian_mu(epsilon, (delta - (1 - covered)) / covered), slack


def least_bits(users: int, shift: float, size: int, mu: float, slack: float, p: float = 0.5) -> int:
    """The least number of noise bits of each user for which the sum is certified mu-GDP."""
    validate.positive_int("users", users), validate.positive("mu", mu), BinomialNoise(users, shift, size, slack, p)
    if not shift / mu < 1e15:
        raise ValueError(f"mu must be at least {shift / 1e15:.3g} for a shift of {shift:.6g}, got {mu!r}")
    bits = max(1, math.ceil((shift / mu) ** 2 / (p * (1 - p)) / users))
    while (cost := BinomialNoise(users * bits, shift, size, slack, p).mu) > mu:
        growth = min(2.0, (cost / mu) ** 2) if math.isfinite(cost) else 2.0
        bits = max(bits + 1, math.floor(bits * growth))
    return bits


def most_shift(trials: int, size: int, mu: float, slack: float, p: float = 0.5) -> float:
    """The largest shift, to a relative 1e-6, that Bin(trials, p) noise certifies mu-GDP."""
    validate.positive_int("trials", trials), validate.positive("mu", mu)
    sigma = BinomialNoise(trials, 1.0, size, slack, p).sigma
    low, high = 0.0, mu * sigma * 1.01 + 1
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        enough = BinomialNoise(trials, middle, size, slack, p).mu <= mu
        low, high = (middle, high) if enough else (low, middle)
    return low
