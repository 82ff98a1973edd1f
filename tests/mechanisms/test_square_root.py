"""The square-root factorisation: coefficients, known answers, the streaming form's own exact cost."""

from fractions import Fraction
from math import comb

import mpmath as mp
import numpy as np
import pytest

from privbandit.mechanisms import SquareRoot, SquareRootFFT, TreeMechanism
from privbandit.mechanisms.square_root import power_series_quotient, square_root_coefficients, streaming_factor

KNOWN = [(8, 1.7183792591095), (100, 2.5313521126356), (1000, 3.2650030806724), (1024, 3.2725541502731)]


def test_coefficients_are_the_exact_binomials():
    """400 coefficients as fractions; then one far out against 30 digits."""
    exact = [float(Fraction(comb(2 * k, k), 4**k)) for k in range(400)]
    assert np.allclose(square_root_coefficients(400), exact, rtol=1e-13, atol=0)
    with mp.workdps(30):
        far = float(mp.gamma(mp.mpf(50_000) + 0.5) / mp.gamma(50_001) / mp.sqrt(mp.pi))
    assert square_root_coefficients(50_001)[-1] == pytest.approx(far, rel=1e-11, abs=0)


def test_coefficients_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        square_root_coefficients(5)[0] = 2.0


@pytest.mark.parametrize("T, largest", KNOWN)
def test_known_answers(T, largest):
    """At mu = 1 the largest deviation is the square of the column norm."""
    exact, streaming = SquareRootFFT.calibrated(T, 1.0), SquareRoot.calibrated(T, 1.0)
    assert exact.max_std == pytest.approx(largest, rel=1e-12) == pytest.approx(exact.column_norm**2, rel=1e-12)
    assert streaming.max_std == pytest.approx(largest, rel=1e-4)
    assert streaming.mean_std == pytest.approx(exact.mean_std, rel=2e-3)


def test_a_third_of_the_trees_noise_at_1024():
    assert SquareRoot.calibrated(1024, 1.0).max_std < TreeMechanism.calibrated(1024, 1.0).max_std / 3


@pytest.mark.parametrize("T", [1, 2, 3, 7, 8, 100, 1000])
def test_the_streaming_factor_multiplies_back_to_prefix_sums(T):
    """b from decays and weights directly; c = A / b by exact-order substitution (no FFT); its norm is the one charged."""
    factor = streaming_factor(T)
    b = (factor.weight * factor.decay ** np.arange(T)[:, None]).sum(axis=1)
    c = np.zeros(T)
    for k in range(T):
        c[k] = (1.0 - b[1 : k + 1] @ c[k - 1 :: -1][:k]) / b[0] if k else 1.0 / b[0]
    assert np.allclose(np.convolve(b, c)[:T], 1.0, atol=1e-12)
    assert factor.column_norm == pytest.approx(np.linalg.norm(c), rel=1e-10)
    assert np.allclose(factor.row_variance, np.cumsum(b**2), rtol=1e-12)
    assert b[0] == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("T", [10_000, 1_000_000])
def test_the_streaming_form_stays_close_at_long_horizons(T):
    exact, streaming = SquareRootFFT(T, 1.0), SquareRoot(T, 1.0)
    assert streaming.mu * streaming.max_std == pytest.approx(exact.mu * exact.max_std, rel=1e-4)


def test_memory_grows_with_the_logarithm_only():
    nodes = [len(streaming_factor(T).decay) for T in (10, 1_000, 100_000)]
    assert nodes[-1] - nodes[0] <= np.log(100_000 / 10) + 1 and nodes[-1] < 35


@pytest.mark.parametrize("n", [1, 2, 5, 64, 65])
def test_power_series_quotient(n):
    rng = np.random.default_rng(n)
    a, b = rng.normal(size=n), np.concatenate([[2.0], rng.uniform(-0.02, 0.02, size=n - 1)])
    assert np.allclose(np.convolve(power_series_quotient(a, b), b)[:n], a, atol=1e-12)
