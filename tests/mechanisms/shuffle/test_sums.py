"""Shuffled sums: laws by enumeration, unbiasedness, variance, messages against the fast mode, failing twins."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from privbandit.formulas.shuffle import SUM_VARIANCE
from privbandit.mechanisms.shuffle.bits import BitSum
from privbandit.mechanisms.shuffle.hockey_stick import binomial_shift, bit_sum_delta, divergence
from privbandit.mechanisms.shuffle.messages import count
from privbandit.mechanisms.shuffle.reports import ShuffledReports
from privbandit.mechanisms.shuffle.sums import PlainSum, ScalarSum, VectorSum, grid_points, matrix_sum, matrix_target, symmetric_range


def assert_law(samples, pmf, level=1e-9):
    """Chi-square test of integer samples against `pmf` on 0..len-1; cells with less than 8 expected are pooled."""
    observed = np.bincount(samples, minlength=len(pmf)).astype(float)
    assert observed.size == len(pmf), "outside the support"
    expected = pmf * len(samples)
    small = expected < 8
    observed = np.append(observed[~small], observed[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    if expected[-1] < 1e-6:
        assert observed[-1] == 0
        observed, expected = observed[:-1], expected[:-1]
    assert chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > level


def convolve(*laws):
    total = np.ones(1)
    for law in laws:
        total = np.convolve(total, law)
    return total


def fixed_point_law(sum_, x):
    """Law of the count of a one-coordinate sum: roundings of every user plus all noise bits, by convolution."""
    z = (np.asarray(x) - sum_.low[0]) / sum_.step
    whole = np.floor(z).astype(int)
    laws = [np.r_[np.zeros(w), 1 - f, f] for w, f in zip(whole, z - whole, strict=True)]
    noise = binom.pmf(np.arange(sum_.users * sum_.bits + 1), sum_.users * sum_.bits, sum_.p)
    law = convolve(*laws, noise)
    return np.r_[law, np.zeros(max(0, int(sum_.users * (sum_.grid[0] + sum_.bits)) + 1 - len(law)))]


SMALL = VectorSum(users=3, low=(-1.0,), high=(1.0,), Delta=2.0, step=0.5, bits=2, slack=1e-3, p=0.3)
REPORTS = ShuffledReports.calibrated(50, 1.0, 1e-3, 2.0)
X = np.array([[0.1], [-0.9], [1.0]])


@pytest.mark.parametrize("mode", ["messages", "fast"])
def test_both_modes_have_the_exact_law_of_the_count(mode):
    """n = 40000 runs, seed 1, chi-square at level 1e-9; a bias of 3 % in one bit (the twin below) fails it with power near 1."""
    rng, n = np.random.default_rng(1), 40_000
    if mode == "messages":
        counts = np.array([count(SMALL.shuffled(X, rng), 1)[0] for _ in range(n)])
    else:
        estimates = SMALL.sum(np.tile(X, (n, 1, 1)), rng)[:, 0]
        counts = np.rint((estimates - 3 * -1.0) / 0.5 + 3 * 2 * 0.3).astype(int)
    assert_law(counts, fixed_point_law(SMALL, X[:, 0]))
    twin = dataclasses.replace(SMALL, p=0.33)
    with pytest.raises(AssertionError):
        assert_law(counts, fixed_point_law(twin, X[:, 0]))


def test_estimate_is_unbiased_and_has_the_stated_variance_exactly():
    """From the exact law, no sampling; a twin that forgets the noise bits in debiasing is off by users * bits * p steps."""
    law = fixed_point_law(SMALL, X[:, 0])
    estimates = SMALL.debias(np.arange(len(law))[:, None])[:, 0]
    mean = law @ estimates
    assert mean == pytest.approx(X.sum(), abs=1e-12)
    z = (X[:, 0] + 1) / 0.5
    f = z - np.floor(z)
    rounding = 0.25 * np.sum(f * (1 - f))
    assert law @ (estimates - mean) ** 2 == pytest.approx(SMALL.sigma**2 + rounding, rel=1e-12)
    wrong = dataclasses.replace(SMALL, p=0.5)
    assert abs(law @ wrong.debias(np.arange(len(law))[:, None])[:, 0] - X.sum()) > 0.5


def test_variance_formula_matches_the_law():
    x = np.full((3, 1), 0.35)  # fractional part 0.7 of a step of 0.5 above -1
    law = fixed_point_law(SMALL, x[:, 0])
    estimates = SMALL.debias(np.arange(len(law))[:, None])[:, 0]
    variance = law @ estimates**2 - (law @ estimates) ** 2
    assert float(SUM_VARIANCE(step=0.5, n=3, b=2, p=0.3, f=0.7)) == pytest.approx(variance, rel=1e-12)
    assert variance <= SMALL.std**2 <= SMALL.proxy**2 * (1 + 1e-12)


@pytest.mark.parametrize("mode", ["messages", "fast"])
def test_vector_sum_statistics(mode):
    """n = 3000 runs of 20 users in 3 dimensions, seed 2: means within 5 standard errors, variances within 15 % (5 sigma: 13 %)."""
    rng, n = np.random.default_rng(2), 3000
    x = rng.standard_normal((20, 3))
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    s = VectorSum.ball(20, 3, epsilon=4.0, delta=0.01)
    if mode == "messages":
        estimates = np.stack([s.analyse(s.shuffled(x, rng)) for _ in range(n)])
    else:
        estimates = s.sum(np.tile(x, (n, 1, 1)), rng)
    z = (x + 1) / s.step
    f = z - np.floor(z)
    variance = s.sigma**2 + s.step**2 * np.sum(f * (1 - f), axis=0)
    assert np.all(np.abs(estimates.mean(axis=0) - x.sum(axis=0)) < 5 * np.sqrt(variance / n))
    np.testing.assert_allclose(estimates.var(axis=0), variance, rtol=0.15)


def test_shuffling_forgets_the_sender_and_keeps_the_bits():
    rng = np.random.default_rng(3)
    messages = SMALL.messages(X, rng)
    assert messages.bit.shape == (3, SMALL.messages_per_user) == (3, 4 + 2)
    from privbandit.mechanisms.shuffle.messages import shuffle

    shuffled = shuffle(messages, rng)
    assert shuffled.bit.shape == (18,) and shuffled.bit.sum() == messages.bit.sum()
    assert SMALL.analyse(shuffled) == SMALL.analyse(messages)
    firsts = [SMALL.shuffled(X, rng).bit[:6].sum() for _ in range(4000)]
    # unshuffled, the first six bits are user 0's: mean 2.2 + 0.6; shuffled, a third of all ones: mean (2.2 + 0.2 + 4 + 1.8) / 3
    assert abs(np.mean(firsts) - 8.2 / 3) < 0.1


def test_exact_calibration_against_the_published_constants():
    """d = 3, n = 1000, epsilon = 2, delta = 0.01: more than 100 times less noise (2.3 against 1759)."""
    exact = VectorSum.ball(1000, 3, 2.0, 0.01)
    published = VectorSum.published(1000, 3, 2.0, 0.01)
    assert published.sigma == pytest.approx(1759, rel=2e-3)
    assert exact.sigma < 2.5 and published.sigma / exact.sigma > 700
    assert exact.ledger.delta(2.0) <= 0.01 and exact.ledger.trust == "shuffle"
    fewer = dataclasses.replace(exact, bits=exact.bits - 1)
    assert fewer.ledger.delta(2.0) > 0.01
    assert published.ledger.delta(2.0) == 0.01
    small = dataclasses.replace(VectorSum.published(20, 3, 2.0, 0.01), claim=None)
    assert small.ledger.epsilon(0.01) < 2.0 / 200  # what the published constants really give


def test_rounds_compose_adaptively():
    per_round = VectorSum.ball(500, 2, 1.0, 1e-3, rounds=10)
    from privbandit.ledger import Entry, Ledger

    total = Ledger("one user", "shuffle", (Entry("rounds", per_round.event, 10),))
    assert total.delta(1.0) <= 1e-3
    assert total.delta(0.9) > 1e-3


def test_half_the_noise_is_caught_by_the_ledger_and_by_enumeration():
    scalar = ScalarSum.calibrated(50, 8, 1.0, 0.01)
    half = dataclasses.replace(scalar, bits=scalar.bits // 2)
    assert scalar.delta(1.0) <= 0.01 < half.delta(1.0)
    law = {x: fixed_point_law(half.vector, [0.5] * 49 + [x]) for x in (0.0, 1.0)}
    assert max(divergence(law[0.0], law[1.0], 1.0), divergence(law[1.0], law[0.0], 1.0)) > 0.01


def test_scalar_delta_is_attained_and_covers_fractional_inputs():
    """Exact laws: integral data 0 against L attain delta; other users' and the user's own fractions only lower it."""
    scalar = ScalarSum(users=6, grid=4, bits=10)
    tight = [fixed_point_law(scalar.vector, [0.25] * 5 + [x]) for x in (0.0, 1.0)]
    worst = max(divergence(*tight, 0.8), divergence(*tight[::-1], 0.8))
    assert worst == pytest.approx(scalar.delta(0.8), rel=1e-9)
    rng = np.random.default_rng(4)
    for _ in range(40):
        others, x, y = rng.random(5), *rng.random(2)
        laws = [fixed_point_law(scalar.vector, [*others, v]) for v in (x, y)]
        assert divergence(*laws, 0.8) <= scalar.delta(0.8) + 1e-12


def test_published_scalar_constant_is_valid_from_grid_two_on_and_loose():
    for epsilon in (0.5, 2.0, 8.0):
        for g in (2, 6):
            published = ScalarSum.published(200, g, epsilon, 1e-3)
            exact = ScalarSum.calibrated(200, g, epsilon, 1e-3)
            assert published.delta(epsilon) <= 1e-3
            assert published.bits >= 3 * exact.bits or exact.bits == 1
    with pytest.raises(ValueError, match="grid must be a whole number >= 2"):
        ScalarSum.published(200, 1, 10.0, 1e-5)
    # the excluded case: epsilon = 10, delta = 1e-5, p = 0.01 needs more than the published constant
    N = int(np.ceil(90 * np.log(2e5) / 100 / 0.01))
    assert binomial_shift(N, 1, 10.0, 0.01) > 1e-5


class TestBitSum:
    def test_law_through_messages_and_fast(self):
        """n = 40000, seed 5, chi-square at level 1e-9 against the exact convolution for 7 ones among 11."""
        s, rng = BitSum(11, 0.4), np.random.default_rng(5)
        bits = np.r_[np.ones(7, int), np.zeros(4, int)]
        law = convolve(binom.pmf(np.arange(8), 7, 0.8), binom.pmf(np.arange(5), 4, 0.2))
        through = np.array([count(s.shuffled(bits, rng), 1)[0] for _ in range(40_000)])
        fast = np.rint(s.release(np.full(40_000, 7), rng) * 0.6 + 2.2).astype(int)
        assert_law(through, law)
        assert_law(fast, law)
        estimates = (np.arange(12) - 2.2) / 0.6
        assert law @ estimates == pytest.approx(7, abs=1e-12)
        assert law @ estimates**2 - 49 == pytest.approx(s.variance, rel=1e-9)

    def test_delta_against_direct_convolution_and_an_interior_worst_case(self):
        def direct(n, q, epsilon, m):
            others = convolve(binom.pmf(np.arange(m + 1), m, 1 - q / 2), binom.pmf(np.arange(n - m), n - 1 - m, q / 2))
            P, Q = (np.convolve(others, [1 - x, x]) for x in (q / 2, 1 - q / 2))
            return max(divergence(P, Q, epsilon), divergence(Q, P, epsilon))

        for n, q, epsilon in ((30, 0.4, 1.0), (60, 0.8, 0.2), (1, 0.5, 0.3)):
            every = [direct(n, q, epsilon, m) for m in range(n)]
            assert bit_sum_delta(n, q, epsilon) == pytest.approx(max(every), rel=1e-8)
        # all-zeros and all-ones among the others are not the worst case here
        assert bit_sum_delta(30, 0.4, 1.0) > 1.05 * bit_sum_delta(30, 0.4, 1.0, [0, 29])

    def test_calibration_is_tight_and_the_published_choice_loose(self):
        exact, published = BitSum.calibrated(400, 2.0, 1e-3), BitSum.published(400, 2.0, 1e-3)
        assert exact.delta(2.0) <= 1e-3 < BitSum(400, exact.flip * 0.98).delta(2.0)
        assert published.delta(2.0) <= 1e-3 and published.flip > 5 * exact.flip
        assert exact.ledger(2.0).delta(2.0) <= 1e-3
        with pytest.raises(ValueError, match="users must exceed"):
            BitSum.published(20, 1.0, 1e-5)


def test_matrix_encoding_saves_a_factor_sqrt_two():
    mu, slack = matrix_target(1.0, 1e-3, 3)
    encoded = matrix_sum(2000, 3, mu, slack)
    plain = VectorSum.ball(2000, 9, 1.0, 1e-3)
    assert plain.sigma / encoded.sigma == pytest.approx(np.sqrt(2), rel=0.08)
    assert encoded.ledger.delta(1.0) <= 1e-3


def test_matrix_range_and_sensitivity_hold_and_are_attained():
    from privbandit.linalg import outer

    rng = np.random.default_rng(6)
    low, high, Delta = symmetric_range(3, 0.25)
    x, y = (v / np.linalg.norm(v, axis=1, keepdims=True) * rng.random((20_000, 1)) ** 0.2 for v in rng.standard_normal((2, 20_000, 3)))
    w = 0.25 * rng.random((20_000, 1))
    u, v = w * outer(x), 0.25 * outer(y)
    assert np.all((u >= low - 1e-12) & (u <= high + 1e-12))
    assert np.linalg.norm(u - v, axis=1).max() <= Delta
    e = np.eye(3)
    assert 0.25 * np.linalg.norm(outer(e[0]) - outer(e[1])) == pytest.approx(Delta)
    assert symmetric_range(1)[2] == 1.0


def test_costs_and_grid():
    s = VectorSum.ball(1000, 3, 2.0, 0.01)
    assert grid_points(1000, 3) == 64 and 64 <= s.grid.min() <= s.grid.max() <= 67
    assert s.messages_per_user == s.grid.sum() + 3 * s.bits and s.bits_per_user == 3 * s.messages_per_user


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: VectorSum.ball(0, 2, 1.0, 0.1), "users must be"),
        (lambda: VectorSum.ball(10, 2, -1.0, 0.1), "epsilon must be"),
        (lambda: VectorSum.ball(10, 2, 1.0, 1.0), "delta must be"),
        (lambda: VectorSum.published(10, 2, 16.0, 0.1), "epsilon must be in"),
        (lambda: VectorSum(2, (0.0,), (0.0,), 1.0, 0.5, 1, 0.1), "high must exceed low"),
        (lambda: SMALL.sum(np.full((1, 3, 1), np.nan), np.random.default_rng(0)), "x must have finite"),
        (lambda: SMALL.messages(np.zeros((2, 1)), np.random.default_rng(0)), "x must have shape"),
        (lambda: SMALL.encode(np.array([[np.nan]]), np.random.default_rng(0)), "x must have finite entries only, got nan"),
        (lambda: SMALL.encode(np.array([[np.inf]]), np.random.default_rng(0)), "x must have finite entries only, got inf"),
        (lambda: SMALL.encode(np.zeros((4, 2)), np.random.default_rng(0)), r"x must have shape \(4, 1\), got shape \(4, 2\)"),
        (lambda: PlainSum(3).encode(np.array([[np.nan]]), np.random.default_rng(0)), "x must have finite"),
        (lambda: PlainSum(3).sum(np.zeros((1, 2, 1)), np.random.default_rng(0)), r"x must have shape \(\*, 3, \*\)"),
        (lambda: REPORTS.encode(np.array([[np.nan]]), np.random.default_rng(0)), "x must have finite"),
        (lambda: BitSum(2, 0.5).messages(np.array([0, np.nan]), np.random.default_rng(0)), r"bits must be 2 zeros and ones, got \[ 0. nan\]"),
        (lambda: BitSum(2, 0.5).release(np.array([np.nan]), np.random.default_rng(0)), "ones must be whole numbers"),
        (lambda: BitSum(5, 1.0), "flip must be"),
        (lambda: BitSum(2, 0.5).messages(np.array([0, 2]), np.random.default_rng(0)), "bits must be"),
        (lambda: BitSum(2, 0.5).release(np.array([3]), np.random.default_rng(0)), "ones must be whole numbers in"),
        (lambda: ScalarSum(1, 0, 1), "grid must be"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_one_user_one_coordinate():
    s = VectorSum.ball(1, 1, 1.0, 0.1)
    assert s.ledger.delta(1.0) <= 0.1
    assert np.isfinite(s.sum(np.zeros((2, 1, 1)), np.random.default_rng(7))).all()
