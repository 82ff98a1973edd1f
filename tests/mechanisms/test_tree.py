"""The binary tree and Honaker's estimate: known answers, the levels a user touches, memory."""

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant

from privbandit.mechanisms import HonakerTree, TreeMechanism

from .dense import honaker, tree

KNOWN = [  # T, levels, largest popcount, largest deviation, root of the mean variance; mu = 1, Delta = 1
    (7, 3, 3, 3.0, 2.267787),
    (8, 4, 3, 3.464102, 2.549510),
    (1000, 10, 9, 9.486833, 7.027090),
    (1023, 10, 10, 10.0, 7.074523),
    (1024, 11, 10, 10.488088, 7.416923),
    (20000, 15, 14, 14.491377, 10.218403),
]


@pytest.mark.parametrize("T, levels, popcount, largest, rms", KNOWN)
def test_known_answers(T, levels, popcount, largest, rms):
    mechanism = TreeMechanism.calibrated(horizon=T, mu=1.0)
    std = mechanism.std(np.arange(1, T + 1))
    assert mechanism.levels == levels and mechanism.sigma == pytest.approx(np.sqrt(levels), rel=1e-14)
    assert mechanism.max_std == pytest.approx(largest, abs=1e-6) == pytest.approx(np.sqrt(levels * popcount), abs=1e-6)
    assert np.sqrt(np.mean(std**2)) == pytest.approx(rms, abs=1e-6)


@pytest.mark.parametrize("T", [1, 2, 3, 7, 8, 1000, 1023, 1024, 1025])
def test_levels_are_the_nodes_of_the_worst_user(T):
    """Counted on the nodes' matrix: as many as the ledger charges, and the first user touches them all."""
    touched = tree(T)[1].sum(axis=0)
    assert touched.max() == touched[0] == TreeMechanism(T, 1.0).levels


def test_the_ledger_composes_as_dp_accounting_does():
    mechanism = TreeMechanism.calibrated(horizon=1000, mu=1.0)
    (entry,) = mechanism.entries
    event = SelfComposedDpEvent(GaussianDpEvent(entry.event.sigma / entry.event.Delta), entry.count)
    from privbandit.accounting import gaussian_epsilon

    assert PLDAccountant().compose(event).get_epsilon(1e-5) == pytest.approx(gaussian_epsilon(mechanism.mu, 1e-5), rel=1e-4)


@pytest.mark.parametrize("h", range(11))
def test_honaker_variance_of_a_subtree(h):
    """A subtree of 2^h leaves, known over all nodes below: variance 2^h / (2^(h+1) - 1), here from least squares (h <= 5)."""
    assert HonakerTree.variance_factor(h) == pytest.approx(2**h / (2 ** (h + 1) - 1), rel=1e-15)
    if h <= 5:
        B, _ = honaker(2**h)
        assert np.sum(B[-1] ** 2) == pytest.approx(HonakerTree.variance_factor(h), rel=1e-10)


@pytest.mark.parametrize("T", [2, 7, 8, 1025])
def test_honaker_is_never_noisier(T):
    t = np.arange(1, T + 1)
    plain, better = TreeMechanism(T, 1.0).std(t), HonakerTree(T, 1.0).std(t)
    assert np.all(better <= plain) and np.any(better < 0.9 * plain)


def test_memory_is_one_node_a_level():
    mechanism, noise = TreeMechanism(1025, 1.0), np.random.default_rng(0)
    state, widest = mechanism.init(1, 1, noise), 0
    for t in range(1, 1026):
        state, _ = mechanism.release(state, np.ones((1, 1)), noise)
        assert len(state.open) == t.bit_count() and [n.exact.item() for n in state.open] == [
            2.0**b for b in reversed(range(11)) if t >> b & 1
        ]
        widest = max(widest, len(state.open))
    assert widest == 10
