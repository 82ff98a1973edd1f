"""Inputs for replays: users near the worst case of the usual sensitivities, one of them replaced.

Every replication has another changed user, the first one (whom prefix sums protect worst) a quarter of the time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privbandit.audit.replay import Neighbours, Users

Array = NDArray[np.float64]


def unit(v: Array) -> Array:
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def changed_users(T: int, R: int) -> NDArray[np.intp]:
    at = np.arange(R) % T
    at[::4] = 0
    return at


def armed(T: int, R: int, K: int, rng: np.random.Generator, low: float = 0.0, high: float = 1.0) -> Neighbours:
    """K arms as one-hot contexts; the changed user's rewards go from `low` to `high` on every arm."""
    contexts = np.broadcast_to(np.eye(K), (T, R, K, K)).copy()
    users, at = Users(contexts, rng.choice([low, high], size=(T, R, K))), changed_users(T, R)
    users.rewards[at, np.arange(R)] = low
    return Neighbours(users, users.replace(at, np.broadcast_to(np.eye(K), (R, K, K)), np.full((R, K), high)), at)


def linear(T: int, R: int, K: int, d: int, rng: np.random.Generator, low: float = 0.0, high: float = 1.0) -> Neighbours:
    """Unit contexts; all arms of the changed user are one vector, replaced by another at an angle of 0 to pi; extreme rewards.

    With both records at the rim every corner of the usual leaf (x x^T, r x) comes near: equal vectors with opposite rewards,
    opposite vectors with equal ones, orthogonal vectors.
    """
    users, at, every = Users(unit(rng.normal(size=(T, R, K, d))), rng.choice([low, high], size=(T, R, K))), changed_users(T, R), np.arange(R)
    x, side = unit(rng.normal(size=(R, d))), rng.normal(size=(R, d))
    side = side - np.sum(side * x, axis=1, keepdims=True) * x
    side = side / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-12)
    angle = np.pi * (every // 4 % 9)[:, None] / 8
    y = np.cos(angle) * x + np.sin(angle) * side if d > 1 else np.where(angle > 1.5, -x, x)
    users.contexts[at, every] = x[:, None]
    users.rewards[at, every] = np.where(every % 3 == 0, low, high)[:, None]
    rewards = np.where(every % 3 == 1, low, high)[:, None] * np.ones(K)
    return Neighbours(users, users.replace(at, np.repeat(y[:, None], K, axis=1), rewards), at)
