"""Noisy approximate GP-UCB: private Gaussian-process bandits under joint or local differential privacy.

After Dubey (AISTATS 2021), of which only the outline is available to us; the width, the constants and the regret theorem are
this book's own. Contexts (R, K, d) are the coordinates of the points on offer; every round is observed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.features.fourier import FourierFeatures
from privbandit.gp.calibration import Calibration, calibrate
from privbandit.gp.width import Released, Width
from privbandit.ledger import Ledger
from privbandit.linalg import quadratic
from privbandit.mechanisms import PerUser
from privbandit.policies.base import Array, Policy, argmax, settled

UNIT = "one round's user (decision set and reward function)"


class NoisyState(NamedTuple):
    t: int  # users so far
    pending: Array  # (R, size) contributions not yet released; never leaves the curator
    mechanism: Any
    released: Released


@dataclass(frozen=True, eq=False)
class NoisyGPUCB(Policy):
    """mean + beta_t |phi|_{V^-1} with V, u from noisy prefix sums of the users' contributions.

    Guarantee: (epsilon, delta)-joint DP of one round's user (decision set and response function), replacement: the prefixes are
    mu-GDP, everything shown to the other users is computed from them, from public constants and from those users' own data. With
    PerUser noise the trust model is local: each message is private by itself, provided the server does not see x_t. Holds for any
    environment; the regret theorem needs the assumptions of `Width`.
    """

    calibration: Calibration
    subgaussian: float = 0.5
    zeta_reward: float = 0.05
    label: str = ""
    gain: Callable[[int], float] | None = None  # certified bound on gamma_n(lambda_min) for the points on offer, see `GainTable`
    trust = "joint or local"

    def __post_init__(self) -> None:
        validate.instance("calibration", self.calibration, Calibration)
        if self.local and self.calibration.block != 1:
            raise ValueError(f"block must be 1 in the local model, got {self.calibration.block}")
        validate.positive("subgaussian", self.subgaussian)
        validate.probability("zeta_reward", self.zeta_reward)

    @property
    def name(self) -> str:
        return self.label or ("local" if self.local else "joint") + " noisy GP-UCB"

    @property
    def local(self) -> bool:
        return isinstance(self.calibration.mechanism, PerUser)

    @cached_property
    def width(self) -> Width:
        return Width(self.calibration, self.subgaussian, self.zeta_reward, self.gain)

    @property
    def features(self) -> FourierFeatures:
        return self.calibration.features

    @property
    def dimension(self) -> int:
        return self.features.d

    @property
    def ledger(self) -> Ledger:
        if not self.calibration.private:
            return Ledger.nonprivate()
        return Ledger(UNIT, "local" if self.local else "joint", self.calibration.mechanism.entries)

    def init(self, R: int, noise: np.random.Generator) -> NoisyState:
        size = self.calibration.leaf.size
        return NoisyState(0, np.zeros((R, size)), self.calibration.mechanism.init(R, size, noise), self.width.start(R))

    def index(self, released: Released, phi: Array) -> Array:
        """Upper confidence bounds (R, K) of features (R, K, m), up to the constant B sqrt(error)."""
        mean = np.einsum("rkm,rm->rk", phi, released.theta)
        return mean + released.beta[:, None] * np.sqrt(quadratic(phi, released.inverse))

    def act(self, state: NoisyState, contexts: Array, rng: np.random.Generator) -> tuple[NoisyState, NDArray[np.intp]]:
        return state, argmax(settled(self.index(state.released, self.features(contexts))))

    def update(self, state: NoisyState, x: Array, reward: Array, noise: np.random.Generator) -> NoisyState:
        t, pending = state.t + 1, state.pending + self.calibration.leaf.encode(x, reward)
        if t % self.calibration.block:
            return state._replace(t=t, pending=pending)
        mechanism, prefix = self.calibration.mechanism.release(state.mechanism, pending, noise)
        released = self.width.publish(prefix, t, t // self.calibration.block)
        return NoisyState(t, np.zeros_like(pending), mechanism, released)


def joint_gp_ucb(
    features: FourierFeatures,
    horizon: int,
    epsilon: float,
    delta: float,
    *,
    subgaussian: float = 0.5,
    zeta_reward: float = 0.05,
    **design: Any,
) -> NoisyGPUCB:
    """Joint DP; `design` goes to `gp.calibration.calibrate` (mechanism, gram, block, B, Y, zeta)."""
    return NoisyGPUCB(calibrate(features, horizon, epsilon, delta, **design), subgaussian, zeta_reward)


def local_gp_ucb(features: FourierFeatures, horizon: int, epsilon: float, delta: float, **design: Any) -> NoisyGPUCB:
    """Local DP: every user adds noise to the own contribution. Options as for `joint_gp_ucb`."""
    return joint_gp_ucb(features, horizon, epsilon, delta, mechanism="local", **design)
