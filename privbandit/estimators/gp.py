"""Gaussian-process regression, in kernel form and in feature form, batched over replications.

Prior f ~ GP(0, rho^2 k), observation noise of variance lambda rho^2. In features Phi with Phi^T Phi = k and
G = sum phi phi^T + lambda I: mean = Phi^T G^{-1} sum phi y, variance = lambda rho^2 |Phi|^2_{G^{-1}}. (The factor lambda is often
dropped in print; it scales every width alike and so changes no decision.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.features.kernels import Kernel

Array = NDArray[np.float64]


class KernelState(NamedTuple):
    x: Array  # (R, t, d)
    y: Array  # (R, t)
    inverse: Array  # (R, t, t): (K + lambda I)^{-1}
    log_det: Array  # (R,): ln det(I + K / lambda)


@dataclass(frozen=True)
class KernelPosterior:
    """The exact posterior; adding a point costs O(t^2), reading one O(t^2).

    The inverse grows by blocks. The Schur complement is at least lambda in exact arithmetic and is held there in rounding, so
    repeated points do no harm.
    """

    kernel: Kernel
    lambda_: float = 1.0
    rho: float = 1.0

    def __post_init__(self) -> None:
        validate.instance("kernel", self.kernel, Kernel)
        validate.positive("lambda_", self.lambda_)
        validate.positive("rho", self.rho)

    def init(self, R: int, d: int) -> KernelState:
        return KernelState(np.zeros((R, 0, d)), np.zeros((R, 0)), np.zeros((R, 0, 0)), np.zeros(R))

    def update(self, state: KernelState, x: Array, y: Array) -> KernelState:
        """Add the points x (R, d) with values y (R,)."""
        R, t = state.y.shape
        cross = self.kernel(state.x, x[:, None, :])[..., 0]  # (R, t)
        v = np.einsum("rij,rj->ri", state.inverse, cross)
        schur = np.maximum(self.kernel.diagonal(x) + self.lambda_ - np.sum(cross * v, axis=1), self.lambda_)
        inverse = np.empty((R, t + 1, t + 1))
        inverse[:, :t, :t] = state.inverse + v[:, :, None] * v[:, None, :] / schur[:, None, None]
        inverse[:, :t, t] = inverse[:, t, :t] = -v / schur[:, None]
        inverse[:, t, t] = 1 / schur
        log_det = state.log_det + np.log(schur / self.lambda_)
        return KernelState(np.append(state.x, x[:, None], axis=1), np.append(state.y, y[:, None], axis=1), inverse, log_det)

    def predict(self, state: KernelState, x: Array) -> tuple[Array, Array]:
        """Posterior mean and standard deviation at x (R, K, d), each (R, K)."""
        cross = self.kernel(x, state.x)  # (R, K, t)
        weights = cross @ state.inverse
        mean = np.einsum("rkt,rt->rk", weights, state.y)
        variance = self.kernel.diagonal(x) - np.sum(weights * cross, axis=-1)
        return mean, self.rho * np.sqrt(np.maximum(variance, 0.0))


class FeatureState(NamedTuple):
    factor: Array  # (R, m, m): lower triangular, factor factor^T = G
    moment: Array  # (R, m): sum phi y


@dataclass(frozen=True)
class FeaturePosterior:
    """The posterior in m features: a round costs O(m^2) whatever t is.

    The Cholesky factor of G takes rank-one *up*dates only (Givens rotations): its diagonal grows, so it stays positive definite
    for any number of updates, repeated points included.
    """

    m: int
    lambda_: float = 1.0
    rho: float = 1.0

    def __post_init__(self) -> None:
        validate.positive_int("m", self.m)
        validate.positive("lambda_", self.lambda_)
        validate.positive("rho", self.rho)

    def init(self, R: int) -> FeatureState:
        root = np.sqrt(self.lambda_) * np.eye(self.m)
        return FeatureState(np.broadcast_to(root, (R, self.m, self.m)).copy(), np.zeros((R, self.m)))

    def update(self, state: FeatureState, phi: Array, y: Array) -> FeatureState:
        """Add features phi (R, m) with values y (R,)."""
        return FeatureState(cholesky_update(state.factor, phi), state.moment + phi * y[:, None])

    def coefficients(self, state: FeatureState) -> Array:
        """theta = G^{-1} sum phi y, (R, m)."""
        half = np.linalg.solve(state.factor, state.moment[..., None])
        return np.linalg.solve(np.swapaxes(state.factor, -1, -2), half)[..., 0]

    def predict(self, state: FeatureState, phi: Array) -> tuple[Array, Array]:
        """Posterior mean and standard deviation at features phi (R, K, m), each (R, K)."""
        mean = np.einsum("rkm,rm->rk", phi, self.coefficients(state))
        half = np.linalg.solve(state.factor, np.swapaxes(phi, -1, -2))  # (R, m, K)
        return mean, np.sqrt(self.lambda_) * self.rho * np.sqrt(np.sum(half**2, axis=1))

    def log_det(self, state: FeatureState) -> Array:
        """ln det(G / lambda) = ln det(I + K / lambda), (R,)."""
        diagonal = np.diagonal(state.factor, axis1=-2, axis2=-1)
        return 2 * np.sum(np.log(diagonal), axis=-1) - self.m * np.log(self.lambda_)


def cholesky_update(factor: Array, x: Array) -> Array:
    """The lower Cholesky factor of L L^T + x x^T for L (R, m, m), x (R, m)."""
    L, x = factor.copy(), x.astype(float).copy()
    for k in range(x.shape[1]):
        r = np.hypot(L[:, k, k], x[:, k])
        c, s = (L[:, k, k] / r)[:, None], (x[:, k] / r)[:, None]
        column = L[:, k:, k].copy()
        L[:, k:, k] = c * column + s * x[:, k:]
        x[:, k:] = c * x[:, k:] - s * column
    return L
