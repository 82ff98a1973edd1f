"""Local differential privacy of the reward alone: the weaker model of Zhou and Tan (AAAI 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privbandit import validate
from privbandit.accounting import gaussian_mu
from privbandit.ledger import Entry, Gaussian, Ledger
from privbandit.policies.base import Array
from privbandit.policies.gp_ucb import ApproximateGPUCB, ApproximateState

UNIT = "one user's reward (the point x_t is public)"


@dataclass(frozen=True, eq=False)
class RewardLocalGPUCB(ApproximateGPUCB):
    """Approximate GP-UCB on rewards that each user clips to [-Y, Y] and noises before sending; points stay public.

    Guarantee: (epsilon, delta)-local DP of the reward only, replacement. Gaussian noise in place of the original's Laplace, so that the
    self-normalised bound applies with sub-Gaussian parameter sqrt(subgaussian^2 + sigma^2).
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    Y: float = 1.0
    reward_subgaussian: float = 0.5
    name = "reward-local GP-UCB"
    trust = "local"

    def __post_init__(self) -> None:
        validate.positive("Y", self.Y), validate.positive("reward_subgaussian", self.reward_subgaussian)
        total = float(np.hypot(self.reward_subgaussian, self.report.sigma))
        object.__setattr__(self, "subgaussian", total)  # what the width needs, derived: never set by hand
        super().__post_init__()

    @property
    def report(self) -> Gaussian:
        """One user's message."""
        return Gaussian(2 * self.Y, 2 * self.Y / gaussian_mu(self.epsilon, self.delta))

    @property
    def ledger(self) -> Ledger:
        return Ledger(UNIT, "local", (Entry("reward", self.report),)) if self.report.sigma else Ledger.nonprivate()

    def update(self, state: ApproximateState, x: Array, reward: Array, noise: np.random.Generator) -> ApproximateState:
        return super().update(state, x, self.report.release(np.clip(reward, -self.Y, self.Y), noise), noise)
