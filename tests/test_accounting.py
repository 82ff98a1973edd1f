"""Exact Gaussian accounting against 60 digits, against dp-accounting, and against known answers."""

import math

import dp_accounting
import mpmath as mp
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from privbandit import accounting

MUS = [1e-9, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 0.999, 1.0, 1.001, 2.0, 5.0, 30.0]
EPSILONS = [0.0, 1e-12, 1e-9, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 1.0, 5.0, 10.0, 100.0]
DELTAS = [0.99, 0.5, 0.1, 1e-2, 1e-5, 1e-10, 1e-15, 1e-30]

SIGMAS = {  # sensitivity 1: (epsilon, delta) -> sigma; mpmath and dp-accounting agree to 13 digits
    (0.1, 1e-2): 9.54182308882886, (0.1, 1e-5): 30.7495661319775, (0.1, 1e-6): 36.3046904261958, (0.1, 1e-10): 54.2062958369013,
    (1, 1e-2): 1.87787556090739, (1, 1e-5): 3.73063163481594, (1, 1e-6): 4.22467888932684, (1, 1e-10): 5.86777774963053,
    (10, 1e-2): 0.350096686248232, (10, 1e-5): 0.499888619709009, (10, 1e-6): 0.541086831818366, (10, 1e-10): 0.683043967227481,
    (100, 1e-2): 0.0828540587585147, (100, 1e-5): 0.0946699070147464, (100, 1e-6): 0.0978372239744411, (100, 1e-10): 0.108760426020127,
}  # fmt: skip


def exact_delta(mu, epsilon):
    with mp.workdps(60):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        tail = lambda x: mp.erfc(-x / mp.sqrt(2)) / 2  # noqa: E731
        return tail(-epsilon / mu + mu / 2) - mp.e**epsilon * tail(-epsilon / mu - mu / 2)


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_delta_to_12_digits(mu, epsilon):
    want = exact_delta(mu, epsilon)
    got = accounting.gaussian_delta(mu, epsilon)
    assert abs(got - want) <= 1e-12 * want + mp.mpf("1e-290")


@pytest.mark.parametrize("key, sigma", SIGMAS.items())
def test_known_calibrations(key, sigma):
    assert accounting.gaussian_sigma(*key) == pytest.approx(sigma, rel=2e-13, abs=0)
    assert accounting.gaussian_epsilon(1 / sigma, key[1]) == pytest.approx(key[0], rel=1e-11, abs=0)


@pytest.mark.parametrize("mu, epsilon, delta", [
    (1, 1, 0.126936737506644), (1, 0, 0.382924922548026), (0.5, 0.5, 0.0524403232876697), (1, 5, 5.79372169191949e-7),
])  # fmt: skip
def test_known_deltas(mu, epsilon, delta):
    assert accounting.gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-13, abs=0)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3, 0.1, 1.0, 10.0, 1000.0])
@pytest.mark.parametrize("delta", DELTAS)
def test_calibration_inverts_the_exact_delta(epsilon, delta):
    """mu is right to 1e-12 relative: exact_delta brackets delta at mu (1 -+ 1e-12)."""
    mu = accounting.gaussian_mu(epsilon, delta)
    with mp.workdps(60):
        low, high = mp.mpf(mu) * (1 - mp.mpf("1e-12")), mp.mpf(mu) * (1 + mp.mpf("1e-12"))
    assert exact_delta(low, epsilon) < delta < exact_delta(high, epsilon)
    # epsilon from mu is ill-conditioned where delta is nearly all of delta(0): allow the 1e-12 above to be amplified
    assert accounting.gaussian_delta(mu, accounting.gaussian_epsilon(mu, delta)) == pytest.approx(delta, rel=1e-11, abs=0)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-100, 1e-6, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6, 1e12, 1e20, 1e100, 1e160, 1e300, 1.7e308])
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-10, 1e-5, 0.1, 0.5, 0.9, 0.999])
def test_round_trips_over_all_floats(epsilon, delta):
    """mu 1e-12 lower proves delta, 1e-12 higher does not (1e-11 for the smallest epsilon; subnormal neighbours are further off).
    epsilon comes back but where a rounding error of delta is a large error of epsilon: delta nearly that of epsilon = 0."""
    mu = accounting.gaussian_mu(epsilon, delta)
    off = 1e-11 if epsilon < 1e-40 else 1e-12
    low, high = min(mu * (1 - off), math.nextafter(mu, 0)), max(mu * (1 + off), math.nextafter(mu, 1e308))
    assert accounting.gaussian_delta(low, epsilon) <= delta <= accounting.gaussian_delta(high, epsilon)
    if epsilon >= 1e-6:
        assert accounting.gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-6 if epsilon < 1e-3 else 1e-9, abs=0)


