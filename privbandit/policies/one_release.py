"""One release: every user touches one leaf of one factorised prefix sum; nothing is re-optimised, nothing leaks by timing.

User t's leaf is (w x x^T, y x) with a weight w and a response y chosen so that y is about w <x, theta*>: a weighted least-squares
statistic of the generalised linear model, linearised in flight at the estimate already released. What is published after each
round is the noisy sum of all leaves, and everything the policy does next is computed from that and from the user who is served.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.accounting import gaussian_mu
from privbandit.formulas.glm import JOINT_LEAF, TAU
from privbandit.ledger import Ledger
from privbandit.linalg import floor_eigenvalues, into_ball, outer, quadratic, smat, svec_size
from privbandit.links import Link, Logistic, Probit
from privbandit.mechanisms import PrefixSums, SquareRoot
from privbandit.policies.base import Array, Policy, argmax

UNIT = "one round's user (context set and reward function)"


def joint_ledger(epsilon: float, entries: tuple) -> Ledger:
    """The ledger of a jointly private policy; without noise it promises nothing."""
    return Ledger.nonprivate() if math.isinf(epsilon) else Ledger(UNIT, "joint", entries)


class Linearisation(ABC):
    """How a reward becomes a leaf. `W` bounds the weight, `Y` the response, whatever the data: they are the sensitivity."""

    @abstractmethod
    def bounds(self, link: Link, S: float) -> tuple[float, float]:
        """(W, Y) with 0 <= w <= W and |y| <= Y for every z in [-S, S] and every reward in the link's range."""

    @abstractmethod
    def leaf(self, link: Link, S: float, z: Array, omega2: Array, reward: Array) -> tuple[Array, Array]:
        """Weight and response (R,) at the released prediction z (R,), |z| <= S, of variance omega2 (R,)."""


@dataclass(frozen=True)
class QuadraticSurrogate(Linearisation):
    """mu replaced by its least-squares line on [-S, S]: w is constant, y = r - mu(0).

    The estimate is biased unless the contexts are elliptically distributed: regret can grow linearly (the `mix` contexts).
    Source: the degree-2 case of polynomial approximate sufficient statistics (Huggins, Adams and Broderick 2017).
    """

    def bounds(self, link: Link, S: float) -> tuple[float, float]:
        low, high = link.reward_range(S)
        centre = float(link.mu(0.0))
        return surrogate_slope(link, S), max(high - centre, centre - low)

    def leaf(self, link: Link, S: float, z: Array, omega2: Array, reward: Array) -> tuple[Array, Array]:
        return np.full_like(z, surrogate_slope(link, S)), reward - link.mu(0.0)


@lru_cache(maxsize=64)
def surrogate_slope(link: Link, S: float) -> float:
    """Least-squares slope of mu on [-S, S]."""
    node, weight = np.polynomial.legendre.leggauss(64)
    return float(1.5 / S * weight @ (node * link.mu(S * node)))


@dataclass(frozen=True)
class Tangent(Linearisation):
    """The tangent at the released prediction: w = mu'(z), y = r - mu(z) + w z, with the exact range of y and no clip."""

    def bounds(self, link: Link, S: float) -> tuple[float, float]:
        return link.L_mu(S), link.leaf_range(S)

    def leaf(self, link: Link, S: float, z: Array, omega2: Array, reward: Array) -> tuple[Array, Array]:
        w = link.dmu(z)
        return w, reward - link.mu(z) + w * z


@dataclass(frozen=True)
class Statistical(Linearisation):
    """The best line for a prediction known up to a Gaussian error of variance omega2: w = E mu'(z + omega g), intercept E mu(z + omega g).

    Closed for probit; MacKay's approximation for logistic; eight-point quadrature elsewhere (on [-S, S]). The response is clipped to
    half the reward's range (1/2 for binary rewards): the clip is part of the leaf, hence of its sensitivity.
    """

    def bounds(self, link: Link, S: float) -> tuple[float, float]:
        low, high = link.reward_range(S)
        return link.L_mu(S), (high - low) / 2

    def line(self, link: Link, S: float, z: Array, omega2: Array) -> tuple[Array, Array]:
        """(slope, value at z)."""
        if isinstance(link, Probit | Logistic):
            shrink = np.sqrt(1 + omega2 * (1.0 if isinstance(link, Probit) else math.pi / 8))
            return link.dmu(z / shrink) / shrink, link.mu(z / shrink)
        node, weight = np.polynomial.hermite_e.hermegauss(8)
        points = np.clip(z[..., None] + np.sqrt(omega2)[..., None] * node, -S, S)
        weight = weight / weight.sum()
        return link.dmu(points) @ weight, link.mu(points) @ weight

    def leaf(self, link: Link, S: float, z: Array, omega2: Array, reward: Array) -> tuple[Array, Array]:
        w, mean = self.line(link, S, z, omega2)
        low, high = link.reward_range(S)
        return w, np.clip(reward - mean + w * z, (low - high) / 2, (high - low) / 2)


class Released(NamedTuple):
    """What the public knows after a round, up to post-processing."""

    theta: Array  # (R, d) estimate, |theta| <= S
    Hinv: Array  # (R, d, d) inverse of the regularised matrix
    std: float  # noise standard deviation of an entry of the vector


class State(NamedTuple):
    sums: object  # of the mechanism
    step: int
    released: Released


