"""Norm bounds of symmetric Gaussian noise against simulation."""

import numpy as np
import pytest

from privbandit.linalg import smat, svec
from privbandit.mechanisms import SquareRoot, TreeMechanism
from privbandit.spectra import gaussian_bounds, matrix_norm, sample_eigenvalues, semicircle, vector_norm


def test_symmetrised_noise_is_lossless():
    """Diagonal variance s^2 and half of it elsewhere: the cost |D|_F^2 / s^2 of a symmetric shift D equals that in svec coordinates."""
    D = np.array([[1.0, 2.0, 0.0], [2.0, -1.0, 0.5], [0.0, 0.5, 3.0]])
    variance = np.where(np.eye(3) > 0, 1.0, 0.5)
    upper = np.triu(np.ones((3, 3))) > 0
    assert np.sum((D**2 / variance)[upper]) == pytest.approx(np.sum(D**2)) == pytest.approx(np.sum(svec(D) ** 2))
    np.testing.assert_allclose(smat(svec(D), 3), D)


@pytest.mark.parametrize("d", [1, 3, 12])
@pytest.mark.parametrize("zeta", [0.3, 0.02])
def test_matrix_norm_fails_rarely_and_is_not_absurd(d, zeta):
    """n = 20000 draws: at most zeta + 5 binomial standard deviations above the bound, and the median within a factor 4 (8 for d = 1) of it."""
    n = 20000
    norms = np.abs(sample_eigenvalues(d, 2.0, n, np.random.default_rng(d))).max(axis=1)
    bound = matrix_norm(d, 2.0, zeta)
    assert np.mean(norms > bound) <= zeta + 5 * np.sqrt(zeta * (1 - zeta) / n)
    assert bound < (8 if d == 1 else 4) * np.median(norms)


def test_vector_norm():
    """n = 20000 draws, limit 5 standard deviations above zeta = 0.05."""
    norms = 1.5 * np.linalg.norm(np.random.default_rng(1).standard_normal((20000, 5)), axis=1)
    assert np.mean(norms > vector_norm(5, 1.5, 0.05)) <= 0.05 + 5 * np.sqrt(0.05 * 0.95 / 20000)


@pytest.mark.parametrize("cls", [TreeMechanism, SquareRoot])
def test_bounds_hold_along_whole_paths(cls):
    """400 paths of 64 prefixes, zeta = 0.1: failures at most 40 + 5 * 6. The mean of max-norm / bound was 0.6."""
    m, R, d = cls.calibrated(64, 1.0), 400, 3
    noise, size = np.random.default_rng(3), 9
    state, worst = m.init(R, size, noise), np.zeros((2, R))
    for _ in range(64):
        state, prefix = m.release(state, np.zeros((R, size)), noise)
        norms = np.abs(np.linalg.eigvalsh(smat(prefix[:, :6], d))).max(axis=1), np.linalg.norm(prefix[:, 6:], axis=1)
        worst = np.maximum(worst, norms)
    bounds = gaussian_bounds(m, d, 0.1)
    assert np.sum((worst[0] > bounds.high) | (worst[1] > bounds.vector)) <= 40 + 30
    assert worst[0].mean() > bounds.high / 4


def test_semicircle():
    x = np.linspace(-10, 10, 20001)
    density = semicircle(x, 12, 1.3)
    assert np.sum(density) * (x[1] - x[0]) == pytest.approx(1, abs=1e-4)
    assert np.sum(x**2 * density) * (x[1] - x[0]) == pytest.approx(1.3**2 * 12 / 2, rel=1e-3)
    values = sample_eigenvalues(40, 1.0, 400, np.random.default_rng(0))
    assert np.mean(values**2) == pytest.approx(41 / 2, rel=0.02)  # exactly (d + 1) / 2; 400 x 820 coordinates


def test_no_noise_and_bad_input():
    assert matrix_norm(3, 0.0, 0.1) == 0.0
    with pytest.raises(ValueError, match="zeta must be a number strictly between 0 and 1, got 1"):
        matrix_norm(3, 1.0, 1)
    with pytest.raises(ValueError, match="d must be a whole number >= 1, got 0"):
        vector_norm(0, 1.0, 0.1)
