"""Unknown functions of bounded kernel norm on a finite grid, with contextual decision sets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.environments.base import Array, Environment, Feedback
from privbandit.features.kernels import Kernel


def unit_grid(points: int, d: int = 1) -> Array:
    """A regular grid of points^d points of [0, 1]^d, (N, d)."""
    validate.positive_int("d", d)
    axis = np.linspace(0, 1, validate.positive_int("points", points))
    return np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)


class Functions(NamedTuple):
    """`values` (R, N) on the grid; `norm` (R,) = |f|_k; `coefficients` (R, c) and `centres` (R, c, d): f = sum_i a_i k(., z_i)."""

    values: Array
    norm: Array
    coefficients: Array
    centres: Array


def random_functions(kernel: Kernel, grid: Array, R: int, rng: np.random.Generator, *, peak: float = 0.5, terms: int = 6) -> Functions:
    """R functions sum_i a_i k(., z_i) with normal a, uniform z in the grid's box, scaled to max |f| = peak on the grid."""
    validate.instance("kernel", kernel, Kernel), validate.positive_int("R", R), validate.positive_int("terms", terms)
    grid = validate.array("grid", grid, (None, None))
    box = grid.max(axis=0)
    z, a = rng.random((R, terms, grid.shape[1])) * box, rng.standard_normal((R, terms))
    values = np.einsum("rnc,rc->rn", kernel(np.broadcast_to(grid, (R, *grid.shape)), z), a)
    scale = validate.positive("peak", peak) / np.abs(values).max(axis=1)
    a = a * scale[:, None]
    norm = np.sqrt(np.einsum("rc,rce,re->r", a, kernel(z, z), a))
    return Functions(values * scale[:, None], norm, a, z)


def bump_functions(kernel: Kernel, grid: Array, R: int, rng: np.random.Generator, *, height: float) -> Functions:
    """The hard family of the lower bounds: R functions with one bump height k(., z), z uniform; |f|_k = height.

    With height about (bumps/T)^(1/2) (local model: about T^(-1/4)) the bump is barely detectable by round T.
    """
    validate.instance("kernel", kernel, Kernel), validate.positive_int("R", R)
    grid = validate.array("grid", grid, (None, None))
    z = rng.random((R, 1, grid.shape[1])) * grid.max(axis=0)
    values = validate.positive("height", height) * kernel(np.broadcast_to(grid, (R, *grid.shape)), z)[..., 0]
    return Functions(values, np.full(R, height), np.full((R, 1), height), z)


class World(NamedTuple):
    functions: Functions
    offered: NDArray[np.intp]  # (R, K) grid indices of the current decision set


@dataclass(frozen=True, eq=False)
class GaussianProcessBandit(Environment):
    """f fixed per replication, D_t = K grid points drawn anew for each user (the whole grid if K = N), bounded uniform noise.

    reward = f(x) + uniform[-noise, noise]: `noise`-sub-Gaussian, |reward| <= peak + noise, so clipping at that Y changes nothing.
    """

    kernel: Kernel
    grid: Array
    K: int
    noise: float = 0.5
    peak: float = 0.5
    bump: float | None = None  # height of a one-bump function instead of a random one

    def __post_init__(self) -> None:
        validate.array("grid", self.grid, (None, None))
        validate.positive_int("K", self.K)
        validate.nonnegative("noise", self.noise)
        if self.K > len(self.grid):
            raise ValueError(f"K must be at most the {len(self.grid)} points of the grid, got {self.K}")

    @cached_property
    def d(self) -> int:
        return self.grid.shape[1]

    def functions(self, R: int, rng: np.random.Generator) -> Functions:
        if self.bump is not None:
            return bump_functions(self.kernel, self.grid, R, rng, height=self.bump)
        return random_functions(self.kernel, self.grid, R, rng, peak=self.peak)

    def init(self, R: int, rng: np.random.Generator) -> World:
        return World(self.functions(R, rng), np.zeros((R, self.K), dtype=np.intp))

    def contexts(self, state: World, t: int, rng: np.random.Generator) -> tuple[World, Array]:
        offered = self.decision_sets(len(state.offered), 1, rng)[:, 0]
        return state._replace(offered=offered), self.grid[offered]

    def decision_sets(self, R: int, rounds: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Grid indices (R, rounds, K), independent draws (a set may hold a point twice); the whole grid if K = N."""
        N = len(self.grid)
        if self.K == N:
            return np.broadcast_to(np.arange(N), (R, rounds, N))
        return rng.integers(0, N, size=(rounds, R, self.K)).swapaxes(0, 1)

    def step(self, state: World, contexts: Array, action: NDArray[np.intp], rng: np.random.Generator) -> Feedback:
        values = np.take_along_axis(state.functions.values, state.offered, axis=1)
        mean = values[np.arange(len(action)), action]
        return Feedback(mean + self.reward_noise(rng.random(len(action))), values.max(axis=1) - mean)

    def reward_noise(self, uniform: Array) -> Array:
        """Reward noise from uniform numbers in [0, 1), of the same shape."""
        return self.noise * (2 * uniform - 1)
