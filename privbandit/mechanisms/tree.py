"""The binary tree (Dwork, Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011) and Honaker's estimate on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from privbandit.ledger import Entry, Gaussian
from privbandit.mechanisms.base import Array, PrefixSums


class Node(NamedTuple):
    """A complete subtree. `exact` never leaves the curator."""

    level: int
    exact: Array  # (R, size) sum of its 2**level increments
    estimate: Array  # (R, size) private estimate of that sum
    prefix: Array  # (R, size) private estimate of everything up to its end


class TreeState(NamedTuple):
    step: int
    shape: tuple[int, int]
    open: tuple[Node, ...]  # one subtree per set bit of `step`, largest first


def popcount(t: ArrayLike) -> Array:
    return np.bitwise_count(np.asarray(t, dtype=np.uint64)).astype(float)


@dataclass(frozen=True)
class TreeMechanism(PrefixSums):
    """Binary tree: one fresh noise per complete subtree, a prefix is the sum of at most log2(T) + 1 of them. O(log T) memory.

    Guarantee: a user's increment enters at most floor(log2 T) + 1 nodes, each a Gaussian release, so mu^2 = levels Delta^2 / sigma^2
    (adaptive composition; Dong, Roth and Su 2022, Corollary 3.3).

    >>> tree = TreeMechanism.calibrated(horizon=1024, mu=1.0)
    >>> tree.levels, round(tree.max_std, 6), round(tree.sigma ** 2, 9)
    (11, 10.488088, 11.0)
    """

    @property
    def levels(self) -> int:
        return int(self.horizon).bit_length()

    @property
    def node(self) -> Gaussian:
        return Gaussian(self.Delta, self.sigma)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (Entry("tree node", self.node, self.levels),)

    def std(self, t: ArrayLike) -> Array:
        return self.sigma * np.sqrt(popcount(self._check_t(t)))

    def init(self, R: int, size: int, noise: np.random.Generator) -> TreeState:
        return TreeState(0, self._shape(R, size, noise), ())

    def release(self, state: TreeState, increment: Array, noise: np.random.Generator) -> tuple[TreeState, Array]:
        increment = self._checked(increment, state.step, state.shape)
        level, exact, estimate, open = 0, increment, self.node.release(increment, noise), state.open
        while open and open[-1].level == level:  # a carry of the binary counter
            level, exact = level + 1, exact + open[-1].exact
            estimate = self._merge(level, self.node.release(exact, noise), estimate, open[-1].estimate)
            open = open[:-1]
        prefix = estimate + open[-1].prefix if open else estimate
        return TreeState(state.step + 1, state.shape, (*open, Node(level, exact, estimate, prefix))), prefix

    def _merge(self, level: int, node: Array, right: Array, left: Array) -> Array:
        """The estimate of a subtree from its own noisy sum and those of its halves."""
        return node


@dataclass(frozen=True)
class HonakerTree(TreeMechanism):
    """The same tree, with each subtree's sum estimated from all nodes below it (Honaker 2015, "estimation from below").

    Same releases, hence the guarantee of `TreeMechanism`; a subtree of height h has variance sigma^2 2^h / (2^(h+1) - 1).
    """

    @staticmethod
    def variance_factor(level: ArrayLike) -> Array:
        """Variance of the estimate of a subtree of this height in units of sigma^2."""
        power = 2.0 ** np.asarray(level)
        return power / (2 * power - 1)

    def std(self, t: ArrayLike) -> Array:
        bits = (self._check_t(t)[..., None] >> np.arange(self.levels)) & 1
        return self.sigma * np.sqrt(bits @ self.variance_factor(np.arange(self.levels)))

    def _merge(self, level: int, node: Array, right: Array, left: Array) -> Array:
        halves = 2 * self.variance_factor(level - 1)  # variance of the sum of the halves' estimates; the node's is 1
        weight = halves / (1 + halves)
        return weight * node + (1 - weight) * (left + right)
