"""Gradient descent on batches: the account against an oracle and against exact divergences, batches, unbiasedness."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import RdpAccountant
from scipy.integrate import quad
from scipy.stats import norm

from privbandit.links import Logistic
from privbandit.mechanisms.minibatch import ORDERS, MiniBatchDescent, rdp_epsilon, sampled_gaussian_rdp
from privbandit.mechanisms.optimisers import NoisyGradientDescent


def oracle(q: float, multiplier: float, alpha: int, n: int = 1000) -> float:
    accountant = RdpAccountant(orders=[float(alpha)], neighboring_relation=NeighboringRelation.REPLACE_ONE)
    accountant.compose(dp_event.SampledWithoutReplacementDpEvent(n, round(q * n), dp_event.GaussianDpEvent(multiplier)))
    return float(accountant._rdp[0])


@pytest.mark.parametrize("q", [0.001, 0.01, 0.1, 0.5])
@pytest.mark.parametrize("multiplier", [0.7, 1.0, 3.0])
def test_bound_is_never_below_the_sharper_one_and_close_to_it(q, multiplier):
    """The oracle uses the strengthened theorem for Gaussian noise (27 in place of 9): never larger, equal at order 2."""
    assert sampled_gaussian_rdp(q, multiplier, 2) == pytest.approx(oracle(q, multiplier, 2), rel=1e-9)
    for alpha in (3, 8, 20):
        ours, sharper = sampled_gaussian_rdp(q, multiplier, alpha), oracle(q, multiplier, alpha)
        assert ours >= min(sharper, alpha / (2 * multiplier**2)) * (1 - 1e-9)


@pytest.mark.parametrize("q", [0.05, 0.3])
@pytest.mark.parametrize("alpha", [2, 3, 6])
def test_bound_is_above_the_exact_divergence(q, alpha):
    """One user's value moves from 0 to 1, all others are 0: N(0, s^2) against a mixture, both directions, by quadrature."""
    s = 1.2
    p = lambda t: norm.pdf(t, 0, s)  # noqa: E731
    m = lambda t: (1 - q) * norm.pdf(t, 0, s) + q * norm.pdf(t, 1, s)  # noqa: E731
    for a, b in ((p, m), (m, p)):
        moment = quad(lambda t, a=a, b=b: a(t) ** alpha * b(t) ** (1 - alpha), -15, 16, limit=500, points=[0, 1])[0]
        assert math.log(moment) / (alpha - 1) <= sampled_gaussian_rdp(q, s, alpha)


def test_full_batches_are_the_gaussian_mechanism():
    assert sampled_gaussian_rdp(1.0, 2.0, 5) == 5 / 8
    full = MiniBatchDescent(Logistic(), n=50, batch=50, steps=4, sigma=8.0, delta=1e-5)
    accountant = RdpAccountant(orders=ORDERS.astype(float), neighboring_relation=NeighboringRelation.REPLACE_ONE)
    accountant.compose(dp_event.GaussianDpEvent(4.0), 4)
    assert full.epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)


def test_sampling_pays():
    few = MiniBatchDescent(Logistic(), n=10_000, batch=100, steps=100, sigma=4.0, delta=1e-5)
    all_ = MiniBatchDescent(Logistic(), n=10_000, batch=10_000, steps=100, sigma=4.0, delta=1e-5)
    assert few.epsilon < all_.epsilon / 10
    assert few.entries[0].event.epsilon == few.epsilon


def test_conversion_never_returns_a_negative_epsilon():
    assert rdp_epsilon(np.array([2.0, 3.0]), np.array([0.0, 0.0]), 0.9) == 0.0


def test_full_batches_descend_as_the_plain_optimiser():
    rng = np.random.default_rng(0)
    x, r = rng.uniform(-0.5, 0.5, (2, 30, 3)), rng.integers(0, 2, (2, 30)).astype(float)
    tiny = 1e-300  # full batches, no visible noise
    start, rates = np.zeros((2, 3)), np.full(6, 0.05)
    ours = MiniBatchDescent(Logistic(), 30, 30, 6, tiny, 0.1).descend(x, r, start, rates, rng, rng, ridge=0.3)
    plain = NoisyGradientDescent(Logistic(), 6, 0.0).descend(x, r, start, rates, rng, ridge=0.3)
    np.testing.assert_allclose(ours, plain, rtol=1e-10)


def test_batches_have_their_size_and_are_unbiased():
    """One step from 0 with rate 1: n = 4000 replications; the mean is minus the full gradient, within 5 standard errors."""
    rng, R, n = np.random.default_rng(1), 4000, 12
    x, r = rng.uniform(-0.5, 0.5, (1, n, 1)), rng.integers(0, 2, (1, n)).astype(float)
    x, r = np.repeat(x, R, axis=0), np.repeat(r, R, axis=0)
    step = MiniBatchDescent(Logistic(), n, 3, 1, 1e-12, 0.1).descend(x, r, np.zeros((R, 1)), np.ones(1), rng, rng)[:, 0]
    full = -np.sum((0.5 - r[0]) * x[0, :, 0])
    assert abs(step.mean() - full) < 5 * step.std() / math.sqrt(R)
    assert len(np.unique(np.round(step, 9))) <= math.comb(n, 3)


@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda: MiniBatchDescent(Logistic(), 10, 11, 1, 1.0, 0.1), "batch must be at most"),
        (lambda: MiniBatchDescent(Logistic(), 10, 5, 1, 0.0, 0.1), "sigma"),
        (lambda: sampled_gaussian_rdp(0.0, 1.0, 2), "q must"),
        (lambda: sampled_gaussian_rdp(0.5, 1.0, 1), "alpha"),
        (lambda: MiniBatchDescent(Logistic(), 10, 5, 1, 1.0, 0.1).descend(np.zeros((1, 9, 1)), np.zeros((1, 9)), 0, 0, None, None), "x must"),
    ],
)
def test_bad_parameters_are_refused(build, word):
    with pytest.raises((ValueError, TypeError), match=word):
        build()