@pytest.mark.parametrize("epsilon", [1e4, 1e8, 1e12, 1e16])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1, 0.9])
def test_large_budgets_to_12_digits(epsilon, delta):
    """mu and delta against 60 digits, epsilon up to where mu's last digit moves delta."""
    mu = accounting.gaussian_mu(epsilon, delta)
    assert accounting.gaussian_delta(mu, epsilon) == pytest.approx(float(exact_large_delta(mu, epsilon)), rel=1e-12, abs=0)
    with mp.workdps(60):
        low, high = mp.mpf(mu) * (1 - mp.mpf("1e-15")), mp.mpf(mu) * (1 + mp.mpf("1e-15"))
    assert exact_large_delta(low, epsilon) < delta < exact_large_delta(high, epsilon)


def exact_large_delta(mu, epsilon):
    """`exact_delta` where e^epsilon Phi(lower) needs more digits than there are: by Mills' ratio, whose series is good past 30."""
    with mp.workdps(60):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        upper, s = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
        mills = mp.fsum((-1) ** k * mp.fac2(2 * k - 1) / s ** (2 * k + 1) for k in range(1, 12)) + 1 / s
        return mp.erfc(-upper / mp.sqrt(2)) / 2 - mp.npdf(upper) * mills


def test_the_largest_floats():
    assert accounting.gaussian_epsilon(1e160, 0.1) == math.inf
    for call in (accounting.gaussian_mu, accounting.gaussian_epsilon):
        with pytest.raises(ValueError, match=r"delta must be in \[1e-300, 1\), got 1e-310"):
            call(30.0, 1e-310)
    assert accounting.gaussian_epsilon(1e19, 1e-300) == pytest.approx(5e37, rel=1e-14)
    assert accounting.gaussian_delta(1e200, 1.0) == 1.0
    assert accounting.gaussian_delta(1e-300, 1e300) == 0.0


@pytest.mark.parametrize("epsilon", [1e-300, 1e-17, 1e-9, 1e-3, 0.9999, 1.0001])
def test_pure_to_mu_for_small_epsilon(epsilon):
    with mp.workdps(400 if epsilon < 1e-100 else 60):
        want = 2 * mp.sqrt(2) * mp.erfinv(mp.tanh(mp.mpf(epsilon) / 2))
    assert accounting.pure_to_mu(epsilon) == pytest.approx(float(want), rel=1e-14)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_calibration_agrees_with_dp_accounting(epsilon, delta):
    assert accounting.gaussian_sigma(epsilon, delta) == pytest.approx(dp_accounting.get_sigma_gaussian(epsilon, delta), rel=1e-9)
    sigma = 1.7
    assert accounting.gaussian_epsilon(1 / sigma, delta) == pytest.approx(
        dp_accounting.get_epsilon_gaussian(sigma, delta), rel=1e-9
    )


def test_composition_agrees_with_dp_accounting_and_beats_renyi():
    """17 Gaussians of sigma 17.4187973 spend exactly (1, 1e-6); PLD agrees to its grid, Renyi is looser."""
    sigma, delta = 17.4187973, 1e-6
    epsilon = accounting.gaussian_epsilon(accounting.compose_mu(*[1 / sigma] * 17), delta)
    event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(sigma), 17)
    assert epsilon == pytest.approx(1.0, rel=1e-7)
    assert PLDAccountant().compose(event).get_epsilon(delta) == pytest.approx(epsilon, rel=1e-4)
    assert RdpAccountant().compose(event).get_epsilon(delta) > 1.05 * epsilon


def test_composition_is_a_quadrature():
    assert accounting.compose_mu() == 0
    assert accounting.compose_mu(3, 4) == 5
    assert accounting.compose_mu(1, math.inf) == math.inf


