"""The replay is tight where the cost is known, silent about what is allowed, and loud about every kind of leak."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from privbandit.audit import Leak, Recorder, Replayer, Users, checks, recorder, replay
from privbandit.audit.recorder import price
from privbandit.audit.replay import Neighbours, judge, play, realised_epsilon, replay_sums
from privbandit.audit.twins import OneLevelTooFew, Peek, Quiet, QuietSums, Undefined
from privbandit.audit.users import armed, changed_users, linear
from privbandit.ledger import Entry, Gaussian, GaussianDP, Laplace, Ledger
from privbandit.mechanisms import HonakerTree, PerUser, SquareRoot, TreeMechanism
from privbandit.mechanisms.shuffle.certificate import BinomialNoise

from .toys import Greedy, OwnNoise, Personal, RawGreedy, ScalesNoise, SkipsZeros

TREES = [TreeMechanism, HonakerTree, SquareRoot, PerUser]


def pair(T=16, K=3, R=64, seed=0):
    return armed(T, R, K, np.random.default_rng(seed))


def opposite(T, Delta):
    """Increments (T, T, 1) in which replication i changes user i by the whole of Delta."""
    one = np.random.default_rng(1).uniform(-0.5, 0.5, size=(T, T, 1)) * Delta
    other = one.copy()
    every = np.arange(T)
    one[every, every], other[every, every] = -Delta / 2, Delta / 2
    return one, other


@pytest.mark.parametrize("cls", TREES)
@pytest.mark.parametrize("T", [1, 7, 16])
def test_tight_at_the_worst_increments(cls, T):
    """The first user costs exactly what the ledger says, nobody costs more."""
    mechanism = cls.calibrated(T, 0.8, Delta=2.0)
    cost = replay_sums(mechanism, *opposite(T, 2.0)).mu
    assert cost[0] == pytest.approx(0.8, rel=1e-9) and cost.max() <= 0.8 * (1 + 1e-9)


@pytest.mark.parametrize("T", [1, 7, 16])
def test_the_last_user_costs_one_row_of_the_square_root(T):
    mechanism = SquareRoot(T, 1.0)
    assert replay_sums(mechanism, *opposite(T, 1.0)).mu[-1] == pytest.approx(1.0, rel=1e-9)


def test_a_tree_that_claims_one_level_too_few():
    """At T = 16 the claim is sqrt(4) where sqrt(5) is spent; at T = 15 both are 4 levels, and there is nothing to catch."""
    for T, right in [(16, False), (15, True)]:
        mechanism = OneLevelTooFew(T, 1.0)
        cost = replay_sums(mechanism, *opposite(T, 1.0)).mu.max()
        assert bool(cost <= mechanism.mu * (1 + 1e-9)) is right
    assert OneLevelTooFew(16, 1.0).mu == 2.0


@pytest.mark.parametrize("cls", TREES)
def test_a_policy_costs_what_its_mechanism_costs(cls):
    """The first user's reward moves by 1 on the arm played: the whole sensitivity."""
    policy = Greedy(3, cls.calibrated(16, 0.5))
    cost = replay(policy, pair())
    assert cost.mu.max() == pytest.approx(policy.ledger.mu, rel=1e-9)
    assert not cost.epsilon.any()


@pytest.mark.parametrize("T, K", [(1, 2), (2, 1), (1, 1)])
def test_degenerate_sizes(T, K):
    policy = Greedy(K, TreeMechanism.calibrated(T, 0.5))
    assert replay(policy, pair(T, K, R=4)).mu.max() <= 0.5 * (1 + 1e-9)


@pytest.mark.parametrize("cls", [RawGreedy, OwnNoise])
def test_actions_that_follow_raw_data(cls):
    with pytest.raises(Leak, match=r"the action of round \d+ depends on the raw data of user \d+"):
        replay(cls(3, TreeMechanism.calibrated(16, 0.5)), pair())


def test_a_wrapped_policy_that_peeks_at_one_bit():
    with pytest.raises(Leak, match="the action of round"):
        replay(Peek(Greedy(3, TreeMechanism.calibrated(16, 0.5))), pair())


def test_a_schedule_that_follows_raw_data():
    """One replication, user 0 with rewards 0 against 1: the run with the reward makes one release more."""
    users = Users(np.broadcast_to(np.eye(2), (4, 1, 2, 2)).copy(), np.zeros((4, 1, 2)))
    two = Neighbours(users, users.replace(np.array([0]), np.eye(2)[None], np.ones((1, 2))), np.array([0]))
    for one in (two, Neighbours(two.other, two.users, two.at)):
        with pytest.raises(Leak, match="the schedule of releases depends on raw data"):
            replay(SkipsZeros(2, TreeMechanism(4, 1.0)), one)


