"""The exact cost of a linear mechanism with Gaussian noise, read off its code rather than off its ledger.

What a prefix-sum mechanism publishes is M x + N z: x the increments, z independent standard normals. Both matrices are measured by
sending impulses through the running code. Replacing x by x' is then telling N(M x, N N^T) from N(M x', N N^T), which is exactly
|N^+ M (x - x')|_2-GDP: no proof of the mechanism is used, and noise that the ledger forgot or counted twice shows up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from privbandit.mechanisms.base import PrefixSums

Array = NDArray[np.float64]


class Impulses(np.random.Generator):
    """Stands in for the noise Generator: the n-th standard normal is 1 in replication n and 0 in all others."""

    def __init__(self, R: int) -> None:
        super().__init__(np.random.PCG64(0))
        self.R, self.drawn = R, 0

    def standard_normal(self, shape: tuple[int, ...]) -> Array:
        draws = np.zeros(shape)
        rows = draws.reshape(-1, self.R)  # shape (..., R, 1): a draw for every leading index
        if self.drawn + len(rows) > self.R:
            raise RuntimeError(f"more than {self.R} draws of noise")
        rows[np.arange(len(rows)), self.drawn + np.arange(len(rows))] = 1.0
        self.drawn += len(rows)
        return draws


def _run(mechanism: PrefixSums, increments: Array, noise: Impulses) -> Array:
    """All prefixes (T, R) for increments (T, R)."""
    state, prefixes = mechanism.init(noise.R, 1, noise), []
    for increment in increments:
        state, prefix = mechanism.release(state, increment[:, None], noise)
        prefixes.append(prefix[:, 0])
    return np.array(prefixes)


def noise_matrix(mechanism: PrefixSums) -> Array:
    """N, (T, draws): how every standard normal that is drawn enters every prefix."""
    noise = Impulses(2 * mechanism.horizon)
    return _run(mechanism, np.zeros((mechanism.horizon, noise.R)), noise)[:, : noise.drawn]


def data_matrix(mechanism: PrefixSums) -> Array:
    """M, (T, T): how every increment enters every prefix. Impulses of the data in replications that no draw of noise reaches."""
    T, noise = mechanism.horizon, Impulses(3 * mechanism.horizon)
    increments = np.zeros((T, noise.R))
    increments[np.arange(T), 2 * T + np.arange(T)] = 1.0
    return _run(mechanism, increments, noise)[:, 2 * T :]


def exact_mu(mechanism: PrefixSums) -> float:
    """The GDP parameter of all prefixes for the worst replaced increment, sigma > 0. O(horizon^3) time."""
    N = noise_matrix(mechanism)
    whitened = solve_triangular(cholesky(N @ N.T, lower=True), data_matrix(mechanism), lower=True)
    return float(mechanism.Delta * np.sqrt(np.max(np.sum(whitened**2, axis=0))))
