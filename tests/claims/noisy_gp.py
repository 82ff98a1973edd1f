"""What checks of the noisy algorithm share: its kernel, its policy built from another class, random points and regularisers."""

from __future__ import annotations

import numpy as np

from privbandit.features import SquaredExponential
from privbandit.policies.noisy_gp_ucb import joint_gp_ucb

SE = SquaredExponential(0.2)


def unit_rows(rng, n, m):
    x = rng.standard_normal((n, m))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def regulariser(rng, m, low, high):
    """A random symmetric matrix with extreme eigenvalues low and high."""
    Q = np.linalg.qr(rng.standard_normal((m, m)))[0]
    values = np.concatenate([[low, high], rng.uniform(low, high, m - 2)])
    return (Q * values) @ Q.T, Q[:, 1]


def with_class(kind):
    """joint_gp_ucb that builds another class."""
    return lambda *args, **options: kind(joint_gp_ucb(*args, **options).calibration)
