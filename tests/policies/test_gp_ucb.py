"""Gaussian-process policies without privacy."""

import numpy as np
import pytest

from privbandit.environments.gp import GaussianProcessBandit, unit_grid
from privbandit.features import SquaredExponential, features_for_horizon
from privbandit.policies.base import argmax, settled
from privbandit.policies.gp_ucb import GPUCB, IGPUCB, ApproximateGPUCB
from privbandit.simulate import simulate

KERNEL = SquaredExponential(0.2)
ENVIRONMENT = GaussianProcessBandit(KERNEL, unit_grid(50), 10)
T = 200


@pytest.mark.parametrize("policy", [GPUCB(KERNEL, 1, size=50), IGPUCB(KERNEL, 1, horizon=T), ApproximateGPUCB(features_for_horizon(KERNEL, T))])
def test_learns_and_beats_a_uniform_choice(policy):
    """Regret of the second half below two thirds of a uniform player's, over 20 replications (a non-learner has ratio 1)."""
    run = simulate(policy, ENVIRONMENT, horizon=T, replications=20, seed=3, rounds=[T // 2, T])
    rng = np.random.default_rng(0)
    world = ENVIRONMENT.init(20, rng)
    uniform = 0.0
    for t in range(T // 2):
        world, contexts = ENVIRONMENT.contexts(world, t, rng)
        uniform += ENVIRONMENT.step(world, contexts, rng.integers(0, 10, 20), rng).regret.mean()
    assert (run.regret[:, 1] - run.regret[:, 0]).mean() < 2 / 3 * uniform


def test_widths_cover_the_function():
    """20 functions of norm at most B, 200 rounds: the feature band contains f on the whole grid at every round (zeta = 0.05).

    At most 1 run in 20 may fail in expectation; six failures would be beyond five sigma.
    """
    features = features_for_horizon(KERNEL, T)
    policy, rng, R = ApproximateGPUCB(features, B=1.5), np.random.default_rng(1), 20
    world, state = ENVIRONMENT.init(R, rng), policy.init(R, rng)
    assert world.functions.norm.max() <= 1.5
    phi, failed = features(ENVIRONMENT.grid), np.zeros(R, dtype=bool)
    for t in range(T):
        mean, norm = policy.posterior.predict(state.posterior, np.broadcast_to(phi, (R, *phi.shape)))
        band = policy.beta(state)[:, None] * norm + 1.5 * np.sqrt(features.uniform_error)
        failed |= np.any(np.abs(world.functions.values - mean) > band, axis=1)
        world, contexts = ENVIRONMENT.contexts(world, t, rng)
        state, action = policy.act(state, contexts, rng)
        reward = ENVIRONMENT.step(world, contexts, action, rng).reward
        state = policy.update(state, contexts[np.arange(R), action], reward, rng)
    assert failed.sum() <= 5


def test_rewards_stay_inside_the_promised_range_and_sets_are_shared():
    rng = np.random.default_rng(2)
    world = ENVIRONMENT.init(30, rng)
    assert np.max(np.abs(world.functions.values)) <= 0.5 + 1e-12
    world, contexts = ENVIRONMENT.contexts(world, 0, rng)
    assert contexts.shape == (30, 10, 1)
    feedback = ENVIRONMENT.step(world, contexts, np.zeros(30, dtype=int), rng)
    assert np.max(np.abs(feedback.reward)) <= 1 and np.all(feedback.regret >= 0)
    a = simulate(ApproximateGPUCB(features_for_horizon(KERNEL, 1)), ENVIRONMENT, horizon=1, replications=2, seed=0)
    assert a.final.shape == (2,)


def test_function_norm_is_the_kernel_norm():
    """Oracle: |f|_k^2 >= f_X^T K_X^{-1} f_X for any points, with equality on the centres."""
    kernel = SquaredExponential(0.3)
    environment = GaussianProcessBandit(kernel, unit_grid(8), 8)
    functions = environment.functions(4, np.random.default_rng(0))
    for r in range(4):
        z = functions.centres[r]
        K = kernel(z, z)
        f = K @ functions.coefficients[r]
        assert abs(f @ np.linalg.solve(K + 1e-13 * np.eye(len(z)), f) - functions.norm[r] ** 2) < 1e-3 * functions.norm[r] ** 2
        grid_values = kernel(environment.grid, z) @ functions.coefficients[r]
        np.testing.assert_allclose(grid_values, functions.values[r], atol=1e-12)
    bumps = GaussianProcessBandit(kernel, unit_grid(50), 5, bump=0.1).functions(3, np.random.default_rng(0))
    assert np.all(bumps.norm == 0.1) and bumps.values.max() <= 0.1


def test_bad_input():
    with pytest.raises(ValueError, match="K must be at most"):
        GaussianProcessBandit(KERNEL, unit_grid(5), 6)
    with pytest.raises(ValueError, match="zeta"):
        GPUCB(KERNEL, 1, zeta=1.5)


def test_arms_that_tie_up_to_rounding_go_to_the_first():
    index = np.array([[0.3, 0.1 + 0.2, 0.3 - 1e-13], [-2e8, -1e8, -1e8 * (1 - 1e-14)], [0.0, 0.0, 0.0], [1.0, 1.0 + 1e-8, -np.inf]])
    assert np.argmax(index, axis=1).tolist() == [1, 2, 0, 1]  # rounding decides the first two
    assert argmax(settled(index)).tolist() == [0, 1, 0, 1]
