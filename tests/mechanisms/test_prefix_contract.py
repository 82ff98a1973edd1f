"""One contract over every prefix-sum mechanism: exact sums without noise, the claimed noise with it, the claimed cost, clear errors."""

import numpy as np
import pytest

from privbandit.audit.covariance import data_matrix, exact_mu, noise_matrix
from privbandit.ledger import BudgetExceeded
from privbandit.mechanisms import PREFIX_SUMS, HonakerTree

from .dense import DENSE, prefix_matrix

HORIZONS = [1, 2, 3, 7, 8, 1023, 1024, 1025]
SMALL = [1, 2, 3, 7, 8, 33]
every = pytest.mark.parametrize("cls", PREFIX_SUMS.values(), ids=PREFIX_SUMS)


def run(mechanism, increments, noise):
    """Prefixes (T, R, size) of increments (T, R, size), or of a function of the last prefix."""
    state = mechanism.init(*increments.shape[1:], noise)
    prefixes = []
    for increment in increments:
        state, prefix = mechanism.release(state, increment, noise)
        prefixes.append(prefix)
    return np.array(prefixes)


@every
@pytest.mark.parametrize("T", HORIZONS)
def test_the_noise_has_the_claimed_deviation(cls, T):
    """The noise's matrix is measured with impulses, so there is no sampling error."""
    mechanism = cls.calibrated(horizon=T, mu=0.7, Delta=2.0)
    deviation = np.linalg.norm(noise_matrix(mechanism), axis=1)
    assert np.allclose(mechanism.std(np.arange(1, T + 1)), deviation, rtol=1e-7)
    assert mechanism.max_std == pytest.approx(deviation.max(), rel=1e-7)
    assert mechanism.mean_std == pytest.approx(deviation.mean(), rel=1e-7)


@every
@pytest.mark.parametrize("T", HORIZONS)
def test_the_exact_cost_is_at_most_the_claimed_one_and_the_claim_is_tight(cls, T):
    """mu of what is published, computed from the covariance of the running code.

    Honaker's tree is charged for all of its nodes but publishes averages of them, which hides up to a tenth of mu.
    """
    mechanism = cls.calibrated(horizon=T, mu=0.7, Delta=2.0)
    measured = exact_mu(mechanism)
    assert measured <= 0.7 * (1 + 1e-6)
    assert measured >= 0.7 * (0.88 if cls is HonakerTree else 1 - 1e-6)


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("T", SMALL)
def test_the_noise_is_that_of_the_dense_matrices(name, T):
    B, C = DENSE[name](T)
    assert np.allclose(B @ C, prefix_matrix(T), atol=1e-12)
    mechanism = PREFIX_SUMS[name](T, 1.5, 1.0)
    N = noise_matrix(mechanism)
    assert np.allclose(N @ N.T, 1.5**2 * B @ B.T, atol=1e-10)
    assert mechanism.mu == pytest.approx(np.linalg.norm(C, axis=0).max() / 1.5, rel=1e-12)


@every
@pytest.mark.parametrize("T", HORIZONS)
def test_without_noise_the_sums_are_exact(cls, T):
    increments = np.random.default_rng(1).integers(-9, 10, size=(T, 2, 3)).astype(float)
    exact = np.cumsum(increments, axis=0)
    assert np.array_equal(run(cls(T, 0.0), increments, np.random.default_rng(0)), exact)


@every
@pytest.mark.parametrize("T", SMALL)
def test_data_enter_as_prefix_sums(cls, T):
    assert np.allclose(data_matrix(cls(T, 1.0)), prefix_matrix(T), atol=1e-12)


@every
@pytest.mark.parametrize("T", SMALL)
def test_adaptive_increments_meet_the_same_noise(cls, T):
    """Increments that depend on all that was released: the error is to the digit what oblivious increments meet."""
    mechanism = cls.calibrated(horizon=T, mu=1.0)
    oblivious = run(mechanism, np.zeros((T, 3, 2)), np.random.default_rng(5))
    noise, increments, prefix, errors = np.random.default_rng(5), [], np.ones((3, 2)), []
    state = mechanism.init(3, 2, noise)
    for _ in range(T):
        increments.append(np.sign(prefix) + 0.1 * prefix)
        state, prefix = mechanism.release(state, increments[-1], noise)
        errors.append(prefix - np.sum(increments, axis=0))
    assert np.allclose(errors, oblivious, atol=1e-9)


