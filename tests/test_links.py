"""Links: derivatives, tails against 40 digits, constants of the theory, samplers."""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from privbandit.kappa import kappa, kappa_hat, kappa_hat_simulated, kappa_star
from privbandit.links import Linear, Link, Logistic, Poisson, Probit, TruncatedPoisson

LINKS: list[Link] = [Logistic(), Probit(), Linear(0.5), Poisson(), TruncatedPoisson(1), TruncatedPoisson(5)]
IDS = [f"{one.name}-{i}" for i, one in enumerate(LINKS)]
mp.mp.dps = 40


def exact_b(one: Link, z):
    if one.name == "logistic":
        return mp.log1p(mp.e**z)
    if one.name == "probit":
        return z * mp.ncdf(z) + mp.npdf(z)
    if one.name == "linear":
        return z * z / 2
    if one.name == "poisson":
        return mp.e**z
    return mp.log(mp.fsum(mp.e ** (k * z) / mp.factorial(k) for k in range(one.N + 1)))


@pytest.mark.parametrize("one", LINKS, ids=IDS)
@pytest.mark.parametrize("z", [-30.0, -9.0, -3.5, -0.3, 0.0, 1.0, 4.0, 9.0, 30.0])
def test_derivatives_of_b_to_40_digits(one, z):
    """mu, mu', mu'' are the derivatives of b, to 1e-9 relative even where they are 1e-197 (independent oracle: mpmath's diff)."""
    mp.mp.dps = 500 if one.name == "probit" else 120  # differentiation at 1e-197 needs digits
    point = mp.mpf(z)
    want = mp.taylor(lambda t: exact_b(one, t), point, 3)
    got = [one.b(z), one.mu(z), one.dmu(z), one.ddmu(z)]
    for order, (g, w) in enumerate(zip(got, want, strict=True)):
        w = float(w * mp.factorial(order))
        assert abs(float(g) - w) <= 1e-9 * abs(w) + 1e-300, (order, float(g), w)


@pytest.mark.parametrize("one", LINKS, ids=IDS)
def test_far_tails_are_finite(one):
    z = np.array([-500.0, -40.0, 40.0, 500.0])
    for f in (one.b, one.mu, one.dmu, one.ddmu):
        assert np.all(np.isfinite(f(z)))


@pytest.mark.parametrize("one", LINKS, ids=IDS)
@pytest.mark.parametrize("S", [0.5, 2.0, 3.5])
def test_constants_bound_and_are_attained(one, S):
    z = np.linspace(-S, S, 50_001)
    slope = one.dmu(z)
    assert one.L_mu(S) == pytest.approx(slope.max(), rel=1e-6) and one.L_mu(S) >= slope.max() * (1 - 1e-12)
    assert one.c_mu(S) == pytest.approx(slope.min(), rel=1e-6) and one.c_mu(S) <= slope.min() * (1 + 1e-12)
    ratio = np.abs(one.ddmu(z)) / slope
    assert one.self_concordance(S) == pytest.approx(ratio.max(), rel=1e-6, abs=1e-12)
    assert np.all(one.variance(z) <= one.dispersion * slope * (1 + 1e-12))
    low, high = one.reward_range(S)
    for constant, value in ((None, slope), (one.c_mu(S), one.c_mu(S))):
        offset = one.mu(z) - value * z
        want = max(np.abs(low - offset).max(), np.abs(high - offset).max())
        assert one.leaf_range(S, constant) == pytest.approx(want, rel=1e-6)


def test_leaf_range_of_symmetric_links():
    """Y = mu(S) - S mu'(S) <= 1 for logistic and probit: .67 at S=2 and .87 at S=3.5 for logistic."""
    assert round(Logistic().leaf_range(2.0), 2) == 0.67 and round(Logistic().leaf_range(3.5), 2) == 0.87
    for one in (Logistic(), Probit()):
        for S in (0.1, 2.0, 8.0):
            assert one.leaf_range(S) == pytest.approx(float(one.mu(S) - S * one.dmu(S)), abs=1e-12)
            assert one.leaf_range(S, one.c_mu(S)) <= 1
    assert Poisson().leaf_range(1.0) == np.inf
    assert Linear(0.5).leaf_range(2.0) == 2.5


