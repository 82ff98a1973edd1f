"""Algorithm 2 of Sarmasarkar (arXiv 2602.00417, v2) as it is printed, and as its published tables were computed.

Both leak: the exploration estimate is refreshed exactly when a user explores, and criterion II is tested only when criterion I
fails, so other users see whether user t explored. `RepairedAlgorithm2` is the version with a proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.estimators.history import History
from privbandit.formulas import algorithm2 as theory
from privbandit.ledger import Guarantee, Ledger
from privbandit.linalg import floor_eigenvalues, into_ball, outer, quadratic, smat, svec_size
from privbandit.links import Link
from privbandit.mechanisms import TreeMechanism
from privbandit.mechanisms.published_descent import CodeDescent, Fit, PrintedDescent, Region, per_call
from privbandit.policies.base import Array, Policy, argmax
from privbandit.policies.one_release import UNIT


class State(NamedTuple):
    trees: tuple[Any, Any]
    V: Array  # (R, d, d) released
    H: Array  # released
    H_tau: Array  # at the last switch
    theta_o: Array
    theta_tau: Array
    candidate: Array  # theta_tau if the next round switches
    due: NDArray[np.bool_]  # (R,) criterion II holds
    exploring: NDArray[np.bool_]  # (R,) the round in play is in T_o
    history: tuple[History, History]  # rows of T_o and of the rest; a row of the other kind is 0
    rows: Array  # (2, R) how many are not 0
    calls: NDArray[np.int_]  # (2, R) refreshes so far


@dataclass(frozen=True)
class Algorithm2(Policy):
    """Algorithm 2 as printed (`printed`) or as the published tables were computed (`published`). Constants are fields, not defaults.

    `average_index`, `share_rows` and `shrink_leaf` are the public code's departures: the index averages both estimates, rows of T_o
    enter both fits, a leaf of the V tree is x x^T / (1 + |x|^2_{V^-1}).

    Guarantee: none is proved. `claimed` is what the paper states; its proof overlooks that the times of refreshes are released.
    """

    link: Link
    d: int
    S: float
    horizon: int
    epsilon: float
    delta: float
    kappa: float
    lambda_: float
    gamma: float
    beta: float
    threshold: float
    growth: float
    caps: tuple[int, int]
    trees: tuple[TreeMechanism, TreeMechanism]
    fits: tuple[Fit, Fit]
    average_index: bool = False
    share_rows: bool = False
    shrink_leaf: bool = False
    name: str = "Algorithm 2"

    def __post_init__(self) -> None:
        validate.instance("link", self.link, Link)
        validate.positive_int("d", self.d), validate.positive_int("horizon", self.horizon)
        validate.positive("epsilon", self.epsilon, allow_inf=True), validate.probability("delta", self.delta)
        for field in ("S", "kappa", "lambda_", "gamma", "beta", "threshold", "growth"):
            validate.positive(field, getattr(self, field))
        if self.link.reward_range(self.S) != (0.0, 1.0):
            raise ValueError(f"link must have rewards in [0, 1], got {self.link!r}")

    @classmethod
    def printed(
        cls, link: Link, d: int, S: float, horizon: int, epsilon: float, delta: float, zeta: float = 0.02, steps: int = 20
    ) -> Algorithm2:
        """Theory constants with C = 1 and public kappa, kappa*. `steps` of the optimiser is left open in print."""
        kappa, star = 1 / link.c_mu(S), 1 / link.L_mu(S)
        M = max(1.0, link.self_concordance(S))  # where the paper's canonical links have R
        common = {"d": d, "T": horizon, "epsilon": epsilon, "delta": delta}
        lam = theory.LAMBDA(**common, zeta=zeta, kappa_star=star)
        gamma = theory.GAMMA(**common, zeta=zeta, R=1.0, S=S, kappa=kappa, kappa_star=star)
        counts = theory.COUNT1(d=d, R=1.0, kappa=kappa, gamma=gamma, T=horizon), theory.COUNT2(T=horizon, R=1.0, d=d)
        counts = tuple(max(1.0, float(c)) for c in counts)  # the first is 8 d kappa gamma^2 log 1 = 0 for one round
        sigma = theory.NODE_SIGMA(T=horizon, delta=delta, kappa_star=star, epsilon=epsilon)
        lam_max = lam * (4 * math.sqrt(d) + 2) / (4 * math.sqrt(d) + 1)
        return cls(
            link, d, S, horizon, epsilon, delta, kappa, lam, gamma,
            beta=theory.BETA(**common, zeta=zeta, R=1.0, S=S, kappa_star=star),
            threshold=theory.THRESHOLD(gamma=gamma, kappa=kappa, R=M),
            growth=2.0,
            caps=tuple(math.floor(c) for c in counts),
            trees=(TreeMechanism(horizon, sigma), TreeMechanism(horizon, sigma)),
            fits=tuple(PrintedDescent.of(link, theory.CALL_RHO(epsilon=epsilon, delta=delta, count=c), lam_max, steps) for c in counts),
            name="Algorithm 2 (printed)",
        )  # fmt: skip

    @classmethod
    def published(
        cls, link: Link, d: int, S: float, horizon: int, epsilon: float, delta: float, zeta: float, kappa: float, kappa_star: float
    ) -> Algorithm2:
        """Hyper-parameters of the public code. `kappa`, `kappa_star` are the instance's own: oracle knowledge, as in the tables."""
        common = {"d": d, "T": horizon, "zeta": zeta}
        lam = theory.PUBLISHED_LAMBDA(**common, epsilon=epsilon, delta=delta, R=1.0, kappa_star=kappa_star)
        spread = theory.PUBLISHED_SPREAD(T=horizon, zeta=zeta, epsilon=epsilon, delta=delta, kappa_star=kappa_star)
        gamma = theory.PUBLISHED_GAMMA(**common, R=1.0, S=S)
        count1 = int(max(1, theory.PUBLISHED_COUNT1(d=d, R=1.0, kappa=kappa, gamma=gamma, T=horizon)))
        caps = count1, theory.published_count2(horizon, d, kappa_star, lam, spread)
        third = epsilon / 3, delta / 3
        root = math.sqrt(math.log(1 / third[1]))
        node = math.sqrt(theory.NODES(T=horizon) / 2) / (math.sqrt(root**2 + third[0]) - root)
        return cls(
            link, d, S, horizon, epsilon, delta, kappa, lam, gamma,
            beta=theory.PUBLISHED_BETA(**common),
            threshold=theory.PUBLISHED_THRESHOLD(kappa=kappa, R=1.0, S=S, d=d),
            growth=theory.PUBLISHED_GROWTH(d=d),
            caps=caps,
            trees=(TreeMechanism(horizon, node), TreeMechanism(horizon, node / kappa_star)),
            fits=tuple(CodeDescent.of(link, *per_call(*third, c)) for c in caps),
            average_index=True,
            share_rows=True,
            shrink_leaf=True,
            name="Algorithm 2 (as published)",
        )  # fmt: skip

    @property
    def ledger(self) -> Ledger:
        return Ledger.nonprivate()

    @property
    def claimed(self) -> Guarantee:
        """What the paper states."""
        return Guarantee(self.epsilon, self.delta, "joint", UNIT, "replace")

    def init(self, R: int, noise: np.random.Generator) -> State:
        d, m = self.d, svec_size(self.d)
        ridge, zero, none = np.tile(self.lambda_ * np.eye(d), (R, 1, 1)), np.zeros((R, d)), np.zeros(R, dtype=bool)
        trees = tuple(tree.init(R, m, noise) for tree in self.trees)
        empty = History.empty(R, d)
        return State(trees, ridge, ridge, ridge, zero, zero, zero, none, none, (empty, empty), np.zeros((2, R)), np.zeros((2, R), dtype=int))

    def act(self, state: State, contexts: Array, rng: np.random.Generator) -> tuple[State, NDArray[np.intp]]:
        uncertainty = quadratic(contexts, np.linalg.inv(state.V))
        exploring = uncertainty.max(axis=1) >= self.threshold
        state = self.switch(state._replace(exploring=exploring))
        value = np.einsum("rkd,rd->rk", contexts, state.theta_o)
        width = self.gamma * np.sqrt(self.kappa * uncertainty)
        survives = value + width >= (value - width).max(axis=1, keepdims=True)
        theta = (state.theta_o + state.theta_tau) / 2 if self.average_index else state.theta_tau
        index = np.einsum("rkd,rd->rk", contexts, theta) + self.beta * np.sqrt(quadratic(contexts, np.linalg.inv(state.H_tau)))
        return state, argmax(np.where(exploring[:, None], uncertainty, np.where(survives, index, -np.inf)))

    def switch(self, state: State) -> State:
        """Criterion II, looked at only where criterion I failed."""
        now = state.due & ~state.exploring
        if not now.any():
            return state
        return state._replace(
            theta_tau=np.where(now[:, None], state.candidate, state.theta_tau),
            H_tau=np.where(now[:, None, None], state.H, state.H_tau),
            calls=state.calls + [np.zeros_like(now), now],
            due=state.due & ~now,
        )

    def update(self, state: State, x: Array, reward: Array, noise: np.random.Generator) -> State:
        x, reward = into_ball(x, 1.0), np.clip(reward, 0.0, 1.0)
        state = self.explored(self.record(state, x, reward), noise)
        first = state.exploring
        weight = np.where(first, 0.0, self.link.dmu(np.einsum("rd,rd->r", x, state.theta_o)) / math.e)
        shrink = 1 / (1 + quadratic(x, np.linalg.inv(state.V))) if self.shrink_leaf else 1.0
        leaves = ((first * shrink)[:, None] * outer(x), weight[:, None] * outer(x))
        trees, sums = zip(*(m.release(s, leaf, noise) for m, s, leaf in zip(self.trees, state.trees, leaves, strict=True)), strict=True)
        V, H = (self.regularised(s) for s in sums)
        due = (generalised_growth(H, state.H_tau) > self.growth) & (state.calls[1] < self.caps[1])
        return self.prepared(state._replace(trees=trees, V=V, H=H, due=due), noise)

    def regularised(self, released: Array) -> Array:
        return floor_eigenvalues(smat(released, self.d) + self.lambda_ * np.eye(self.d), 1e-12 * self.lambda_)

    def record(self, state: State, x: Array, reward: Array) -> State:
        """The row goes to T_o or to the rest."""
        members = np.array([state.exploring, ~state.exploring | self.share_rows])
        history = tuple(h.append(m[:, None] * x, m * reward) if m.any() else h for h, m in zip(state.history, members, strict=True))
        return state._replace(history=history, rows=state.rows + members)

    def explored(self, state: State, noise: np.random.Generator) -> State:
        """theta_o is fitted anew exactly where the round was in T_o: this is the leak."""
        now = np.flatnonzero(state.exploring & (state.calls[0] < self.caps[0]))
        if not now.size:
            return state
        theta = self.refit(0, now, state, noise)
        calls = state.calls.copy()
        calls[0, now] += 1
        return state._replace(theta_o=theta, calls=calls)

    def prepared(self, state: State, noise: np.random.Generator) -> State:
        """The estimate that is released if the next round switches."""
        now = np.flatnonzero(state.due)
        return state._replace(candidate=self.refit(1, now, state, noise)) if now.size else state

    def refit(self, which: int, now: NDArray[np.intp], state: State, noise: np.random.Generator) -> Array:
        old = (state.theta_o, state.candidate)[which].copy()
        start = (state.theta_o[now] + state.theta_tau[now]) / 2 if self.average_index else (state.theta_o, state.theta_tau)[which][now]
        history = state.history[which]
        old[now] = self.fits[which].fit(history.x[now], history.r[now], state.rows[which, now], start, self.region(which, state).take(now), noise)
        return old

    def region(self, which: int, state: State) -> Region:
        if which == 0:
            return Region(np.zeros_like(state.theta_o), np.broadcast_to(np.eye(self.d), state.V.shape), self.S)
        return Region(state.theta_o, state.V, self.gamma * math.sqrt(self.kappa))


def generalised_growth(A: Array, B: Array) -> Array:
    """Largest x^T A x / x^T B x for positive definite B (R, d, d): (R,)."""
    inverse = np.linalg.inv(np.linalg.cholesky(B))
    return np.linalg.eigvalsh(inverse @ A @ np.swapaxes(inverse, 1, 2))[:, -1]
