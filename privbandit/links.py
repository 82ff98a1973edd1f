"""Link functions of generalised linear models: the mean `mu`, its derivatives, the loss, the constants of the theory, and a sampler.

A reward r at z = <x, theta> has mean mu(z). The loss of one observation is b(z) - r z with b' = mu: the negative log-likelihood if
the link is canonical, a quasi-likelihood loss if it is not (probit). Both are convex with gradient (mu(z) - r) x, and both need only
Var(r) <= dispersion * mu'(z) for their concentration theory. Every function broadcasts and keeps its relative precision in the tails.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import erfcx, expit, gammaln, log_ndtr, ndtr, pdtr, pdtrik

from privbandit.validate import nonnegative, positive, positive_int

Array = NDArray[np.float64]
_SQRT_2PI = np.sqrt(2 * np.pi)


class Link(ABC):
    """A mean function and what the theory asks of it on |z| <= S. `S` is the bound on |theta*| with |x| <= 1."""

    name: ClassVar[str]
    canonical: ClassVar[bool] = True
    dispersion: float = 1.0
    """The smallest number with Var(r) <= dispersion * mu'(z) for all z."""

    @abstractmethod
    def b(self, z: ArrayLike) -> Array:
        """The integral of `mu`: the log-partition function of a canonical link."""

    @abstractmethod
    def mu(self, z: ArrayLike) -> Array:
        """The mean reward."""

    @abstractmethod
    def dmu(self, z: ArrayLike) -> Array:
        """mu', the curvature of the loss."""

    @abstractmethod
    def ddmu(self, z: ArrayLike) -> Array:
        """mu''."""

    @abstractmethod
    def sample(self, z: ArrayLike, u: ArrayLike) -> Array:
        """The reward at z by inversion of its distribution function at the uniform u in [0, 1)."""

    @abstractmethod
    def reward_range(self, S: float) -> tuple[float, float]:
        """Smallest and largest reward for |z| <= S (infinity if unbounded)."""

    def variance(self, z: ArrayLike) -> Array:
        """Var(r) at z; mu'(z) for a canonical link with dispersion 1."""
        return self.dmu(z)

    def loss(self, z: ArrayLike, r: ArrayLike) -> Array:
        """b(z) - r z, with the constants of the link and not of the reward."""
        z = np.asarray(z, dtype=float)
        return self.b(z) - np.asarray(r, dtype=float) * z

    def L_mu(self, S: float) -> float:
        """sup of mu' on |z| <= S."""
        return _maximum(self.dmu, S)

    def c_mu(self, S: float) -> float:
        """inf of mu' on |z| <= S."""
        return -_maximum(lambda z: -self.dmu(z), S)

    def self_concordance(self, S: float) -> float:
        """The smallest M with |mu''| <= M mu' on |z| <= S."""

        def ratio(z: Array) -> Array:
            slope = self.dmu(z)
            return np.where(slope > 0, np.abs(self.ddmu(z)) / np.where(slope > 0, slope, 1.0), 0.0)  # 0: mu' underflows, far out

        return _maximum(ratio, S)

    def leaf_range(self, S: float, slope: float | None = None) -> float:
        """Y = sup |r - mu(z) + s(z) z| over |z| <= S and all rewards, with s = mu' or the constant `slope`.

        The range of the linearised reward of a one-pass policy: with slope = None the constant Y, with slope = c_mu(S) the constant
        Y_o of the theorem. Infinite for unbounded rewards.
        """
        low, high = self.reward_range(S)
        if not np.isfinite(low + high):
            return np.inf

        def offset(z: Array) -> Array:
            return self.mu(z) - (self.dmu(z) if slope is None else slope) * z

        return max(_maximum(offset, S) - low, high + _maximum(lambda z: -offset(z), S))


def _maximum(f, S: float) -> float:
    """Maximum of a smooth f on [-S, S]: grid, end points, and a refinement around the best grid point.

    Past |z| = 40 every link is as good as flat or straight, so a larger interval has a second, coarse grid there.
    """
    S = positive("S", S)
    z = np.linspace(-S, S, 2001) if S <= 40 else np.unique(np.concatenate([np.linspace(-S, S, 2001), np.linspace(-40.0, 40.0, 2001)]))
    values = f(z)
    best = int(np.argmax(values))
    if best in (0, z.size - 1):
        return float(values[best])
    inner = minimize_scalar(lambda t: -f(np.asarray(t)), bounds=(z[best - 1], z[best + 1]), method="bounded", options={"xatol": 1e-10})
    return float(max(values[best], -inner.fun))