@dataclass(frozen=True)
class OneRelease(Policy):
    """A generalised linear bandit from one private prefix sum (this book; default linearisation: `Statistical`).

    Parameters: `link`; `d` features with |x| <= 1 (longer ones are scaled down); `S` >= |theta*| (public); `horizon` rounds;
    (`epsilon`, `delta`), epsilon = inf for no noise. Tuning, none of which touches privacy: `bonus` on the width
    |x|_{H^{-1}}; `ridge` in units of the matrix noise sigma sqrt(2 d), never below `ridge_min`; `tau`, the square of the vector's
    scale against the matrix's (2 - sqrt(2) balances the two branches of the leaf's sensitivity; 1.17 favours the vector).

    Guarantee: (epsilon, delta)-joint DP of one round's user (context set and reward function), replacement neighbours: the
    transcript of released sums is mu-GDP (one leaf of L2 sensitivity sqrt(D(1, tau)), adaptively chosen), and the actions of all
    other users are post-processing of it and of their own unchanged records. Exact real arithmetic is assumed. Regret: no
    theorem (see `TwoBlock`); with `QuadraticSurrogate` it can be linear.
    """

    link: Link
    d: int
    S: float
    horizon: int
    epsilon: float
    delta: float
    linearisation: Linearisation = field(default_factory=Statistical)
    bonus: float = 0.1
    ridge: float = 1.5
    ridge_min: float = 1.0
    tau: float = TAU
    mechanism: type[PrefixSums] = SquareRoot
    trust = "joint"

    def __post_init__(self) -> None:
        validate.instance("link", self.link, Link)
        validate.positive_int("d", self.d), validate.positive_int("horizon", self.horizon)
        validate.positive("S", self.S), validate.positive("tau", self.tau), validate.positive("ridge_min", self.ridge_min)
        validate.nonnegative("bonus", self.bonus), validate.nonnegative("ridge", self.ridge)
        if not np.isfinite(self.bounds).all():
            raise ValueError(f"link must have bounded rewards on |z| <= S, got {self.link!r}")
        self.sums  # a budget out of its domain is refused here, not in the first round

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"OneRelease ({type(self.linearisation).__name__})"

    @cached_property
    def bounds(self) -> tuple[float, float]:
        return self.linearisation.bounds(self.link, self.S)

    @cached_property
    def scale(self) -> Array:
        """One number for each entry of a leaf: the leaf is released in the units of Lemma 1 (w <= 1, |y| <= 1, y weighted by sqrt(tau))."""
        W, Y = self.bounds
        return np.repeat([W, Y / math.sqrt(self.tau)], [svec_size(self.d), self.d])

    @cached_property
    def sums(self) -> PrefixSums:
        Delta = math.sqrt(JOINT_LEAF(a=1.0, b=self.tau))
        return self.mechanism.calibrated(self.horizon, gaussian_mu(self.epsilon, self.delta), Delta)

    @property
    def ledger(self) -> Ledger:
        return joint_ledger(self.epsilon, self.sums.entries)

    @cached_property
    def std(self) -> Array:
        return self.sums.std(np.arange(1, self.horizon + 1))

    def init(self, R: int, noise: np.random.Generator) -> State:
        size = svec_size(self.d) + self.d
        return State(self.sums.init(R, size, noise), 0, self.estimate(np.zeros((R, size)), 0.0))

    def estimate(self, prefix: Array, std: float) -> Released:
        """Regularised weighted least squares on released sums; `std` is their theoretical noise, not what was drawn."""
        m = svec_size(self.d)
        prefix = prefix * self.scale
        ridge = max(self.ridge_min, self.ridge * std * self.scale[0] * math.sqrt(2 * self.d))
        H = floor_eigenvalues(smat(prefix[:, :m], self.d) + ridge * np.eye(self.d), ridge / 3)
        Hinv = np.linalg.inv(H)
        theta = np.einsum("rde,re->rd", Hinv, prefix[:, m:])
        return Released(into_ball(theta, self.S), Hinv, std * self.scale[-1])

    def act(self, state: State, contexts: Array, rng: np.random.Generator) -> tuple[State, NDArray[np.intp]]:
        theta, Hinv, _ = state.released
        width = np.sqrt(quadratic(contexts, Hinv)) if self.bonus else 0.0
        return state, argmax(np.einsum("rkd,rd->rk", contexts, theta) + self.bonus * width)

    def update(self, state: State, x: Array, reward: Array, noise: np.random.Generator) -> State:
        sums, prefix = self.sums.release(state.sums, self.leaf(state.released, x, reward) / self.scale, noise)
        return State(sums, state.step + 1, self.estimate(prefix, float(self.std[state.step])))

    def leaf(self, released: Released, x: Array, reward: Array) -> Array:
        """(R, d(d+1)/2 + d): user's contribution (w x x^T, y x) at what had been released before the user came."""
        x, reward = into_ball(x, 1.0), np.clip(reward, *self.link.reward_range(self.S))
        z = np.clip(np.einsum("rd,rd->r", x, released.theta), -self.S, self.S)
        w, y = self.linearisation.leaf(self.link, self.S, z, self.variance(released, x), reward)
        return np.concatenate([w[:, None] * outer(x), y[:, None] * x], axis=1)

    def variance(self, released: Released, x: Array) -> Array:
        """Of the prediction <x, theta>: sampling and privacy noise, at most that of theta* uniform on the sphere of radius S."""
        v = np.einsum("rde,re->rd", released.Hinv, x)
        posterior = np.einsum("rd,rd->r", x, v) + released.std**2 * np.einsum("rd,rd->r", v, v)
        return np.minimum(posterior, self.S**2 / self.d * np.einsum("rd,rd->r", x, x))
