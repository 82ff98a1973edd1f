"""simulate: a literal loop, shared random numbers, independence of the number of jobs, intervals, bad input."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from privbandit.environments.base import Environment, Feedback
from privbandit.environments.bernoulli import BernoulliBandit
from privbandit.environments.linear import LinearBandit
from privbandit.policies.base import Policy
from privbandit.policies.linucb import LinUCB
from privbandit.policies.private_linucb import PrivateLinUCB
from privbandit.policies.uniform import Uniform
from privbandit.simulate import BLOCK, Streams, record_rounds, simulate


@dataclass(frozen=True)
class Fixed(Policy):
    """Always the same arm; remembers what it was shown, for the test."""

    arm: int
    name = "fixed"

    def init(self, R, noise):
        return []

    def act(self, state, contexts, rng):
        return state, np.full(len(contexts), self.arm)

    def update(self, state, x, reward, noise):
        return [*state, (x, reward)]


@dataclass(frozen=True)
class Half(Environment):
    """Arm a has feature a + t and pays 10 a + t; odd replications are never observed."""

    K: int = 2
    d: int = 1

    def init(self, R, rng):
        return R, 0

    def contexts(self, state, t, rng):
        R, _ = state
        return (R, t), np.broadcast_to(np.arange(2.0)[:, None] + t, (R, 2, 1))

    def step(self, state, contexts, action, rng):
        R, t = state
        return Feedback(10.0 * action + t, 1.0 - action, np.arange(R) % 2 == 0)


def literal(policy, environment, horizon, R, seed):
    """The protocol written out round by round, for one block."""
    streams = Streams.of(np.random.SeedSequence(seed).spawn(1)[0])
    world, state = environment.init(R, streams.environment), policy.init(R, streams.noise)
    total, curve = np.zeros(R), []
    for t in range(horizon):
        world, contexts = environment.contexts(world, t, streams.environment)
        state, action = policy.act(state, contexts, streams.policy)
        reward, regret, _ = environment.step(world, contexts, action, streams.reward)
        x = np.array([contexts[r, action[r]] for r in range(R)])
        state = policy.update(state, x, reward, streams.noise)
        total = total + regret
        curve.append(total)
    return np.array(curve).T


@pytest.mark.parametrize("policy", [Uniform(), LinUCB(d=2), PrivateLinUCB.calibrated(3.0, 1e-3, d=2, horizon=30)])
def test_is_the_literal_loop(policy):
    environment = LinearBandit(K=3, d=2)
    run = simulate(policy, environment, horizon=30, replications=5, seed=11)
    np.testing.assert_array_equal(run.regret, literal(policy, environment, 30, 5, 11))
    np.testing.assert_array_equal(run.rounds, np.arange(1, 31))


def test_unobserved_rounds_reach_the_policy_as_zeros():
    policy, environment = Fixed(1), Half()
    run = simulate(policy, environment, horizon=4, replications=3, seed=0)
    np.testing.assert_array_equal(run.observed, [4, 0, 4])
    np.testing.assert_array_equal(run.reward[:, -1], [46, 0, 46])  # 10 + t summed over t = 0..3
    seen = []

    class Spy(Fixed):
        def update(self, state, x, reward, noise):
            seen.append((x[:, 0].copy(), reward.copy()))
            return state

    simulate(Spy(1), environment, horizon=2, replications=3, seed=0)
    np.testing.assert_array_equal(seen[1][0], [2, 0, 2])
    np.testing.assert_array_equal(seen[1][1], [11, 0, 11])


def test_jobs_change_nothing():
    """More than two blocks, one of them smaller."""
    play = dict(environment=LinearBandit(K=3, d=2), horizon=15, replications=2 * BLOCK + 7, seed=5)
    policy = PrivateLinUCB.calibrated(3.0, 1e-3, d=2, horizon=15)
    one, two = simulate(policy, **play, jobs=1), simulate(policy, **play, jobs=2)
    np.testing.assert_array_equal(one.regret, two.regret)
    assert one.regret.shape == (2 * BLOCK + 7, 15)


def test_block_says_how_many_replications_are_played_at_once():
    sizes = []

    class Sized(Uniform):
        def init(self, R, noise):
            sizes.append(R)
            return super().init(R, noise)

    found = simulate(Sized(), LinearBandit(K=3, d=2), horizon=4, replications=25, seed=5, block=10)
    assert sizes == [10, 10, 5] and found.regret.shape == (25, 4)
    with pytest.raises(ValueError, match="block must be a whole number >= 1, got 0"):
        simulate(Uniform(), LinearBandit(K=3, d=2), horizon=4, replications=25, seed=5, block=0)


def test_policies_share_contexts_and_rewards():
    """Same seed: whatever is played, the same contexts appear and the same draw decides the reward."""
    shown = {}

    class Watching(LinearBandit):
        def step(self, state, contexts, action, rng):
            feedback = super().step(state, contexts, action, rng)
            noise = feedback.reward - np.einsum("rd,rd->r", contexts[np.arange(len(action)), action], state)
            shown.setdefault(policy.name, []).append((contexts.copy(), noise))
            return feedback

    for policy in (Uniform(), LinUCB(d=2), PrivateLinUCB.calibrated(1.0, 0.1, d=2, horizon=10), Fixed(0)):
        simulate(policy, Watching(K=4, d=2), horizon=10, replications=3, seed=9)
    first = shown.pop("uniform")
    for other in shown.values():
        for (contexts, noise), (same, draw) in zip(first, other, strict=True):
            np.testing.assert_array_equal(contexts, same)
            np.testing.assert_allclose(noise, draw, atol=1e-14)


def test_replications_differ_and_seeds_matter():
    play = dict(environment=BernoulliBandit((0.2, 0.8)), horizon=20, replications=BLOCK + 2)
    a, b = simulate(Uniform(), seed=1, **play), simulate(Uniform(), seed=2, **play)
    assert len(np.unique(a.regret, axis=0)) > BLOCK and not np.array_equal(a.regret, b.regret)


def test_interval_is_students():
    run = simulate(Uniform(), BernoulliBandit((0.1, 0.9)), horizon=30, replications=12, seed=0)
    interval, oracle = run.interval(0.9), ttest_1samp(run.regret[:, 7], 0).confidence_interval(0.9)
    assert (interval.low[7], interval.high[7]) == pytest.approx((oracle.low, oracle.high))
    single = simulate(Uniform(), BernoulliBandit((0.1, 0.9)), horizon=3, replications=1, seed=0).interval()
    assert np.all(np.isinf(single.high)) and np.all(single.low < single.mean)


def test_recorded_rounds():
    assert np.array_equal(record_rounds(5), [1, 2, 3, 4, 5])
    long = record_rounds(100000, 50)
    assert long[0] == 1 and long[-1] == 100000 and len(long) == 50
    play = dict(environment=BernoulliBandit((0.1, 0.9)), horizon=30, replications=2, seed=0)
    full, few = simulate(Uniform(), **play), simulate(Uniform(), **play, rounds=(3, 10, 30))
    np.testing.assert_array_equal(few.regret, full.regret[:, [2, 9, 29]])


def test_smallest_run():
    run = simulate(Uniform(), BernoulliBandit((0.5,)), horizon=1, replications=1, seed=0)
    assert run.regret.shape == (1, 1) and run.final[0] == 0 and run.horizon == 1


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (dict(horizon=0), ValueError, "horizon must be a whole number >= 1, got 0"),
        (dict(horizon=2.5), TypeError, "horizon must be a whole number >= 1, got 2.5"),
        (dict(replications=0), ValueError, "replications must be a whole number >= 1, got 0"),
        (dict(seed=-1), ValueError, "seed must be a whole number >= 0, got -1"),
        (dict(jobs=0), ValueError, "jobs must be a whole number >= 1, got 0"),
        (dict(rounds=(1, 2)), ValueError, "rounds must be whole numbers in 1..5 and end with 5"),
        (dict(rounds=(0, 5)), ValueError, "rounds must be whole numbers in 1..5 and end with 5"),
        (dict(rounds=[1.5, 5]), ValueError, r"rounds must be whole numbers in 1..5 and end with 5, got \[1.5, 5\]"),
        (dict(rounds=[]), ValueError, "rounds must have shape"),
        (dict(rounds=["1", "5"]), TypeError, "rounds must be an array of numbers"),
        (dict(policy=Uniform), TypeError, "policy must be an instance of Policy, got <class"),
        (dict(policy=None), TypeError, "policy must be an instance of Policy, got None"),
        (dict(environment=None), TypeError, "environment must be an instance of Environment, got None"),
        (dict(environment=LinearBandit), TypeError, "environment must be an instance of Environment, got <class"),
    ],
)
def test_bad_input(change, error, message):
    arguments = dict(policy=Uniform(), environment=BernoulliBandit((0.5, 0.6)), horizon=5, replications=2, seed=0) | change
    with pytest.raises(error, match=message):
        simulate(**arguments)
