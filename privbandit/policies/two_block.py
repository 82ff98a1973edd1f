"""Explore until predictions are good enough, then exploit: one release, two blocks, a regret theorem.

The exploration block is a weighted-by-c online least squares that makes every prediction correct to Delta; the exploitation block
linearises at predictions of that quality, so that the bias of all linearisations together stays below the noise. A user adds a
leaf to one of the blocks and zero to the other; which one is decided from what was released and from that user's own arms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.accounting import gaussian_mu
from privbandit.formulas import two_block as theory
from privbandit.formulas.glm import JOINT_LEAF, TAU
from privbandit.ledger import Ledger
from privbandit.linalg import Spectrum, into_ball, outer, quadratic, smat, svec_size
from privbandit.links import Link
from privbandit.mechanisms import PrefixSums, SquareRoot
from privbandit.policies.base import Array, Policy, argmax, settled
from privbandit.policies.one_release import joint_ledger


class Scale(NamedTuple):
    """Public multipliers of the theorem's constants; all 1 is the theorem. None touches privacy, which never reads them."""

    gamma: float = 1.0  # width of the exploration block
    beta: float = 1.0  # statistical part of the exploitation width
    drift: float = 1.0  # its part from privacy noise and ridge
    Delta: float = 1.0  # threshold between exploration and exploitation
    explore_ridge: float = 1.0
    ridge: float = 1.0


class Block(NamedTuple):
    """Released least squares of a block."""

    theta: Array  # (R, d)
    inverse: Array  # (R, d, d)


class State(NamedTuple):
    sums: Any
    explore: Block
    exploit: Any
    exploring: NDArray[np.bool_]  # (R,) of the round being played


def least_squares(sums: Array, ridge: float, d: int) -> Block:
    """Released svec and vector sums (R, d(d+1)/2 + d), regularised; eigenvalues below half the ridge (off the good event) are floored."""
    m = svec_size(d)
    inverse = Spectrum.clipped(smat(sums[:, :m], d) + ridge * np.eye(d), ridge / 2).power(-1)
    return Block((inverse @ sums[:, m : m + d, None])[..., 0], inverse)


def check_parameters(policy: Any) -> None:
    """What every policy of blocks asks of its public parameters."""
    validate.positive_int("d", policy.d), validate.positive_int("horizon", policy.horizon)
    validate.positive("S", policy.S), validate.probability("zeta", policy.zeta), validate.positive("tau", policy.tau)
    for name, factor in policy.scale._asdict().items():
        validate.positive(f"scale.{name}", factor)


def calibrated(policy: Any, Delta2: float) -> PrefixSums:
    """The release of leaves with squared sensitivity `Delta2` that spends the policy's budget."""
    return policy.mechanism.calibrated(policy.horizon, gaussian_mu(policy.epsilon, policy.delta), math.sqrt(Delta2))


def scaled(k: Any, s: Scale) -> Any:
    """Constants of an exploitation block with the public multipliers of `s` that are common to all kinds of it."""
    return k._replace(ridge=k.ridge * s.ridge, drift=k.drift * s.drift, Delta=k.Delta * s.Delta)


def scaled_plain(k: theory.Exploit, s: Scale) -> theory.Exploit:
    k = scaled(k, s)
    return k._replace(radius=k.radius * s.beta)


class Exploitation(Protocol):
    """An exploitation block: the leaf a user adds to it, and what is made of its released sums. All its parameters are public."""

    @property
    def units(self) -> Array:
        """Bounds (size,) of the entries of a leaf, in which it is released."""

    def init(self, R: int) -> Any:
        """State before anything was released."""

    def read(self, state: Any, released: Array) -> Any:
        """State after the sums (R, size) were released."""

    def upper(self, state: Any, contexts: Array) -> Array:
        """Upper confidence bounds (R, K)."""

    def leaf(self, state: Any, z_o: Array, x: Array, reward: Array) -> Array:
        """(R, size) of users that play x (R, d), |x| <= 1; z_o (R,) is what the exploration block predicts for them."""


@dataclass(frozen=True)
class LeastSquares:
    """The exploitation block of the two-block algorithm: mu linearised at predictions that the exploration block has vouched for."""

    link: Link
    problem: theory.Problem
    constants: Any

    @cached_property
    def units(self) -> Array:
        p = self.problem
        return np.repeat([p.L, p.Y / math.sqrt(p.tau)], [svec_size(p.d), p.d])

    def init(self, R: int) -> Any:
        return self.read(None, np.zeros((R, self.units.size)))

    def read(self, state: Any, released: Array) -> Any:
        return least_squares(released, self.constants.ridge, self.problem.d)

    def upper(self, block: Any, contexts: Array) -> Array:
        beta, drift = 2 * self.constants.radius, self.constants.drift
        width = beta * np.sqrt(quadratic(contexts, block.inverse)) + drift * np.linalg.norm(contexts @ block.inverse, axis=2)
        return np.einsum("rkd,rd->rk", contexts, block.theta) + width

    def leaf(self, block: Any, z_o: Array, x: Array, reward: Array) -> Array:
        z = self.linearisation_point(np.einsum("rd,rd->r", x, block.theta), z_o)
        w = self.link.dmu(z)
        return np.concatenate([w[:, None] * outer(x), (reward - self.link.mu(z) + w * z)[:, None] * x], axis=1)

    def linearisation_point(self, z: Array, z_o: Array) -> Array:
        """This block's prediction, held within Delta of the exploration block's."""
        Delta, S = self.constants.Delta, self.problem.S
        return np.clip(np.clip(z, z_o - Delta, z_o + Delta), -S, S)


