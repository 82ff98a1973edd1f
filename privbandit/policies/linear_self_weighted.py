"""Linear rewards: the self-weighted block alone. Nothing is linearised, so there is nothing to explore for before it may be used."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit.formulas import self_weighted as theory
from privbandit.formulas.glm import JOINT_LEAF, TAU
from privbandit.formulas.two_block import Problem
from privbandit.ledger import Ledger
from privbandit.linalg import into_ball
from privbandit.links import Linear
from privbandit.mechanisms import PrefixSums, SquareRoot
from privbandit.policies.base import Array, Policy, argmax
from privbandit.policies.one_release import joint_ledger
from privbandit.policies.self_weighted import Epoch, WeightedLeastSquares, scaled_weighted
from privbandit.policies.two_block import Scale, calibrated, check_parameters


class UnitWeights(WeightedLeastSquares):
    """Slope 1: every weight is 1, so the sum of weights is at most the number of rounds and need not be released."""

    @cached_property
    def units(self) -> Array:
        return super().units[:-1]

    def curvature(self, epoch: Epoch, released: Array) -> Array:
        return epoch.curvature + 1

    def leaf(self, epoch: Epoch, z_o: Array, x: Array, reward: Array) -> Array:
        return super().leaf(epoch, z_o, x, reward)[:, :-1]


class State(NamedTuple):
    sums: Any
    epoch: Epoch


@dataclass(frozen=True)
class LinearSelfWeighted(Policy):
    """Linear contextual bandit from one release of whitened, normalised, centred leaves (this book).

    Parameters: `d` features with |x| <= 1 (longer ones are scaled down); `S` >= |theta*|; rewards <x, theta*> + e with |e| <= 1 and
    conditional mean 0 (divide rewards and S by a bound on |e|), clipped to |r| <= 1 + S, which then changes nothing; `horizon`;
    (`epsilon`, `delta`), epsilon = inf for no noise; `zeta` failure probability; of `scale`, public multipliers, `beta`, `drift`
    and `ridge` are read, all 1 for the theorem; `tau` as in `OneRelease`. The weighting idea is that of Chen, Li, Rakhlin and
    Simchi-Levi (arXiv 2502.13115), of which the abstract was consulted.

    Guarantee: (epsilon, delta)-joint DP of one round's user (context set and reward function), replacement neighbours, whatever the
    rewards: a leaf has squared sensitivity D(1, tau); no weight is released. Regret: with the constants unscaled at most
    `formulas.self_weighted.linear_regret` with probability 1 - 5/16 zeta, for contexts chosen from the past; the constants say
    something only at horizons that nobody runs.
    """

    d: int
    S: float
    horizon: int
    epsilon: float
    delta: float
    zeta: float = 0.05
    scale: Scale = Scale()
    tau: float = TAU
    mechanism: type[PrefixSums] = SquareRoot
    trust = "joint"

    def __post_init__(self) -> None:
        check_parameters(self)
        self.sums  # a budget out of its domain is refused here, not in the first round

    @property
    def name(self) -> str:  # type: ignore[override]
        return type(self).__name__

    @cached_property
    def problem(self) -> Problem:
        return theory.linear(self.d, self.horizon, self.S, self.zeta, self.tau)

    @cached_property
    def sums(self) -> PrefixSums:
        return calibrated(self, JOINT_LEAF(a=1.0, b=self.tau))

    @property
    def ledger(self) -> Ledger:
        return joint_ledger(self.epsilon, self.sums.entries)

    @cached_property
    def constants(self) -> theory.Weighted:
        return scaled_weighted(theory.weighted(self.problem, self.sums.max_std), self.scale)

    @cached_property
    def block(self) -> UnitWeights:
        return UnitWeights(Linear(), self.problem, self.constants)

    def init(self, R: int, noise: np.random.Generator) -> State:
        return State(self.sums.init(R, self.block.units.size, noise), self.block.init(R))

    def act(self, state: State, contexts: Array, rng: np.random.Generator) -> tuple[State, NDArray[np.intp]]:
        return state, argmax(self.block.upper(state.epoch, contexts))

    def update(self, state: State, x: Array, reward: Array, noise: np.random.Generator) -> State:
        bound, block = self.problem.Y, self.block
        leaf = block.leaf(state.epoch, np.zeros(len(x)), into_ball(x, 1.0), np.clip(reward, -bound, bound))
        sums, prefix = self.sums.release(state.sums, leaf / block.units, noise)
        return State(sums, block.read(state.epoch, prefix * block.units))
