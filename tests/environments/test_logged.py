"""Matched-action replay, its score, and the ACTG 175 trial."""

import numpy as np
import pytest

from privbandit.environments.actg175 import ARMS, COVARIATES, PROPENSITY, actg175, arm_blocks, bounded_outcome, covariate_matrix, table
from privbandit.environments.logged import LoggedBandit, doubly_robust
from privbandit.policies.uniform import Uniform
from privbandit.simulate import simulate


@pytest.fixture
def tiny():
    features = np.broadcast_to(np.eye(2), (4, 2, 2))
    score = np.array([[1.0, 0.0], [0.0, 0.5], [1.0, 0.5], [1.0, 0.0]])
    return LoggedBandit(features, np.array([0, 1, 0, 1]), np.array([1.0, 0.25, 0.5, 0.75]), score)


def test_each_row_once_and_only_matches_observed(tiny):
    rng = np.random.default_rng(0)
    state, rows = tiny.init(300, rng), []
    for t in range(4):
        state, _ = tiny.contexts(state, t, rng)
        rows.append(state.row)
        feedback = tiny.step(state, None, np.ones(300, dtype=int), rng)
        np.testing.assert_array_equal(feedback.observed, np.isin(state.row, [1, 3]))
        np.testing.assert_array_equal(feedback.reward, np.where(feedback.observed, tiny.reward[state.row], 0))
        np.testing.assert_allclose(feedback.regret, tiny.score[state.row, 0] - tiny.score[state.row, 1])
    assert np.array_equal(np.sort(rows, axis=0), np.tile(np.arange(4)[:, None], (1, 300)))
    assert len(np.unique(np.array(rows).T, axis=0)) == 24  # all orders of 4 rows occur in 300 draws (missing one: < 24 exp(-12.5))
    assert tiny.best == 0
    with pytest.raises(ValueError, match="horizon must be at most the number of rows 4"):
        tiny.contexts(state, 4, rng)


def test_regret_is_against_the_best_single_arm(tiny):
    class Always1(Uniform):
        def act(self, state, contexts, rng):
            return state, np.ones(len(contexts), dtype=int)

    run = simulate(Always1(), tiny, horizon=4, replications=3, seed=0)
    np.testing.assert_allclose(run.final, tiny.score[:, 0].sum() - tiny.score[:, 1].sum())
    assert np.all(run.observed == 2) and np.allclose(run.reward[:, -1], 1.0)


def test_score_is_unbiased_over_the_randomisation():
    """Potential outcomes fixed, arms drawn 400 times: the mean score is each arm's true mean within 5 standard errors."""
    rng = np.random.default_rng(5)
    n, K = 120, 3
    x, potential = rng.normal(size=(n, 2)), rng.random((n, K))
    potential[:, 2] += 0.4 * x[:, 0]
    draws = []
    for _ in range(400):
        action = rng.integers(K, size=n)
        draws.append(doubly_robust(x, action, potential[np.arange(n), action], K, 1 / K).mean(axis=0))
    error = np.mean(draws, axis=0) - potential.mean(axis=0)
    assert np.all(np.abs(error) < 5 * np.std(draws, axis=0) / np.sqrt(400))


def test_the_trial():
    data = table()
    assert len(data["arms"]) == 2139 and len(ARMS) == 4
    counts = np.bincount(data["arms"].astype(int))
    # equal randomisation: chi-square with 3 degrees of freedom, limit at level 1e-4
    assert np.sum((counts - 2139 * PROPENSITY) ** 2 / (2139 * PROPENSITY)) < 21.1
    for name in ("cd4 change", "event-free"):
        reward = bounded_outcome(name)
        assert reward.min() >= 0 and reward.max() <= 1 and reward.std() > 0.1
    np.testing.assert_array_equal(bounded_outcome("event-free"), 1 - data["cens"])
    X = covariate_matrix(tuple(COVARIATES))
    assert X.shape == (2139, 5) and np.abs(X).max() <= 1


@pytest.mark.parametrize(("names", "d"), [((), 4), (("history",), 8), (("history", "cd4"), 12)])
def test_features_fit_the_policies(names, d):
    env = actg175(names)
    assert (env.K, env.d, env.n) == (4, d, 2139)
    assert np.linalg.norm(env.features, axis=2).max() <= 1 + 1e-12
    p = d // 4
    for a in range(4):  # arm a lives in block a
        other = np.delete(env.features[:, a], np.arange(a * p, (a + 1) * p), axis=1)
        assert not other.any() and np.allclose(env.features[:, a, a * p], 1 / np.sqrt(p))
    if not names:
        np.testing.assert_array_equal(env.features[0], np.eye(4))


def test_combination_therapy_is_the_best_single_arm():
    """The trial's finding: zidovudine alone is worst, by far more than the standard error."""
    env = actg175()
    mean, error = env.score.mean(axis=0), env.score.std(axis=0) / np.sqrt(env.n)
    assert env.best == 1 and np.argmin(mean) == 0
    assert mean[1] - mean[0] > 5 * np.hypot(error[0], error[1])
    raw = [env.reward[env.action == a].mean() for a in range(4)]
    np.testing.assert_allclose(mean, raw, atol=0.01)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: actg175(("shoe size",)), "covariates must be one of"),
        (lambda: actg175((), "happiness"), "outcome must be one of"),
        (lambda: LoggedBandit(np.ones((2, 2, 2)), [0, 2], [0.0, 1.0], np.ones((2, 2))), "action must be whole numbers in 0..1"),
        (lambda: LoggedBandit(np.ones((2, 2, 2)), [0, 1], [0.0], np.ones((2, 2))), "reward must have shape"),
        (lambda: LoggedBandit(np.ones((2, 2)), [0, 1], [0.0, 1.0], np.ones((2, 2))), "features must have shape"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_blocks_keep_the_norm():
    rows = np.array([[1.0, -1.0], [0.0, 0.0]])
    np.testing.assert_allclose(np.linalg.norm(arm_blocks(rows, 3), axis=2), [[1] * 3, [3**-0.5] * 3])
