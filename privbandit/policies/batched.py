"""Batched elimination for generalised linear bandits: what B-GLinCB, Algorithm 1 and its one-sum form have in common.

The horizon is cut into a few batches. Within one the policy is fixed: keep the arms that no finished batch rules out, and draw one from
the G-optimal design of what is left, so that no surviving arm stays uncertain. At its end the batch becomes a model.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.design import draw, g_optimal
from privbandit.formulas.shuffle import FIRST_BATCH
from privbandit.linalg import into_ball
from privbandit.links import Link
from privbandit.policies.base import Array, Policy


class Models(NamedTuple):
    """What the finished batches released: estimates (R, J, d), inverse matrices (R, J, d, d) and the widths (J,) of |x|_{H^-1}."""

    theta: Array
    inverse: Array
    width: Array

    def append(self, theta: Array, inverse: Array, width: float) -> Models:
        return Models(
            np.concatenate([self.theta, theta[:, None]], axis=1),
            np.concatenate([self.inverse, inverse[:, None]], axis=1),
            np.append(self.width, width),
        )

    def bounds(self, contexts: Array) -> tuple[Array, Array]:
        """Means and half-widths (R, J, K) of the arms (R, K, d) under each model."""
        mean = self.theta @ contexts.swapaxes(1, 2)
        square = np.einsum("rjkd,rkd->rjk", contexts[:, None] @ self.inverse, contexts)
        return mean, self.width[:, None] * np.sqrt(np.maximum(square, 0.0))


class BatchState(NamedTuple):
    step: int  # users served
    batch: int  # of the user served next, from 0
    gathered: Any  # what the batch in play has collected
    models: Models


@dataclass(frozen=True, kw_only=True)
class BatchedElimination(Policy):
    """Base of the batched policies: `link`; `d` features with |x| <= 1; `S` >= |theta*|; `horizon` rounds.

    `batch1_scale` multiplies the theory's first batch, whose constants exceed any horizon that can be simulated; `first_batch` sets its
    length outright. `batches` caps their number (default: as many as alpha = 2 sqrt(T) needs, O(log log T)). `design_tolerance` is the
    relative optimality gap of the G-optimal designs.
    """

    link: Link
    d: int
    S: float
    horizon: int
    first_batch: int | None = None
    batch1_scale: float = 1.0
    batches: int | None = None
    design_tolerance: float = 0.25

    def __post_init__(self) -> None:
        validate.instance("link", self.link, Link)
        validate.positive_int("d", self.d), validate.positive("S", self.S), validate.positive_int("horizon", self.horizon)
        validate.positive("batch1_scale", self.batch1_scale), validate.positive("design_tolerance", self.design_tolerance)
        for name in ("first_batch", "batches"):
            if getattr(self, name) is not None:
                validate.positive_int(name, getattr(self, name))
        if not math.isfinite(self.reward_bound):
            raise ValueError(f"link must have bounded rewards on |z| <= S, got {self.link!r}")

    @property
    @abstractmethod
    def gamma(self) -> float:
        """The confidence width that sizes the first batch."""

    @abstractmethod
    def open(self, R: int) -> Any:
        """What the first batch starts with."""

    @abstractmethod
    def gather(self, state: BatchState, x: Array, reward: Array, noise: np.random.Generator) -> Any:
        """The batch with one more user's chosen features (R, d) and reward (R,)."""

    @abstractmethod
    def close(self, state: BatchState, noise: np.random.Generator) -> tuple[Models, Any]:
        """The models once the batch in play is complete, and what the next batch starts with."""

    def scales(self, models: Models, contexts: Array) -> Array:
        """Weight (R, K) of each arm in batches after the first: a lower bound on the slope of the link there, from the first model.

        mu'(<x, theta_1>) / exp(M min(2 S, width of x)) is at most mu'(<x, theta*>) on the first batch's confidence event.
        """
        mean, width = Models(models.theta[:, :1], models.inverse[:, :1], models.width[:1]).bounds(contexts)
        return self.link.dmu(mean[:, 0]) * np.exp(-self.self_concordance * np.minimum(2 * self.S, width[:, 0]))

    @cached_property
    def reward_bound(self) -> float:
        low, high = self.link.reward_range(self.S)
        return high - low

    @cached_property
    def self_concordance(self) -> float:
        return self.link.self_concordance(self.S)

    @cached_property
    def kappa(self) -> float:
        """max(1 / inf mu', 1) on |z| <= S: public. At least 1, so that V / kappa is below the curvature of the loss."""
        return max(1 / self.link.c_mu(self.S), 1.0)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Users served at the end of each batch; the last is the horizon."""
        alpha = growth(self.horizon, self.batches)
        return schedule(self.horizon, self.first_length(alpha), alpha)

    def first_length(self, alpha: float) -> int:
        if self.first_batch is not None:
            return self.first_batch
        scales = {"kappa": self.kappa, "M": max(self.self_concordance, 1e-9), "S": self.S, "d": self.d, "gamma": self.gamma}
        return max(1, math.ceil(min(self.batch1_scale * float(FIRST_BATCH(alpha=alpha, **scales)), self.horizon)))

    def length(self, batch: int) -> int:
        """Users of a batch."""
        return self.ends[batch] - (self.ends[batch - 1] if batch else 0)

    def init(self, R: int, noise: np.random.Generator) -> BatchState:
        d = self.d
        return BatchState(0, 0, self.open(R), Models(np.zeros((R, 0, d)), np.zeros((R, 0, d, d)), np.zeros(0)))

    def act(self, state: BatchState, contexts: Array, rng: np.random.Generator) -> tuple[BatchState, NDArray[np.intp]]:
        return state, draw(self.probabilities(state, contexts), rng)

    def probabilities(self, state: BatchState, contexts: Array) -> Array:
        """The arm probabilities (R, K) of one user, computed on the user's own device from what was released."""
        arms = contexts = into_ball(contexts)
        alive = survivors(state.models, contexts)
        if state.batch:
            arms = contexts * np.sqrt(self.scales(state.models, contexts))[..., None]
        return self.design(arms, alive, self.design_ridge(state.batch))

    def design(self, arms: Array, alive: NDArray[np.bool_], ridge: float) -> Array:
        """G-optimal design of the surviving arms; its ridge is tied to their size, or scaled-down arms would all look alike."""
        if (alive.sum(axis=1) == 1).all():
            return alive.astype(float)
        largest = np.max(np.einsum("rkd,rkd->rk", arms, arms) * alive, axis=1)
        small = np.maximum(np.minimum(ridge, 1e-3 * largest), 1e-12)
        return g_optimal(arms, small, tolerance=self.design_tolerance, method="multiplicative", available=alive).p

    def design_ridge(self, batch: int) -> float:
        """At most lambda_min / B_k: then the design's bound carries over to the batch's regularised matrix."""
        return math.inf

    def update(self, state: BatchState, x: Array, reward: Array, noise: np.random.Generator) -> BatchState:
        step = state.step + 1
        if state.batch == len(self.ends) - 1:
            return state._replace(step=step)  # nobody will use the last batch's data, so nothing of it is collected or released
        state = state._replace(step=step, gathered=self.gather(state, x, reward, noise))
        if step < self.ends[state.batch]:
            return state
        models, opened = self.close(state, noise)
        return BatchState(step, state.batch + 1, opened, models)


