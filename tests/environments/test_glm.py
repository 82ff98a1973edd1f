"""GLM environment: laws of contexts and rewards, protocols, shared random numbers."""

import numpy as np
import pytest
from scipy import stats

from privbandit.environments.glm import GLMEnvironment, uniform_ball
from privbandit.links import Linear, Logistic, Probit, TruncatedPoisson


def play(env, R, T, env_seed=0, reward_seed=1, action=0):
    rng, rewards = np.random.default_rng(env_seed), np.random.default_rng(reward_seed)
    state, out = env.init(R, rng), []
    for t in range(T):
        state, x = env.contexts(state, t, rng)
        out.append((x, env.step(state, x, np.full(R, action), rewards)))
    return state, out


@pytest.mark.parametrize("d", [1, 3, 6])
def test_uniform_ball_is_uniform(d):
    """n = 20,000, seed 3: radius^d uniform and the first coordinate's Beta law (KS p > 1e-6; a wrong radius law has p < 1e-50)."""
    x = uniform_ball(np.random.default_rng(3), (20_000,), d)
    radius = np.linalg.norm(x, axis=1)
    assert radius.max() <= 1
    assert stats.kstest(radius**d, "uniform").pvalue > 1e-6
    assert stats.kstest((1 + x[:, 0]) / 2, stats.beta((d + 1) / 2, (d + 1) / 2).cdf).pvalue > 1e-6


def test_theta_laws():
    R = 4000
    for theta in ("gaussian-sphere", "cube"):
        state = GLMEnvironment(Logistic(), d=3, K=2, S=2.5, theta=theta).init(R, np.random.default_rng(0))
        np.testing.assert_allclose(np.linalg.norm(state.theta, axis=1), 2.5)
    sphere = GLMEnvironment(Logistic(), d=3, K=2, S=1.0).init(R, np.random.default_rng(0)).theta
    assert stats.kstest(sphere[:, 0], stats.uniform(-1, 2).cdf).pvalue > 1e-6  # Archimedes: uniform coordinate on the 2-sphere
    cube = GLMEnvironment(Logistic(), d=3, K=2, S=1.0, theta="cube").init(R, np.random.default_rng(0)).theta
    assert stats.kstest(cube[:, 0], stats.uniform(-1, 2).cdf).pvalue < 1e-6  # the normalised cube is not uniform
    fixed = GLMEnvironment(Logistic(), d=2, K=2, S=1.0, theta=(0.6, 0.8)).init(3, np.random.default_rng(0)).theta
    assert np.array_equal(fixed, np.tile([0.6, 0.8], (3, 1)))


def test_mix_contexts():
    """Geometry of the three kinds and their frequencies (n = 20 x 400 rounds: 5 sigma = .03)."""
    env = GLMEnvironment(Probit(), d=4, K=6, S=3.0, contexts_kind="mix")
    state, rounds = play(env, R=400, T=20)
    q = state.directions
    np.testing.assert_allclose(q @ q.swapaxes(1, 2), np.broadcast_to(np.eye(2), (400, 2, 2)), atol=1e-12)
    np.testing.assert_allclose(state.theta, 3.0 * (0.8 * q[:, 0] + 0.6 * q[:, 1]))
    counts = np.zeros(3)
    for x, _ in rounds:
        along = np.einsum("rkd,rjd->rkj", x, q)
        kinds = np.select([along[:, :, 0].min(1) > 0.7, along[:, :, 0].max(1) < 0.1], [0, 1], 2)
        counts += np.bincount(kinds, minlength=3)
        choice = along[kinds == 2]
        assert np.all(choice[:, :3, 0] > 0.39) and np.all(choice[:, 3:, 1] > 0.39) and np.all(np.abs(choice[:, :3, 1]) < 0.051)
        assert np.linalg.norm(x, axis=-1).max() <= 1
    np.testing.assert_allclose(counts / counts.sum(), [0.25, 0.25, 0.5], atol=0.03)


@pytest.mark.parametrize("link", [Logistic(), Probit(), Linear(0.5), TruncatedPoisson(3)], ids=lambda one: one.name)
def test_rewards_have_mean_mu_and_regret_is_exact(link):
    """Mean of reward - mu(z) over 200 x 300 plays within 5 standard errors; regret recomputed by a loop."""
    env = GLMEnvironment(link, d=2, K=3, S=2.0)
    state, rounds = play(env, R=300, T=200, action=1)
    z = np.array([np.einsum("rkd,rd->rk", x, state.theta) for x, _ in rounds])
    error = np.array([f.reward for _, f in rounds]) - link.mu(z[..., 1])
    assert abs(error.mean()) < 5 * error.std() / np.sqrt(error.size)
    regret = np.array([f.regret for _, f in rounds])
    np.testing.assert_allclose(regret, link.mu(z.max(axis=-1)) - link.mu(z[..., 1]), atol=1e-14)


def test_honest_protocol_redraws_and_published_freezes():
    honest = GLMEnvironment(Logistic(), d=3, K=4, S=1.0)
    state, rounds = play(honest, R=5, T=2)
    assert len(np.unique(state.theta.round(12), axis=0)) == 5 and not np.allclose(rounds[0][0][0], rounds[0][0][1])
    published = GLMEnvironment(Logistic(), d=3, K=4, S=1.0, theta="cube", instance_seed=8)
    first, a = play(published, R=5, T=3, env_seed=0, reward_seed=1)
    second, b = play(published, R=2, T=3, env_seed=9, reward_seed=2)
    assert np.array_equal(first.theta[0], second.theta[1])
    for (x, f), (y, _) in zip(a, b, strict=True):
        assert np.array_equal(x[0], x[4]) and np.array_equal(x[0], y[0])
        assert len(f.reward) == 5
    rewards = np.array([f.reward for _, f in play(published, R=200, T=1)[1]])
    assert 0 < rewards.mean() < 1  # the rewards are not frozen


def test_policies_share_random_numbers():
    env = GLMEnvironment(Logistic(), d=3, K=4, S=1.0)
    first, second = play(env, 6, 4, action=0)[1], play(env, 6, 4, action=3)[1]
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(first, second, strict=True))


def test_instance_kappas():
    """They bracket within the public constants: an instance never reaches the ends of the ball."""
    env = GLMEnvironment(Probit(), d=3, K=20, S=2.0, theta="cube", instance_seed=1)
    kappa, kappa_star = env.instance_kappas(500)
    assert 15 < kappa < 18.5217 and np.sqrt(2 * np.pi) <= kappa_star < 2.51
    with pytest.raises(ValueError, match="instance_seed"):
        GLMEnvironment(Probit(), d=3, K=20, S=2.0).instance_kappas(5)


def test_smallest_sizes_and_bad_input():
    _, rounds = play(GLMEnvironment(Logistic(), d=1, K=1, S=1.0), R=1, T=1)
    assert rounds[0][1].regret[0] == 0
    for bad in ({"d": 0}, {"K": 0}, {"S": 0.0}, {"contexts_kind": "grid"}, {"theta": "zero"}, {"theta": (3.0, 0.0)}):
        with pytest.raises((ValueError, TypeError), match=next(iter(bad))):
            GLMEnvironment(**{"link": Logistic(), "d": 2, "K": 2, "S": 1.0, **bad})
    with pytest.raises(ValueError, match="mix"):
        GLMEnvironment(Logistic(), d=1, K=2, S=1.0, contexts_kind="mix")