def test_noise_that_follows_raw_data():
    with pytest.raises(Leak, match="the schedule of releases depends on raw data: Gaussian"):
        replay(ScalesNoise(3, TreeMechanism(16, 1.0)), pair())


def test_the_changed_users_own_action_is_not_a_leak():
    """The changed user is shown other contexts and is served otherwise, which only that user sees."""
    two = linear(8, 24, 3, 3, np.random.default_rng(0))
    contexts = two.other.contexts.copy()
    contexts[two.at, np.arange(24)] = np.array([[-1.0, 0, 0], [-1.0, 0, 0], [1.0, 0, 0]])  # now the last arm is the user's own
    two = two._replace(other=Users(contexts, two.other.rewards))
    policy = Personal(3, PerUser.calibrated(8, 0.5, Delta=2.0))
    before, after = (play(policy, users, Recorder(24, 0), 0) for users in (two.users, two.other))
    assert np.any(before != after)
    replay(policy, two)


@dataclass(frozen=True)
class Central(Personal):
    """The same policy with a claim that covers the own action as well."""

    @property
    def ledger(self):
        return replace(super().ledger, trust="central")


def test_under_central_privacy_the_own_action_is_covered_too():
    """User 1 sees the same two arms in the other order."""
    users, at = pair(T=4, K=2, R=1).users, np.array([1])
    two = Neighbours(users, users.replace(at, users.contexts[1][:, ::-1], users.rewards[1]), at)
    sums = PerUser(4, 1.0, Delta=2.0)
    replay(Personal(2, sums), two)
    with pytest.raises(Leak, match="the action of round 1 depends on the raw data of user 1"):
        replay(Central(2, sums), two)


@pytest.mark.parametrize("cls", [TreeMechanism, SquareRoot])
def test_replications_apart_cost_what_they_cost_together(cls):
    policy, two = Greedy(3, cls.calibrated(16, 0.5)), pair(R=6)
    together = replay(policy, two).mu
    apart = [replay(policy, one).mu.item() for one in two.apart()]
    assert together[0] == pytest.approx(apart[0], rel=1e-9) and max(apart) <= 0.5 * (1 + 1e-9)


def test_too_little_noise_costs_three_times_as_much():
    for policy in (Greedy(3, TreeMechanism.calibrated(16, 0.5)), Greedy(3, SquareRoot.calibrated(16, 0.5))):
        assert replay(Quiet(policy), pair()).mu.max() == pytest.approx(3 * policy.ledger.mu, rel=1e-9)
    sums = QuietSums.of(TreeMechanism.calibrated(16, 0.5))
    assert replay_sums(sums, *opposite(16, 1.0)).mu.max() == pytest.approx(1.5, rel=1e-9)


def test_no_noise_costs_infinity():
    policy = Greedy(3, TreeMechanism(16, 0.0))
    assert np.isinf(replay(policy, pair()).mu).all()
    assert judge(Ledger.nonprivate(), 1e-6, lambda: replay(policy, pair())).refuted is False  # it promised nothing


@pytest.mark.parametrize("seed", range(3))
def test_a_replay_of_the_same_input_costs_nothing(seed):
    two = pair(seed=seed)
    same = replay(Greedy(3, SquareRoot.calibrated(16, 0.5)), Neighbours(two.users, two.users, two.at), seed)
    assert not same.mu.any() and not same.epsilon.any()


def test_prices():
    """In proportion to the event's own sensitivity; a move of something claimed immovable is beyond price."""
    shift = np.array([0.0, 1.0, 3.0])
    assert np.allclose(price(Gaussian(2.0, 4.0), "mu", shift), [0.0, 0.25, 0.75])
    assert np.allclose(price(Laplace(2.0, 4.0), "epsilon", shift), [0.0, 0.25, 0.75])
    assert np.allclose(price(Laplace(2.0, 4.0), "mu", shift), 0.0)
    assert np.array_equal(price(Gaussian(0.0, 4.0), "mu", shift), [0.0, np.inf, np.inf])
    assert np.array_equal(price(Gaussian(1.0, 0.0), "mu", shift), [0.0, np.inf, np.inf])
    binomial = BinomialNoise(trials=400, shift=4.0, size=2, slack=1e-9)
    assert np.allclose(price(binomial, "mu", shift), shift * binomial.mu / 4.0)


@pytest.mark.parametrize("event", [Gaussian(2.0, 4.0), Laplace(2.0, 4.0), BinomialNoise(trials=400, shift=4.0, size=2, slack=1e-9)])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("cost", ["mu", "epsilon"])
def test_a_move_that_is_not_a_number_is_a_leak(event, cost, bad):
    with pytest.raises(Leak, match=f"a noised value moved by {bad}, which noise does not hide"):
        price(event, cost, np.array([0.0, bad]))


