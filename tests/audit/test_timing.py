"""The timing attack's machinery: the warm-up has the law of the round-by-round run, its arms do what they are for."""

import numpy as np
import pytest

from privbandit.audit.timing import SHORT, advanced, arcs, repeats, spirals, tuned, warmed_up, with_room
from privbandit.links import Logistic
from privbandit.mechanisms import TreeMechanism
from privbandit.policies.algorithm2_published import Algorithm2


def test_advanced_tree_has_the_law_of_the_played_one():
    """n = 20,000 replications of 11 rounds: exact sums equal, deviations of the prefix within 5 standard errors; one more release agrees too."""
    tree, R = TreeMechanism(20, 0.7), 20_000
    leaf = np.array([0.5, 0.25])
    state = advanced(tree, R, 11, leaf, np.random.default_rng(0))
    played, noise = tree.init(R, 2, np.random.default_rng(1)), np.random.default_rng(1)
    for _ in range(11):
        played, prefix = tree.release(played, np.tile(leaf, (R, 1)), noise)
    assert [n.level for n in state.open] == [n.level for n in played.open] and state.step == played.step
    for a, b in zip(state.open, played.open, strict=True):
        np.testing.assert_allclose(a.exact, b.exact)
    for jump in (state, tree.release(state, np.tile(leaf, (R, 1)), noise)[0]):
        expected = tree.std(jump.step)
        assert abs(jump.open[-1].prefix[:, 0].std() / expected - 1) < 5 / np.sqrt(2 * R)
        assert abs(jump.open[-1].prefix[:, 1].mean() - 0.25 * jump.step) < 5 * expected / np.sqrt(R)


def test_warm_up_stops_between_short_and_long_arms():
    """Tuned constants: after the warm-up the mean V is below 1/threshold and above .81/threshold, and the estimate is in the ball."""
    policy, state = warmed_up(
        tuned(Algorithm2.printed(Logistic(), 2, 4.0, 8192, 4.0, 0.02, 0.02, 20), 600.0, 7.9), 200, np.random.default_rng(2), np.array([0.0, 4.0])
    )
    level = state.V[:, 0, 0].mean() * policy.threshold
    assert SHORT**2 < level < 1
    assert np.all(np.linalg.norm(state.theta_o, axis=1) <= 4.0 + 1e-9)
    assert state.history[0].n == 2 and np.all(state.calls[0] == state.rows[0])


def test_theory_needs_its_horizon():
    policy = with_room(Logistic(), 2.0, 1.0, 1e-3, 1)
    assert 1e8 < policy.horizon < 1e10
    with pytest.raises(ValueError, match="must allow"):
        warmed_up(Algorithm2.printed(Logistic(), 2, 2.0, 1000, 1.0, 1e-3), 1, np.random.default_rng(0), np.zeros(2))


def test_arms_are_short_and_growing():
    for sets in (arcs(np.array([0.5, 2.0]), 0.1), spirals()):
        for arms in sets:
            length = np.linalg.norm(arms, axis=1)
            assert np.all(np.diff(length) > 0) and length[-1] <= SHORT + 1e-12


def test_event():
    seen = np.array([[5, 5, 5], [9, 9, 9], [7, 8, 5], [9, 9, 9]])
    assert repeats(seen).tolist() == [True, False, True]
