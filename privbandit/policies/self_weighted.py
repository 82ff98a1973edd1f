"""The self-weighted exploitation block: whiten each leaf by what was released, normalise it, and centre the regression.

Isotropic noise on an unwhitened leaf costs sqrt(T / epsilon) on contexts whose informative coordinate is small. Here the leaf of a
user is w min(|U x|, rho) phi phi^T with phi = U x / |U x| and a released U = J^{-1/2}, so the noise has the shape of the information.
|phi| <= 1 and the clip by rho are the sensitivity: they hold for every x and every U, in floats too (see `linalg.polar`).
U is replaced when the released matrix of the present epoch has doubled it in some direction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from privbandit.estimators.ball import project
from privbandit.formulas import self_weighted as theory
from privbandit.linalg import Spectrum, floor_eigenvalues, outer, polar, quadratic, smat, svec_size
from privbandit.policies.base import Array
from privbandit.policies.two_block import Exploitation, LeastSquares, Scale, TwoBlock, scaled


class Epoch(NamedTuple):
    """Released quantities: the first six are fixed at the start of an epoch, the others change every round."""

    root: Array  # (R, d, d) J_j^{1/2}
    whitening: Array  # (R, d, d) U_j = J_j^{-1/2}
    decoded: Array  # (R, d) z_j
    centre: Array  # (R, d) theta_j, |theta_j| <= S
    snapshot: Array  # (R, size) released sums at the start
    number: Array  # (R,) of epochs so far
    theta: Array  # (R, d)
    inverse: Array  # (R, d, d) of J
    curvature: Array  # (R,) running maximum of the released sum of weights, plus its noise bound


def times(M: Array, v: Array) -> Array:
    return (M @ v[..., None])[..., 0]


def projected(theta: Array, J: Spectrum, S: float) -> Array:
    """theta (R, d) projected to |theta| <= S in the norm of J; in its eigenvectors, where J is diagonal without rounding."""
    diagonal = J.values[:, :, None] * np.eye(J.values.shape[1])
    return times(J.vectors, project(times(np.swapaxes(J.vectors, 1, 2), theta), diagonal, S))


def scaled_weighted(k: theory.Weighted, s: Scale) -> theory.Weighted:
    k = scaled(k, s)
    return k._replace(clip=theory.CLIP(lambda_=k.ridge), width=s.beta)


@dataclass(frozen=True)
class WeightedLeastSquares(LeastSquares):
    """The self-weighted block: leaves whitened by what was released and normalised, responses centred at an earlier estimate."""

    constants: theory.Weighted

    @cached_property
    def units(self) -> Array:
        p = self.problem
        # rho needs the noise level, which needs the mechanism, not the units
        bounds = [p.L * self.constants.clip, theory.response_range(p.L, p.S, p.Y) / math.sqrt(p.tau), math.sqrt(3) * p.L]
        return np.repeat(bounds, [svec_size(p.d), p.d, 1])

    def init(self, R: int) -> Epoch:
        lam, d = self.constants.ridge, self.problem.d
        eye, zero = np.tile(np.eye(d), (R, 1, 1)), np.zeros((R, d))
        sums, curvature = np.zeros((R, self.units.size)), np.zeros(R)
        return Epoch(math.sqrt(lam) * eye, eye / math.sqrt(lam), zero, zero, sums, curvature, zero, eye / lam, curvature)

    @cached_property
    def ceiling(self) -> float:
        """What no eigenvalue of J passes on the good event: off it, noise that doubles the matrix every round must not overflow."""
        p = self.problem
        return theory.CEILING(lambda_=self.constants.ridge, d=p.d, L=p.L, T=p.T)

    def read(self, epoch: Epoch, released: Array) -> Epoch:
        """Decode the released sums of the present epoch. Limits of eigenvalues and of epochs bind only off the good event."""
        d, m = self.problem.d, svec_size(self.problem.d)
        now = released - epoch.snapshot
        increment = smat(now[:, :m], d)
        grown = floor_eigenvalues(np.eye(d) + increment, 0.5)
        J = Spectrum.clipped(epoch.root @ grown @ epoch.root, self.constants.ridge / 2, self.ceiling)
        increment = grown - np.eye(d)
        decoded = epoch.decoded + times(epoch.root, now[:, m : m + d] + times(increment, times(epoch.root, epoch.centre)))
        inverse = J.power(-1)
        same = epoch._replace(theta=times(inverse, decoded), inverse=inverse, curvature=self.curvature(epoch, released))
        due = (np.linalg.eigvalsh(grown)[:, -1] > 2) & (epoch.number < self.constants.epochs)
        return self.renewed(same, due, J, decoded, released) if due.any() else same

    def renewed(self, epoch: Epoch, due: Array, J: Spectrum, decoded: Array, released: Array) -> Epoch:
        """A new epoch in the replications where the matrix has doubled; decided from released sums before the next user comes."""
        new = epoch._replace(
            root=J.power(0.5),
            whitening=J.power(-0.5),
            decoded=decoded,
            centre=projected(epoch.theta, J, self.problem.S),
            snapshot=released,
            number=epoch.number + 1,
        )
        return Epoch(*(np.where(due.reshape(-1, *(1,) * (a.ndim - 1)), a, b) for a, b in zip(new, epoch, strict=True)))

    def curvature(self, epoch: Epoch, released: Array) -> Array:
        """An upper bound (R,) of the sum of weights that never falls."""
        return np.maximum(epoch.curvature, released[:, -1] + self.constants.scalar_noise)

    def upper(self, epoch: Epoch, contexts: Array) -> Array:
        radius = self.constants.radius(epoch.curvature)
        return np.einsum("rkd,rd->rk", contexts, epoch.theta) + radius[:, None] * np.sqrt(quadratic(contexts, epoch.inverse))

    def leaf(self, epoch: Epoch, z_o: Array, x: Array, reward: Array) -> Array:
        z = self.linearisation_point(np.einsum("rd,rd->r", x, epoch.theta), z_o)
        w = self.link.dmu(z)
        phi, length = polar(times(epoch.whitening, x))
        response = reward - self.link.mu(z) + w * (z - np.einsum("rd,rd->r", x, epoch.centre))
        matrix = (w * np.minimum(length, self.constants.clip))[:, None] * outer(phi)
        return np.concatenate([matrix, response[:, None] * phi, np.where(length > 0, w, 0.0)[:, None]], axis=1)


@dataclass(frozen=True)
class SelfWeighted(TwoBlock):
    """`TwoBlock` with a self-weighted exploitation block (this book): every term in epsilon and kappa is polylogarithmic in T.

    Parameters as in `TwoBlock`. The weighting idea is that of Chen, Li, Rakhlin and Simchi-Levi (arXiv 2502.13115), of which the
    abstract was consulted; the algorithm and its proof for adversarial contexts are this book's.

    Guarantee: as `TwoBlock`; the leaf carries one more entry, the weight w, of squared sensitivity 1/3 in its units, so that the
    squared sensitivity is D(1, tau) + 1/3. Regret: `weighted_regret` for the exploitation rounds with probability 1 - zeta. The gain
    on `TwoBlock` is in order: its explicit bound is lower only at extreme magnitudes (epsilon = .001 and T = 1e20, for instance).
    """

    @property
    def Delta2(self) -> float:
        return super().Delta2 + 1 / 3

    @cached_property
    def constants(self) -> theory.Weighted:
        return scaled_weighted(theory.weighted(self.problem, self.sums.max_std), self.scale)

    @cached_property
    def block(self) -> Exploitation:
        return WeightedLeastSquares(self.link, self.problem, self.constants)
