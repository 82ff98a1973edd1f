"""Shuffle LinUCB in both protocols."""

import math

import numpy as np
import pytest

from privbandit.audit.replay import replay
from privbandit.audit.users import linear
from privbandit.environments.linear import LinearBandit
from privbandit.linalg import smat, svec_size
from privbandit.mechanisms.shuffle.reports import ShuffledReports
from privbandit.policies.linucb import LinUCB
from privbandit.policies.shuffle_linucb import ShuffleLinUCB, make_protocol, subgaussian_bounds
from privbandit.simulate import simulate

FIELDS = {"d": 2, "horizon": 100, "S": 0.5, "sigma_r": 0.3}


def serve(policy, leaves, seed=0):
    """States after each user; `leaves` is a list of (x (R, d), reward (R,))."""
    noise = np.random.default_rng(seed)
    state = policy.init(len(leaves[0][0]), noise)
    states = [state]
    for x, r in leaves:
        state = policy.update(state, x, r, noise)
        states.append(state)
    return states


def users(T, R, d, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((T, R, d))
    return [(a / np.linalg.norm(a, axis=1, keepdims=True), rng.choice([-1.0, 1.0], R)) for a in x]


def test_without_noise_the_estimate_is_that_of_linucb_at_the_end_of_each_batch():
    data = users(30, 3, 2, 0)
    batched = ShuffleLinUCB.calibrated(math.inf, 0.1, batch=7, **FIELDS | {"horizon": 30})
    plain = LinUCB(d=2, S=0.5, sigma_r=0.3)
    a, b = serve(batched, data), serve(plain, data)
    for t in range(29):
        np.testing.assert_allclose(a[t].theta, b[t - t % 7].theta, atol=1e-12)
    assert a[-1].theta is a[28].theta  # a batch that nobody would use is not released


@pytest.mark.parametrize("protocol", ["vector", "amplified"])
def test_released_sums_have_the_stated_noise(protocol):
    """R = 4000, 20 users, seed 1: unbiased (5 standard errors), standard deviation between sigma and std up to 6 % (5 sigma)."""
    sums = make_protocol(protocol, 20, 2, 1.0, 1e-2)
    rng = np.random.default_rng(1)
    total = 0
    leaf = np.tile([0.5, 0.3 * math.sqrt(2), 0.2, 0.4, -0.7], (4000, 1))
    for _ in range(20):
        total = total + sums.encode(leaf, rng)
    error = sums.release(total, rng) - 20 * leaf
    assert np.all(np.abs(error.mean(axis=0)) < 5 * sums.std / math.sqrt(4000))
    least = sums.sigma if protocol == "vector" else sums.std
    assert np.all(error.std(axis=0) < 1.06 * sums.std) and np.all(error.std(axis=0) > 0.94 * least)


def test_vector_protocol_is_much_less_noisy_than_amplified_reports():
    """166 users, epsilon = 1: the sum of bits needs noise near the central model's, reports need more by about sqrt(users) without gain
    from amplification at so few users."""
    vector, amplified = (make_protocol(p, 166, 3, 1.0, 0.01) for p in ("vector", "amplified"))
    assert amplified.std > 5 * vector.std


def test_budgets():
    for protocol in ("vector", "amplified"):
        ledger = ShuffleLinUCB.calibrated(1.0, 0.01, protocol=protocol, **FIELDS).ledger
        assert ledger.trust == "shuffle" and 0.99 < ledger.epsilon(0.01) <= 1.0 + 1e-9
    with pytest.raises(ValueError, match="noise must be large enough"):
        ShuffledReports(166, 1.0, 1.0, 0.01, 0.1)


def test_replay():
    policy = ShuffleLinUCB.calibrated(1.0, 1e-3, batch=5, **FIELDS | {"horizon": 20})
    pair = linear(20, 72, 3, 2, np.random.default_rng(2), -1.0)
    mu = replay(policy, pair).mu
    assert 0.6 * policy.ledger.mu < mu.max() <= policy.ledger.mu * (1 + 1e-9)
    amplified = ShuffleLinUCB.calibrated(1.0, 1e-3, batch=5, protocol="amplified", **FIELDS | {"horizon": 20})
    assert replay(amplified, pair).mu.max() <= amplified.protocol.report.mu * (1 + 1e-9)


def test_noise_bounds_hold_and_the_regulariser_stays_positive():
    """n = 2000 draws, seed 3: a bound for zeta = 1e-3 on the norms of Rademacher and Gaussian coordinates is passed at most 10 times."""
    rng = np.random.default_rng(3)
    for d in (1, 3, 6):
        bounds = subgaussian_bounds(2.0, d, 1e-3)
        for draw in (rng.standard_normal((2000, svec_size(d))), rng.choice([-1.0, 1.0], (2000, svec_size(d)))):
            norms = np.abs(np.linalg.eigvalsh(smat(2.0 * draw, d))).max(axis=1)
            assert np.sum(norms > bounds.high) <= 10
    policy = ShuffleLinUCB.calibrated(1.0, 0.01, **FIELDS)
    assert policy.ridge >= policy.bounds.high and policy.added == pytest.approx(policy.ridge + policy.bounds.high)


def test_theory_width_covers_theta():
    """R = 100, T = 400, seed 4: |theta - theta*|_V <= beta at the end of every run."""
    environment = LinearBandit(K=5, d=2)
    policy = ShuffleLinUCB.calibrated(2.0, 0.01, **FIELDS | {"horizon": 400, "sigma_r": environment.sigma_r})
    rng = np.random.default_rng(4)
    theta, state = environment.init(100, rng), policy.init(100, rng)
    for t in range(400):
        _, contexts = environment.contexts(theta, t, rng)
        state, action = policy.act(state, contexts, rng)
        feedback = environment.step(theta, contexts, action, rng)
        state = policy.update(state, contexts[np.arange(100), action], feedback.reward, rng)
    gap = state.theta - theta
    V = np.linalg.inv(state.inverse[:, 0])
    assert np.all(np.einsum("rd,rde,re->r", gap, V, gap) <= policy.width(state) ** 2)


def test_learns_at_moderate_epsilon():
    """T = 3000, epsilon = 4, R = 20, seed 5: far below uniform play."""
    environment = LinearBandit(K=10, d=2)
    policy = ShuffleLinUCB.practical(4.0, 0.01, d=2, horizon=3000, S=0.5)
    regret = simulate(policy, environment, horizon=3000, replications=20, seed=5).final.mean()
    assert regret < 0.12 * 3000 * 0.35
    assert policy.batch == math.ceil(3000**0.6)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="protocol must be"):
        ShuffleLinUCB.calibrated(1.0, 0.1, protocol="post", **FIELDS)
    with pytest.raises(ValueError, match="batch must be"):
        ShuffleLinUCB.calibrated(1.0, 0.1, batch=0, **FIELDS)
    with pytest.raises(ValueError, match="blocks must be 1"):
        ShuffleLinUCB.calibrated(1.0, 0.1, blocks=2, **FIELDS)
