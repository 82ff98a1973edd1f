"""Private Gaussian-process predictions when inputs are public and outputs private ("cloaking", Smith et al. 2018).

Predictions are f* = C y. Neighbours change one output by at most `change`; noise N(0, s^2 M) hides column c_i of C if
c_i^T M^{-1} c_i <= 1. The best M (smallest determinant) is the minimum-volume ellipsoid around +-c_i, that is the dual of a
D-optimal design: it is found by multiplicative updates without a step size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.accounting import gaussian_mu
from privbandit.features.kernels import Kernel
from privbandit.ledger import Entry, Gaussian, Ledger
from privbandit.linalg import polar

Array = NDArray[np.float64]
UNIT = "the output of one training point (inputs are public)"


def d_optimal(columns: Array, tolerance: float = 1e-6, iterations: int = 20000) -> Array:
    """M (p, p) with max_i c_i^T M^{-1} c_i = 1 and ln det M within about p `tolerance` of the smallest, for columns (p, n) of rank p.

    M = sum_i lambda_i c_i c_i^T, lambda_i <- lambda_i c_i^T M^{-1} c_i, sum lambda = p (Titterington 1976); scaled at the end, so
    that M is feasible whatever the iteration reached.
    """
    columns = validate.array("columns", columns, (None, None))
    validate.positive("tolerance", tolerance), validate.positive_int("iterations", iterations)
    p, n = columns.shape
    weights = np.full(n, p / n)
    for _ in range(iterations):
        M = (columns * weights) @ columns.T
        leverage = np.einsum("pn,pn->n", columns, np.linalg.solve(M, columns))
        if leverage.max() <= 1 + tolerance:
            break
        weights = weights * leverage
    return M * leverage.max()


@dataclass(frozen=True, eq=False)
class Cloaking:
    """Predictions at x_star (p, d) from outputs at x (n, d), whose outputs may each change by `change`.

    Guarantee: mu-GDP with mu = gaussian_mu(epsilon, delta), hence (epsilon, delta)-DP of one output, central trust, replacement
    within `change`. Released is one whitened vector, L^{-1} C y + noise with M = L L^T, mapped back by L; its sensitivity is
    change * max_i |L^{-1} c_i|. (The original uses sqrt(2 ln(2/delta))/epsilon instead of 1/mu, for epsilon <= 1.)
    """

    kernel: Kernel
    x: Array
    x_star: Array
    variance: float
    change: float
    epsilon: float
    delta: float
    isotropic: bool = False  # the naive M = I, for comparison

    def __post_init__(self) -> None:
        validate.instance("kernel", self.kernel, Kernel), gaussian_mu(self.epsilon, self.delta)
        d = validate.array("x", self.x, (None, None)).shape[1]
        validate.array("x_star", self.x_star, (None, d))
        validate.positive("variance", self.variance)
        validate.positive("change", self.change)

    @cached_property
    def weights(self) -> Array:
        """C (p, n)."""
        K = self.kernel(self.x, self.x) + self.variance * np.eye(len(self.x))
        return np.linalg.solve(K, self.kernel(self.x, self.x_star)).T

    @cached_property
    def root(self) -> Array:
        """L (p, r) with noise covariance proportional to L L^T; r is the rank of C (noise outside its range would be wasted)."""
        if self.isotropic:
            return np.eye(len(self.x_star))
        scale = np.abs(self.weights).max() or 1.0  # far from all outputs the weights are so small that their squares underflow
        U, s, _ = np.linalg.svd(self.weights / scale, full_matrices=False)
        basis = U[:, s > s[0] * 1e-10]
        return scale * (basis @ np.linalg.cholesky(d_optimal(basis.T @ (self.weights / scale))))

    @cached_property
    def event(self) -> Gaussian:
        whitened = np.linalg.lstsq(self.root, self.weights, rcond=None)[0]
        Delta = self.change * float(polar(whitened.T)[1].max())
        return Gaussian(Delta, Delta / gaussian_mu(self.epsilon, self.delta))

    @property
    def covariance(self) -> Array:
        """Covariance (p, p) of the noise."""
        return self.event.sigma**2 * self.root @ self.root.T

    def release(self, y: Array, noise: np.random.Generator) -> Array:
        """Noisy predictions (R, p) from outputs (R, n)."""
        y = validate.array("y", np.atleast_2d(y), (None, len(self.x)))
        whitened = np.linalg.lstsq(self.root, self.weights @ y.T, rcond=None)[0].T
        return self.event.release(whitened, noise) @ self.root.T

    @property
    def ledger(self) -> Ledger:
        return Ledger(UNIT, "central", (Entry("predictions", self.event),))


def function_mechanism_std(kernel: Kernel, x: Array, variance: float, change: float, epsilon: float, delta: float) -> float:
    """Noise standard deviation of the baseline: predictions plus a sample of the prior, scaled by the RKHS sensitivity.

    One output moves the posterior mean by change * sum_j A_ji k(., x_j), A = (K + variance I)^{-1}, of norm change (a_i^T K a_i)^(1/2)
    (Hall, Rinaldo and Wasserman 2013; the published code bounds it by row sums).
    """
    x = validate.array("x", x, (None, None))
    validate.positive("variance", variance), validate.positive("change", change)
    K = validate.instance("kernel", kernel, Kernel)(x, x)
    A = np.linalg.inv(K + variance * np.eye(len(x)))
    norm = np.sqrt(np.max(np.einsum("ij,jk,ki->i", A, K, A)))
    return change * float(norm) / gaussian_mu(epsilon, delta)
