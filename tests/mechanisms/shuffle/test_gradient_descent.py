"""The shuffle-private optimiser: privacy of the transcript, convergence, and its two excess bounds."""

import numpy as np
import pytest

from privbandit.estimators.glm import fit_glm
from privbandit.linalg import into_ball
from privbandit.links import Logistic
from privbandit.mechanisms.shuffle.gradient_descent import ShuffleGradientDescent, published_rounds

LINK = Logistic()


def data(R, n, d, seed):
    rng = np.random.default_rng(seed)
    x = into_ball(rng.standard_normal((R, n, d)), 1.0)
    r = (rng.random((R, n)) < LINK.mu(2 * x[..., 0])).astype(float)
    return x, r


def loss(x, r, theta, ridge):
    z = np.einsum("rnd,rd->rn", x, theta)
    return LINK.loss(z, r).sum(axis=1) + ridge / 2 * np.sum(theta**2, axis=1)


def run(optimiser, x, r, seed):
    def gradient(theta):
        return (LINK.mu(np.einsum("rnd,rd->rn", x, theta)) - r)[..., None] * x

    return optimiser.run(gradient, len(x), np.random.default_rng(seed))


@pytest.mark.parametrize("ridge", [0.0, 50.0])
def test_excess_is_within_both_bounds(ridge):
    """R = 60 runs of 400 users, seed 1: mean excess below the bound in expectation, every excess below the one for zeta = 1e-3.

    The bounds are valid with a factor 5 or more to spare here, so no run can fail by chance; an optimiser that steps uphill fails.
    """
    x, r = data(60, 400, 2, 0)
    best = loss(x, r, fit_glm(LINK, x, r, ridge, radius=2.0).theta, ridge)
    optimiser = ShuffleGradientDescent.calibrated(400, 2, 2.0, 4.0, 1e-3, ridge=ridge, rounds=40)
    excess = loss(x, r, run(optimiser, x, r, 1), ridge) - best
    assert np.all(excess > -1e-6)
    assert excess.mean() <= optimiser.mean_excess < optimiser.excess(1e-3)
    assert excess.max() <= optimiser.excess(1e-3)
    uphill = optimiser.run(lambda t: -(LINK.mu(np.einsum("rnd,rd->rn", x, t)) - r)[..., None] * x, 60, np.random.default_rng(1))
    assert np.mean(loss(x, r, uphill, ridge) - best) > 2 * max(excess.mean(), 1e-3)


def test_whole_transcript_is_within_budget():
    optimiser = ShuffleGradientDescent.calibrated(300, 3, 1.0, 1.0, 1e-4, rounds=25)
    assert optimiser.ledger.delta(1.0) <= 1e-4 and optimiser.ledger.epsilon(1e-4) > 0.9
    assert optimiser.ledger.entries[0].count == 25


def test_published_constants_spend_their_budget_by_advanced_composition():
    """sqrt(2 T log(2/delta)) e + T e (exp(e) - 1) <= epsilon for the round's budget e, and the deltas add up to delta."""
    published = ShuffleGradientDescent.published(500, 2, 1.0, 1.0, 1e-3, most_rounds=50)
    event, T = published.gradients.event, published.rounds
    spent = np.sqrt(2 * T * np.log(2 / 1e-3)) * event.epsilon + T * event.epsilon * np.expm1(event.epsilon)
    assert spent <= 1.0 and T * event.delta + 1e-3 / 2 <= 1e-3 + 1e-12
    exact = ShuffleGradientDescent.calibrated(500, 2, 1.0, 1.0, 1e-3, rounds=T)
    assert published.gradients.sigma > 100 * exact.gradients.sigma
    assert exact.excess(0.01) < published.excess(0.01)


def test_rounds_of_the_paper_and_their_cap():
    assert published_rounds(141, 3, 4.0, 0.02, 1000) == pytest.approx(107, abs=2)
    assert published_rounds(5000, 3, 4.0, 0.02, 1000) == 1000
    assert published_rounds(2, 3, 0.1, 0.02) == 1


def test_implicit_ridge_is_a_contraction_where_the_explicit_step_oscillates():
    """ridge = 511, 141 users: the implicit iterate stays near the small minimiser for any step."""
    x, r = data(5, 141, 2, 3)
    optimiser = ShuffleGradientDescent.calibrated(141, 2, 2.0, 8.0, 1e-3, ridge=511.0, rounds=7)
    assert optimiser.eta * 511 > 2  # an explicit step would multiply the error by more than 1 in size
    theta = run(optimiser, x, r, 4)
    best = fit_glm(LINK, x, r, 511.0).theta
    assert np.all(np.linalg.norm(theta - best, axis=1) < 0.1)


def test_long_gradients_are_clipped():
    """A user who reports a gradient of length 1000 moves the sum as one of length 1 does: at most eta (L + rounding)."""
    optimiser = ShuffleGradientDescent.calibrated(50, 2, 5.0, 4.0, 1e-2, rounds=2)
    quiet, loud = np.zeros((1, 50, 2)), np.zeros((1, 50, 2))
    loud[0, 0] = [1000.0, 0.0]
    a, b = (optimiser.run(lambda t, g=g: g, 1, np.random.default_rng(5)) for g in (quiet, loud))
    assert np.linalg.norm(a - b) <= optimiser.eta * (1 + 2 * optimiser.gradients.step) / 2 + 1e-12


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="rounds must be"):
        ShuffleGradientDescent.calibrated(10, 2, 1.0, 1.0, 0.1, rounds=0)
    with pytest.raises(ValueError, match="S must be"):
        ShuffleGradientDescent.calibrated(10, 2, -1.0, 1.0, 0.1, rounds=2)
