"""LinUCB and private LinUCB: a literal loop, coverage, privacy plumbing, limits and bad input."""

import math

import numpy as np
import pytest

from privbandit.environments.linear import LinearBandit
from privbandit.ledger import BudgetExceeded
from privbandit.mechanisms import HonakerTree, PerUser, SquareRoot, SquareRootFFT, TreeMechanism
from privbandit.policies.linucb import LinUCB
from privbandit.policies.private_linucb import PrivateLinUCB, best_ridge
from privbandit.sensitivity import joint_leaf
from privbandit.simulate import simulate
from privbandit.spectra import NoiseBounds

ENV = LinearBandit(K=5, d=3)


def literal_linucb(contexts, theta, noise, S, sigma_r, ridge, zeta):
    """OFUL for one replication, written with inverses and loops. contexts (T, K, d)."""
    T, K, d = contexts.shape
    V, b, arms = ridge * np.eye(d), np.zeros(d), []
    for t in range(T):
        inverse = np.linalg.inv(V)
        beta = sigma_r * math.sqrt(2 * math.log(2 / zeta) + math.log(np.linalg.det(V) / ridge**d)) + S * math.sqrt(ridge)
        index = [x @ inverse @ b + beta * math.sqrt(x @ inverse @ x) for x in contexts[t]]
        arm = int(np.argmax(index))
        x = contexts[t, arm]
        V, b = V + np.outer(x, x), b + (x @ theta + noise[t]) * x
        arms.append(arm)
    return arms


def test_linucb_is_the_literal_loop():
    rng = np.random.default_rng(0)
    contexts, theta, noise = rng.uniform(-0.5, 0.5, (200, 5, 3)), np.array([0.4, -0.2, 0.1]), rng.uniform(-0.3, 0.3, 200)
    policy = LinUCB(d=3, S=0.5, sigma_r=0.2, ridge=0.7, zeta=0.1)
    expected = literal_linucb(contexts, theta, noise, 0.5, 0.2, 0.7, 0.1)
    state = policy.init(1, None)
    for t in range(200):
        state, arm = policy.act(state, contexts[t][None], None)
        assert arm[0] == expected[t], t
        x = contexts[t][arm]
        state = policy.update(state, x, x @ theta + noise[t], None)


@pytest.mark.parametrize("mechanism", [SquareRoot, SquareRootFFT, TreeMechanism, HonakerTree, PerUser])
def test_without_noise_it_is_linucb(mechanism):
    """To the bit for mechanisms that add leaves in order; the trees add in another order, so up to rounding (here: same actions)."""
    fields = dict(d=3, S=0.5, sigma_r=0.3, ridge=2.0)
    private = PrivateLinUCB.calibrated(math.inf, 1e-5, horizon=150, mechanism=mechanism, **fields)
    run = dict(environment=ENV, horizon=150, replications=3, seed=2)
    np.testing.assert_allclose(simulate(private, **run).regret, simulate(LinUCB(**fields), **run).regret, rtol=1e-12)
    if mechanism is SquareRoot:
        np.testing.assert_array_equal(simulate(private, **run).regret, simulate(LinUCB(**fields), **run).regret)
    assert private.ledger.epsilon(0.5) == math.inf and private.bounds == NoiseBounds(0.0, 0.0, 0.0)


@pytest.mark.parametrize("mechanism", [SquareRoot, TreeMechanism, PerUser])
@pytest.mark.parametrize("make", [PrivateLinUCB.calibrated, PrivateLinUCB.practical])
def test_ledger_spends_exactly_the_target(mechanism, make):
    policy = make(1.5, 1e-6, d=3, horizon=200, mechanism=mechanism, Y=0.5)
    guarantee = policy.guarantee(1e-6)
    assert guarantee.epsilon == pytest.approx(1.5, rel=1e-9)
    assert guarantee.trust == ("local" if mechanism is PerUser else "joint")
    assert (guarantee.unit, guarantee.neighbours) == ("one round's user", "replace")
    assert policy.mechanism.Delta == pytest.approx(joint_leaf(policy.weight * policy.Y))


@pytest.mark.parametrize("Y", [0.5, 1.0, 2.0])
def test_no_two_leaves_are_further_apart_than_charged(Y):
    """10^5 random pairs, with features and rewards far outside their domain: they are shrunk and clipped."""
    policy, rng = PrivateLinUCB.calibrated(1.0, 1e-5, d=2, horizon=10, Y=Y, centre=0.3), np.random.default_rng(0)
    x, r = rng.standard_t(2, (2, 100000, 2)), rng.standard_t(2, (2, 100000)) * 3
    gap = np.linalg.norm(policy.leaf(x[0], r[0]) - policy.leaf(x[1], r[1]), axis=1)
    assert 0.97 * policy.mechanism.Delta < gap.max() <= policy.mechanism.Delta * (1 + 1e-12)


