"""LinUCB under joint differential privacy (Shariff and Sheffet 2018), as published and exactly calibrated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from privbandit import validate
from privbandit.accounting import gaussian_mu
from privbandit.formulas.linear import PUBLISHED_NORM, PUBLISHED_SIGMA, VECTOR_NORM
from privbandit.ledger import Ledger
from privbandit.mechanisms import PrefixSums, SquareRoot, TreeMechanism
from privbandit.mechanisms.wishart import WishartTree
from privbandit.policies.base import Array
from privbandit.policies.linucb import LinUCB
from privbandit.policies.private_ucb import mechanism_ledger
from privbandit.sensitivity import joint_leaf
from privbandit.spectra import NoiseBounds, gaussian_bounds


@dataclass(frozen=True, kw_only=True)
class PrivateLinUCB(LinUCB):
    """LinUCB on noisy prefix sums of the leaves (x x', weight y x). The mechanism is a field: swapping it changes nothing else.

    Width and index read the released sums and public constants only. `noise_bounds` replaces the bounds derived from the mechanism
    (for the literature's constants). With a fixed `alpha`, `shift` replaces the shift that keeps the matrix positive definite with
    high probability; eigenvalues below `ridge` are lifted to it, which is post-processing.

    *Guarantee.* Joint differential privacy of one round's user (features of all arms and rewards), neighbours by replacement, a
    trusted curator (with `PerUser` noise: local, nobody trusted). Each user touches one leaf; all releases together are as private
    as the mechanism says for leaves `joint_leaf(weight * Y)` apart; everybody else's actions are post-processing of them and of
    their own contexts. Unconditional: features are shrunk to the unit ball and rewards clipped.
    Coverage (theory width): with probability 1 - zeta for all rounds, if |theta*| <= S, rewards are within Y, the noise of the
    rewards is sigma_r-sub-Gaussian and independent of the mechanism's noise.
    """

    mechanism: PrefixSums | WishartTree
    noise_bounds: NoiseBounds | None = None
    shift: float | None = None
    trust = "joint or local"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.instance("mechanism", self.mechanism, PrefixSums, WishartTree)
        needed = joint_leaf(self.weight * self.Y)
        if self.mechanism.Delta < needed * (1 - 1e-12):
            raise ValueError(f"mechanism.Delta must be at least {needed:.6g}, the sensitivity of a leaf, got {self.mechanism.Delta!r}")
        if self.shift is not None:
            validate.nonnegative("shift", self.shift)
        if self.shift is not None and self.alpha is None:
            raise ValueError("alpha must be given with shift: the confidence width is proved for its own shift only, got alpha = None")

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        *,
        d: int,
        horizon: int,
        mechanism: type[PrefixSums] = SquareRoot,
        Y: float = 1.0,
        S: float = 1.0,
        ridge: float = 1.0,
        zeta: float = 0.05,
        blocks: int = 1,
        **fields: Any,
    ) -> PrivateLinUCB:
        """The policy whose whole run is exactly (epsilon, delta)-private, with the weight and ridge (at least `ridge`) that make
        the private part of the width, S sqrt(lambda_max) + kappa, smallest: a choice from public constants. epsilon = inf is LinUCB.
        """
        mu = gaussian_mu(epsilon, delta)
        validate.positive("Y", Y), validate.positive("S", S), validate.positive("ridge", ridge)
        fields |= {"d": d, "Y": Y, "S": S, "zeta": zeta, "blocks": blocks}

        def build(tau: float) -> PrivateLinUCB:
            weight = tau**0.5 / Y
            sums = mechanism.calibrated(horizon, mu, joint_leaf(weight * Y))
            best = best_ridge(gaussian_bounds(sums, d, zeta / 2, blocks), weight, S, ridge)
            return cls(mechanism=sums, ridge=best, weight=weight, **fields)

        if np.isinf(mu):
            sums = mechanism.calibrated(horizon, mu, joint_leaf(Y))
            return cls(mechanism=sums, ridge=ridge, **fields)
        return build(minimize_scalar(lambda tau: build(tau).private_width, bounds=(0.05, 2.0), method="bounded").x)

    @classmethod
    def practical(
        cls,
        epsilon: float,
        delta: float,
        *,
        d: int,
        horizon: int,
        mechanism: type[PrefixSums] = SquareRoot,
        Y: float = 1.0,
        ridge: float = 1.0,
        alpha: float = 0.1,
        blocks: int = 1,
        **fields: Any,
    ) -> PrivateLinUCB:
        """Exactly as private as `calibrated`, with a small fixed width alpha: no coverage claimed.

        The shift is 1.5 typical norms of d x d noise, sqrt(2d) standard deviations each; eigenvalues are lifted to a third of it. Both
        constants were chosen on simulated data and depend on no record. epsilon = inf is LinUCB with the same alpha.
        """
        validate.positive_int("d", d), validate.positive("Y", Y), validate.positive("ridge", ridge)
        sums = mechanism.calibrated(horizon, gaussian_mu(epsilon, delta), joint_leaf(1.0))
        shift = 1.5 * sums.max_std * (2 * d) ** 0.5
        fields |= {"d": d, "Y": Y, "alpha": alpha, "blocks": blocks}
        if shift == 0:
            return cls(mechanism=replace(sums, Delta=joint_leaf(Y)), ridge=ridge, **fields)
        return cls(mechanism=sums, weight=1 / Y, ridge=max(ridge, shift / 3), shift=max(ridge, shift), **fields)

    @classmethod
    def published(
        cls,
        epsilon: float,
        delta: float,
        *,
        d: int,
        horizon: int,
        Y: float = 1.0,
        zeta: float = 0.05,
        **fields: Any,
    ) -> PrivateLinUCB:
        """Shariff and Sheffet's Gaussian variant with their constants; its ledger says what they really cost.

        Per node and off-diagonal entry sigma = 4 sqrt(m) (1 + Y^2) ln(4/delta) / epsilon, m = 1 + ceil(log2 T); the shift is twice
        the norm bound Upsilon, so that the regulariser lies between Upsilon and 3 Upsilon. Constants from the authors' public code.
        Features have length at most 1. Our tree releases no root that is not needed, so it may use one level less than m.
        """
        validate.positive_int("d", d), validate.positive("Y", Y), validate.positive("epsilon", epsilon), validate.probability("zeta", zeta)
        m = 1.0 + (validate.positive_int("horizon", horizon) - 1).bit_length()
        sigma = float(PUBLISHED_SIGMA(m=m, Y=Y, delta=validate.probability("delta", delta), epsilon=epsilon))
        norm = float(PUBLISHED_NORM(sigma=sigma, m=m, d=float(d), T=float(horizon), zeta=zeta / 2))
        vector = float(VECTOR_NORM(sigma=sigma * m**0.5, d=float(d), zeta=zeta / (2 * horizon)))
        weight = 2**0.5  # off-diagonal entries of the block (x, y)(x, y)' appear in svec with sqrt(2)
        sums = TreeMechanism(horizon, 2**0.5 * sigma, joint_leaf(weight * Y))
        bounds = NoiseBounds(-norm, norm, weight * vector)
        return cls(mechanism=sums, d=d, Y=Y, ridge=norm, zeta=zeta, weight=weight, noise_bounds=bounds, **fields)

    @classmethod
    def wishart(
        cls, tree: WishartTree, *, S: float = 1.0, Y: float = 1.0, zeta: float = 0.05, ridge: float = 1.0, **fields: Any
    ) -> PrivateLinUCB:
        """The Wishart variant on `WishartTree.calibrated(...)` or `.published(...)`: the noise is positive and most of it is subtracted.

        Joint differential privacy at the tree's own (epsilon, delta).
        """
        validate.instance("tree", tree, WishartTree), validate.probability("zeta", zeta)
        weight, bounds = tree.Z / validate.positive("Y", Y), tree.noise_bounds(zeta / 2, validate.positive("ridge", ridge))
        best = min(best_ridge(bounds, weight, S, ridge), max(bounds.low, ridge))
        return cls(mechanism=tree, noise_bounds=bounds, d=tree.d, S=S, Y=Y, zeta=zeta, ridge=best, weight=weight, **fields)

    @cached_property
    def bounds(self) -> NoiseBounds:
        if self.noise_bounds is not None:
            return self.noise_bounds
        return gaussian_bounds(self.mechanism, self.d, self.zeta / 2, self.blocks)

    @property
    def added(self) -> float:
        return super().added if self.shift is None else self.shift

    @property
    def private_width(self) -> float:
        """The part of the width that privacy adds to and the ridge pays for: S sqrt(lambda_max) + kappa."""
        return self.S * (self.added + self.bounds.high) ** 0.5 + self.bounds.vector / (self.weight * self.ridge**0.5)

    @property
    def name(self) -> str:
        return f"private LinUCB ({type(self.mechanism).__name__})"

    @property
    def ledger(self) -> Ledger:
        return mechanism_ledger(self.mechanism)

    def _open(self, R: int, noise: np.random.Generator) -> Any:
        return self.mechanism.init(R, self.size, noise)

    def _add(self, memory: Any, leaf: Array, noise: np.random.Generator) -> tuple[Any, Array]:
        return self.mechanism.release(memory, leaf, noise)


def best_ridge(bounds: NoiseBounds, weight: float, S: float, least: float) -> float:
    """The lambda >= `least` that minimises S sqrt(high - low + lambda) + vector / (weight sqrt(lambda))."""
    spread, h = bounds.high - bounds.low, bounds.vector / weight
    found = minimize_scalar(
        lambda log: S * np.sqrt(spread + np.exp(log)) + h * np.exp(-log / 2), bounds=(np.log(least), np.log(least) + 40), method="bounded"
    )
    return float(np.exp(found.x))
