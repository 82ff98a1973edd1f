"""Both exploitation blocks at once: every user of an exploitation round adds a leaf to each, and the index is the smallest bound.

Each exploitation block has half of the leaf's squared budget: its noise is sqrt(2) times that of the exploration block in the same
release (and 1.45 or 1.38 times that of the block released alone). The regret of the exploitation rounds is then at most the smaller of
the two bounds for that noise, whichever it is, without having to know which.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from privbandit.formulas import best_of_both as theory
from privbandit.formulas.two_block import Problem
from privbandit.policies.base import Array
from privbandit.policies.self_weighted import Epoch, WeightedLeastSquares, scaled_weighted
from privbandit.policies.two_block import Block, LeastSquares, TwoBlock, scaled_plain


class Both(NamedTuple):
    plain: Block
    weighted: Epoch


@dataclass(frozen=True)
class Pair:
    """Two exploitation blocks that see the same users; each linearises at its own prediction."""

    plain: LeastSquares
    weighted: WeightedLeastSquares

    @cached_property
    def units(self) -> Array:
        return theory.NOISE * np.concatenate([self.plain.units, self.weighted.units])

    def init(self, R: int) -> Both:
        return Both(self.plain.init(R), self.weighted.init(R))

    def read(self, both: Both, released: Array) -> Both:
        size = self.plain.units.size
        return Both(self.plain.read(both.plain, released[:, :size]), self.weighted.read(both.weighted, released[:, size:]))

    def upper(self, both: Both, contexts: Array) -> Array:
        return np.minimum(self.plain.upper(both.plain, contexts), self.weighted.upper(both.weighted, contexts))

    def leaf(self, both: Both, z_o: Array, x: Array, reward: Array) -> Array:
        parts = self.plain.leaf(both.plain, z_o, x, reward), self.weighted.leaf(both.weighted, z_o, x, reward)
        return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class BestOfBoth(TwoBlock):
    """`TwoBlock` and `SelfWeighted` on the same users (this book): regret of the exploitation rounds at most the smaller bound.

    Parameters as in `TwoBlock`; all radii are those for failure probability 4/5 zeta, because there are more events.

    Guarantee: as `TwoBlock`, (epsilon, delta)-joint DP of one round's user, replacement neighbours. The entries of both exploitation
    blocks are released at sqrt(2) times their bounds: two exploitation leaves differ by at most D(1, tau) / 2 in the first block and
    (D(1, tau) + 1/3) / 2 in the second, D(1, tau) + 1/6 together (squared); two exploration leaves by D(1, tau); one of each kind by
    2 + 2 tau + 1/6, which is no more. Regret: with the constants unscaled, with probability 1 - zeta, at most `exploration_rounds`
    exploration rounds (those of the smaller threshold, hence not the smaller of two numbers) and `exploitation_regret` in the others,
    all of `formulas.best_of_both`. It is the smaller of two bounds, each for more noise than `TwoBlock` or `SelfWeighted` need alone.
    """

    @property
    def Delta2(self) -> float:
        return super().Delta2 + 1 / 6

    @cached_property
    def problem(self) -> Problem:
        return theory.events(super().problem)

    @cached_property
    def constants(self) -> theory.Halves:
        plain, weighted = theory.halves(self.problem, self.sums.max_std)
        return theory.Halves(scaled_plain(plain, self.scale), scaled_weighted(weighted, self.scale))

    @cached_property
    def block(self) -> Pair:
        plain, weighted = self.constants
        return Pair(LeastSquares(self.link, self.problem, plain), WeightedLeastSquares(self.link, self.problem, weighted))