def growth(horizon: int, batches: int | None = None) -> float:
    """alpha: 2 sqrt(T), or T^(1 / (2 (1 - 2^(1-M)))) for at most M = `batches` batches if that is fewer than log2 log2 T."""
    validate.positive_int("horizon", horizon)
    if batches is not None:
        validate.positive_int("batches", batches)
    if batches is None or batches < 2 or batches > math.log2(max(math.log2(max(horizon, 2)), 1)):
        return 2 * math.sqrt(horizon)
    return horizon ** (1 / (2 * (1 - 2.0 ** (1 - batches))))


def schedule(horizon: int, first: int, alpha: float) -> tuple[int, ...]:
    """Ends of the batches B_1 = first, B_2 = alpha, B_k = alpha sqrt(B_{k-1}), rounded up and cut at the horizon."""
    validate.positive_int("horizon", horizon), validate.positive_int("first", first), validate.positive("alpha", alpha)
    ends, length = [min(first, horizon)], alpha
    while ends[-1] < horizon:
        ends.append(min(horizon, ends[-1] + math.ceil(length)))
        length = alpha * math.sqrt(length)
    return tuple(ends)


def geometric(horizon: int, first: int) -> tuple[int, ...]:
    """Ends of batches that double: first, 2 first, 4 first, .. cut at the horizon."""
    validate.positive_int("horizon", horizon), validate.positive_int("first", first)
    ends = [min(first, horizon)]
    while ends[-1] < horizon:
        ends.append(min(horizon, ends[-1] + first * 2 ** len(ends)))
    return tuple(ends)


def survivors(models: Models, contexts: Array) -> NDArray[np.bool_]:
    """Arms (R, K) that no model rules out, one model after the other: upper bound at least the best lower bound among those still in."""
    R, K, _ = contexts.shape
    alive = np.ones((R, K), dtype=bool)
    if len(models.width) == 0:
        return alive
    mean, width = models.bounds(contexts)
    for j in range(len(models.width)):
        best_low = np.where(alive, mean[:, j] - width[:, j], -np.inf).max(axis=1)
        alive &= mean[:, j] + width[:, j] >= best_low[:, None]
    return alive


def useful_from(make: Callable[[int], BatchedElimination]) -> int:
    """The least power of two T at which the policy `make(T)` spends at most half of its rounds in the first batch.

    Below it the theory's warm-up is the whole run and its regret bound says nothing. RuntimeError beyond T = 2^100.
    """
    for k in range(101):
        policy = make(2**k)
        if 2 * policy.first_length(growth(2**k, policy.batches)) <= 2**k:
            return 2**k
    raise RuntimeError("no horizon up to 2^100 leaves the first batch")
