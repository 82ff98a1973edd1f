"""A generalised linear bandit under local differential privacy (Han et al. 2021): one noisy gradient a user, greedy play."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.accounting import gaussian_mu
from privbandit.ledger import Entry, Gaussian, Ledger
from privbandit.linalg import into_ball
from privbandit.links import Link
from privbandit.policies.base import Array, Policy, argmax


def gradient_bound(link: Link, S: float) -> float:
    """Largest length of a user's gradient (mu(z) - r) x: |mu(z) - r| over |z| <= S and the range of the rewards (may be infinite)."""
    low, high = validate.instance("link", link, Link).reward_range(validate.positive("S", S))
    return float(max(high - link.mu(-S), link.mu(S) - low))


class GradientState(NamedTuple):
    step: int
    theta: Array  # (R, d), |theta| <= S, broadcast to everybody


@dataclass(frozen=True, kw_only=True)
class LDPGLM(Policy):
    """Stochastic gradient descent on local reports, step `eta` / t, projected to |theta| <= S; the best arm under theta is played.

    A user is told theta, computes the gradient (mu(<x, theta>) - r) x of the own loss, clips it to length L (the reward's range) and
    sends it with Gaussian noise. `warm_up` rounds play a uniformly random arm first. Regret theory needs contexts whose greedily chosen
    arms cover all directions.

    *Guarantee.* (epsilon, delta)-local DP of each user's report, nobody trusted, any two records: gradients are at most 2 L apart, noise
    2 L / mu(epsilon, delta), exact. Differs from the authors' code, whose reports are pure epsilon-DP by a unit-ball sampler.
    """

    link: Link
    d: int
    S: float
    epsilon: float
    delta: float
    eta: float = 5.0
    warm_up: int = 0
    name = "LDP GLM"
    trust = "local"

    def __post_init__(self) -> None:
        validate.positive_int("d", self.d), validate.positive_int("warm_up", self.warm_up, at_least=0)
        validate.positive("S", self.S), validate.positive("eta", self.eta)
        if not math.isfinite(self.L):
            raise ValueError(f"link must have bounded rewards on |z| <= S, got {self.link!r}")
        self.report  # refuses a budget out of its domain

    @cached_property
    def L(self) -> float:
        return gradient_bound(self.link, self.S)

    @cached_property
    def report(self) -> Gaussian:
        return Gaussian(2 * self.L, 2 * self.L / gaussian_mu(self.epsilon, self.delta))

    @property
    def ledger(self) -> Ledger:
        if math.isinf(self.epsilon):
            return Ledger.nonprivate()
        return Ledger("one user's report", "local", (Entry("noisy gradient", self.report),))

    def init(self, R: int, noise: np.random.Generator) -> GradientState:
        return GradientState(0, np.zeros((R, self.d)))

    def act(self, state: GradientState, contexts: Array, rng: np.random.Generator) -> tuple[GradientState, NDArray[np.intp]]:
        if state.step < self.warm_up:
            return state, rng.integers(contexts.shape[1], size=len(contexts))
        return state, argmax((contexts @ state.theta[:, :, None])[..., 0])

    def update(self, state: GradientState, x: Array, reward: Array, noise: np.random.Generator) -> GradientState:
        t = state.step + 1
        theta = state.theta - self.eta / t * self.report.release(self.gradient(state.theta, x, reward), noise)
        return GradientState(t, into_ball(theta, self.S))

    def gradient(self, theta: Array, x: Array, reward: Array) -> Array:
        """(R, d), of length at most L whatever x and reward are."""
        x = into_ball(x)
        residual = self.link.mu(np.einsum("rd,rd->r", x, theta)) - np.clip(reward, *self.link.reward_range(self.S))
        return residual[:, None] * x