@dataclass(frozen=True)
class Logistic(Link):
    """Bernoulli rewards with mean 1 / (1 + exp(-z))."""

    name: ClassVar[str] = "logistic"

    def b(self, z: ArrayLike) -> Array:
        return np.logaddexp(0.0, z)

    def mu(self, z: ArrayLike) -> Array:
        return expit(np.asarray(z, dtype=float))

    def dmu(self, z: ArrayLike) -> Array:
        z = np.asarray(z, dtype=float)
        return expit(z) * expit(-z)

    def ddmu(self, z: ArrayLike) -> Array:
        z = np.asarray(z, dtype=float)
        return -self.dmu(z) * np.tanh(z / 2)

    def sample(self, z: ArrayLike, u: ArrayLike) -> Array:
        return (np.asarray(u) < self.mu(z)).astype(float)

    def reward_range(self, S: float) -> tuple[float, float]:
        positive("S", S, allow_inf=True)
        return 0.0, 1.0

    def L_mu(self, S: float) -> float:
        positive("S", S)
        return 0.25

    def c_mu(self, S: float) -> float:
        return float(self.dmu(positive("S", S)))

    def self_concordance(self, S: float) -> float:
        return float(np.tanh(positive("S", S, allow_inf=True) / 2))


@dataclass(frozen=True)
class Probit(Link):
    """Bernoulli rewards with mean Phi(z). Not canonical: Var(r) = Phi(z) Phi(-z) is not phi(z), but it is <= sqrt(pi/8) phi(z) = 0.627 phi(z).

    `b` is the quasi-loss z Phi(z) + phi(z): convex, with gradient (Phi - r) x, minimised in mean by the true parameter. The true
    negative log-likelihood is `nll`; its gradient `nll_gradient` grows like |z|, so the two must not be mixed in one fit.
    """

    name: ClassVar[str] = "probit"
    canonical: ClassVar[bool] = False
    dispersion: ClassVar[float] = float(np.sqrt(np.pi / 8))

    def b(self, z: ArrayLike) -> Array:
        z = np.asarray(z, dtype=float)
        a = np.abs(z)
        tail = self.dmu(a) * np.maximum(1 - a * np.sqrt(np.pi / 2) * erfcx(a / np.sqrt(2)), 0)  # b(-a), by Mills' ratio
        return tail + np.maximum(z, 0)

    def mu(self, z: ArrayLike) -> Array:
        return ndtr(np.asarray(z, dtype=float))

    def dmu(self, z: ArrayLike) -> Array:
        z = np.asarray(z, dtype=float)
        return np.exp(-0.5 * z * z) / _SQRT_2PI

    def ddmu(self, z: ArrayLike) -> Array:
        z = np.asarray(z, dtype=float)
        return -z * self.dmu(z)

    def variance(self, z: ArrayLike) -> Array:
        z = np.asarray(z, dtype=float)
        return ndtr(z) * ndtr(-z)

    def nll(self, z: ArrayLike, r: ArrayLike) -> Array:
        """-log P(r | z) for r in {0, 1}."""
        return -log_ndtr((2 * np.asarray(r) - 1) * np.asarray(z, dtype=float))

    def nll_gradient(self, z: ArrayLike, r: ArrayLike) -> Array:
        """Derivative of `nll` in z: minus or plus the inverse Mills ratio."""
        sign = 2 * np.asarray(r) - 1
        z = np.asarray(z, dtype=float)
        return -sign * np.sqrt(2 / np.pi) / erfcx(-sign * z / np.sqrt(2))

    def sample(self, z: ArrayLike, u: ArrayLike) -> Array:
        return (np.asarray(u) < self.mu(z)).astype(float)

    def reward_range(self, S: float) -> tuple[float, float]:
        positive("S", S, allow_inf=True)
        return 0.0, 1.0

    def L_mu(self, S: float) -> float:
        positive("S", S)
        return float(1 / _SQRT_2PI)

    def c_mu(self, S: float) -> float:
        return float(self.dmu(positive("S", S)))

    def self_concordance(self, S: float) -> float:
        return positive("S", S, allow_inf=True)


