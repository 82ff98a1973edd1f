"""Algorithm 1 made usable: every batch is one shuffled vector sum, and no optimiser is run among the users.

A user's leaf (w x x^T, y x) is the linearised statistic of `one_release`, taken at the estimate of the finished batches. One vector sum
replaces the matrix sum and the interactive optimiser of Algorithm 1; users send once and go.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from privbandit import validate
from privbandit.formulas.glm import JOINT_LEAF, TAU
from privbandit.ledger import Ledger
from privbandit.linalg import svec_size
from privbandit.mechanisms.shuffle.sums import PlainSum, VectorSum
from privbandit.policies.base import Array
from privbandit.policies.batched import BatchedElimination, BatchState, Models, geometric
from privbandit.policies.one_release import Linearisation, OneRelease, Released, Statistical
from privbandit.policies.shuffle_linucb import leaf_sum


class Gathered(NamedTuple):
    running: Array  # (R, D) summed encodings of the batch in play; never read before the shuffler has it all
    released: Array  # (R, D) noisy sum of all finished batches
    std: float  # noise standard deviation of one of its coordinates, from public constants
    model: Released  # its estimate, where leaves are linearised


@dataclass(frozen=True, kw_only=True)
class ShuffleOneSum(BatchedElimination):
    """Batched elimination on one shuffled vector sum a batch (this book).

    Batches double, from `first_batch` (default sqrt(T)); released sums add up over batches; arms are eliminated by the latest model
    with width `bonus` |x|_{H^-1}. `linearisation`, `ridge`, `ridge_min`, `tau`: as in `OneRelease`.
    epsilon = inf adds nothing and is the policy's own baseline.

    *Guarantee.* (epsilon, delta)-shuffle DP of one user (context set and reward function), neighbours by replacement, a trusted
    shuffler: each user is in one batch, hence in one vector sum; policies of later batches post-process it. By the billboard lemma
    also joint DP: the policy is public, and elimination, design, draw and leaf are computed from it and the own record on the user's
    device. No regret theorem: `bonus` is below what a confidence set needs.
    """

    epsilon: float
    delta: float
    linearisation: Linearisation = field(default_factory=Statistical)
    bonus: float = 0.1
    ridge: float = 1.0
    ridge_min: float = 0.1
    tau: float = TAU
    trust = "shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.nonnegative("bonus", self.bonus), validate.probability("delta", self.delta)
        self.statistic, self.sums  # parameters out of their domain are refused here, not in the first round

    @property
    def name(self) -> str:  # type: ignore[override]
        return "shuffle GLM (one sum)" if math.isfinite(self.epsilon) else "batched GLM (one sum)"

    @property
    def gamma(self) -> float:
        return self.bonus

    @cached_property
    def ends(self) -> tuple[int, ...]:
        first = math.ceil(math.sqrt(self.horizon)) if self.first_batch is None else self.first_batch
        return geometric(self.horizon, first)

    @cached_property
    def statistic(self) -> OneRelease:
        """The leaf and the estimator, without noise of their own."""
        return OneRelease(
            self.link,
            self.d,
            self.S,
            self.horizon,
            math.inf,
            self.delta,
            linearisation=self.linearisation,
            ridge=self.ridge,
            ridge_min=self.ridge_min,
            tau=self.tau,
        )

    @cached_property
    def sums(self) -> dict[int, VectorSum | PlainSum]:
        """The protocol of every batch that is released, by its number of users."""
        return {n: self._sum(n) for n in {self.length(k) for k in range(max(1, len(self.ends) - 1))}}

    def _sum(self, users: int) -> VectorSum | PlainSum:
        if math.isinf(validate.positive("epsilon", self.epsilon, allow_inf=True)):
            return PlainSum(users)
        return leaf_sum(users, self.d, self.epsilon, self.delta, self.tau, math.sqrt(JOINT_LEAF(a=1.0, b=self.tau)))

    @property
    def ledger(self) -> Ledger:
        """Of the batch whose sum costs most; a user is in one only."""
        if math.isinf(self.epsilon):
            return Ledger.nonprivate()
        worst = max(self.sums.values(), key=lambda s: s.event.mu)
        return Ledger("one user (context set and reward function)", "shuffle", worst.entries)

    def open(self, R: int) -> Gathered:
        return self._gathered(np.zeros((R, svec_size(self.d) + self.d)), 0.0)

    def _gathered(self, released: Array, std: float) -> Gathered:
        return Gathered(np.zeros_like(released), released, std, self.statistic.estimate(released, std))

    def gather(self, state: BatchState, x: Array, reward: Array, noise: np.random.Generator) -> Gathered:
        batch, protocol = state.gathered, self.sums[self.length(state.batch)]
        leaf = self.statistic.leaf(batch.model, x, reward) / self.statistic.scale
        return batch._replace(running=batch.running + protocol.encode(leaf, noise))

    def close(self, state: BatchState, noise: np.random.Generator) -> tuple[Models, Gathered]:
        batch, protocol = state.gathered, self.sums[self.length(state.batch)]
        after = self._gathered(batch.released + protocol.release(batch.running, noise), math.hypot(batch.std, protocol.std))
        model = after.model
        return Models(model.theta[:, None], model.Hinv[:, None], np.array([self.bonus])), after

    def scales(self, models: Models, contexts: Array) -> Array:
        """The slope of the link at each arm: arms in the flat part teach little."""
        z = (contexts @ models.theta[:, 0, :, None])[..., 0]
        return self.link.dmu(np.clip(z, -self.S, self.S))
