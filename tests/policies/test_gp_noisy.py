"""Noisy GP-UCB: what it reads, what it costs, and its zero-noise limit."""

import math

import numpy as np
import pytest

from privbandit.environments.gp import GaussianProcessBandit, unit_grid
from privbandit.features import SquaredExponential, features_for_horizon
from privbandit.features.information_gain import GainTable, relaxed_gain
from privbandit.gp.fast import Tally, play, refresh_rounds
from privbandit.gp.prefix_noise import prefix_noise
from privbandit.gp.published import published_calibration
from privbandit.gp.width import regret_bound
from privbandit.gp.wishart import wishart_calibration
from privbandit.policies.gp_ucb import ApproximateGPUCB
from privbandit.policies.noisy_gp_ucb import NoisyGPUCB, joint_gp_ucb, local_gp_ucb
from privbandit.simulate import simulate

KERNEL, T, DELTA = SquaredExponential(0.2), 256, 1e-5
FEATURES = features_for_horizon(KERNEL, T)
GRID = unit_grid(60)
ENVIRONMENT = GaussianProcessBandit(KERNEL, GRID, 12)
POLICIES = {
    "tree": joint_gp_ucb(FEATURES, T, 2.0, DELTA, mechanism="tree", gram="symmetric"),
    "honaker": joint_gp_ucb(FEATURES, T, 2.0, DELTA, mechanism="honaker", gram="symmetric"),
    "square root": joint_gp_ucb(FEATURES, T, 2.0, DELTA, gram="shaped"),
    "moment": joint_gp_ucb(FEATURES, T, 2.0, DELTA),
    "blocks": joint_gp_ucb(FEATURES, T, 2.0, DELTA, block=16),
    "published": NoisyGPUCB(published_calibration(FEATURES, T, 2.0, DELTA)),
    "Wishart": NoisyGPUCB(wishart_calibration(FEATURES, T, 2.0, DELTA)),
    "local": local_gp_ucb(FEATURES, T, 2.0, DELTA),
}


@pytest.mark.parametrize("name", POLICIES)
def test_guarantee_is_what_was_asked_for(name):
    guarantee = POLICIES[name].guarantee(DELTA)
    assert guarantee.trust == ("local" if name == "local" else "joint") and guarantee.neighbours == "replace"
    if name == "published":
        assert guarantee.epsilon < 0.4  # the printed noise buys far more than it claims
    else:
        assert abs(guarantee.epsilon - 2.0) < 1e-6


@pytest.mark.parametrize("name", POLICIES)
def test_plays_and_covers(name):
    run = simulate(POLICIES[name], ENVIRONMENT, horizon=64, replications=3, seed=0)
    assert np.all(np.isfinite(run.regret)) and np.all(run.final >= 0)


@pytest.mark.parametrize("name", POLICIES)
def test_decisions_read_released_quantities_only(name):
    """Poison everything that never leaves the curator after the noise was added: no action may notice."""
    policy, R = POLICIES[name], 2
    rng = np.random.default_rng(0)
    state = policy.init(R, rng)
    x = rng.random((20, R, 1))
    for t in range(20):
        state = policy.update(state, x[t], np.full(R, 0.3), rng)
    poisoned = state._replace(pending=np.full_like(state.pending, np.nan), mechanism=None)
    contexts = np.broadcast_to(GRID, (R, *GRID.shape))
    assert np.array_equal(policy.act(state, contexts, rng)[1], policy.act(poisoned, contexts, rng)[1])
    index = policy.index(poisoned.released, FEATURES(contexts))
    assert np.all(np.isfinite(index))


@pytest.mark.parametrize("mechanism", ["tree", "square-root", "local"])
def test_without_noise_every_mechanism_is_the_same_run_to_the_bit(mechanism):
    reference = simulate(joint_gp_ucb(FEATURES, 64, math.inf, DELTA, mechanism="honaker"), ENVIRONMENT, horizon=64, replications=3, seed=1)
    policy = joint_gp_ucb(FEATURES, 64, math.inf, DELTA, mechanism=mechanism)
    assert policy.guarantee(DELTA).epsilon == math.inf
    assert np.array_equal(simulate(policy, ENVIRONMENT, horizon=64, replications=3, seed=1).regret, reference.regret)


