"""Successive elimination and its private form."""

import math

import numpy as np
import pytest

from privbandit.environments.bernoulli import BernoulliBandit
from privbandit.ledger import Gaussian, Laplace
from privbandit.policies.private_elimination import PrivateElimination
from privbandit.policies.successive_elimination import SuccessiveElimination
from privbandit.simulate import simulate


def literal_elimination(means, horizon, uniforms, zeta):
    """Epochs written out for one replication; returns the arms played."""
    active, epoch, arms = list(range(len(means))), 1, []
    while len(arms) < horizon:
        log = math.log(8 * len(active) * epoch**2 / zeta)
        length = math.ceil(8 * log * 4**epoch)  # error sqrt(log / (2 N)) = 2^-epoch / 4
        sums = dict.fromkeys(active, 0.0)
        for _ in range(length):
            for a in active:
                if len(arms) == horizon:
                    return arms
                sums[a] += uniforms[len(arms)] < means[a]
                arms.append(a)
        best, error = max(sums.values()) / length, math.sqrt(log / (2 * length))
        active, epoch = [a for a in active if sums[a] / length >= best - 2 * error], epoch + 1
    return arms


def play(policy, means, horizon, uniforms):
    state, eye, arms = policy.init(1, None), np.eye(len(means))[None], []
    for t in range(horizon):
        state, arm = policy.act(state, eye, None)
        arms.append(int(arm[0]))
        state = policy.update(state, eye[0, arm], (uniforms[t] < np.array(means)[arm]).astype(float), None)
    return arms, state


@pytest.mark.parametrize("seed", range(3))
def test_is_the_literal_loop(seed):
    means, T, uniforms = (0.1, 0.9, 0.55), 3000, np.random.default_rng(seed).random(3000)
    arms, state = play(SuccessiveElimination(3), means, T, uniforms)
    assert arms == literal_elimination(means, T, uniforms, 0.05)
    assert state.active.sum() < 3  # something was eliminated


def test_without_noise_it_is_the_same_to_the_bit():
    run = dict(environment=BernoulliBandit((0.2, 0.8)), horizon=1500, replications=4, seed=3)
    plain = simulate(SuccessiveElimination(2), **run).regret
    for private in (PrivateElimination.calibrated(math.inf, K=2), PrivateElimination.calibrated(math.inf, 1e-5, K=2)):
        np.testing.assert_array_equal(simulate(private, **run).regret, plain)
        assert private.ledger.epsilon(0.5) == math.inf


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_best_arm_survives_and_the_worst_goes(delta):
    """R = 200, zeta = 0.05: P(best dropped) <= 0.05 claimed; at most 10 + 5 * 3.1 = 25 allowed. Gap 0.8 is gone by the horizon."""
    policy = PrivateElimination.calibrated(1.0, delta, K=3)
    noise, rng, R, eye = np.random.default_rng(0), np.random.default_rng(1), 200, np.eye(3)
    means, state = np.array([0.1, 0.9, 0.1]), policy.init(R, np.random.default_rng(0))
    for _ in range(2500):
        state, arm = policy.act(state, np.broadcast_to(eye, (R, 3, 3)), rng)
        state = policy.update(state, eye[arm], (rng.random(R) < means[arm]).astype(float), noise)
    assert np.sum(~state.active[:, 1]) <= 25
    assert state.active[:, [0, 2]].mean() < 0.1


def test_schedule_ignores_rewards_within_an_epoch():
    """Two reward sequences that differ everywhere give the same arms until the first epoch ends."""
    policy, zeros, ones = SuccessiveElimination(3), np.zeros(200), np.ones(200) * 2
    first = int(policy.init(1, None).length[0]) * 3
    assert 200 > 0 and first > 200
    assert play(policy, (0.5, 0.5, 0.5), 200, zeros)[0] == play(policy, (0.5, 0.5, 0.5), 200, ones)[0]


def test_error_at_the_end_of_an_epoch_is_a_quarter_of_its_gap():
    for policy in (SuccessiveElimination(4), PrivateElimination.calibrated(0.2, K=4), PrivateElimination.calibrated(0.2, 1e-6, K=4)):
        epoch, active = np.array([1.0, 3.0, 6.0]), np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]], dtype=bool)
        N = policy._length(epoch, active)
        assert np.all(policy._error(epoch, active, N) <= 2.0**-epoch / 4 * (1 + 1e-12))
        assert np.all(policy._error(epoch, active, N - 1) > 2.0**-epoch / 4)


def test_ledgers():
    pure = PrivateElimination.calibrated(0.7, K=2).guarantee(1e-9)
    assert (pure.epsilon, pure.trust, pure.unit, pure.neighbours) == (pytest.approx(0.7), "central", "one user's rewards", "replace")
    assert PrivateElimination.calibrated(0.7, 1e-6, K=2).guarantee(1e-6).epsilon == pytest.approx(0.7, rel=1e-9)


def test_smallest_runs_and_bad_input():
    run = simulate(PrivateElimination.calibrated(1.0, K=1), BernoulliBandit((0.4,)), horizon=1, replications=1, seed=0)
    assert run.final == 0
    with pytest.raises(ValueError, match="x must be one-hot"):
        policy = SuccessiveElimination(2)
        policy.update(policy.init(1, None), np.zeros((1, 2)), np.zeros(1), None)
    with pytest.raises(ValueError, match="event.Delta must be at least 1"):
        PrivateElimination(K=2, event=Laplace(0.5, 1.0))
    with pytest.raises(TypeError, match="event must be a Laplace or Gaussian event"):
        PrivateElimination(K=2, event="noise")
    with pytest.raises(ValueError, match="zeta must be a number strictly between 0 and 1"):
        PrivateElimination(K=2, event=Gaussian(1.0, 1.0), zeta=0.0)
    with pytest.raises(ValueError, match="epsilon must be a number > 0"):
        PrivateElimination.calibrated(0.0, K=2)
