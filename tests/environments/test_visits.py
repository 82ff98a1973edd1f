"""Choosing among recorded persons."""

import numpy as np
import pytest

from privbandit.environments.visits import CAP, RecordedPersons, covariate_matrix, table, visits
from privbandit.links import TruncatedPoisson
from privbandit.policies.uniform import Uniform
from privbandit.simulate import simulate


@pytest.fixture
def tiny():
    rng = np.random.default_rng(0)
    features = rng.uniform(-0.7, 0.7, (11, 2))
    return RecordedPersons(features, rng.integers(0, 4, 11).astype(float), TruncatedPoisson(3), K=3)


def test_every_row_is_shown_at_most_once_and_pays_its_own_outcome(tiny):
    rng = np.random.default_rng(1)
    state, seen = tiny.init(50, rng), []
    for t in range(tiny.rounds):
        state, contexts = tiny.contexts(state, t, rng)
        np.testing.assert_array_equal(contexts, tiny.features[state.shown])
        action = rng.integers(3, size=50)
        feedback = tiny.step(state, contexts, action, rng)
        rows = state.shown[np.arange(50), action]
        np.testing.assert_array_equal(feedback.reward, tiny.outcome[rows])
        best = state.shown[np.arange(50), (contexts @ tiny.reference).argmax(axis=1)]
        np.testing.assert_array_equal(feedback.regret, tiny.outcome[best] - tiny.outcome[rows])
        assert feedback.observed is None
        seen.append(state.shown)
    assert tiny.rounds == 3 and all(len(set(row)) == 9 for row in np.concatenate(seen, axis=1).tolist())
    with pytest.raises(ValueError, match="horizon must be at most 3"):
        tiny.contexts(state, 3, rng)


def test_the_reference_has_no_regret(tiny):
    class Reference(Uniform):
        def act(self, state, contexts, rng):
            return state, (contexts @ tiny.reference).argmax(axis=1)

    assert np.all(simulate(Reference(), tiny, horizon=3, replications=20, seed=0).final == 0)


def test_the_table():
    assert len(table()["mdvis"]) == 20_190
    world = visits()
    assert (world.K, world.d, world.rounds) == (5, 5, 4038)
    assert np.linalg.norm(covariate_matrix(), axis=1).max() <= 1 + 1e-12
    assert world.outcome.min() == 0 and world.outcome.max() == CAP and np.all(world.outcome % 1 == 0)
    assert np.linalg.norm(world.reference) < 3  # the public S of the study holds for the reference


@pytest.mark.parametrize(("features", "outcome", "K"), [(np.ones((4, 2)), np.ones(3), 2), (np.ones((4, 2)), np.ones(4), 5), (np.ones(4), np.ones(4), 2)])
def test_bad_tables_are_refused(features, outcome, K):
    with pytest.raises(ValueError, match="must"):
        RecordedPersons(features, outcome, TruncatedPoisson(3), K)