def test_without_noise_the_state_is_that_of_the_non_private_policy():
    """Same data: the coefficients, norms and widths of two independent implementations agree."""
    private, plain = joint_gp_ucb(FEATURES, T, math.inf, DELTA, gram="symmetric"), ApproximateGPUCB(FEATURES)
    rng, R = np.random.default_rng(2), 3
    a, b = private.init(R, rng), plain.init(R, rng)
    for _ in range(40):
        x, y = rng.random((R, 1)), rng.uniform(-1, 1, R)
        a, b = private.update(a, x, y, rng), plain.update(b, x, y, rng)
    np.testing.assert_allclose(a.released.theta, plain.posterior.coefficients(b.posterior), atol=1e-10)
    np.testing.assert_allclose(a.released.beta, plain.beta(b), atol=1e-10)
    np.testing.assert_allclose(np.linalg.inv(a.released.inverse), b.posterior.factor @ np.swapaxes(b.posterior.factor, 1, 2), atol=1e-8)


def test_local_noise_grows_like_the_root_of_t_and_so_does_its_shift():
    policy = POLICIES["local"]
    c, R = policy.calibration, 30
    times = np.array([4, 16, 64, 256])
    shifts = [policy.width.spectrum(int(t)).shift for t in times]
    np.testing.assert_allclose(np.diff(np.log(shifts)) / np.log(4), 0.5, atol=1e-9)
    z = prefix_noise(c.mechanism, times, R, c.leaf.size, np.random.default_rng(0))
    norms = np.array([np.abs(np.linalg.eigvalsh(c.leaf.decode(z[i], 0)[0])).max(axis=1) for i in range(4)])
    slope = np.polyfit(np.log(times), np.log(norms).mean(axis=1), 1)[0]
    assert abs(slope - 0.5) < 0.1  # 30 paths: log-norms vary by about 0.3, the slope's standard error is 0.02
    assert np.all(norms < np.array(shifts)[:, None])
    grid = [policy.width.grid_lambda(policy.width.spectrum(t).lambda_min) / policy.width.spectrum(t).lambda_min for t in range(1, T)]
    assert min(grid) >= 1 / (1 + 1 / FEATURES.m) - 1e-9 and max(grid) <= 1 + 1e-9


@pytest.mark.parametrize("name", ["tree", "square root", "moment", "blocks", "Wishart", "local"])
def test_fast_runs_satisfy_the_theorem_step_by_step(name):
    """Coverage at every refresh, regret <= summand at every round, R <= W_T <= U(T) for each of 8 functions (zeta total 0.1)."""
    policy, R = POLICIES[name], 8
    functions = ENVIRONMENT.functions(R, np.random.default_rng(5))
    assert functions.norm.max() <= policy.calibration.B
    run = play(policy, ENVIRONMENT, functions, T, seed=1, ratio=1.0)
    assert run.misses.sum() == 0 and np.max(run.excess) <= 1e-12
    assert np.all(run.regret <= run.width_sum)
    spectrum = policy.calibration.spectrum
    if name != "local":  # its lambda_min is not constant
        gain = relaxed_gain(FEATURES(GRID), T, spectrum.lambda_min, iterations=300)[0]
        for r in range(R):
            bound = regret_bound(T, run.max_beta[r], gain, spectrum.lambda_min, FEATURES.m, FEATURES.uniform_error, 1.0, policy.calibration.block)
            assert run.width_sum[r] <= bound["width_sum"] + bound["misspecification"]


def test_a_gain_certificate_narrows_the_width_and_keeps_coverage():
    policy = POLICIES["moment"]
    c = policy.calibration
    narrow = NoisyGPUCB(c, gain=GainTable.of(FEATURES(GRID), T, c.spectrum.lambda_min))
    functions = ENVIRONMENT.functions(8, np.random.default_rng(5))
    runs = [play(p, ENVIRONMENT, functions, T, seed=1, ratio=1.0) for p in (policy, narrow)]
    assert np.all(runs[1].max_beta < runs[0].max_beta) and runs[1].misses.sum() == 0
    assert np.all(runs[1].regret <= runs[1].width_sum)


def test_fast_runs_play_what_the_policy_plays():
    """Refreshing every round without noise: the fast run takes the actions of `act` and `update` on the same sets and rewards."""
    policy = joint_gp_ucb(FEATURES, 50, math.inf, DELTA)
    R, horizon = 3, 50
    functions = ENVIRONMENT.functions(R, np.random.default_rng(6))
    run = play(policy, ENVIRONMENT, functions, horizon, seed=2, ratio=1.0)
    environment, reward, rng, noise = (np.random.default_rng(s) for s in np.random.SeedSequence(2).spawn(4))
    offered = ENVIRONMENT.decision_sets(R, 4096, environment)
    uniform, state, regret = reward.random((R, 4096)), policy.init(R, noise), np.zeros(R)
    for t in range(horizon):
        values = np.take_along_axis(functions.values, offered[:, t], axis=1)
        bounds = policy.index(state.released, np.broadcast_to(FEATURES(GRID), (R, len(GRID), FEATURES.m)))  # rounds as the fast run does
        action = np.argmax(np.take_along_axis(bounds, offered[:, t], axis=1), axis=1)
        gap = values.max(axis=1) - values[np.arange(R), action]
        regret += gap
        y = values[np.arange(R), action] + uniform[:, t] - 0.5
        state = policy.update(state, GRID[offered[np.arange(R), t, action]], y, noise)
    np.testing.assert_allclose(run.regret, regret, rtol=1e-9)


