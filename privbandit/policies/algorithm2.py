"""Algorithm 2 of Sarmasarkar (arXiv 2602.00417) repaired: nothing is refreshed because of the user being served.

Changes: both refresh triggers compare released matrices, before the next contexts are read; one account covers both matrix streams
and both estimators; sensitivities are in the Frobenius norm; weights are bounded without an event; refreshes are capped; the
estimators' noise, ridge and steps do not depend on how many rows they see. What a round's user changes is one leaf of one stream.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.accounting import gaussian_mu
from privbandit.estimators.history import History
from privbandit.ledger import Account, Ledger
from privbandit.linalg import floor_eigenvalues, into_ball, outer, quadratic, smat, svec_size
from privbandit.links import Link
from privbandit.mechanisms import PrefixSums, SquareRoot
from privbandit.mechanisms.optimisers import NoisyNewton
from privbandit.policies.algorithm2_published import generalised_growth
from privbandit.policies.base import Array, Policy, argmax, settled
from privbandit.policies.one_release import joint_ledger


class Stream(NamedTuple):
    """One of the two data sets (exploration, the rest) and what has been released of it."""

    matrix: Array  # (R, d, d) released
    reference: Array  # the matrix at the last refresh
    theta: Array  # (R, d) estimate of the last refresh
    history: History  # rows of the other stream are 0
    refreshes: NDArray[np.int_]  # (R,)


class State(NamedTuple):
    sums: Any
    step: int
    explore: Stream
    exploit: Stream
    exploring: NDArray[np.bool_]  # (R,) the round in play belongs to the exploration stream


@dataclass(frozen=True)
class RepairedAlgorithm2(Policy):
    """Rarely refreshed optimism with private estimates; see the module for what differs from the paper.

    Parameters: `link` with rewards in [0, 1]; `d` features with |x| <= 1; `S` >= |theta*|; `horizon`; (`epsilon`, `delta`). Public
    tuning: `share` of the squared GDP budget for the matrices; `caps` on refreshes of either estimate; `newton` steps a refresh;
    `growth` factor that triggers one; `gamma` and `beta` widths (gamma sqrt(kappa) |x|_{V^-1} and beta |x|_{H^-1}); `reach`, the
    widths' square above which a round explores, 1/((1 + c) M^2) in theory; `ridge` in units of the matrix noise sigma sqrt(2 d).

    Guarantee: (epsilon, delta)-joint DP of one round's user (context set and reward function), replacement neighbours. The matrix leaf
    (1{explore} x x^T, 1{not} w/W x x^T) has norm <= 1 and inner products >= 0, so it moves by sqrt(2); a refresh moves by the joint leaf
    in the stream that holds the user, and a move from one stream to the other costs at most as much; all in one Gaussian account, whose
    caps are a filter. Estimates by noisy Newton steps on the (quasi-)likelihood. Regret: no theorem is claimed for these defaults.
    """

    link: Link
    d: int
    S: float
    horizon: int
    epsilon: float
    delta: float
    share: float = 0.3
    caps: tuple[int, int] = (10, 10)
    newton: int = 1
    growth: float = 2.0
    gamma: float = 0.1
    beta: float = 0.3
    reach: float = 1.0
    ridge: float = 3.0
    ridge_min: float = 1.0
    mechanism: type[PrefixSums] = SquareRoot
    name: str = "Algorithm 2 (repaired)"
    trust = "joint"

    def __post_init__(self) -> None:
        validate.instance("link", self.link, Link)
        validate.positive_int("d", self.d), validate.positive_int("horizon", self.horizon), validate.positive("S", self.S)
        validate.probability("share", self.share)
        for cap in self.caps:
            validate.positive_int("caps", cap)
        for field in ("gamma", "reach", "ridge_min"):
            validate.positive(field, getattr(self, field))
        validate.nonnegative("beta", self.beta), validate.nonnegative("ridge", self.ridge)
        validate.above("growth", self.growth, 1), validate.positive_int("newton", self.newton)
        if self.link.reward_range(self.S) != (0.0, 1.0):
            raise ValueError(f"link must have rewards in [0, 1], got {self.link!r}")
        self.account  # a budget out of its domain is refused here, not in the first round

    @cached_property
    def mu(self) -> float:
        return gaussian_mu(self.epsilon, self.delta)

    @cached_property
    def sums(self) -> PrefixSums:
        """Both matrix streams, in units of their weight bounds."""
        return self.mechanism.calibrated(self.horizon, math.sqrt(self.share) * self.mu, math.sqrt(2))

    @cached_property
    def fit(self) -> NoisyNewton:
        """One refresh of either estimate. A user is in one stream: max(caps) calls hold it, and a move between streams costs less."""
        mu = math.sqrt((1 - self.share) / max(self.caps)) * self.mu
        return NoisyNewton.calibrated(self.link, self.S, self.newton, mu)

    @cached_property
    def account(self) -> Account:
        """The whole run, spent in advance: the caps stop before it is passed."""
        account = Account(self.mu)
        for entry in self.sums.entries:
            account = account.spend("matrices, " + entry.name, entry.event, entry.count)
        for entry in self.fit.entries:
            account = account.spend("estimates, " + entry.name, entry.event, entry.count * max(self.caps))
        return account

    @property
    def ledger(self) -> Ledger:
        return joint_ledger(self.epsilon, self.account.entries)

    @cached_property
    def weights(self) -> Array:
        """Bounds of the matrix leaves' weights: 1 for exploration, L/e for the rest."""
        return np.repeat([1.0, self.link.L_mu(self.S) / math.e], svec_size(self.d))

    @cached_property
    def ridges(self) -> Array:
        """lambda of the two matrices (2,), from their theoretical noise, and never from what was drawn."""
        noise = self.ridge * self.sums.max_std * math.sqrt(2 * self.d)
        return np.maximum(self.ridge_min * self.weights[[0, -1]], noise * self.weights[[0, -1]])

    @cached_property
    def fit_ridge(self) -> float:
        return max(self.ridge_min, self.ridge * self.fit.sigma * self.fit.units[0] * math.sqrt(2 * self.d))

    @cached_property
    def kappa(self) -> float:
        return 1 / self.link.c_mu(self.S)

    def init(self, R: int, noise: np.random.Generator) -> State:
        m, zero = svec_size(self.d), np.zeros((R, self.d))
        explore, exploit = (np.tile(lam * np.eye(self.d), (R, 1, 1)) for lam in self.ridges)
        count, none = np.zeros(R, dtype=int), np.zeros(R, dtype=bool)
        first, second = (Stream(M, M, zero, History.empty(R, self.d), count) for M in (explore, exploit))
        return State(self.sums.init(R, 2 * m, noise), 0, first, second, none)

    def act(self, state: State, contexts: Array, rng: np.random.Generator) -> tuple[State, NDArray[np.intp]]:
        explore, exploit = state.explore, state.exploit
        uncertainty = quadratic(contexts, np.linalg.inv(explore.matrix))
        width = self.gamma * np.sqrt(self.growth * self.kappa * uncertainty)  # the matrix has grown since the refresh by at most `growth`
        exploring = width.max(axis=1) > self.reach
        centre = np.einsum("rkd,rd->rk", contexts, explore.theta)
        survives = centre + width >= (centre - width).max(axis=1, keepdims=True)
        bonus = self.beta * np.sqrt(quadratic(contexts, np.linalg.inv(exploit.reference)))
        index = np.where(survives, np.einsum("rkd,rd->rk", contexts, exploit.theta) + bonus, -np.inf)
        return state._replace(exploring=exploring), argmax(settled(np.where(exploring[:, None], uncertainty, index)))

    def update(self, state: State, x: Array, reward: Array, noise: np.random.Generator) -> State:
        x, reward, first = into_ball(x, 1.0), np.clip(reward, 0.0, 1.0), state.exploring
        w = np.minimum(self.link.dmu(np.einsum("rd,rd->r", x, state.explore.theta)) / math.e, self.weights[-1])
        leaf = np.concatenate([first[:, None] * outer(x), (~first * w)[:, None] * outer(x)], axis=1)
        sums, prefix = self.sums.release(state.sums, leaf / self.weights, noise)
        released = np.split(prefix * self.weights, 2, axis=1)
        streams = [
            self.refreshed(which, self.observed(which, stream, rows, x, reward, matrix), noise)
            for which, (stream, rows, matrix) in enumerate(zip((state.explore, state.exploit), (first, ~first), released, strict=True))
        ]
        return State(sums, state.step + 1, *streams, first)

    def observed(self, which: int, stream: Stream, rows: NDArray[np.bool_], x: Array, reward: Array, released: Array) -> Stream:
        lam = self.ridges[which]
        matrix = floor_eigenvalues(smat(released, self.d) + lam * np.eye(self.d), lam / 3)
        history = stream.history.append(rows[:, None] * x, rows * reward) if rows.any() else stream.history
        return stream._replace(matrix=matrix, history=history)

    def refreshed(self, which: int, stream: Stream, noise: np.random.Generator) -> Stream:
        """A new estimate where the released matrix has grown enough and the cap allows it: a function of released values only."""
        due = generalised_growth(stream.matrix, stream.reference) > self.growth
        now = np.flatnonzero(due & (stream.refreshes < self.caps[which]))
        if not now.size:
            return stream
        rows = stream.history.x[now], stream.history.r[now]
        if not stream.history.n:  # noise alone triggered it: no user is in this stream yet, in any replication
            rows = np.zeros((now.size, 1, self.d)), np.zeros((now.size, 1))
        theta, reference, count = stream.theta.copy(), stream.reference.copy(), stream.refreshes.copy()
        theta[now] = self.fit.fit(*rows, stream.theta[now], noise, ridge=self.fit_ridge)
        reference[now] = stream.matrix[now]
        count[now] += 1
        return stream._replace(theta=theta, reference=reference, refreshes=count)
