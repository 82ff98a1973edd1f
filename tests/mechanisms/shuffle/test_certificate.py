"""The Gaussian certificate of binomial noise against exact enumeration."""

import math

import numpy as np
import pytest

from privbandit.accounting import gaussian_delta
from privbandit.mechanisms.shuffle.certificate import BinomialNoise, inflation, least_bits, target
from privbandit.mechanisms.shuffle.hockey_stick import binomial_shift, binomial_shift_vector, divergence


def bound(event, epsilon):
    return event.tau + (1 - event.tau) * gaussian_delta(event.mu, epsilon)


@pytest.mark.parametrize("p", [0.5, 0.25])
def test_every_shift_of_one_coordinate_is_covered(p):
    """N = 60 and 300, every shift 1..12, epsilon from 0 to 4: exact delta never above the certificate, within 25 % of it somewhere."""
    closest = 0.0
    for N in (60, 300):
        for k in range(1, 13):
            event = BinomialNoise(N, float(k), 1, 1e-6, p)
            for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
                exact, certified = binomial_shift(N, k, epsilon, p), bound(event, epsilon)
                assert exact <= certified * (1 + 1e-9)
                closest = max(closest, exact / certified) if math.isfinite(event.mu) else closest
    assert closest > 0.75


def test_every_shift_shape_in_three_dimensions_is_covered():
    """All integer vectors with norm <= 6 up to order and sign patterns, N = 50: exact 3-D enumeration against the certificate."""
    event = BinomialNoise(50, 6.0, 3, 1e-5)
    shapes = [(a, b, c) for a in range(7) for b in range(a + 1) for c in range(-b, b + 1) if 0 < a * a + b * b + c * c <= 36]
    assert len(shapes) == 63
    for shape in shapes:
        for epsilon in (0.5, 2.0):
            assert binomial_shift_vector(50, shape, epsilon) <= bound(event, epsilon) * (1 + 1e-9), shape


def test_gaussian_noise_of_the_same_variance_would_not_be_covered():
    """The twin without the inflation c claims a curve that the exact one exceeds: one coordinate, p = 1/4, far in the tail."""
    N, k = 40, 8
    sigma = math.sqrt(N * 3 / 16)
    violated = [e for e in np.linspace(0, 8, 41) if binomial_shift(N, k, e, 0.25) > gaussian_delta(k / sigma, e) * (1 + 1e-9)]
    assert violated
    event = BinomialNoise(N, float(k), 1, 1e-6, 0.25)
    assert all(binomial_shift(N, k, e, 0.25) <= bound(event, e) * (1 + 1e-9) for e in violated)


def test_half_lines_are_optimal_and_delta_grows_with_the_shift():
    for p in (0.5, 0.25, 0.9):
        previous = 0.0
        for k in range(0, 14):
            exact = binomial_shift(40, k, 0.7, p)
            assert exact == pytest.approx(binomial_shift_vector(40, [k], 0.7, p), abs=1e-13)
            assert exact >= previous - 1e-15
            previous = exact
    assert binomial_shift(5, 9, 0.5) == pytest.approx(1.0)  # disjoint supports


def test_inflation_tends_to_one_and_is_small_at_one_half():
    """Half the noise bits fair: 5 % variance from sigma = 10, under 1 % from 28; p = 1/4 needs 27 % and 8 %."""
    assert 1 <= inflation(400, 10, 3e-8) ** 2 <= 1.05
    assert inflation(28 * 28 * 4, 28, 3e-8) ** 2 <= 1.007
    assert inflation(round(100 * 16 / 3), 10, 3e-8, 0.25) ** 2 > 1.15
    assert inflation(10, 9, 1e-3) == math.inf


def test_least_bits_is_least():
    mu, slack = target(1.0, 1e-5, 6)
    bits = least_bits(300, 40.0, 6, mu, slack)
    assert BinomialNoise(300 * bits, 40.0, 6, slack).mu <= mu < BinomialNoise(300 * (bits - 1), 40.0, 6, slack).mu


def test_adaptive_composition_of_two_rounds_is_covered():
    """Two rounds with shifts 3 and 4 (the second chosen after the first): the exact product against the certificate of norm 5."""
    event = BinomialNoise(80, 5.0, 2, 1e-6)
    assert binomial_shift_vector(80, [3, -4], 1.0) <= bound(event, 1.0)
    first, second = BinomialNoise(80, 3.0, 1, 1e-6), BinomialNoise(80, 4.0, 1, 1e-6)
    assert math.hypot(first.mu, second.mu) <= event.mu * (1 + 1e-9)


def test_divergence_of_known_laws():
    assert divergence(np.array([0.75, 0.25]), np.array([0.25, 0.75]), 0.0) == pytest.approx(0.5)
    assert divergence(np.array([0.75, 0.25]), np.array([0.25, 0.75]), math.log(3)) == pytest.approx(0.0, abs=1e-15)


def test_no_noise_is_not_private_and_bad_input_is_named():
    assert BinomialNoise(0, 1.0, 1, 0.1).mu == math.inf
    with pytest.raises(ValueError, match="trials must be"):
        BinomialNoise(-1, 1.0, 1, 0.1)
    with pytest.raises(ValueError, match="shift must leave"):
        binomial_shift_vector(1000, [1, 1, 1], 1.0)
