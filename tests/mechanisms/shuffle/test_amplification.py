"""Amplification by shuffling against enumeration, published numbers and an exactly solvable randomiser."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from privbandit.accounting import gaussian_delta
from privbandit.formulas.shuffle import AMPLIFICATION, AMPLIFICATION_CODE
from privbandit.mechanisms.shuffle import amplification as amp
from privbandit.mechanisms.shuffle.hockey_stick import bit_sum_delta, divergence


def enumerated(epsilon, epsilon_0, users):
    """The clone tables of Theorem 3.1's proof, cell by cell."""
    own = math.exp(epsilon_0) / (1 + math.exp(epsilon_0))
    total = 0.0
    for c in range(users):
        A = binom.pmf(np.arange(-1, c + 2), c, 0.5)
        P = own * A[:-1] + (1 - own) * A[1:]  # first column 0..c+1: A + 1 with probability own, else A
        Q = (1 - own) * A[:-1] + own * A[1:]
        total += binom.pmf(c, users - 1, math.exp(-epsilon_0)) * divergence(P, Q, epsilon)
    return total


@pytest.mark.parametrize("users", [1, 2, 7, 40])
@pytest.mark.parametrize("epsilon_0", [0.3, 1.0, 4.0])
def test_numerical_bound_is_the_enumerated_clone_divergence(users, epsilon_0):
    for epsilon in (0.0, 0.1, 0.25, 0.9):
        assert amp.shuffled_delta(epsilon, epsilon_0, users) == pytest.approx(enumerated(epsilon, epsilon_0, users), abs=1e-12)


@pytest.mark.parametrize(
    ("users", "epsilon_0", "numerical", "closed"),
    [
        (1_000, 0.5, 0.0737839, 0.3348365),
        (10_000, 1.0, 0.0549682, 0.2332656),
        (100_000, 1.0, 0.0155089, 0.0752901),
        (100_000, 4.0, 0.1724341, 0.5378040),
    ],
)
def test_known_answers(users, epsilon_0, numerical, closed):
    """Figures of the authors' code at delta = 1e-6. Its numerical bound rounds upwards, so ours lies 1-5 % below it, never above."""
    ours = amp.shuffled_epsilon(epsilon_0, users, 1e-6)
    assert 0.95 * numerical < ours <= numerical
    assert float(AMPLIFICATION_CODE(epsilon_0=epsilon_0, n=users, delta=1e-6)) == pytest.approx(closed, abs=1e-7)
    assert ours < float(AMPLIFICATION(epsilon_0=epsilon_0, n=users, delta=1e-6)) <= closed


def test_shuffled_randomised_response_is_within_the_bound():
    """Randomised response is solved exactly: its delta never exceeds the clone bound; the twin with the clones of 2 epsilon_0 fails it."""
    epsilon_0 = 1.0
    flip = 2 / (1 + math.exp(epsilon_0))
    twin_holds = True
    for users in (10, 50, 200):
        for epsilon in (0.05, 0.2, 0.5):
            exact = bit_sum_delta(users, flip, epsilon)
            assert exact <= amp.shuffled_delta(epsilon, epsilon_0, users) + 1e-12
            twin_holds &= exact <= amp.shuffled_delta(epsilon, epsilon_0 / 2, users)
    assert not twin_holds


def test_no_users_no_amplification_and_monotone():
    assert amp.shuffled_epsilon(1.0, 1, 1e-9) == pytest.approx(1.0, abs=1e-6)
    epsilons = [amp.shuffled_epsilon(1.0, n, 1e-6) for n in (100, 1000, 10_000)]
    assert epsilons[0] > epsilons[1] > epsilons[2]
    assert amp.closed_form_epsilon(1.0, 10_000, 1e-6) >= epsilons[2]


def test_gaussian_messages():
    """Local noise for (1, 1e-4) with 20000 users: about 3.5 times less than each message would need alone, and the bound is met."""
    sigma = amp.gaussian_local_sigma(1.0, 1e-4, 20_000)
    alone = amp.gaussian_local_sigma(1.0, 1e-4, 1)
    assert 2.5 < alone / sigma < 5
    assert amp.gaussian_shuffled_delta(1.0, sigma, 20_000) <= 1e-4 < amp.gaussian_shuffled_delta(1.0, 0.97 * sigma, 20_000)


def test_gaussian_bound_covers_a_projection_that_can_be_enumerated():
    """Thresholding each Gaussian message at the midpoint is post-processing: it gives randomised response, whose exact delta must not
    exceed the bound of the Gaussian messages."""
    from scipy.special import ndtr

    sigma, users = 0.8, 60
    flip = 2 * ndtr(-0.5 / sigma)
    for epsilon in (0.3, 0.6):
        assert bit_sum_delta(users, flip, epsilon) <= amp.gaussian_shuffled_delta(epsilon, sigma, users)
    assert amp.gaussian_shuffled_delta(0.5, 5.0, 1) >= gaussian_delta(0.2, 0.5) * 0.99


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: amp.closed_form_epsilon(8.0, 1000, 1e-6), "epsilon_0 must be at most"),
        (lambda: amp.shuffled_delta(-1.0, 1.0, 5), "epsilon must be"),
        (lambda: amp.shuffled_epsilon(1.0, 0, 1e-6), "users must be"),
        (lambda: amp.shuffled_epsilon(1.0, 5, 0.0), "delta must be"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
