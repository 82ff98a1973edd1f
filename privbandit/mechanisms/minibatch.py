"""Noisy gradient descent on random batches, with an account of the sampling.

Batches of a fixed size are drawn without replacement, anew in every step and secretly; the number n of users is public. That is the
setting of replacement neighbours. (Poisson sampling belongs to add/remove neighbours, and shuffled epochs to neither account.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln, logsumexp

from privbandit import validate
from privbandit.ledger import ApproximateDP, Entry
from privbandit.links import Link
from privbandit.mechanisms.optimisers import NoisyGradientDescent, Projection, finite_rows

Array = np.ndarray
ORDERS = np.unique(np.concatenate([np.arange(2, 65), np.geomspace(64, 1024, 25).astype(int)]))


def sampled_gaussian_rdp(q: float, multiplier: float, alpha: int) -> float:
    """Renyi divergence bound at integer `alpha` >= 2 of one Gaussian release on a batch, sampling ratio q, multiplier = sigma / Delta.

    Wang, Balle and Kasiviswanathan (2019, Theorem 9), replacement neighbours; with rho_j = j / (2 multiplier^2) it is
    log(1 + q^2 C(alpha,2) min(4 (e^{rho_2} - 1), 2 e^{rho_2}) + sum_{j>=3} 2 q^j C(alpha,j) e^{(j-1) rho_j}) / (alpha - 1), and never
    worse than no sampling.
    """
    validate.positive("multiplier", multiplier), validate.positive_int("alpha", alpha, at_least=2)
    if not 0 < q <= 1:
        raise ValueError(f"q must lie in (0, 1], got {q!r}")
    unsampled = alpha / (2 * multiplier**2)
    if q == 1:
        return unsampled
    j = np.arange(2, alpha + 1)
    log_binomial = gammaln(alpha + 1) - gammaln(j + 1) - gammaln(alpha - j + 1)
    terms = math.log(2) + j * math.log(q) + log_binomial + (j - 1) * j / (2 * multiplier**2)
    rho2 = 1 / multiplier**2
    if rho2 < math.log(2):  # 4 (e^rho - 1) < 2 e^rho
        terms[0] += math.log(2) + math.log(-math.expm1(-rho2))
    return min(unsampled, float(logsumexp(np.append(terms, 0.0))) / (alpha - 1))


def rdp_epsilon(orders: Array, rdp: Array, delta: float) -> float:
    """The smallest epsilon of the conversion of Canonne, Kamath and Steinke (2020, Proposition 12) over the given orders."""
    validate.probability("delta", delta)
    candidates = rdp + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return float(max(0.0, candidates.min()))


@dataclass(frozen=True)
class MiniBatchDescent:
    """`steps` steps on batches of `batch` of `n` users: clipped gradients, noise `sigma` on the batch's sum, n / batch times the sum.

    Guarantee: (epsilon, delta)-DP of one user's row under replacement, `epsilon` below, for any released iterates; the batches must stay
    secret. Step sizes, projections and n must not depend on the rows.
    """

    link: Link
    n: int
    batch: int
    steps: int
    sigma: float
    delta: float
    L: float = 1.0

    def __post_init__(self) -> None:
        validate.positive_int("n", self.n), validate.positive_int("batch", self.batch), validate.probability("delta", self.delta)
        validate.positive("sigma", self.sigma)
        if self.batch > self.n:
            raise ValueError(f"batch must be at most n = {self.n}, got {self.batch}")
        self.inner

    @cached_property
    def inner(self) -> NoisyGradientDescent:
        return NoisyGradientDescent(self.link, self.steps, self.sigma, self.L)

    @cached_property
    def epsilon(self) -> float:
        multiplier = self.sigma / self.inner.event.Delta
        rdp = np.array([sampled_gaussian_rdp(self.batch / self.n, multiplier, int(a)) for a in ORDERS])
        return rdp_epsilon(ORDERS, self.steps * rdp, self.delta)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (Entry("noisy gradients on batches", ApproximateDP(self.epsilon, self.delta)),)

    def descend(
        self,
        x: Array,
        r: Array,
        start: Array,
        rates: Array,
        noise: np.random.Generator,
        rng: np.random.Generator,
        *,
        ridge: float = 0.0,
        project: Projection | None = None,
    ) -> Array:
        """The mean iterate for x (R, n, d), r (R, n), start (R, d), rates (steps,); `rng` draws the batches."""
        x, r = finite_rows(x, r)
        if x.shape[1] != self.n:
            raise ValueError(f"x must have n = {self.n} rows, got {x.shape[1]}")
        theta, total, every = start, np.zeros_like(start), np.arange(len(x))[:, None]
        for k in range(self.steps):
            rows = np.argpartition(rng.random(r.shape), self.batch - 1, axis=1)[:, : self.batch]
            g = self.inner.gradient(theta, x[every, rows], r[every, rows], noise) * (self.n / self.batch)
            theta = theta - rates[k] * (g + ridge * theta)
            theta = theta if project is None else project(theta)
            total = total + theta
        return total / self.steps