@pytest.mark.parametrize("make", [PrivateLinUCB.calibrated, PrivateLinUCB.published])
def test_confidence_width_covers(make):
    """R = 200 runs of 128 rounds, zeta = 0.1: |<x, theta_t - theta>| <= beta |x|_V^-1 at every round for random x. Claimed failures
    <= 10 %; the limit 20 + 5 * 4.3 = 41 of 200."""
    env, R, T = LinearBandit(K=5, d=3), 200, 128
    policy = make(20.0, 1e-3, d=3, horizon=T, S=0.5, sigma_r=env.sigma_r, zeta=0.1)
    rng, noise, failed = np.random.default_rng(3), np.random.default_rng(4), np.zeros(R, dtype=bool)
    theta, state = env.init(R, rng), policy.init(R, noise)
    for t in range(T):
        _, x = env.contexts(theta, t, rng)
        error = np.abs(np.einsum("rkd,rd->rk", x, state.theta - theta))
        width = policy.width(state)[:, None] * np.sqrt(np.einsum("rkd,rde,rke->rk", x, state.inverse[:, 0], x))
        failed |= (error > width * (1 + 1e-9)).any(axis=1)
        state, arm = policy.act(state, x, rng)
        state = policy.update(state, x[np.arange(R), arm], env.step(theta, x, arm, rng).reward, noise)
    assert failed.sum() <= 41


def test_good_event_keeps_the_matrix_above_the_ridge():
    """Without data the released matrix is noise plus shift: below the ridge with probability at most zeta / 2 = 0.05 over the run.
    R = 400, limit 20 + 5 * 4.4 = 42."""
    policy, noise = PrivateLinUCB.calibrated(1.0, 1e-3, d=3, horizon=64, zeta=0.1), np.random.default_rng(0)
    state, low = policy.init(400, noise), np.zeros(400, dtype=bool)
    for _ in range(64):
        state = policy.update(state, np.zeros((400, 3)), np.zeros(400), noise)
        low |= 1 / np.linalg.eigvalsh(state.inverse[:, 0])[:, -1] <= policy.ridge * (1 + 1e-9)  # the floor was hit
    assert low.sum() <= 42


def test_actions_read_released_quantities_only():
    policy, noise = PrivateLinUCB.calibrated(1.0, 1e-3, d=3, horizon=20), np.random.default_rng(0)
    rng, state = np.random.default_rng(1), policy.init(6, noise)
    for _ in range(5):
        state = policy.update(state, rng.uniform(-0.5, 0.5, (6, 3)), rng.uniform(-1, 1, 6), noise)
    x = rng.uniform(-0.5, 0.5, (6, 8, 3))
    np.testing.assert_array_equal(policy.act(state, x, rng)[1], policy.act(state._replace(memory=None), x, rng)[1])


def test_an_unobserved_round_is_a_zero_leaf():
    policy = PrivateLinUCB.calibrated(1.0, 1e-3, d=3, horizon=20, centre=0.5)
    assert not policy.leaf(np.zeros((2, 3)), np.zeros(2)).any()


def test_budget_ends_with_the_horizon():
    policy, noise = PrivateLinUCB.calibrated(1.0, 1e-3, d=1, horizon=1), np.random.default_rng(0)
    state = policy.update(policy.init(2, noise), np.ones((2, 1)), np.ones(2), noise)
    with pytest.raises(BudgetExceeded):
        policy.update(state, np.ones((2, 1)), np.ones(2), noise)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("K", [1, 3])
def test_smallest_runs(d, K):
    for T in (1, 2):
        for policy in (LinUCB(d=d), PrivateLinUCB.calibrated(1.0, 0.1, d=d, horizon=T), PrivateLinUCB.published(1.0, 0.1, d=d, horizon=T)):
            run = simulate(policy, LinearBandit(K, d), horizon=T, replications=1, seed=0)
            assert np.isfinite(run.regret).all() and (K > 1 or np.all(run.regret == 0))


