"""Exact limits: their coverage is enumerated, not simulated."""

import numpy as np
import pytest
from scipy import stats

from privbandit.audit import clopper_pearson, epsilon_lower_bound
from privbandit.audit.attack import attack
from privbandit.audit.checks import policy_attack
from privbandit.audit.twins import Quiet
from privbandit.audit.users import armed
from privbandit.mechanisms import TreeMechanism

from .toys import Shy


@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.93])
@pytest.mark.parametrize("n", [1, 7, 200])
def test_clopper_pearson_covers_at_its_level(p, n):
    """Summed over the binomial law: each limit fails with probability at most alpha."""
    hits, alpha = np.arange(n + 1), 0.03
    low, high = clopper_pearson(hits, n, alpha)
    law = stats.binom.pmf(hits, n, p)
    assert law[low > p].sum() <= alpha and law[high < p].sum() <= alpha


def test_clopper_pearson_known_values():
    """No hits in n: the upper limit is 1 - alpha^(1/n); n hits mirror it."""
    low, high = clopper_pearson(0, 50, 0.05)
    assert (low, high) == (0.0, pytest.approx(1 - 0.05 ** (1 / 50)))
    low, high = clopper_pearson(50, 50, 0.05)
    assert (low, high) == (pytest.approx(0.05 ** (1 / 50)), 1.0)


@pytest.mark.parametrize("epsilon, delta", [(0.5, 0.0), (1.0, 0.05)])
def test_the_bound_on_epsilon_holds_at_its_confidence(epsilon, delta):
    """P(S) = e^epsilon Q(S) + delta exactly; over the joint law of both counts (n = 60) the bound exceeds epsilon with probability <= 10 %."""
    n, Q = 60, 0.3
    P = np.exp(epsilon) * Q + delta
    hits, false = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    law = stats.binom.pmf(hits, n, P) * stats.binom.pmf(false, n, Q)
    bound = epsilon_lower_bound(hits, false, n, delta, 0.9)
    assert law[bound > epsilon].sum() <= 0.1
    assert (law * bound).sum() > 0.1 * epsilon  # and it is not vacuous


def test_attack_finds_a_planted_difference_and_no_other():
    """n = 40000 runs each, confidence 0.9999. N(0,1) against N(1,1) is (1, 0.127)-DP: at delta = 0.01 more than 1 is found, at most 2.3."""
    rng = np.random.default_rng(0)
    zero, one, same = rng.normal(size=40_000), rng.normal(1.0, size=40_000), rng.normal(size=40_000)
    from privbandit.accounting import gaussian_epsilon

    found = attack(one, zero, 0.01, 0.9999)
    assert 1.0 < found <= gaussian_epsilon(1.0, 0.01)
    assert attack(-one, -zero, 0.01, 0.9999) == pytest.approx(found, abs=0.3)
    assert attack(same, zero, 0.01, 0.9999) == 0.0


def one_user_changed(rng):
    """Two arms; the first of four users pays 0 or 1."""
    return armed(4, 1, 2, rng)


@pytest.mark.parametrize("mu, found", [(1e-3, False), (30.0, True)])
def test_actions_give_a_loud_policy_away_and_a_quiet_one_not(mu, found):
    """The least-paid arm under noisy sums: with next to no noise the second action is the first reward."""
    finding = policy_attack(one_user_changed, runs=4_000)(Shy(2, TreeMechanism.calibrated(4, mu)), 0)
    assert (finding.lower_bound > 2.0) is found and not finding.refuted


def test_a_policy_that_claims_more_than_it_does_is_refuted():
    honest = Shy(2, TreeMechanism.calibrated(4, 0.2))
    assert policy_attack(one_user_changed, runs=4_000)(Quiet(honest, factor=1e6), 0).refuted


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: clopper_pearson(3, 2, 0.1), "hits"),
        (lambda: clopper_pearson(-1, 2, 0.1), "hits"),
        (lambda: clopper_pearson(1, 0, 0.1), "n"),
        (lambda: clopper_pearson(1, 2, 0.0), "alpha"),
        (lambda: epsilon_lower_bound(1, 1, 2, 0.0, 1.0), "confidence"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name} must"):
        call()