@every
def test_coordinates_and_replications_have_noise_of_their_own(cls):
    """Correlation over n = 4000 replications and coordinates of the last of 5 prefixes: 5 standard errors are 0.08."""
    last = run(cls(5, 1.0), np.zeros((5, 4000, 2)), np.random.default_rng(2))[-1]
    assert abs(np.corrcoef(last.T)[0, 1]) < 0.08
    assert abs(np.corrcoef(last[:-1, 0], last[1:, 0])[0, 1]) < 0.08
    assert np.abs(last.std(axis=0) / cls(5, 1.0).std(5) - 1).max() < 5 / np.sqrt(2 * 4000)


@every
def test_the_seed_fixes_the_numbers(cls):
    first, second = (run(cls(9, 1.0), np.ones((9, 2, 2)), np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(first, second)


@every
def test_a_state_is_a_value(cls):
    """Releasing twice from one state gives the same prefix for the same noise: nothing is changed in place."""
    mechanism = cls(4, 1.0)
    state = mechanism.init(2, 3, np.random.default_rng(0))
    for _ in range(4):
        one, a = mechanism.release(state, np.ones((2, 3)), np.random.default_rng(1))
        _, b = mechanism.release(state, np.ones((2, 3)), np.random.default_rng(1))
        assert np.array_equal(a, b)
        state = one


@every
@pytest.mark.parametrize("T", SMALL)
def test_overspending_raises(cls, T):
    mechanism, noise = cls(T, 1.0), np.random.default_rng(0)
    state = mechanism.init(1, 1, noise)
    for _ in range(T):
        state, _ = mechanism.release(state, np.ones((1, 1)), noise)
    with pytest.raises(BudgetExceeded, match=f"all {T} releases are spent"):
        mechanism.release(state, np.ones((1, 1)), noise)


@every
def test_calibration(cls):
    mechanism = cls.calibrated(horizon=17, mu=0.3, Delta=2.5)
    assert mechanism.mu == pytest.approx(0.3, rel=1e-12) and mechanism.Delta == 2.5
    assert cls.calibrated(horizon=17, mu=np.inf).sigma == 0.0
    assert cls.calibrated(horizon=17, mu=np.inf).mu == np.inf
    assert cls.calibrated(horizon=17, mu=0.3, Delta=5.0).max_std == pytest.approx(2 * mechanism.max_std)


@every
@pytest.mark.parametrize(
    "arguments, name",
    [
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2.5}, "horizon"),
        ({"sigma": -1.0}, "sigma"),
        ({"sigma": float("nan")}, "sigma"),
        ({"Delta": 0.0}, "Delta"),
        ({"Delta": float("inf")}, "Delta"),
    ],
)
def test_bad_parameters_are_named(cls, arguments, name):
    with pytest.raises((ValueError, TypeError), match=f"^{name} must be"):
        cls(**{"horizon": 4, "sigma": 1.0, "Delta": 1.0, **arguments})


@every
@pytest.mark.parametrize(
    "increment, message",
    [
        (np.array([[0.0, np.nan, 1.0]] * 2), "increment must have finite entries only, got nan"),
        (np.array([[0.0, np.inf, 1.0]] * 2), "increment must have finite entries only, got inf"),
        (np.zeros((1, 3)), r"increment must have shape \(2, 3\), got shape \(1, 3\)"),
        (np.zeros(3), r"increment must have shape \(2, 3\), got shape \(3,\)"),
    ],
)
def test_bad_increments_are_refused_before_anything_is_released(cls, increment, message):
    mechanism, noise = cls(4, 1.0), np.random.default_rng(0)
    state = mechanism.init(2, 3, noise)
    before = noise.bit_generator.state
    with pytest.raises(ValueError, match=message):
        mechanism.release(state, increment, noise)
    assert noise.bit_generator.state == before


@every
@pytest.mark.parametrize("R, size, name", [(0, 1, "R"), (1, 0, "size"), (1.0, 1, "R")])
def test_bad_shapes_are_named(cls, R, size, name):
    with pytest.raises((ValueError, TypeError), match=f"^{name} must be"):
        cls(4, 1.0).init(R, size, np.random.default_rng(0))


@every
@pytest.mark.parametrize("noise", [None, 0, np.random])
def test_noise_from_elsewhere_is_refused_at_once(cls, noise):
    with pytest.raises(TypeError, match="^noise must be a numpy random Generator, got "):
        cls(4, 1.0).init(2, 3, noise)


@every
@pytest.mark.parametrize("mu", [0.0, -1.0, float("nan")])
def test_bad_mu_is_named(cls, mu):
    with pytest.raises(ValueError, match="^mu must be"):
        cls.calibrated(horizon=4, mu=mu)


@every
@pytest.mark.parametrize("t", [0, 5, -1, 1.5, np.array([1, 9])])
def test_bad_times_are_named(cls, t):
    with pytest.raises(ValueError, match=r"^t must be whole numbers in 1\.\.4"):
        cls(4, 1.0).std(t)
