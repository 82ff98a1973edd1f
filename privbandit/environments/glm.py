"""Generalised linear contextual bandits: K arms a round, reward with mean mu(<x, theta*>)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.environments.base import Environment, Feedback
from privbandit.links import Link

Array = NDArray[np.float64]
CONTEXTS = ("ball", "sphere", "mix")
PARAMETERS = ("gaussian-sphere", "cube")


class GLMState(NamedTuple):
    theta: Array  # (R, d) hidden parameter
    directions: Array  # (R, 2, d) orthonormal pair of the mix contexts, (R, 0, d) otherwise
    frozen: np.random.Generator | None  # source of the one context sequence of a published instance


@dataclass(frozen=True)
class GLMEnvironment(Environment):
    """|theta*| = S and |x| <= 1; rewards from `link`; pseudo-regret mu(best) - mu(chosen).

    Honest protocol (`instance_seed` None): theta* and all contexts are redrawn in every replication. Published protocol
    (`instance_seed` given): one theta* and one context sequence, fixed by that seed and shared by all replications and policies;
    only the rewards differ. Figures under the second say how a policy does on that one instance.

    contexts: "ball" (uniform in the unit ball), "sphere" (uniform on it), or "mix", non-elliptical sets made to expose the bias of
    linear surrogates: theta* = S (.8 q1 + .6 q2) for orthonormal q1, q2; a round shows, with probability 1/4, 1/4, 1/2, all arms near
    .9 q1, all near .2 q2, or half near .5 q1 and half near .5 q2. theta: "gaussian-sphere" (uniform on the sphere), "cube" (a point of
    the cube, normalised: not uniform), or d numbers. Source of "mix": this book; of "cube" with frozen contexts: the public code of
    sarmasarkar2026.
    """

    link: Link
    d: int
    K: int
    S: float
    contexts_kind: str = "ball"
    theta: str | tuple[float, ...] = "gaussian-sphere"
    instance_seed: int | None = None

    def __post_init__(self) -> None:
        validate.instance("link", self.link, Link)
        validate.positive_int("d", self.d), validate.positive_int("K", self.K), validate.positive("S", self.S)
        validate.one_of("contexts_kind", self.contexts_kind, CONTEXTS)
        if isinstance(self.theta, str):
            validate.one_of("theta", self.theta, PARAMETERS)
        elif np.linalg.norm(validate.array("theta", self.theta, (self.d,))) > self.S * (1 + 1e-12):
            raise ValueError(f"theta must have norm <= S = {self.S}, got {self.theta!r}")
        if self.contexts_kind == "mix" and self.d < 2:
            raise ValueError(f"d must be >= 2 for mix contexts, got {self.d}")

    def init(self, R: int, rng: np.random.Generator) -> GLMState:
        if self.instance_seed is None:
            return GLMState(*self._parameters(R, rng), frozen=None)
        frozen = np.random.default_rng(self.instance_seed)
        theta, directions = self._parameters(1, frozen)
        return GLMState(np.repeat(theta, R, axis=0), np.repeat(directions, R, axis=0), frozen)

    def _parameters(self, R: int, rng: np.random.Generator) -> tuple[Array, Array]:
        directions = np.empty((R, 0, self.d))
        if self.contexts_kind == "mix":
            q = np.linalg.qr(rng.standard_normal((R, self.d, 2)))[0]
            directions = np.ascontiguousarray(q.swapaxes(1, 2))
            return self.S * (0.8 * directions[:, 0] + 0.6 * directions[:, 1]), directions
        if not isinstance(self.theta, str):
            return np.tile(np.asarray(self.theta, dtype=float), (R, 1)), directions
        raw = rng.standard_normal((R, self.d)) if self.theta == "gaussian-sphere" else rng.uniform(-1, 1, (R, self.d))
        return self.S * raw / np.linalg.norm(raw, axis=1, keepdims=True), directions

    def contexts(self, state: GLMState, t: int, rng: np.random.Generator) -> tuple[GLMState, Array]:
        R = len(state.theta)
        if state.frozen is None:
            return state, self._draw(state.directions, R, rng)
        one = self._draw(state.directions[:1], 1, state.frozen)
        return state, np.broadcast_to(one, (R, self.K, self.d))

    def _draw(self, directions: Array, R: int, rng: np.random.Generator) -> Array:
        if self.contexts_kind == "ball":
            return uniform_ball(rng, (R, self.K), self.d)
        if self.contexts_kind == "sphere":
            g = rng.standard_normal((R, self.K, self.d))
            return g / np.sqrt(np.einsum("rkd,rkd->rk", g, g))[..., None]
        kind = np.searchsorted([0.25, 0.5], rng.random(R), side="right")
        length = _mix_lengths(self.K)[kind] * rng.uniform(0.9, 1.0, (R, self.K, 1))
        return length @ directions + 0.05 * uniform_ball(rng, (R, self.K), self.d)

    def step(self, state: GLMState, contexts: Array, action: NDArray[np.intp], rng: np.random.Generator) -> Feedback:
        arms = (contexts @ state.theta[:, :, None])[..., 0]
        z, best = arms[np.arange(len(action)), action], arms.max(axis=1)
        reward = self.link.sample(z, rng.random(len(z)))
        return Feedback(reward, self.link.mu(best) - self.link.mu(z))

    def instance_kappas(self, horizon: int) -> tuple[float, float]:
        """(kappa, kappa*) of a published instance: from its theta* and all arms of `horizon` rounds.

        Oracle knowledge, as the published experiments use it: not for a private policy, whose kappa comes from S alone.
        """
        if self.instance_seed is None:
            raise ValueError("instance_seed must be given: kappas of an instance need one instance, got None")
        rng = np.random.default_rng(0)  # unused: a published instance draws from its own seed
        state, low, high = self.init(1, rng), np.inf, 0.0
        for t in range(validate.positive_int("horizon", horizon)):
            state, x = self.contexts(state, t, rng)
            slope = self.link.dmu(x[0] @ state.theta[0])
            low, high = min(low, slope.min()), max(high, slope.max())
        return float(1 / low), float(1 / high)


def uniform_ball(rng: np.random.Generator, shape: tuple[int, ...], d: int) -> Array:
    """Points uniform in the unit ball of R^d, (*shape, d).

    g / sqrt(|g|^2 + 2 E) with g Gaussian and E exponential: the first d coordinates of a uniform point of the sphere in R^(d+2).
    """
    g = rng.standard_normal((*shape, d))
    return g / np.sqrt(np.einsum("...d,...d->...", g, g) + 2 * rng.standard_exponential(shape))[..., None]


def _mix_lengths(K: int) -> Array:
    """(3, K, 2): how far each arm of the three kinds of round points along q1 and q2."""
    first = (np.arange(K) < K // 2)[:, None]
    choice = np.where(first, [0.5, 0.0], [0.0, 0.5])
    return np.stack([np.tile([0.9, 0.0], (K, 1)), np.tile([0.0, 0.2], (K, 1)), choice])
