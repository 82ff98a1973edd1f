"""Information gain: certificates against brute force, and the measured values at T = 8192."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

from privbandit.features import Linear, SquaredExponential, equispaced_features
from privbandit.features.information_gain import GainTable, greedy_gain, information_gain, kernel_features, relaxed_gain
from privbandit.formulas.gp import FINITE_GAIN


def _gain(K, points, lambda_):
    A = K[np.ix_(points, points)]
    return 0.5 * np.linalg.slogdet(np.eye(len(points)) + A / lambda_)[1]


@pytest.mark.parametrize("lambda_", [0.3, 1.0, 5.0])
def test_both_ends_hold_the_maximum_found_by_enumeration(lambda_):
    x = np.linspace(0, 1, 6)[:, None]
    K = SquaredExponential(0.3)(x, x)
    best = max(_gain(K, list(c), lambda_) for c in combinations_with_replacement(range(6), 5))
    gain = information_gain(K, 5, lambda_, tolerance=1e-6)
    assert gain.lower <= best + 1e-12 <= gain.upper + 2e-12
    assert gain.upper <= gain.lower / (1 - np.exp(-1)) + 1e-12
    assert abs(_gain(K, list(gain.points), lambda_) - gain.lower) < 1e-10


def test_every_stopping_time_of_the_relaxation_is_an_upper_bound():
    x = np.linspace(0, 1, 40)[:, None]
    phi = kernel_features(SquaredExponential(0.2)(x, x))
    tight = relaxed_gain(phi, 200, 1.0, tolerance=1e-4, iterations=20000)
    assert tight[2] <= 1e-4
    for iterations in (1, 5, 50):
        assert relaxed_gain(phi, 200, 1.0, iterations=iterations)[0] >= tight[0] - 1e-9
    assert tight[0] <= FINITE_GAIN(m=phi.shape[1], T=200, lambda_=1.0)


def test_values_at_T_8192():
    x = np.linspace(0, 1, 200)[:, None]
    K = SquaredExponential(0.2)(x, x)
    _, path = greedy_gain(K, 8192)
    upper, _, gap = relaxed_gain(kernel_features(K), 8192)
    assert abs(path[-1] - 22.6) < 0.05
    assert path[-1] <= upper < 1.02 * path[-1] and gap <= 1e-3
    assert abs(greedy_gain(Linear()(x, x), 8192)[1][-1] - 4.5) < 0.05


def test_gain_of_an_approximate_kernel_is_near_the_kernels():
    """ln det(I + K~/lambda) <= 2 gamma_T + min(m, T) T eps / lambda, by Weyl's inequality."""
    x, T = np.random.default_rng(0).random((300, 1)), 300
    kernel = SquaredExponential(0.2)
    phi = equispaced_features(kernel, 9)
    approximate = np.linalg.slogdet(np.eye(T) + phi(x) @ phi(x).T)[1]
    exact = np.linalg.slogdet(np.eye(T) + kernel(x, x))[1]
    assert approximate <= exact + min(phi.m, T) * T * phi.uniform_error


def test_gain_table_is_above_greedy_at_every_size_and_below_the_dimension_bound():
    x = np.linspace(0, 1, 50)[:, None]
    phi = equispaced_features(SquaredExponential(0.2), 11)
    table = GainTable.of(phi(x), 100, 3.0)
    _, path = greedy_gain(phi(x) @ phi(x).T, 100, 3.0)
    values = np.array([table(n) for n in range(1, 101)])
    assert table(0) == 0 and np.all(values >= path) and np.all(np.diff(values) >= 0)
    assert table(64) < FINITE_GAIN(m=11, T=64, lambda_=3.0)
    with pytest.raises(ValueError, match="n must be"):
        table(1000)