def test_published_is_far_more_private_than_it_says():
    policy = PrivateLinUCB.published(1.0, 1e-5, d=5, horizon=2**13)
    assert policy.ledger.epsilon(1e-5) < 0.06
    # per off-diagonal entry 4 sqrt(14) 2 ln(4e5) at one node, 13 of them at the worst prefix
    assert policy.mechanism.sigma / np.sqrt(2) == pytest.approx(8 * math.sqrt(14) * math.log(4e5))
    assert policy.added + policy.bounds.low == pytest.approx(policy.ridge)
    assert policy.added + policy.bounds.high == pytest.approx(3 * policy.ridge)


def test_blocks_are_disjoint_models():
    """With block features a block-diagonal LinUCB is the full one; its privacy noise is smaller because less is released."""
    rng, R = np.random.default_rng(0), 4
    full, split = LinUCB(d=6), LinUCB(d=6, blocks=3)
    states = [p.init(R, None) for p in (full, split)]
    for _ in range(40):
        rows, arm, y = rng.uniform(-0.6, 0.6, (R, 2)), rng.integers(3, size=R), rng.uniform(-1, 1, R)
        x = (np.eye(3)[:, :, None] * rows[:, None, None, :]).reshape(R, 3, 6)
        np.testing.assert_array_equal(full.act(states[0], x, rng)[1], split.act(states[1], x, rng)[1])
        states = [p.update(s, x[np.arange(R), arm], y, None) for p, s in zip((full, split), states, strict=True)]
    np.testing.assert_allclose(states[0].theta, states[1].theta, rtol=1e-9)
    np.testing.assert_allclose(states[0].log_det, states[1].log_det, rtol=1e-9)
    make = dict(epsilon=1.0, delta=1e-5, horizon=100)
    assert PrivateLinUCB.calibrated(d=6, blocks=3, **make).private_width < PrivateLinUCB.calibrated(d=6, **make).private_width


def test_practical_without_noise_is_linucb():
    run = dict(environment=ENV, horizon=100, replications=2, seed=1)
    practical = PrivateLinUCB.practical(math.inf, 1e-5, d=3, horizon=100, Y=0.5, alpha=0.2)
    np.testing.assert_array_equal(simulate(practical, **run).regret, simulate(LinUCB(d=3, Y=0.5, alpha=0.2), **run).regret)


def test_best_ridge_by_grid():
    bounds = NoiseBounds(-5.0, 5.0, 7.0)
    grid = np.exp(np.linspace(0, 8, 20001))
    value = 0.6 * np.sqrt(10 + grid) + 7 / 1.3 / np.sqrt(grid)
    assert best_ridge(bounds, 1.3, 0.6, 1.0) == pytest.approx(grid[value.argmin()], rel=1e-3)


def test_chosen_weight_is_better_than_others():
    best = PrivateLinUCB.calibrated(1.0, 1e-5, d=4, horizon=100)
    for tau in (0.5, 2.0):
        weight = tau**0.5
        sums = SquareRoot.calibrated(100, best.mechanism.mu, joint_leaf(weight))
        other = PrivateLinUCB(mechanism=sums, d=4, weight=weight, ridge=best.ridge)
        assert other.private_width > best.private_width


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinUCB(d=0), "d must be a whole number >= 1, got 0"),
        (lambda: LinUCB(d=3, blocks=2), "blocks must divide d = 3, got 2"),
        (lambda: LinUCB(d=2, ridge=0.0), "ridge must be a finite number > 0, got 0.0"),
        (lambda: LinUCB(d=2, alpha=-0.1), "alpha must be a finite number >= 0, got -0.1"),
        (lambda: LinUCB(d=2).act(LinUCB(d=2).init(1, None), np.zeros((1, 4, 3)), None), r"contexts must have shape \(1, \*, 2\), got shape \(1, 4, 3\)"),
        (lambda: PrivateLinUCB(d=2, mechanism=TreeMechanism(8, 1.0, 1.0)), "mechanism.Delta must be at least 2.12132"),
        (lambda: PrivateLinUCB(d=2, mechanism=TreeMechanism(8, 1.0, 3.0), shift=1.0), "alpha must be given with shift"),
        (lambda: PrivateLinUCB.calibrated(0.0, 0.1, d=2, horizon=5), "epsilon must be a number > 0"),
        (lambda: PrivateLinUCB.calibrated(1.0, 0.0, d=2, horizon=5), "delta must be a number strictly between 0 and 1, got 0.0"),
        (lambda: PrivateLinUCB.calibrated(1.0, 0.1, d=2, horizon=0), "horizon must be a whole number >= 1, got 0"),
        (lambda: PrivateLinUCB.published(1.0, 2.0, d=2, horizon=5), "delta must be a number strictly between 0 and 1, got 2.0"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()
