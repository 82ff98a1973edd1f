"""Exact laws and their epsilon against closed forms."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privbandit.accounting import gaussian_epsilon
from privbandit.audit.enumeration import bernoulli_sum, exact_epsilon, hockey_stick, rounded


@pytest.mark.parametrize("p", [0.75, 0.6, 0.999])
def test_randomised_response(p):
    """ln(p / (1 - p)) at delta = 0 (p = 3/4: ln 3), and delta = p - e^epsilon (1 - p) below it."""
    P, Q = np.array([p, 1 - p]), np.array([1 - p, p])
    assert exact_epsilon(P, Q, 0.0) == pytest.approx(math.log(p / (1 - p)), rel=1e-12)
    assert hockey_stick(P, Q, 0.1) == pytest.approx(p - math.exp(0.1) * (1 - p), rel=1e-12)
    assert exact_epsilon(P, Q, hockey_stick(P, Q, 0.1)) == pytest.approx(0.1, rel=1e-9)


def test_shuffled_randomised_response_by_hand():
    """Two users, flip 1/2: counts of 0+0 are (9, 6, 1)/16, of 1+0 (3, 10, 3)/16; the likelihood ratios are 3, 3/5 and 1/3."""
    P, Q = bernoulli_sum(np.array([0.25, 0.25])), bernoulli_sum(np.array([0.75, 0.25]))
    assert P.tolist() == [float(Fraction(k, 16)) for k in (9, 6, 1)] and Q.tolist() == [float(Fraction(k, 16)) for k in (3, 10, 3)]
    assert exact_epsilon(P, Q, 0.0) == pytest.approx(math.log(3))


@pytest.mark.parametrize("n, p", [(1, 0.3), (40, 0.5), (200, 0.01)])
def test_sums_of_equal_bits_are_binomial(n, p):
    assert np.allclose(bernoulli_sum(np.full(n, p)), stats.binom.pmf(np.arange(n + 1), n, p), atol=1e-14)


def test_disjoint_and_equal_laws():
    assert exact_epsilon(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 0.5) == math.inf
    assert exact_epsilon(np.array([0.5, 0.5]), np.array([0.5, 0.5]), 0.0) == 0.0
    leak = np.array([0.9, 0.1, 0.0]), np.array([0.9, 0.0, 0.1])
    assert exact_epsilon(*leak, 0.1) == 0.0 and exact_epsilon(*leak, 0.05) == math.inf
    uneven = np.array([0.6, 0.3, 0.1]), np.array([0.3, 0.7, 0.0])
    assert exact_epsilon(*uneven, 0.1) == pytest.approx(math.log(2)) and exact_epsilon(*uneven, 0.0999) == math.inf


@pytest.mark.parametrize("mu, delta", [(1.0, 1e-2), (2.0, 1e-6), (0.3, 1e-4)])
def test_rounding_loses_little_and_only_from_below(mu, delta):
    """A grid of 1/100 standard deviation keeps all but 1e-4 of epsilon."""
    P, Q = (rounded(stats.norm.cdf, centre, 0.01, 14.0) for centre in (0.0, mu))
    assert P.sum() == pytest.approx(1.0, abs=1e-12)
    exact = gaussian_epsilon(mu, delta)
    assert exact - 1e-4 * max(1, exact) <= exact_epsilon(P, Q, delta) <= exact + 1e-9


def test_laws_must_have_one_length():
    with pytest.raises(ValueError, match=r"^Q must have shape \(2\)"):
        exact_epsilon(np.array([0.5, 0.5]), np.array([1.0]), 0.0)
