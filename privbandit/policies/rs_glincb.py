"""RS-GLinCB: optimism with few switches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.estimators.ridge import inverse_add_outer
from privbandit.estimators.running import RunningFit
from privbandit.linalg import quadratic
from privbandit.links import Link
from privbandit.policies.base import Policy, argmax
from privbandit.policies.glm import set_defaults

Array = NDArray[np.float64]


class RSState(NamedTuple):
    V_inv: Array  # (R, d, d) of lambda I + sum x x' over exploration rounds
    H_inv: Array  # (R, d, d) of H = lambda I + sum mu'(<x, theta_o>) x x' / e over the other rounds
    growth: Array  # (R,) log det H - log det H_tau
    H_tau_inv: Array  # at the last switch
    exploration: RunningFit  # theta_o, from exploration rounds
    exploitation: RunningFit  # theta_tau, from the other rounds, refreshed at switches only
    stale: NDArray[np.bool_]  # (R,) theta_o has not seen its last rounds: it is brought up to date when it is needed
    exploring: NDArray[np.bool_]  # (R,) the round in play is an exploration round
    switches: NDArray[np.int_]  # (R,) so far


@dataclass(frozen=True)
class RSGLinCB(Policy):
    """Sawarni, Das, Barman and Sinha (2024), Algorithm 2, arbitrary contexts.

    Criterion I: if some arm has |x|_{V^-1}^2 >= threshold the most uncertain arm is played and only theta_o learns. Otherwise,
    criterion II: if det H has grown by 1 + c, theta_tau is fitted anew to the non-exploration rounds. Arms whose upper bound under
    theta_o (width gamma sqrt(kappa) |x|_{V^-1}) is below the best lower bound are dropped; the best of <x, theta_tau> + beta |x|_{H_tau^-1} is played.

    Defaults are the theory's, with l = log(T / zeta) and M the larger of the reward range and the self-concordance constant:
    lambda = d l / M^2, gamma = 25 M S sqrt(d l), beta = 4 sqrt(d l), threshold = 1 / (gamma^2 kappa M^2), c = 1. `explore` False leaves
    out criterion I, theta_o and the elimination, and weights by theta_tau: no guarantee, small regret. Both estimates are fitted over
    |theta| <= S, as the theorem asks, by `RunningFit`, within M `reach`^2 of the exact ones. Linear in T up to the fits at the log T
    switches. Privacy: none.
    """

    link: Link
    d: int
    S: float
    horizon: int
    zeta: float = 0.05
    kappa: float | None = None
    lambda_: float | None = None
    gamma: float | None = None
    beta: float | None = None
    threshold: float | None = None
    c: float = 1.0
    explore: bool = True
    reach: float = 0.03
    name: str = "RS-GLinCB"

    def __post_init__(self) -> None:
        validate.instance("link", self.link, Link)
        validate.positive_int("d", self.d), validate.positive("S", self.S), validate.positive_int("horizon", self.horizon)
        log = self.d * np.log(self.horizon / validate.probability("zeta", self.zeta))
        low, high = self.link.reward_range(self.S)
        M = max(validate.positive("reward range of the link", high - low), self.link.self_concordance(self.S))
        set_defaults(self, kappa=1 / self.link.c_mu(self.S), lambda_=log / M**2, gamma=25 * M * self.S * np.sqrt(log), beta=4 * np.sqrt(log))
        for field in ("kappa", "lambda_", "gamma", "c"):
            validate.positive(field, getattr(self, field))
        set_defaults(self, threshold=1 / (self.gamma**2 * self.kappa * M**2))
        validate.nonnegative("beta", self.beta), validate.positive("threshold", self.threshold), validate.positive("reach", self.reach)

    @classmethod
    def published(cls, link: Link, d: int, S: float, horizon: int, zeta: float, kappa: float) -> RSGLinCB:
        """The constants of the public code of sarmasarkar2026 (kappa of an instance: oracle), without its shared-matrix fault."""
        log = d * np.log(horizon / zeta)
        R = max(map(abs, link.reward_range(S)))
        threshold = 100 / (kappa * R**4 * S**2 * d)
        return cls(link, d, S, horizon, zeta, kappa, 0.5, R * S * np.sqrt(log), 4 * np.sqrt(log), threshold, 0.5, name="RS-GLinCB (published)")

    @classmethod
    def tuned(cls, link: Link, d: int, S: float, horizon: int, beta: float = 0.3) -> RSGLinCB:
        """No exploration phase and a small bonus."""
        return cls(link, d, S, horizon, lambda_=1.0, beta=beta, explore=False, name="RS-GLinCB (tuned)")

    def init(self, R: int, noise: np.random.Generator) -> RSState:
        d = self.d
        inverse, count = np.broadcast_to(np.eye(d) / self.lambda_, (R, d, d)), np.zeros(R, dtype=int)
        fit, none = RunningFit.init(R, d, self.lambda_), count > 0
        return RSState(inverse, inverse, np.zeros(R), inverse, fit, fit, none, none, count)

    def act(self, state: RSState, contexts: Array, rng: np.random.Generator) -> tuple[RSState, NDArray[np.intp]]:
        if not self.explore:
            state = self._switch(state, state.growth >= np.log1p(self.c))
            return state, argmax(self._index(state, contexts))
        uncertainty = quadratic(contexts, state.V_inv)
        exploring = uncertainty.max(axis=1) >= self.threshold
        state = self._switch(state._replace(exploring=exploring), ~exploring & (state.growth >= np.log1p(self.c)))
        if exploring.all():
            return state, argmax(uncertainty)
        state = self._catch_up(state, state.stale & ~exploring)
        value = (contexts @ state.exploration.theta[:, :, None])[..., 0]
        width = self.gamma * np.sqrt(self.kappa * uncertainty)
        survives = value + width >= (value - width).max(axis=1, keepdims=True)
        index = np.where(survives, self._index(state, contexts), -np.inf)
        return state, argmax(np.where(exploring[:, None], uncertainty, index))

    def _index(self, state: RSState, contexts: Array) -> Array:
        return (contexts @ state.exploitation.theta[:, :, None])[..., 0] + self.beta * np.sqrt(quadratic(contexts, state.H_tau_inv))

    def _switch(self, state: RSState, due: NDArray[np.bool_]) -> RSState:
        """Criterion II where it is due: a new theta_tau and H_tau."""
        if not due.any():
            return state
        return state._replace(
            exploitation=state.exploitation.refresh(self.link, self.lambda_, due=due, radius=self.S, reach=self.reach),
            H_tau_inv=np.where(due[:, None, None], state.H_inv, state.H_tau_inv),
            growth=np.where(due, 0.0, state.growth),
            switches=state.switches + due,
        )

    def _catch_up(self, state: RSState, due: NDArray[np.bool_]) -> RSState:
        if not due.any():
            return state
        exploration = state.exploration.refresh(self.link, self.lambda_, due=due, radius=self.S, reach=self.reach)
        return state._replace(exploration=exploration, stale=state.stale & ~due)

    def update(self, state: RSState, x: Array, reward: Array, noise: np.random.Generator) -> RSState:
        V_inv, exploration = state.V_inv, state.exploration
        if state.exploring.any():
            explored = x * state.exploring[:, None]
            V_inv = inverse_add_outer(V_inv, explored)
            exploration = exploration.observe(self.link, explored, reward)
            if state.exploring.all():
                return state._replace(V_inv=V_inv, exploration=exploration, stale=state.exploring)
            x = x - explored
        reference = (state.exploration if self.explore else state.exploitation).theta
        weight = self.link.dmu(np.einsum("rd,rd->r", x, reference)) / np.e
        growth = state.growth + np.log1p(weight * quadratic(x, state.H_inv))
        return state._replace(
            V_inv=V_inv,
            H_inv=inverse_add_outer(state.H_inv, x, weight),
            growth=growth,
            exploration=exploration,
            exploitation=state.exploitation.observe(self.link, x, reward),
            stale=state.stale | state.exploring,
        )