@dataclass(frozen=True)
class Linear(Link):
    """Rewards z + e with e uniform on [-noise, noise]: bounded, so the sensitivity of a reward is finite."""

    noise: float = 1.0
    name: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        nonnegative("noise", self.noise)

    @property
    def dispersion(self) -> float:  # type: ignore[override]
        return self.noise**2 / 3

    def b(self, z: ArrayLike) -> Array:
        return 0.5 * np.square(np.asarray(z, dtype=float))

    def mu(self, z: ArrayLike) -> Array:
        return np.asarray(z, dtype=float)

    def dmu(self, z: ArrayLike) -> Array:
        return np.ones_like(np.asarray(z, dtype=float))

    def ddmu(self, z: ArrayLike) -> Array:
        return np.zeros_like(np.asarray(z, dtype=float))

    def variance(self, z: ArrayLike) -> Array:
        return np.full_like(np.asarray(z, dtype=float), self.dispersion)

    def sample(self, z: ArrayLike, u: ArrayLike) -> Array:
        return np.asarray(z, dtype=float) + self.noise * (2 * np.asarray(u) - 1)

    def reward_range(self, S: float) -> tuple[float, float]:
        bound = positive("S", S) + self.noise
        return -bound, bound


@dataclass(frozen=True)
class Poisson(Link):
    """Counts with mean exp(z). Rewards are unbounded, so no finite-sensitivity theory applies: truncate for privacy."""

    name: ClassVar[str] = "poisson"

    def b(self, z: ArrayLike) -> Array:
        return np.exp(np.asarray(z, dtype=float))

    mu = dmu = ddmu = b

    def sample(self, z: ArrayLike, u: ArrayLike) -> Array:
        mean, u = np.broadcast_arrays(self.mu(z), np.asarray(u, dtype=float))
        above = np.ceil(pdtrik(u, mean))
        below = np.maximum(above - 1, 0)  # pdtrik inverts in real arithmetic: an integer answer may come out one too high
        return np.where(pdtr(below, mean) > u, below, above)

    def reward_range(self, S: float) -> tuple[float, float]:
        positive("S", S, allow_inf=True)
        return 0.0, np.inf

    def L_mu(self, S: float) -> float:
        return float(np.exp(positive("S", S)))

    def c_mu(self, S: float) -> float:
        return float(np.exp(-positive("S", S)))

    def self_concordance(self, S: float) -> float:
        positive("S", S, allow_inf=True)
        return 1.0


@dataclass(frozen=True)
class TruncatedPoisson(Link):
    """Counts k = 0..N with probability proportional to exp(k z) / k!: the Poisson family conditioned on at most N, canonical and bounded."""

    N: int = 5
    name: ClassVar[str] = "truncated-poisson"

    def __post_init__(self) -> None:
        positive_int("N", self.N)

    def _log_weights(self, z: ArrayLike) -> Array:
        k = np.arange(self.N + 1)
        return np.asarray(z, dtype=float)[..., None] * k - gammaln(k + 1)

    def probabilities(self, z: ArrayLike) -> Array:
        """P(r = k | z), k = 0..N on the last axis."""
        weights = self._log_weights(z)
        p = np.exp(weights - weights.max(axis=-1, keepdims=True))
        return p / p.sum(axis=-1, keepdims=True)

    def _central_moment(self, z: ArrayLike, order: int) -> Array:
        p = self.probabilities(z)
        k = np.arange(self.N + 1)
        # (N - k) counts from the other end: whichever mean is small keeps the digits of the moment in that tail
        mean = p @ k
        from_top = p @ (self.N - k)
        deviation = np.where(mean[..., None] <= from_top[..., None], k - mean[..., None], from_top[..., None] - (self.N - k))
        return np.sum(p * deviation**order, axis=-1)

    def b(self, z: ArrayLike) -> Array:
        return np.logaddexp.reduce(self._log_weights(z), axis=-1)

    def mu(self, z: ArrayLike) -> Array:
        return self.probabilities(z) @ np.arange(self.N + 1.0)

    def dmu(self, z: ArrayLike) -> Array:
        return self._central_moment(z, 2)

    def ddmu(self, z: ArrayLike) -> Array:
        return self._central_moment(z, 3)

    def sample(self, z: ArrayLike, u: ArrayLike) -> Array:
        below = np.cumsum(self.probabilities(z), axis=-1)[..., :-1]
        return np.sum(below <= np.asarray(u, dtype=float)[..., None], axis=-1).astype(float)

    def reward_range(self, S: float) -> tuple[float, float]:
        positive("S", S, allow_inf=True)
        return 0.0, float(self.N)