def test_a_mechanism_that_sends_nan_is_caught_and_once_was_not(monkeypatch):
    """NaN is neither above nor below zero: the price of before took it for no move at all."""
    twin = Undefined.calibrated(16, 0.5)
    assert checks.sums_replay(twin, 0).lower_bound == np.inf
    monkeypatch.setattr(recorder, "price", lambda event, cost, shift: np.where(shift > 0, shift * getattr(event, cost) / event.Delta, 0.0))
    assert checks.sums_replay(twin, 0).lower_bound == 0.0


def test_a_policy_that_turns_a_record_into_nan_is_caught():
    """The sums are those of a policy without the checks of the base class: the door's recorder sees NaN in the neighbour."""
    two = pair(R=16)
    two = two._replace(other=two.users.replace(two.at, np.broadcast_to(np.eye(3), (16, 3, 3)), np.full((16, 3), -1.0)))
    with pytest.raises(Leak, match="a noised value moved by nan"):
        replay(Greedy(3, Undefined.calibrated(16, 0.5)), two)


def test_noise_without_a_price_by_shift_is_refused():
    with pytest.raises(TypeError, match="event must have a price in proportion to a shift"):
        price(GaussianDP(1.0), "mu", np.ones(1))


def test_both_kinds_of_cost_are_added_up_by_replication():
    recorder = Recorder(2, seed=0)
    events = [Gaussian(1.0, 1.0), Gaussian(1.0, 2.0), Laplace(1.0, 5.0)]
    released = [event.release(np.zeros((2, 2)), recorder) for event in events]
    replayer = Replayer(recorder)
    moved = np.array([[0.0, 0.0], [3.0, 4.0]])
    again = [event.release(moved, replayer) for event in events]
    assert all(np.array_equal(a, b) for a, b in zip(released, again, strict=True))
    assert np.allclose(replayer.mu, [0.0, np.hypot(5.0, 2.5)]) and np.allclose(replayer.epsilon, [0.0, 7.0 / 5.0])


def test_other_draws_are_coupled_and_independent_of_the_releases():
    recorder = Recorder(1, seed=3)
    first = recorder.random(3)
    Gaussian(1.0, 1.0).release(np.zeros((1, 1)), recorder)
    second = recorder.random(3)
    replayer = Replayer(recorder)
    assert np.array_equal(replayer.random(3), first) and np.array_equal(replayer.random(3), second)


def test_a_release_without_the_replication_axis_is_refused():
    recorder = Recorder(3, seed=0)
    Gaussian(1.0, 1.0).release(np.zeros((2, 3)), recorder)
    with pytest.raises(ValueError, match=r"value must have the replication axis \(3\) first, got shape \(2, 3\)"):
        Gaussian(1.0, 1.0).release(np.zeros((2, 3)), Replayer(recorder))


def test_a_finding_compares_in_the_claims_own_terms():
    policy = Greedy(3, TreeMechanism.calibrated(16, 0.5))
    finding = judge(policy.ledger, 1e-6, lambda: replay(policy, pair()))
    assert finding.lower_bound == pytest.approx(policy.ledger.epsilon(1e-6), rel=1e-9) and not finding.refuted
    leak = judge(policy.ledger, 1e-6, lambda: replay(RawGreedy(3, policy.sums), pair()))
    assert leak.refuted and leak.lower_bound == np.inf and "depends on the raw data" in leak.note


def test_the_mass_a_certificate_leaves_uncovered_is_in_both_epsilons():
    """A release moved by the whole of its sensitivity is priced at exactly what the ledger claims, tau included."""
    event = BinomialNoise(trials=4000, shift=4.0, size=2, slack=1e-9)
    recorder = Recorder(1, seed=0)
    event.release(np.array([[0, 0]]), recorder)
    replayer = Replayer(recorder)
    event.release(np.array([[4, 0]]), replayer)
    claim = Ledger("one user", "shuffle", (Entry("sum", event),))
    assert claim.tau > 0 and realised_epsilon(replayer, claim, 1e-6) == pytest.approx(claim.epsilon(1e-6), rel=1e-9)


@pytest.mark.parametrize("make", [lambda rng: armed(5, 12, 3, rng), lambda rng: linear(5, 12, 3, 2, rng), lambda rng: linear(5, 12, 1, 1, rng)])
def test_neighbours_differ_in_one_user_each(make):
    two = make(np.random.default_rng(0))
    differs = np.any(two.users.contexts != two.other.contexts, axis=(2, 3)) | np.any(two.users.rewards != two.other.rewards, axis=2)
    others = np.arange(5)[:, None] != two.at
    assert not (differs & others).any() and (differs & ~others).sum() >= 6
    assert np.allclose(np.linalg.norm(two.other.contexts, axis=3), 1.0)
    assert set(changed_users(5, 12)) == set(range(5))
