"""The player: what it shows to whom, which numbers it shares between policies, and what it adds up."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from privbandit.environments.base import Environment, Feedback
from privbandit.policies.base import Policy, choose
from privbandit.simulate import BLOCK, record_rounds, simulate


@dataclass(frozen=True)
class Coins(Environment):
    """K arms with one feature each, arm k pays with probability (k + 1) / (K + 1); every third round is not observed if `gaps`."""

    K: int = 3
    d: int = 1
    gaps: bool = False

    def init(self, R, rng):
        return R

    def contexts(self, state, t, rng):
        return state, rng.uniform(size=(state, self.K, self.d))

    def step(self, state, contexts, action, rng):
        mean = (action + 1) / (self.K + 1)
        observed = rng.uniform(size=state) < 2 / 3 if self.gaps else None
        return Feedback((rng.uniform(size=state) < mean).astype(float), self.K / (self.K + 1) - mean, observed)


class Seen(NamedTuple):
    x: np.ndarray
    reward: np.ndarray


@dataclass(frozen=True)
class Fixed(Policy):
    """Plays one arm and keeps the last thing it was told."""

    arm: int
    told: list
    name = "fixed"

    def init(self, R, noise):
        return Seen(np.zeros((R, 1)), np.zeros(R))

    def act(self, state, contexts, rng):
        return state, np.full(len(contexts), self.arm)

    def update(self, state, x, reward, noise):
        self.told.append((x, reward))
        return Seen(x, reward)


@dataclass(frozen=True)
class Guess(Policy):
    """Plays at random and adds noise to nothing: uses both of its Generators."""

    name = "guess"

    def init(self, R, noise):
        return noise.uniform()

    def act(self, state, contexts, rng):
        return state, rng.integers(0, contexts.shape[1], len(contexts))

    def update(self, state, x, reward, noise):
        return noise.uniform()


def run(policy=None, environment=Coins(), horizon=7, replications=5, seed=0, **options):
    return simulate(Guess() if policy is None else policy, environment, horizon=horizon, replications=replications, seed=seed, **options)


def test_regret_is_added_up():
    trajectory = run(Fixed(0, []), rounds=[1, 4, 7])
    assert trajectory.regret.shape == (5, 3) and np.allclose(trajectory.regret, 0.5 * np.array([1, 4, 7]))
    assert trajectory.horizon == 7 and np.allclose(trajectory.final, 3.5)
    assert np.array_equal(trajectory.observed, np.full(5, 7))


def test_rewards_are_those_the_policy_was_told():
    policy = Fixed(1, [])
    trajectory = run(policy)
    assert np.allclose(trajectory.reward[:, -1], np.sum([reward for _, reward in policy.told], axis=0))


def test_unobserved_rounds_are_zeros():
    policy = Fixed(2, [])
    trajectory = run(policy, Coins(gaps=True), horizon=40)
    x, reward = (np.array(part) for part in zip(*policy.told, strict=True))
    hidden = x[..., 0] == 0
    assert np.array_equal(trajectory.observed, (~hidden).sum(axis=0)) and 0 < hidden.sum() < hidden.size
    assert not reward[hidden].any() and reward[~hidden].any()


def test_policies_with_one_seed_meet_the_same_contexts_and_reward_draws():
    """Arm 0 pays whenever its uniform is below 1/4: then arm 2, with the same uniform, pays too."""
    low, high = Fixed(0, []), Fixed(2, [])
    run(low, horizon=50), run(high, horizon=50)
    assert all(np.all(a[1] <= b[1]) for a, b in zip(low.told, high.told, strict=True))
    again = Fixed(0, [])
    run(again, horizon=50)
    assert all(np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]) for a, b in zip(low.told, again.told, strict=True))


def test_the_number_of_jobs_changes_no_number():
    one, two = (run(replications=BLOCK + 7, jobs=jobs) for jobs in (1, 2))
    assert np.array_equal(one.regret, two.regret) and np.array_equal(one.reward, two.reward)


def test_more_replications_keep_the_whole_blocks():
    assert np.array_equal(run(replications=BLOCK).regret, run(replications=BLOCK + 3).regret[:BLOCK])
    assert len(np.unique(run(replications=2 * BLOCK, horizon=60).final)) > 10  # blocks do not repeat each other


def test_seeds_differ():
    assert not np.array_equal(run(horizon=40).regret, run(horizon=40, seed=1).regret)


def test_interval_is_students():
    trajectory = run(replications=9, horizon=30)
    mean, low, high = trajectory.interval(0.9)
    for t in (3, 29):
        column = trajectory.regret[:, t]
        assert (low[t], high[t]) == pytest.approx(stats.t.interval(0.9, 8, column.mean(), stats.sem(column)))
        assert mean[t] == pytest.approx(column.mean())


def test_one_replication_says_nothing_about_the_spread():
    mean, low, high = run(replications=1).interval()
    assert np.isfinite(mean).all() and np.all(low == -np.inf) and np.all(high == np.inf)


def test_table_is_tidy():
    rows = run(rounds=[2, 7], replications=3).table()
    assert len(rows) == 6 and set(rows[0]) == {"policy", "replication", "round", "regret"}
    assert [row["round"] for row in rows] == [2, 7] * 3 and [row["replication"] for row in rows] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("horizon", [1, 2, 199, 200, 201, 5000])
def test_recorded_rounds_end_at_the_horizon(horizon):
    at = record_rounds(horizon)
    assert at[0] == 1 and at[-1] == horizon and len(at) <= 200 and np.all(np.diff(at) > 0)


@pytest.mark.parametrize("replications", [1, 3])
def test_one_round(replications):
    assert run(horizon=1, replications=replications).regret.shape == (replications, 1)


def test_choose_takes_one_row_of_each_replication():
    contexts = np.arange(12.0).reshape(2, 3, 2)
    assert np.array_equal(choose(contexts, np.array([2, 0])), [[4, 5], [6, 7]])


@pytest.mark.parametrize(
    "options, name",
    [
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2.5}, "horizon"),
        ({"replications": 0}, "replications"),
        ({"seed": -1}, "seed"),
        ({"seed": None}, "seed"),
        ({"jobs": 0}, "jobs"),
        ({"rounds": []}, "rounds"),
        ({"rounds": [1, 6]}, "rounds"),
        ({"rounds": [0, 7]}, "rounds"),
    ],
)
def test_bad_arguments_are_named(options, name):
    with pytest.raises((ValueError, TypeError), match=f"^{name} must"):
        run(**options)


def test_bad_level_is_named():
    with pytest.raises(ValueError, match="^level must be"):
        run().interval(1.0)
