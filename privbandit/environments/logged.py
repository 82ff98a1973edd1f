"""Bandits from logged data: rows of a randomised experiment replayed with matched actions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.environments.base import Array, Environment, Feedback


def doubly_robust(covariates: Array, action: NDArray[np.intp], reward: Array, K: int, propensity: float, folds: int = 5) -> Array:
    """An unbiased estimate (n, K) of what each row would have earned under each arm, from a randomised experiment.

    Row i, arm a: m(x_i, a) + 1{A_i = a} (r_i - m(x_i, a)) / p, with p the known probability of arm a and m a ridge fit on the other
    folds. Because A_i was drawn independently of everything else, the mean over that draw is row i's reward under a whatever m is;
    m only lowers the variance. Source: Dudik, Langford and Li (2011). For evaluation alone: it reads every row.
    """
    n, fold = len(reward), np.arange(len(reward)) % folds
    X = np.column_stack([np.ones(n), covariates])
    score = np.empty((n, K))
    for f in range(folds):
        held = fold == f
        for a in range(K):
            use = ~held & (action == a)
            weights = np.linalg.solve(X[use].T @ X[use] + np.eye(X.shape[1]), X[use].T @ reward[use])
            score[held, a] = X[held] @ weights
    matched = action[:, None] == np.arange(K)
    return score + matched * (reward[:, None] - score) / propensity


class Replay(NamedTuple):
    order: NDArray[np.intp]  # (R, n) the rows in the order in which they arrive
    row: NDArray[np.intp]  # (R,) the row of this round


@dataclass(frozen=True, eq=False)
class LoggedBandit(Environment):
    """Each row of a randomised experiment is one user, met once, in an order redrawn for each replication; at most n rounds.

    features (n, K, d): what each arm looks like for each row; action (n,): the arm the row was given; reward (n,): what it earned;
    score (n, K): an unbiased estimate of the reward under each arm (`doubly_robust`).

    A round in which the policy picks another arm than the log is not observed: the policy learns nothing from it. Because arms were
    assigned at random, independently of the covariates, the observed rows are a fair sample (Li, Chu, Langford and Wang 2011).

    *Regret* of a round is score[row, best] - score[row, action], where `best` is the single arm with the largest mean score over
    all rows. Its mean over the trial's randomisation is the reward lost against giving everyone that arm: it can be negative, in a
    single round by noise and in total where a rule that reads covariates beats every single arm. Intervals over replications
    cover the order of rows and the policy's randomness; they do not cover which patients happened to enter the trial.
    """

    features: Array
    action: NDArray[np.intp]
    reward: Array
    score: Array

    def __post_init__(self) -> None:
        features = validate.array("features", self.features, (None, None, None))
        n, K, _ = features.shape
        validate.array("reward", self.reward, (n,)), validate.array("score", self.score, (n, K))
        action = validate.array("action", self.action, (n,))
        if not np.all((action == np.round(action)) & (action >= 0) & (action < K)):
            raise ValueError(f"action must be whole numbers in 0..{K - 1}, got {self.action!r}")
        object.__setattr__(self, "action", action.astype(np.intp))

    @property
    def n(self) -> int:
        return len(self.reward)

    @property
    def K(self) -> int:
        return self.features.shape[1]

    @property
    def d(self) -> int:
        return self.features.shape[2]

    @cached_property
    def best(self) -> int:
        """The single arm with the largest mean score."""
        return int(np.argmax(self.score.mean(axis=0)))

    def init(self, R: int, rng: np.random.Generator) -> Replay:
        return Replay(rng.permuted(np.tile(np.arange(self.n), (R, 1)), axis=1), np.zeros(R, dtype=np.intp))

    def contexts(self, state: Replay, t: int, rng: np.random.Generator) -> tuple[Replay, Array]:
        if t >= self.n:
            raise ValueError(f"horizon must be at most the number of rows {self.n}: every user is met once")
        row = state.order[:, t]
        return Replay(state.order, row), self.features[row]

    def step(self, state: Replay, contexts: Array, action: NDArray[np.intp], rng: np.random.Generator) -> Feedback:
        score = self.score[state.row]
        seen = self.action[state.row] == action
        return Feedback(self.reward[state.row] * seen, score[:, self.best] - score[np.arange(len(score)), action], seen)
