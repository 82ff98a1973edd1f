"""Attacks on the private policies: replays on neighbouring inputs, and the best linear distinguisher of whole transcripts."""

import math

import numpy as np
import pytest

from privbandit.audit.replay import Neighbours, Users, replay
from privbandit.features import SquaredExponential, features_for_horizon
from privbandit.gp.calibration import calibrate
from privbandit.mechanisms import SquareRoot, SquareRootFFT, TreeMechanism
from privbandit.policies.noisy_gp_ucb import NoisyGPUCB, joint_gp_ucb, local_gp_ucb

DELTA, T, R, K = 1e-5, 16, 12, 5
FEATURES = features_for_horizon(SquaredExponential(0.2), T)
POLICIES = {
    "tree": joint_gp_ucb(FEATURES, T, 1.0, DELTA, mechanism="tree", gram="symmetric"),
    "honaker": joint_gp_ucb(FEATURES, T, 1.0, DELTA, mechanism="honaker", gram="shaped"),
    "square root": joint_gp_ucb(FEATURES, T, 1.0, DELTA),
    "blocks": joint_gp_ucb(FEATURES, T, 1.0, DELTA, block=4),
    "local": local_gp_ucb(FEATURES, T, 1.0, DELTA),
}


def pair(seed: int) -> Neighbours:
    """Random users; one of them gets other points and opposite rewards."""
    rng = np.random.default_rng(seed)
    users = Users(rng.random((T, R, K, 1)), rng.choice([-1.0, 1.0], (T, R, K)))
    at = rng.integers(0, T, R)
    return Neighbours(users, users.replace(at, rng.random((R, K, 1)), -users.rewards[at, np.arange(R)]), at)


@pytest.mark.parametrize("name", POLICIES)
def test_replay_on_neighbours_costs_at_most_the_ledger(name):
    """Every action of the other users coincides, and the shifts cost no more than mu; the first user's change comes close to it."""
    policy, dearest = POLICIES[name], 0.0
    for seed in range(3):
        cost = replay(policy, pair(seed), seed)
        assert np.all(cost.mu <= policy.ledger.mu * (1 + 1e-9))
        dearest = max(dearest, float(cost.mu.max()))
    assert dearest > 0.5 * policy.ledger.mu


def test_a_claim_of_half_the_noise_is_caught():
    policy = POLICIES["square root"]
    c = policy.calibration
    cheat = NoisyGPUCB(type(c)(c.leaf, SquareRoot(T, c.mechanism.sigma / 2, c.leaf.Delta), c.ratio, c.zeta, c.B))
    assert max(replay(cheat, pair(s), s).mu.max() for s in range(3)) > policy.ledger.mu


@pytest.mark.parametrize("kind", [TreeMechanism, SquareRootFFT])
def test_best_linear_distinguisher_of_all_releases_is_as_good_as_mu_and_no_better(kind):
    """The first user holds the worst pair. Oracle: the Mahalanobis distance of the two laws of all prefixes, and its empirical twin.

    n = 20000 transcripts each; the mean difference along the whitened direction has standard error sqrt(2/n): five of them.
    """
    n, horizon = 20000, 8
    calibration = calibrate(FEATURES, horizon, 1.0, DELTA, mechanism="tree", gram="symmetric", exponents=(0.0,))
    leaf = calibration.leaf
    mechanism = kind.calibrated(horizon, calibration.mechanism.mu, leaf.Delta)
    grid = np.linspace(0, 1, 400)[:, None]
    codes = leaf.encode(np.vstack([grid, grid]), np.repeat([1.0, -1.0], 400))
    distances = np.linalg.norm(codes[0] - codes, axis=1)
    step = codes[np.argmax(distances)] - codes[0]
    assert 0.9 * leaf.Delta < np.linalg.norm(step) <= leaf.Delta + 1e-9
    # the noise is isotropic, so projecting every prefix on the direction of `step` loses nothing: one coordinate is played
    rng, transcripts = np.random.default_rng(0), []
    for shift in (0.0, np.linalg.norm(step)):
        state, out = mechanism.init(n, 1, rng), []
        for t in range(horizon):
            state, prefix = mechanism.release(state, np.full((n, 1), shift if t == 0 else 0.0), rng)
            out.append(prefix[:, 0])
        transcripts.append(np.array(out).T)
    covariance = _prefix_covariance(kind, horizon) * mechanism.sigma**2
    difference = np.full(horizon, np.linalg.norm(step))
    weights = np.linalg.solve(covariance, difference)
    exact = math.sqrt(difference @ weights)
    assert exact <= mechanism.mu * (1 + 1e-9)
    projected = [s @ weights / exact for s in transcripts]
    empirical = projected[1].mean() - projected[0].mean()
    assert abs(empirical - exact) < 5 * math.sqrt(2 / n)
    assert abs(projected[0].std() - 1) < 5 / math.sqrt(2 * n)
    if kind is SquareRootFFT:  # the factorisation is invertible: nothing is lost in publishing prefixes only
        assert exact > 0.999 * mechanism.mu * np.linalg.norm(step) / leaf.Delta


def _prefix_covariance(kind, horizon):
    """From the definition: shared tree nodes, or C C^T with the binomial coefficients."""
    if kind is TreeMechanism:
        nodes = [{(level, (t >> level) - 1) for level in range(8) if t >> level & 1} for t in range(1, horizon + 1)]
        return np.array([[len(a & b) for b in nodes] for a in nodes], dtype=float)
    c = [math.comb(2 * k, k) / 4**k for k in range(horizon)]
    C = np.array([[c[i - j] if i >= j else 0.0 for j in range(horizon)] for i in range(horizon)])
    return C @ C.T
