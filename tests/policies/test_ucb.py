"""UCB1 and its private form against a literal loop; the private counts, limits and bad input."""

import math

import numpy as np
import pytest

from privbandit.environments.bernoulli import BernoulliBandit
from privbandit.mechanisms import HonakerTree, PerUser, SquareRoot, SquareRootFFT, TreeMechanism
from privbandit.policies.private_ucb import PrivateUCB
from privbandit.policies.ucb import UCB, ArmState
from privbandit.simulate import simulate

MEANS = (0.3, 0.8, 0.5)


def literal_ucb1(means, horizon, uniforms):
    """UCB1 as in the 2002 paper, one replication, plain Python. Returns the sequence of arms."""
    counts, sums, arms = [0] * len(means), [0.0] * len(means), []
    for t in range(horizon):
        untried = [a for a in range(len(means)) if counts[a] == 0]
        if untried:
            arm = untried[0]
        else:
            arm = max(range(len(means)), key=lambda a: sums[a] / counts[a] + math.sqrt(2 * math.log(t) / counts[a]))
        arms.append(arm)
        counts[arm] += 1
        sums[arm] += uniforms[t] < means[arm]
    return arms


def test_ucb_is_the_literal_loop():
    uniforms, policy = np.random.default_rng(4).random(300), UCB(3)
    expected = literal_ucb1(MEANS, 300, uniforms)
    state, eye = policy.init(1, None), np.eye(3)[None]
    for t in range(300):
        state, arm = policy.act(state, eye, None)
        assert arm[0] == expected[t], t
        reward = (uniforms[t] < np.array(MEANS)[arm]).astype(float)
        state = policy.update(state, eye[0, arm], reward, None)


@pytest.mark.parametrize("mechanism", [TreeMechanism, HonakerTree, SquareRoot, SquareRootFFT, PerUser])
def test_without_noise_it_is_ucb1_to_the_bit(mechanism):
    play = dict(environment=BernoulliBandit(MEANS), horizon=200, replications=3, seed=7)
    private = PrivateUCB.calibrated(math.inf, 1e-5, K=3, horizon=200, mechanism=mechanism)
    np.testing.assert_array_equal(simulate(private, **play).regret, simulate(UCB(3), **play).regret)
    assert private.ledger.epsilon(0.5) == math.inf


@pytest.mark.parametrize("mechanism", [TreeMechanism, SquareRoot, PerUser])
def test_ledger_spends_exactly_the_target(mechanism):
    policy = PrivateUCB.calibrated(2.0, 1e-6, K=3, horizon=100, mechanism=mechanism)
    guarantee = policy.guarantee(1e-6)
    assert guarantee.epsilon == pytest.approx(2.0, rel=1e-9)
    assert guarantee.trust == ("local" if mechanism is PerUser else "joint")
    assert (guarantee.unit, guarantee.neighbours) == ("one round's user", "replace")


def test_index_is_above_the_mean():
    """At t = 50 the index must fail with probability at most about 50^-3 per arm; n = 3000 runs x 3 arms, no failure allowed
    (a false alarm has probability below 9000 * 2 * 50^-3 * 50 in the worst case, in fact the bound is slack by orders)."""
    policy, R, noise, rng = PrivateUCB.calibrated(3.0, 1e-3, K=3, horizon=64), 3000, np.random.default_rng(1), np.random.default_rng(2)
    state, eye = policy.init(R, noise), np.eye(3)
    for t in range(60):
        arm = np.full(R, t % 3)
        state = policy.update(state, eye[arm], (rng.random(R) < np.array(MEANS)[arm]).astype(float), noise)
        if t >= 49:
            assert np.all(policy.index(state) >= np.array(MEANS))
    finite = policy.index(state)[np.isfinite(policy.index(state))]
    assert finite.min() < 3  # not vacuously infinite


def test_index_reads_released_quantities_only():
    policy, noise = PrivateUCB.calibrated(1.0, 1e-3, K=2, horizon=8), np.random.default_rng(0)
    state = policy.update(policy.init(4, noise), np.tile([1.0, 0.0], (4, 1)), np.ones(4), noise)
    blind = state._replace(memory=None)
    np.testing.assert_array_equal(policy.index(state), policy.index(blind))


def test_the_reward_range_is_enforced():
    policy, noise = UCB(1), None
    state = policy.update(policy.init(2, noise), np.ones((2, 1)), np.array([7.0, -3.0]), noise)
    np.testing.assert_array_equal(state.sums[:, 0], [1.0, -1.0])


@pytest.mark.parametrize("horizon", [1, 2, 3])
@pytest.mark.parametrize("K", [1, 2])
def test_smallest_runs(horizon, K):
    for policy in (UCB(K), PrivateUCB.calibrated(1.0, 0.1, K=K, horizon=horizon)):
        run = simulate(policy, BernoulliBandit((0.5,) * K), horizon=horizon, replications=1, seed=0)
        assert run.regret.shape == (1, horizon) and np.all(run.regret == 0)


def test_bad_input():
    with pytest.raises(ValueError, match="K must be a whole number >= 1, got 0"):
        UCB(0)
    with pytest.raises(ValueError, match="contexts must have shape"):
        UCB(3).act(ArmState(0, None, np.zeros((1, 3)), np.zeros((1, 3))), np.zeros((1, 3, 5)), None)
    with pytest.raises(ValueError, match="mechanism.Delta must be at least 2, the sensitivity of a leaf, got 1.0"):
        PrivateUCB(K=2, mechanism=TreeMechanism(8, 1.0, 1.0))
    with pytest.raises(ValueError, match="epsilon must be a number > 0"):
        PrivateUCB.calibrated(-1.0, 0.1, K=2, horizon=5)
    with pytest.raises(ValueError, match="delta must be a number strictly between 0 and 1, got 1.5"):
        PrivateUCB.calibrated(1.0, 1.5, K=2, horizon=5)
