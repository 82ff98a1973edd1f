"""The optimisers of Algorithm 2 of Sarmasarkar (arXiv 2602.00417): as printed, and those of the public code behind its tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from privbandit.estimators.ball import minimise_quadratic
from privbandit.links import Link
from privbandit.mechanisms.optimisers import Array, NoisyGradientDescent


class Region(NamedTuple):
    """Where an estimate is sought: |theta - centre|_V <= radius, in each replication."""

    centre: Array  # (R, d)
    V: Array  # (R, d, d)
    radius: float

    def take(self, rows: NDArray[np.intp]) -> Region:
        return Region(self.centre[rows], self.V[rows], self.radius)

    def project(self, theta: Array) -> Array:
        """The nearest point in Euclidean distance, by the quadratic over a ball that V^{1/2} (theta - centre) solves."""
        values, Q = np.linalg.eigh(self.V)
        away = np.einsum("rdk,rd->rk", Q, theta - self.centre)
        inside = minimise_quadratic(np.eye(values.shape[1]) / values[:, None], away / np.sqrt(values), self.radius)
        return self.centre + np.einsum("rdk,rk->rd", Q, inside / np.sqrt(values))


class Fit(Protocol):
    def fit(self, x: Array, r: Array, n: Array, start: Array, region: Region, noise: np.random.Generator) -> Array:
        """Estimate (R, d) from rows x (R, N, d), r (R, N), of which n (R,) are not padding."""


@dataclass(frozen=True)
class PrintedDescent:
    """Averaged projected noisy gradient descent with the printed budget of one call and the theory's step, which reads n (a leak)."""

    optimiser: NoisyGradientDescent
    lambda_: float

    @classmethod
    def of(cls, link: Link, rho: float, lambda_: float, steps: int) -> PrintedDescent:
        return cls(NoisyGradientDescent.calibrated(link, steps, math.sqrt(2 * rho)), lambda_)

    def fit(self, x: Array, r: Array, n: Array, start: Array, region: Region, noise: np.random.Generator) -> Array:
        steps, d = self.optimiser.steps, x.shape[-1]
        smallest = np.linalg.eigvalsh(region.V)[:, 0]
        rate = 2 * region.radius / np.sqrt(smallest * steps * (n**2 * self.optimiser.L**2 + d * self.optimiser.sigma**2))
        rates = np.broadcast_to(rate[:, None], (steps, len(rate), 1))
        return self.optimiser.descend(x, r, start, rates, noise, ridge=self.lambda_, project=region.project)


@dataclass(frozen=True)
class CodeDescent:
    """The public code's optimiser: full batch (it uses batches of at most 2048), clip 0.2, step 10 / sqrt(k), mean of the epochs after the tenth.

    Its noise is `multiplier` times the clip on a sum of gradients, as if replacement moved the sum by one clip; it moves it by two.
    The code also draws the number of epochs among five multiples whose scores tie up to rounding; here it is the nominal number.
    """

    link: Link
    epochs: int
    multiplier: float
    clip: float = 0.2

    @classmethod
    def of(cls, link: Link, epsilon: float, delta: float) -> CodeDescent:
        epochs = int(np.array([15, 25, 50, 75, 100])[np.searchsorted([0.1, 0.3, 1.0, 2.0], epsilon)])
        return cls(link, epochs, math.sqrt(epochs / (2 * renyi_rho(epsilon, delta))))

    def fit(self, x: Array, r: Array, n: Array, start: Array, region: Region, noise: np.random.Generator) -> Array:
        n = np.maximum(n, 1)[:, None]
        optimiser = NoisyGradientDescent(self.link, self.epochs, self.multiplier * self.clip, self.clip)
        rates = 10 / np.sqrt(np.arange(1, self.epochs + 1))[:, None, None] / n
        return optimiser.descend(x, r, start, rates, noise, ridge=2e-5 * n, average_from=10)


@lru_cache(maxsize=256)
def renyi_rho(epsilon: float, delta: float) -> float:
    """The rho whose Renyi curve alpha rho converts to (epsilon, delta) (Canonne, Kamath and Steinke 2020, Proposition 12)."""

    def converted(log_rho: float) -> float:
        rho = math.exp(log_rho)
        curve = lambda a: (1 + math.exp(a)) * rho + math.log1p(-1 / (1 + math.exp(a))) - math.log(delta * (1 + math.exp(a))) / math.exp(a)  # noqa: E731
        return minimize_scalar(curve, bounds=(-8, 12), method="bounded", options={"xatol": 1e-8}).fun - epsilon

    return math.exp(brentq(converted, -60.0, math.log(epsilon + 1), xtol=1e-12))


def per_call(epsilon: float, delta: float, calls: int) -> tuple[float, float]:
    """The public code's share of one of `calls` refreshes: equal parts up to ten, advanced composition above."""
    if calls <= 10:
        return epsilon / calls, delta / calls
    slope = math.sqrt(2 * calls * math.log(2 / delta))
    return brentq(lambda e: slope * e + calls * e * math.expm1(e) - epsilon, 0.0, epsilon), delta / (2 * calls)
