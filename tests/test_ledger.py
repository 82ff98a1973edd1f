"""The ledger adds what is spent, the events draw the noise they charge for, the account stops in time."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from scipy import stats

from privbandit.accounting import gaussian_delta, gaussian_epsilon
from privbandit.gp.wishart import WishartNoise
from privbandit.ledger import (
    Account,
    ApproximateDP,
    BudgetExceeded,
    Entry,
    Gaussian,
    GaussianDP,
    Laplace,
    Ledger,
    NonPrivate,
)
from privbandit.mechanisms.shuffle.certificate import BinomialNoise
from privbandit.mechanisms.wishart import Wishart


def ledger(*events, **options):
    return Ledger("one user", "central", tuple(Entry("release", event, count) for event, count in events), **options)


def test_gaussians_add_in_quadrature():
    book = ledger((Gaussian(3.0, 1.0), 1), (Gaussian(2.0, 1.0), 4))
    assert book.mu == 5.0 and book.only_gaussian
    assert book.epsilon(1e-5) == gaussian_epsilon(5.0, 1e-5)
    assert book.delta(2.0) == gaussian_delta(5.0, 2.0)


def test_pure_and_approximate_entries_add_linearly():
    book = ledger((Laplace(1.0, 2.0), 3), (ApproximateDP(0.25, 1e-6), 2))
    assert book.epsilon(1e-5) == pytest.approx(2.0) and book.delta(2.0) == pytest.approx(2e-6)
    assert not book.only_gaussian
    assert book.epsilon(1e-6) == math.inf  # 2e-6 is spent already
    assert book.delta(1.9) == 1.0


def test_mixture_is_no_better_than_the_truth():
    """Laplace and Gaussian together: the ledger's epsilon is an upper bound on dp-accounting's numerical composition."""
    book = ledger((Laplace(1.0, 2.0), 1), (Gaussian(1.0, 2.0), 3))
    accountant = PLDAccountant()
    accountant.compose(dp_accounting.LaplaceDpEvent(2.0)).compose(dp_accounting.GaussianDpEvent(2.0), 3)
    assert accountant.get_epsilon(1e-5) < book.epsilon(1e-5) < 1.2 * accountant.get_epsilon(1e-5)


def test_uncovered_mass_costs_delta():
    book = ledger((GaussianDP(1.0, tau=1e-6), 2))
    assert book.tau == pytest.approx(2e-6, rel=1e-6)
    assert book.delta(1.0) == pytest.approx(2e-6 + gaussian_delta(math.sqrt(2), 1.0), rel=1e-4)
    assert book.epsilon(1e-6) == math.inf
    assert book.delta(book.epsilon(1e-5)) == pytest.approx(1e-5, rel=1e-9)


def test_nothing_known_costs_everything():
    book = Ledger.nonprivate()
    assert book.epsilon(0.5) == math.inf and book.mu == math.inf and book.delta(100.0) == 1.0
    assert str(book.guarantee(1e-5)) == "no privacy guarantee"
    assert ledger((Gaussian(1.0, 1.0), 1), (NonPrivate(), 1)).epsilon(1e-5) == math.inf
    assert ledger((Gaussian(1.0, 0.0), 1)).epsilon(1e-5) == math.inf
    assert ledger((Laplace(1.0, 0.0), 1)).epsilon(1e-5) == math.inf


def test_a_release_that_data_cannot_move_is_free():
    assert Gaussian(0.0, 0.0).mu == 0.0 and Laplace(0.0, 0.0).epsilon == 0.0


def test_guarantee_says_of_what_for_whom_and_against_whom():
    guarantee = Ledger("one patient", "joint", (Entry("sum", Gaussian(1.0, 4.22467888932684)),)).guarantee(1e-6)
    assert guarantee.epsilon == pytest.approx(1.0)
    assert (guarantee.trust, guarantee.unit, guarantee.neighbours) == ("joint", "one patient", "replace")
    for word in ("joint DP", "one patient", "replace", "trusted: the curator"):
        assert word in str(guarantee)


def test_table_accounts_for_every_entry():
    rows = ledger((Gaussian(1.0, 2.0), 4), (ApproximateDP(0.5, 1e-7), 2)).table()
    assert [row["mu"] for row in rows] == [1.0, 0.0]
    assert [row["epsilon"] for row in rows] == [0.0, 1.0]
    assert rows[1]["delta"] == pytest.approx(2e-7)


@pytest.mark.parametrize("event, law", [(Gaussian(1.0, 3.0), stats.norm(scale=3)), (Laplace(1.0, 3.0), stats.laplace(scale=3))])
def test_events_draw_what_they_charge_for(event, law):
    """n = 40000, one seed; Kolmogorov-Smirnov at level 1e-6: a scale wrong by 10 % is rejected with probability > 0.999."""
    draws = event.release(np.full((200, 200), 7.0), np.random.default_rng(3)) - 7.0
    assert stats.kstest(draws.ravel(), law.cdf).pvalue > 1e-6
    assert stats.kstest(draws.ravel() * 1.1, law.cdf).pvalue < 1e-6


@pytest.mark.parametrize("event", [Gaussian(1.0, 0.0), Laplace(1.0, 0.0)])
def test_no_noise_is_exactly_none(event):
    value = np.array([0.1, 0.2])
    assert np.array_equal(event.release(value, np.random.default_rng(0)), value)


@pytest.mark.parametrize("event", [Gaussian(1.0, 2.0), Laplace(1.0, 2.0)])
def test_a_recorder_takes_the_place_of_the_noise(event):
    class Recorder:
        def release(self, value, seen):
            return value, seen

    assert event.release(5.0, Recorder()) == (5.0, event)


EVENTS = [
    Gaussian(1.0, 2.0),
    Gaussian(1.0, 0.0),
    Laplace(1.0, 2.0),
    Laplace(1.0, 0.0),
    BinomialNoise(40, 1.0, 3, 1e-3),
    Wishart(9, 1, 2.0, 1e-6),
    WishartNoise(2, 9, 1.0),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("noise", [None, 0, np.random, np.random.RandomState(0)], ids=["None", "0", "np.random", "RandomState"])
def test_the_door_takes_its_noise_from_a_generator_only(event, noise):
    with pytest.raises(TypeError, match="^noise must be a numpy random Generator, got "):
        event.release(np.zeros((2, 3)), noise)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_the_door_lets_nothing_through_that_noise_cannot_hide(event, bad):
    noise = np.random.default_rng(0)
    before = noise.bit_generator.state
    with pytest.raises(ValueError, match=f"^value must have finite entries only, got {bad}"):
        event.release(np.array([[0.0, 1.0, 2.0], [0.0, bad, 2.0]]), noise)
    assert noise.bit_generator.state == before


def test_entering_an_event_does_not_compute_its_costs():
    """The certificate of a large binomial takes seconds; a ledger that is only passed on must not pay for it."""

    class Dear:
        tau = epsilon = delta = 0.0

        @property
        def mu(self):
            raise RuntimeError("computed")

    book = ledger((Dear(), 1))
    with pytest.raises(RuntimeError, match="computed"):
        book.mu


def test_account_stops_before_the_budget_is_passed():
    account = Account(1.0)
    event = Gaussian(1.0, 2.0)  # mu = 1/2: four of them spend 1 exactly
    for _ in range(4):
        account = account.spend("node", event)
    assert account.left == 0.0 and account.spent == 1.0
    with pytest.raises(BudgetExceeded, match="node costs mu = 0.5, only 0 of 1 is left"):
        account.spend("node", event)
    assert len(account.entries) == 4


def test_an_account_is_a_value():
    before = Account(1.0)
    before.spend("a", Gaussian(0.5, 1.0))
    assert before.spent == 0.0
    with pytest.raises(BudgetExceeded):
        before.spend("b", Gaussian(1.0, 1.0), count=2)


def test_account_of_epsilon_delta():
    account = Account.of(1.0, 1e-6)
    assert account.budget == pytest.approx(1 / 4.22467888932684)
    spent = account.spend("all", Gaussian(1.0, 1 / account.budget))
    assert Ledger("u", "central", spent.entries).epsilon(1e-6) == pytest.approx(1.0)
    assert Account.of(math.inf, 1e-6).spend("raw", Gaussian(1.0, 0.0)).left == math.inf


def test_an_account_takes_gaussian_events_only():
    for event in (Laplace(1.0, 1.0), ApproximateDP(0.1, 1e-7), NonPrivate(), GaussianDP(0.1, tau=1e-9)):
        with pytest.raises(ValueError, match="event must be a Gaussian-DP event"):
            Account(10.0).spend("x", event)


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: Gaussian(-1.0, 1.0), "Delta"),
        (lambda: Gaussian(1.0, float("nan")), "sigma"),
        (lambda: Laplace(1.0, -1.0), "scale"),
        (lambda: Laplace(float("inf"), 1.0), "Delta"),
        (lambda: GaussianDP(-1.0), "mu"),
        (lambda: GaussianDP(1.0, tau=1.0), "tau"),
        (lambda: ApproximateDP(-0.1), "epsilon"),
        (lambda: ApproximateDP(0.1, 1.5), "delta"),
        (lambda: Entry("x", Gaussian(1.0, 1.0), 0), "count"),
        (lambda: Entry("x", Gaussian(1.0, 1.0), 1.5), "count"),
        (lambda: Entry("x", 3.0), "event"),
        (lambda: Entry("x", Gaussian), "event"),
        (lambda: Entry("x", None), "event"),
        (lambda: Entry("", Gaussian(1.0, 1.0)), "name"),
        (lambda: Ledger(None, "central", ()), "unit"),
        (lambda: Ledger("", "central", ()), "unit"),
        (lambda: Ledger(" ", "central", ()), "unit"),
        (lambda: Ledger("u", None, ()), "trust"),
        (lambda: Ledger("u", "local", (), neighbours=None), "neighbours"),
        (lambda: Ledger("u", "local", None), "entries"),
        (lambda: Ledger("u", "local", [Entry("x", Gaussian(1.0, 1.0))]), "entries"),
        (lambda: Ledger("u", "local", (Gaussian(1.0, 1.0),)), "entries"),
        (lambda: Ledger("u", "nobody", ()), "trust"),
        (lambda: Ledger("u", "local", (), neighbours="friends"), "neighbours"),
        (lambda: Ledger.nonprivate().epsilon(0.0), "delta"),
        (lambda: Ledger.nonprivate().delta(-1.0), "epsilon"),
        (lambda: Account(0.0), "budget"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises((ValueError, TypeError), match=f"^{name} must be"):
        call()
