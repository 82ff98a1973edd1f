"""The noise at chosen prefixes has the law of the streaming mechanism."""

import numpy as np
import pytest

from privbandit.gp.prefix_noise import prefix_noise
from privbandit.mechanisms import HonakerTree, PerUser, SquareRoot, SquareRootFFT, TreeMechanism

TIMES = np.array([1, 2, 3, 7, 8, 13, 21, 22, 32])


@pytest.mark.parametrize("kind", [TreeMechanism, SquareRoot, SquareRootFFT, PerUser])
def test_covariance_equals_that_of_the_streaming_mechanism(kind):
    """n = 40000 paths each; entries of the two covariance matrices differ by at most five standard errors of their difference."""
    T, n = 32, 40000
    mechanism, rng = kind(T, 1.0), np.random.default_rng(0)
    state, zero, path = mechanism.init(n, 1, rng), np.zeros((n, 1)), []
    for _ in range(T):
        state, prefix = mechanism.release(state, zero, rng)
        path.append(prefix[:, 0])
    stream = np.cov(np.array(path)[TIMES - 1])
    chosen = prefix_noise(mechanism, TIMES, n, 1, rng)[:, :, 0]
    fast = np.cov(chosen)
    scale = np.sqrt(np.outer(np.diag(stream), np.diag(stream)))
    assert np.max(np.abs(stream - fast) / scale) < 5 * np.sqrt(2 * 2 / n)
    np.testing.assert_allclose(chosen.std(axis=1), mechanism.std(TIMES), rtol=5 / np.sqrt(2 * n))


def test_tree_nodes_are_shared_between_prefixes():
    noise = prefix_noise(TreeMechanism(8, 1.0), np.array([4, 5, 6, 7]), 1, 3, np.random.default_rng(1))
    four, five, six, seven = noise[:, 0]
    leaf5, pair56 = five - four, six - four
    assert np.all(np.abs(leaf5) > 0) and np.all(np.abs(pair56 - leaf5) > 0)
    assert np.max(np.abs(seven - six)) > 0  # prefix 7 = 4 + 2 + 1


def test_no_noise_is_exactly_zero_and_bad_times_are_refused():
    assert not prefix_noise(TreeMechanism(8, 0.0), np.array([1, 8]), 2, 3, np.random.default_rng(0)).any()
    with pytest.raises(ValueError, match="times must increase"):
        prefix_noise(TreeMechanism(8, 1.0), np.array([3, 9]), 1, 1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="mechanism must be"):
        prefix_noise(HonakerTree(8, 1.0), np.array([3]), 1, 1, np.random.default_rng(0))