@pytest.mark.parametrize("name", POLICIES)
def test_the_fast_statistic_is_the_sum_of_contributions(name):
    """Decoded, the tally of counts and reward sums equals the sum of the users' encodings."""
    leaf, rng = POLICIES[name].calibration.leaf, np.random.default_rng(7)
    chosen, reward = rng.integers(0, len(GRID), (2, 30)), rng.uniform(-1.5, 1.5, (2, 30))
    tally = Tally(POLICIES[name], GRID, 2)
    counts = tally.add(chosen, reward)
    assert counts.sum() == 60
    for fast, exact in zip(leaf.decode(tally.total, 30), leaf.decode(leaf.encode(GRID[chosen], reward).sum(axis=1), 30), strict=True):
        np.testing.assert_allclose(fast, exact, atol=1e-10)


def test_refresh_rounds_are_public_multiples_of_the_block():
    rounds = refresh_rounds(1000, 8, 1.1)
    assert np.all(rounds % 8 == 0) and rounds[0] == 8 and rounds[-1] < 1000 and np.all(np.diff(rounds) > 0)
    assert np.array_equal(refresh_rounds(5, 1, 1.0), [1, 2, 3, 4]) and len(refresh_rounds(1)) == 0
    with pytest.raises(ValueError, match="ratio must be"):
        refresh_rounds(10, 1, 0.5)


def test_local_blocks_are_refused_and_one_round_works():
    with pytest.raises(ValueError, match="block must be 1"):
        local_gp_ucb(FEATURES, T, 1.0, DELTA, block=4)
    with pytest.raises(ValueError, match="subgaussian must be"):
        joint_gp_ucb(FEATURES, T, 1.0, DELTA, subgaussian=0.0)
    policy, rng = POLICIES["moment"], np.random.default_rng(0)
    for x, y, name in ((math.nan, 0.0, "x"), (0.5, math.inf, "reward")):
        with pytest.raises(ValueError, match=f"{name} must have finite"):
            policy.update(policy.init(1, rng), np.full((1, 1), x), np.full(1, y), rng)
    assert simulate(joint_gp_ucb(features_for_horizon(KERNEL, 1), 1, 1.0, DELTA), ENVIRONMENT, horizon=1, replications=1, seed=0).final.shape == (1,)


@pytest.mark.parametrize("name", POLICIES)
def test_a_round_costs_the_same_whatever_t_is(name):
    """Memory after 100 rounds is that after 10, but for the tree, which keeps at most one node a level: O(m^2 log T)."""

    def floats(value):
        if isinstance(value, np.ndarray):
            return value.size
        return sum(map(floats, value)) if isinstance(value, tuple) else 0

    policy, rng, sizes = POLICIES[name], np.random.default_rng(0), {}
    state = policy.init(1, rng)
    for t in range(1, 101):
        state = policy.update(state, rng.random((1, 1)), np.zeros(1), rng)
        sizes[t] = floats(state)
    nodes = 3 * policy.calibration.leaf.size * int(T).bit_length() if name in ("tree", "honaker", "published", "Wishart") else 0
    assert sizes[100] <= sizes[10] + nodes


def test_best_joint_policy_against_the_exactly_calibrated_tree():
    """epsilon = 10, T = 2^16, 12 paired functions, both at the theorem's full width: at most half the regret (about 0.45 of it).

    The difference of log-regrets over functions must put log 0.7 outside a five-sigma interval of their mean (ties on the grid are broken by the last digit of the noise).
    """
    horizon, environment = 2**16, GaussianProcessBandit(KERNEL, unit_grid(100), 20)
    functions = environment.functions(12, np.random.default_rng(5))
    features = features_for_horizon(KERNEL, horizon)
    tree = joint_gp_ucb(features, horizon, 10.0, DELTA, mechanism="tree", gram="symmetric")
    best = joint_gp_ucb(features, horizon, 10.0, DELTA, block=64)
    runs = [play(policy, environment, functions, horizon, seed=1) for policy in (tree, best)]
    assert all(run.misses.sum() == 0 and np.all(run.regret <= run.width_sum) for run in runs)
    assert runs[1].regret.mean() <= 0.5 * runs[0].regret.mean()
    logs = np.log(runs[1].regret / runs[0].regret)
    assert logs.mean() + 5 * logs.std(ddof=1) / np.sqrt(12) < np.log(0.7)
