"""The accomplice: a user whose contexts are chosen so that the recommendation tells the reward of the user before."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.policies.linucb import LinearState, LinUCB

Array = NDArray[np.float64]


def revealing_arms(policy: LinUCB, low: LinearState, high: LinearState, x: Array) -> Array:
    """Two arms (R, 2, d) for the next user: LinUCB recommends arm 0 exactly if the reward at features x (R, d) was the high one.

    `low` and `high` are the states after either reward, which an adversary who knows everybody else's data computes. One arm is
    along x, the other is orthogonal to it in the inverse Gram matrix, so that its index does not depend on the reward; their lengths
    put the two indices level half-way between `low` and `high`. Needs d >= 2, one block and a width > 0.
    """
    if policy.d < 2 or policy.blocks != 1:
        raise ValueError(f"policy must have d >= 2 and one block, got d = {policy.d}, blocks = {policy.blocks}")
    x = validate.array("x", x, low.theta.shape)
    middle, beta, inverse = (low.theta + high.theta) / 2, policy.width(low), low.inverse[:, 0]

    def index(u: Array) -> Array:
        return np.sum(middle * u, axis=1) + beta * np.sqrt(np.einsum("ri,rij,rj->r", u, inverse, u))

    along = x * np.where(index(x) > 0, 1.0, -1.0)[:, None]  # one of x and -x has a positive index
    across = orthogonal(x, inverse)
    across *= np.where(np.sum(middle * across, axis=1) >= 0, 1.0, -1.0)[:, None]
    arms = np.stack([along / index(along)[:, None], across / index(across)[:, None]], axis=1)
    arms /= np.linalg.norm(arms, axis=2).max(axis=1)[:, None, None]
    return np.where((index(x) > 0)[:, None, None], arms, arms[:, ::-1])


def orthogonal(x: Array, inverse: Array) -> Array:
    """Vectors w (R, d) with w' inverse x = 0: the coordinate vector least aligned with x, minus its part along x."""
    image = np.einsum("rij,rj->ri", inverse, x)
    start = np.eye(x.shape[1])[np.argmin(np.abs(image), axis=1)]
    slope = np.sum(start * image, axis=1) / np.sum(x * image, axis=1)
    return start - slope[:, None] * x


class Outsider:
    """Accomplices who know nobody's data: each shows two arms, is recommended one and reports a fixed reward.

    Their arms are `scale` times a direction. LinUCB's index of c x is c times that of x, so a tiny arm asks as well as a large one and
    leaves next to nothing in the statistics.
    """

    def __init__(self, policy: LinUCB, reward: float, scale: float = 1e-6) -> None:
        self.policy, self.reward, self.scale, self.users = policy, reward, scale, 0

    def prefers(self, state: LinearState, u: Array, v: Array, rng: np.random.Generator) -> tuple[LinearState, NDArray[np.bool_]]:
        """The state after one accomplice, and (R,) whether u (R, d) was recommended rather than v."""
        state, action = self.policy.act(state, self.scale * np.stack([u, v], axis=1), rng)
        x = self.scale * np.where(action[:, None] == 0, u, v)
        self.users += 1
        return self.policy.update(state, x, np.full(len(u), self.reward), rng), action == 0

    def upright(self, state: LinearState, u: Array, rng: np.random.Generator) -> tuple[LinearState, Array]:
        """u or -u (R, d), whichever has an index of at least 0."""
        state, yes = self.prefers(state, u, 0 * u, rng)
        return state, np.where(yes[:, None], u, -u)

    def level(
        self, state: LinearState, u: Array, v: Array, rng: np.random.Generator, users: int = 25, most: float = 1e5
    ) -> tuple[LinearState, Array]:
        """Multiples of v (R, d) whose index equals that of u, by bisection between 1/most and most on a logarithmic scale."""
        low, high = np.full((len(u), 1), -np.log(most)), np.full((len(u), 1), np.log(most))
        for _ in range(users):
            middle = (low + high) / 2
            state, yes = self.prefers(state, u, np.exp(middle) * v, rng)
            low, high = np.where(yes[:, None], middle, low), np.where(yes[:, None], high, middle)
        return state, np.exp((low + high) / 2) * v
