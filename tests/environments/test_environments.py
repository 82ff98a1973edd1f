"""Bernoulli and linear environments: laws, regret, shared random numbers, bad input."""

import numpy as np
import pytest

from privbandit.environments.bernoulli import BernoulliBandit
from privbandit.environments.linear import LinearBandit, unit_ball


def test_bernoulli_rewards_and_regret():
    env, rng = BernoulliBandit((0.2, 0.9)), np.random.default_rng(0)
    state, contexts = env.contexts(env.init(40000, rng), 0, rng)
    assert contexts.shape == (40000, 2, 2) and np.array_equal(contexts[7], np.eye(2))
    feedback = env.step(state, contexts, np.zeros(40000, dtype=int), rng)
    np.testing.assert_allclose(feedback.regret, 0.7)
    assert set(np.unique(feedback.reward)) == {0.0, 1.0}
    assert feedback.reward.mean() == pytest.approx(0.2, abs=5 * 0.4 / 200)  # n = 40000, 5 standard errors
    assert np.all(env.step(state, contexts, np.ones(40000, dtype=int), rng).regret == 0)


def test_same_draws_whatever_is_played():
    """Arms of different quality are compared on the same uniform number: the better arm pays whenever the worse does."""
    env = BernoulliBandit((0.2, 0.9))
    paid = [env.step(500, None, np.full(500, a), np.random.default_rng(3)).reward for a in (0, 1)]
    assert np.all(paid[1] >= paid[0]) and paid[1].sum() > paid[0].sum()


def test_linear_is_bounded_and_centred():
    env, rng = LinearBandit(K=4, d=3, S=0.7, noise=0.3), np.random.default_rng(1)
    theta = env.init(20000, rng)
    np.testing.assert_allclose(np.linalg.norm(theta, axis=1), 0.7)
    _, x = env.contexts(theta, 0, rng)
    assert np.linalg.norm(x, axis=2).max() <= 1
    action = rng.integers(4, size=20000)
    feedback = env.step(theta, x, action, rng)
    means = np.array([[xk @ th for xk in row] for row, th in zip(x[:200], theta[:200], strict=True)])
    literal = means.max(axis=1) - means[np.arange(200), action[:200]]
    np.testing.assert_allclose(feedback.regret[:200], literal, atol=1e-12)
    assert np.abs(feedback.reward).max() <= env.reward_bound and feedback.regret.min() >= 0
    noise = feedback.reward - np.einsum("rd,rd->r", x[np.arange(20000), action], theta)
    assert noise.mean() == pytest.approx(0, abs=5 * env.sigma_r / np.sqrt(20000))
    assert noise.std() == pytest.approx(env.sigma_r, rel=0.05)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_unit_ball_is_uniform(d):
    """P(|x| <= r) = r^d; n = 20000, limit 5 standard errors."""
    length = np.linalg.norm(unit_ball((20000, d), np.random.default_rng(d)), axis=1)
    for r in (0.3, 0.8):
        p = r**d
        assert np.mean(length <= r) == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / 20000))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BernoulliBandit(()), r"means must have shape \(\*\), got shape \(0,\)"),
        (lambda: BernoulliBandit((0.5, 1.2)), "means must lie in"),
        (lambda: BernoulliBandit((float("nan"),)), "means must have finite entries only, got nan"),
        (lambda: LinearBandit(0, 2), "K must be a whole number >= 1, got 0"),
        (lambda: LinearBandit(2, 2, S=-1.0), "S must be a finite number > 0, got -1"),
        (lambda: LinearBandit(2, 2, noise=float("inf")), "noise must be a finite number >= 0, got inf"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
