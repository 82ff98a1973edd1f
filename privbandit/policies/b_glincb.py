"""B-GLinCB (Sawarni, Das, Barman and Sinha 2024): a generalised linear bandit in O(log log T) batches, without privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.design import DistributionalDesign, draw
from privbandit.estimators.glm import fit_glm
from privbandit.estimators.history import History
from privbandit.formulas.shuffle import GAMMA
from privbandit.policies.base import Array
from privbandit.policies.batched import BatchedElimination, BatchState, Models, survivors

SAMPLE = 500  # context sets of a batch that a distributional design is learnt from


class Records(NamedTuple):
    history: History
    sets: Any  # the batch's first context sets as designed for, newest first: (contexts, earlier) or None
    count: int
    learnt: DistributionalDesign | None  # from the batch before


@dataclass(frozen=True, kw_only=True)
class BGLinCB(BatchedElimination):
    """Batches, a warm-up by G-optimal design, elimination, and a maximum-likelihood fit of each batch.

    Defaults: lambda = 20 d R log T, gamma by the concentration lemma at that ridge (Lemma F.4 of sarmasarkar2026, with R the larger of
    the reward range and the self-concordance; the value 30 R S sqrt(d + log T) in print is smaller than the lemma asks for). `width`
    multiplies gamma: 1 is the theory, 0.01 and less is what works. `distributional` True plays, in batches after the first, the
    distributional design learnt from the previous batch, as the original does; False is the ablation that the private form builds on.
    Privacy: none.
    """

    lambda_: float | None = None
    width: float = 1.0
    distributional: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.nonnegative("width", self.width)
        if self.lambda_ is None:
            object.__setattr__(self, "lambda_", 20 * self.d * self.reward_bound * max(math.log(self.horizon), 1.0))
        validate.positive("lambda_", self.lambda_)

    @property
    def name(self) -> str:  # type: ignore[override]
        return "B-GLinCB (distributional)" if self.distributional else "B-GLinCB"

    @property
    def gamma(self) -> float:
        R = max(self.reward_bound, self.self_concordance)
        scales = {"R": R, "S": self.S, "T": max(self.horizon, 2), "d": self.d}
        return float(GAMMA(lambda_min=self.lambda_, lambda_max=self.lambda_, nu=1e-300, **scales))

    def design_ridge(self, batch: int) -> float:
        return self.lambda_ / self.length(batch)

    def open(self, R: int) -> Records:
        return Records(History.empty(R, self.d), None, 0, None)

    def act(self, state: BatchState, contexts: Array, rng: np.random.Generator) -> tuple[BatchState, NDArray[np.intp]]:
        records = state.gathered
        if not self.distributional:
            return super().act(state, contexts, rng)
        arms = contexts * survivors(state.models, contexts)[..., None]
        if state.batch:
            arms = arms * np.sqrt(self.scales(state.models, contexts))[..., None]
        p = self._core(records.learnt, arms) if records.learnt is not None else self.probabilities(state, contexts)
        if records.count < SAMPLE:
            records = records._replace(sets=(arms, records.sets), count=records.count + 1)
        return state._replace(gathered=records), draw(p, rng)

    def _core(self, learnt: DistributionalDesign, arms: Array) -> Array:
        alive = np.einsum("rkd,rkd->rk", arms, arms) > 0
        ridge = np.maximum(1e-3 * np.max(np.einsum("rkd,rkd->rk", arms, arms), axis=1), 1e-12)
        p = np.where(alive | ~alive.any(axis=1, keepdims=True), learnt.probabilities(arms, ridge), 0.0)
        return p / p.sum(axis=1, keepdims=True)

    def gather(self, state: BatchState, x: Array, reward: Array, noise: np.random.Generator) -> Records:
        return state.gathered._replace(history=state.gathered.history.append(x, reward))

    def close(self, state: BatchState, noise: np.random.Generator) -> tuple[Models, Records]:
        history = state.gathered.history
        fit = fit_glm(self.link, history.x, history.r, self.lambda_, radius=self.S)
        weight = self.scales(state.models, history.x) if state.batch else np.ones(history.r.shape)
        H = (history.x * weight[..., None]).swapaxes(1, 2) @ history.x + self.lambda_ * np.eye(self.d)
        width = self.width * self.gamma * (1.0 if state.batch else math.sqrt(self.kappa))
        opened = self.open(len(fit.theta))._replace(learnt=self._learn(state.gathered, state.batch))
        return state.models.append(fit.theta, np.linalg.inv(H), width), opened

    def _learn(self, records: Records, batch: int) -> DistributionalDesign | None:
        """From the batches after the warm-up; the warm-up itself plays G-optimal designs, and so does the batch that follows it."""
        if not self.distributional or batch == 0:
            return None
        sets, node = [], records.sets
        while node is not None:
            sets.append(node[0])
            node = node[1]
        return DistributionalDesign.stack([DistributionalDesign.learn(contexts, ridge=1.0) for contexts in np.stack(sets, axis=1)])