def test_probit_variance_constant():
    """Phi(1 - Phi) <= sqrt(pi/8) phi, attained at 0 and nowhere else."""
    one = Probit()
    assert one.dispersion == pytest.approx(0.626657, abs=1e-6)
    assert one.variance(0.0) == pytest.approx(one.dispersion * one.dmu(0.0), rel=1e-14)
    assert one.variance(0.5) < 0.999 * one.dispersion * one.dmu(0.5)


def test_probit_likelihood_is_another_loss_than_the_quasi_loss():
    one, h = Probit(), 1e-6
    for z in (-40.0, -3.0, 0.2, 5.0):
        for r in (0.0, 1.0):
            slope = (one.nll(z + h, r) - one.nll(z - h, r)) / (2 * h)
            assert one.nll_gradient(z, r) == pytest.approx(slope, rel=1e-6, abs=1e-8)
    assert one.nll(-40.0, 1.0) == pytest.approx(804.608442013754, rel=1e-13)
    assert one.nll_gradient(-40.0, 1.0) == pytest.approx(-40.0249688472073, rel=1e-13)
    assert abs(one.nll_gradient(-3.0, 1.0)) > 3 > 1 >= abs(one.mu(-3.0) - 1.0)


@pytest.mark.parametrize("one", LINKS, ids=IDS)
def test_sampler_inverts_the_distribution_function(one):
    """Mean over 20,000 equally spaced uniforms equals mu(z) to the spacing (deterministic: no seed, cannot be lucky)."""
    u = (np.arange(20_000) + 0.5) / 20_000
    for z in (-2.0, 0.0, 1.5):
        r = one.sample(np.full_like(u, z), u)
        assert np.all(np.diff(r) >= 0) or np.all(np.diff(r) <= 0)
        assert r.mean() == pytest.approx(float(one.mu(z)), abs=2e-3)
        assert r.var() == pytest.approx(float(one.variance(z)), abs=2e-2 * max(1, float(one.variance(z))))


def test_poisson_sampler_is_the_quantile():
    u = np.linspace(0.001, 0.999, 333)
    for z in (-3.0, 0.0, 2.5):
        assert np.array_equal(Poisson().sample(z, u), stats.poisson.ppf(u, np.exp(z)))


def test_truncated_poisson_self_concordance():
    """On |z| <= 3: 1.05 (N=3), 1.23 (5), 1.68 (10)."""
    assert [round(TruncatedPoisson(N).self_concordance(3.0), 2) for N in (3, 5, 10)] == [1.05, 1.23, 1.68]


def test_kappa_values():
    assert [round(kappa(Probit(), S), 2) for S in (2.0, 2.5, 3.0)] == [18.52, 57.05, 225.64]
    assert kappa(Logistic(), 3.0) == pytest.approx(22.1353239916, rel=1e-10)
    assert round(kappa(Logistic(), 3.5), 2) == 35.15
    assert kappa_star(Logistic(), 3.5) == 4.0 and kappa_star(Probit(), 2.0) == pytest.approx(np.sqrt(2 * np.pi))


@pytest.mark.parametrize(
    ("one", "d", "S", "want"),
    [(Probit(), 3, 2.0, 7.7), (Probit(), 3, 2.5, 13.7), (Probit(), 3, 3.0, 26.06), (Probit(), 5, 3.0, 15.0), (Logistic(), 5, 3.5, 11.8)],
)
def test_kappa_hat_by_quadrature_and_by_simulation(one, d, S, want):
    """Quadrature against the known value and against 40,000 drawn context sets (seed 7; 5 standard errors, about 2 %)."""
    value = kappa_hat(one, S, d, K=20)
    assert value == pytest.approx(want, abs=0.051)
    assert value == pytest.approx(kappa_hat(one, S, d, K=20, panels=77), rel=1e-9)
    rng = np.random.default_rng(7)
    g = rng.standard_normal((40_000, 20, d))
    contexts = g / np.linalg.norm(g, axis=-1, keepdims=True) * rng.random((40_000, 20, 1)) ** (1 / d)
    simulated = kappa_hat_simulated(one, S * np.eye(d)[0], contexts)
    assert abs(simulated.value - value) < 5 * simulated.standard_error < 0.1 * value
    assert kappa_star(one, S) <= value <= kappa(one, S)


def test_bad_input():
    with pytest.raises(ValueError, match="noise"):
        Linear(-1.0)
    with pytest.raises(ValueError, match="N must"):
        TruncatedPoisson(0)
    with pytest.raises(ValueError, match="S must"):
        kappa(Logistic(), -1.0)
