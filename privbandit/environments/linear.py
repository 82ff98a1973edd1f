"""Linear contextual bandits with bounded rewards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.environments.base import Array, Environment, Feedback


def unit_ball(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Points (..., d) uniform in the unit ball of R^d, d the last entry of `shape`."""
    direction = rng.standard_normal(shape)
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    return direction * rng.random((*shape[:-1], 1)) ** (1 / shape[-1])


@dataclass(frozen=True)
class LinearBandit(Environment):
    """K fresh arms a round, uniform in the unit ball of R^d; reward <x, theta> + noise.

    theta has length S and a uniform direction, drawn anew in each replication. The noise is uniform on [-noise, noise], hence
    sub-Gaussian with parameter noise / sqrt(3) (its standard deviation: sinh(x)/x <= exp(x^2/6)); rewards lie in [-(S + noise), S + noise].
    """

    K: int
    d: int
    S: float = 0.5
    noise: float = 0.5

    def __post_init__(self) -> None:
        validate.positive_int("K", self.K), validate.positive_int("d", self.d)
        validate.positive("S", self.S), validate.nonnegative("noise", self.noise)

    @property
    def reward_bound(self) -> float:
        return self.S + self.noise

    @property
    def sigma_r(self) -> float:
        """Sub-Gaussian parameter of the noise."""
        return self.noise / 3**0.5

    def init(self, R: int, rng: np.random.Generator) -> Array:
        """theta (R, d)."""
        theta = rng.standard_normal((R, self.d))
        return self.S * theta / np.linalg.norm(theta, axis=1, keepdims=True)

    def contexts(self, state: Array, t: int, rng: np.random.Generator) -> tuple[Array, Array]:
        return state, unit_ball((len(state), self.K, self.d), rng)

    def step(self, state: Array, contexts: Array, action: NDArray[np.intp], rng: np.random.Generator) -> Feedback:
        means = np.einsum("rkd,rd->rk", contexts, state)
        mean = means[np.arange(len(means)), action]
        return Feedback(mean + self.noise * rng.uniform(-1, 1, len(state)), means.max(axis=1) - mean)