@dataclass(frozen=True)
class TwoBlock(Policy):
    """Two-block one-release algorithm with the constants of its regret theorem (this book).

    Parameters: `link` with rewards in [0, 1] (logistic, probit); `d` features with |x| <= 1 (longer ones are scaled down);
    `S` >= |theta*|; `horizon`; (`epsilon`, `delta`), epsilon = inf for no noise; `zeta` failure probability of the regret bound;
    `scale` public multipliers, all 1 for the theorem; `tau` as in `OneRelease`.

    Guarantee: (epsilon, delta)-joint DP of one round's user (context set and reward function), replacement neighbours: leaves
    of one block differ by at most sqrt(D(1, tau)), of different blocks by at most sqrt(2 + 2 tau), which is less.
    Regret: with the constants unscaled, at most N_o exploration rounds and `exploitation_regret` with probability 1 - zeta; the
    constants say something from T of about 1e10 upwards only.
    """

    link: Link
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
        validate.instance("link", self.link, Link)
        check_parameters(self)
        if not 0 < self.tau <= 2:
            raise ValueError(f"tau must lie in (0, 2], where moving between blocks costs no more than within one, got {self.tau!r}")
        if self.link.reward_range(self.S) != (0.0, 1.0):
            raise ValueError(f"link must have rewards in [0, 1], got {self.link!r}")
        self.sums  # a budget out of its domain is refused here, not in the first round

    @property
    def name(self) -> str:  # type: ignore[override]
        return type(self).__name__

    @cached_property
    def problem(self) -> theory.Problem:
        link, S = self.link, self.S
        c, L, M = link.c_mu(S), link.L_mu(S), link.self_concordance(S)
        return theory.Problem(self.d, self.horizon, S, self.zeta, c, L, M, link.leaf_range(S), link.leaf_range(S, slope=c), self.tau)

    @property
    def Delta2(self) -> float:
        """Square of the leaf's sensitivity in its own units."""
        return JOINT_LEAF(a=1.0, b=self.tau)

    @cached_property
    def units(self) -> Array:
        """Bounds of the entries of a leaf: exploration matrix and vector, then the exploitation block."""
        explore = np.repeat([1.0, self.problem.Y_o / math.sqrt(self.tau)], [svec_size(self.d), self.d])
        return np.concatenate([explore, self.block.units])

    @cached_property
    def sums(self) -> PrefixSums:
        return calibrated(self, self.Delta2)

    @property
    def ledger(self) -> Ledger:
        return joint_ledger(self.epsilon, self.sums.entries)

    @cached_property
    def explore_constants(self) -> theory.Explore:
        k = theory.explore(self.problem, self.sums.max_std)
        return k._replace(ridge=k.ridge * self.scale.explore_ridge, gamma=k.gamma * self.scale.gamma)

    @cached_property
    def constants(self) -> Any:
        """Constants of the exploitation block."""
        return scaled_plain(theory.exploit(self.problem, self.sums.max_std), self.scale)

    @cached_property
    def block(self) -> Exploitation:
        return LeastSquares(self.link, self.problem, self.constants)

    def init(self, R: int, noise: np.random.Generator) -> State:
        zero = np.zeros((R, self.units.size))
        return State(self.sums.init(R, self.units.size, noise), self.explored(zero), self.block.init(R), np.ones(R, dtype=bool))

    def explored(self, released: Array) -> Block:
        """The exploration block of released sums: its matrix is weighted by c here, after the release."""
        m = svec_size(self.d)
        weighted = np.concatenate([self.problem.c * released[:, :m], released[:, m : m + self.d]], axis=1)
        return least_squares(weighted, self.explore_constants.ridge, self.d)

    def act(self, state: State, contexts: Array, rng: np.random.Generator) -> tuple[State, NDArray[np.intp]]:
        width = self.explore_constants.gamma * np.sqrt(quadratic(contexts, state.explore.inverse))
        exploring = width.max(axis=1) > self.constants.Delta
        upper = np.minimum(np.einsum("rkd,rd->rk", contexts, state.explore.theta) + width, self.block.upper(state.exploit, contexts))
        return state._replace(exploring=exploring), argmax(settled(np.where(exploring[:, None], width, upper)))

    def update(self, state: State, x: Array, reward: Array, noise: np.random.Generator) -> State:
        x, reward, first = into_ball(x, 1.0), np.clip(reward, 0.0, 1.0), state.exploring[:, None]
        z_o = np.einsum("rd,rd->r", x, state.explore.theta)
        leaf = [first * self.explore_leaf(z_o, x, reward), ~first * self.block.leaf(state.exploit, z_o, x, reward)]
        sums, prefix = self.sums.release(state.sums, np.concatenate(leaf, axis=1) / self.units, noise)
        released = prefix * self.units
        exploit = self.block.read(state.exploit, released[:, svec_size(self.d) + self.d :])
        return State(sums, self.explored(released), exploit, state.exploring)

    def explore_leaf(self, z_o: Array, x: Array, reward: Array) -> Array:
        z = np.clip(z_o, -self.S, self.S)
        response = self.problem.c * z - self.link.mu(z) + reward
        return np.concatenate([outer(x), response[:, None] * x], axis=1)
