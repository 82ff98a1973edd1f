"""Prefix-sum mechanisms measured by the exact covariance of what they publish."""

from __future__ import annotations

import numpy as np
import pytest

from privbandit.audit.covariance import data_matrix, exact_mu, noise_matrix

SMALL = (1, 2, 3, 7, 8, 21)


def row_norms(matrix):
    return np.sqrt(np.sum(matrix**2, axis=1))


def is_honest(kind, horizons=SMALL, tight=True):
    """Calibrated to mu = 1, the published prefixes are unbiased and reveal at most (exactly, if tight) mu = 1, by measured covariance."""
    for T in horizons:
        mechanism = kind.calibrated(T, 1.0)
        assert np.allclose(data_matrix(mechanism), np.tri(T), atol=1e-12)
        assert np.allclose(row_norms(noise_matrix(mechanism)), mechanism.std(np.arange(1, T + 1)), rtol=1e-9)
        assert exact_mu(mechanism) <= 1 + 1e-9
        assert not tight or exact_mu(mechanism) == pytest.approx(1.0, rel=1e-9)