def test_zcdp_conversion_is_an_upper_bound():
    """Known answer, rho = 0.5, delta = 1e-6: 5.756522 by the simple conversion where the Gaussian itself spends 4.886554."""
    assert accounting.zcdp_epsilon(0.5, 1e-6) == pytest.approx(5.756522, abs=1e-6)
    assert accounting.gaussian_epsilon(1.0, 1e-6) == pytest.approx(4.886554, abs=1e-6)
    assert accounting.zcdp_rho(accounting.zcdp_epsilon(0.3, 1e-7), 1e-7) == pytest.approx(0.3, rel=1e-12)


def test_the_classical_formula_is_refused_where_it_is_not_proved():
    assert accounting.classical_sigma(0.5, 1e-6) == pytest.approx(2 * 5.2988, abs=1e-3)
    with pytest.raises(ValueError, match="epsilon must be < 1 for the classical"):
        accounting.classical_sigma(1.0, 1e-6)
    sigma = math.sqrt(2 * math.log(1.25e6)) / 10  # what it would say at epsilon = 10
    assert accounting.gaussian_delta(1 / sigma, 10.0) > 1e-6


@pytest.mark.parametrize("epsilon", [0.5, 1e-3, 0.99])
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_the_classical_formula_wastes_noise_below_one(epsilon, delta):
    assert accounting.classical_sigma(epsilon, delta) > accounting.gaussian_sigma(epsilon, delta)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 4.0, 30.0])
def test_pure_dp_as_gaussian_dp(epsilon):
    """N(mu, 1) is at least as easy to tell apart as randomised response at every level, and no smaller mu is."""
    mu = accounting.pure_to_mu(epsilon)
    with mp.workdps(60):
        point = 1 / (1 + mp.e ** mp.mpf(epsilon))
        cdf = lambda x: mp.erfc(-x / mp.sqrt(2)) / 2  # noqa: E731
        quantile = lambda p: -mp.sqrt(2) * mp.erfinv(1 - 2 * p)  # noqa: E731
        for level in [point / 100, point / 2, point, (1 - point) / 2, mp.mpf("0.5")]:
            response = max(1 - mp.e ** mp.mpf(epsilon) * level, mp.e ** -mp.mpf(epsilon) * (1 - level))
            assert cdf(quantile(1 - level) - mp.mpf(mu)) <= response + mp.mpf("1e-14")
        assert abs(cdf(quantile(1 - point) - mp.mpf(mu)) - point) < mp.mpf("1e-14")


def test_infinities_mean_no_privacy():
    assert accounting.gaussian_mu(math.inf, 1e-5) == math.inf
    assert accounting.gaussian_epsilon(math.inf, 1e-5) == math.inf
    assert accounting.gaussian_delta(math.inf, 3.0) == 1.0
    assert accounting.gaussian_delta(0.0, 0.0) == 0.0
    assert accounting.gaussian_epsilon(0.0, 1e-5) == 0.0
    assert accounting.gaussian_sigma(math.inf, 1e-5) == 0.0


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: accounting.gaussian_mu(0.0, 0.1), "epsilon"),
        (lambda: accounting.gaussian_mu(-1.0, 0.1), "epsilon"),
        (lambda: accounting.gaussian_mu(float("nan"), 0.1), "epsilon"),
        (lambda: accounting.gaussian_mu(1.0, 1.5), "delta"),
        (lambda: accounting.gaussian_mu(1.0, 0.0), "delta"),
        (lambda: accounting.gaussian_epsilon(-0.1, 0.1), "mu"),
        (lambda: accounting.gaussian_delta(float("nan"), 0.1), "mu"),
        (lambda: accounting.gaussian_sigma(1.0, 0.1, Delta=-2.0), "Delta"),
        (lambda: accounting.classical_sigma(0.5, 2.0), "delta"),
        (lambda: accounting.zcdp_epsilon(0.0, 0.1), "rho"),
        (lambda: accounting.pure_to_mu(0.0), "epsilon"),
        (lambda: accounting.compose_mu(1.0, -1.0), "mu"),
    ],
)
def test_bad_arguments_are_named(call, name):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        call()
