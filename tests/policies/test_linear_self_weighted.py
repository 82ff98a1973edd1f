"""The linear corollary. A literal loop, a replay and the sizes of its constants are claims of the book."""

import math
from dataclasses import replace

import numpy as np
import pytest

from privbandit.accounting import gaussian_mu
from privbandit.environments.linear import LinearBandit
from privbandit.formulas import self_weighted
from privbandit.formulas.glm import JOINT_LEAF, TAU
from privbandit.formulas.two_block import MATRIX_NORM
from privbandit.linalg import svec
from privbandit.links import Linear
from privbandit.policies.base import choose
from privbandit.policies.linear_self_weighted import LinearSelfWeighted, UnitWeights
from privbandit.policies.two_block import Scale
from privbandit.simulate import simulate

from .test_two_block import hard_contexts, noise

SETTINGS = [(1, 0.5, 1e3, 8.0), (2, 1.0, 1e12, 4.0), (5, 3.0, 1e7, 0.5), (3, 0.1, 1e5, math.inf)]


def policy(**changes):
    return replace(LinearSelfWeighted(d=2, S=1.0, horizon=64, epsilon=2.0, delta=1e-5), **changes)


def test_numbers_of_the_proof_close():
    eta = 1 / 9
    to_sum, growth = math.sqrt(1 / (1 - eta)), math.sqrt((1 + eta) / (1 - eta))
    assert 4 * (10 / 9) * (math.e - 2) <= 3.9  # Var(e) <= 1 = w
    spread = 1 - 2 * growth / 20  # beta (1 - share of the matrix noise)
    assert to_sum / spread <= 1.67 and 2 * growth / spread <= 3.51
    assert 2 * to_sum * 1.5 <= 4.31


@pytest.mark.parametrize(("d", "S", "T", "epsilon"), SETTINGS)
def test_constants_satisfy_what_the_proof_asks(d, S, T, epsilon):
    p, nu = self_weighted.linear(d, T, S, 0.02, TAU), noise(T, epsilon, 9 - 4 * math.sqrt(2))
    k = self_weighted.weighted(p, nu)
    assert k.matrix_noise <= 1 / (20 * k.epochs) and math.isinf(k.Delta)
    assert 1.0541 / math.sqrt(k.ridge) < 1
    assert k.dimension >= 2 * d * math.log(1 + 0.5275 * T / math.sqrt(d * k.ridge))
    assert 1 + k.dimension / math.log(1.6) >= k.epochs
    levels = max(1, 1 + math.ceil(math.log2(T / (1.15 * math.log(16 / p.zeta)))))
    assert k.floor * 2 ** (levels - 1) >= T  # the last level reaches the horizon
    # the events: matrices, vectors, two per level
    x_v = math.sqrt(2 * math.log(16 * T / p.zeta))
    response = (1 + 2 * S) / math.sqrt(TAU)
    assert k.drift == pytest.approx(3.51 * k.epochs * response * nu * (math.sqrt(d) + x_v) + 1.67 * math.sqrt(k.ridge) * S)
    matrices = 2 * T * math.exp(-((MATRIX_NORM(d=d, T=T, zeta=p.zeta) - math.sqrt(2 * d)) ** 2) / 2)
    assert matrices + T * math.exp(-(x_v**2) / 2) + 2 * levels * math.exp(-k.ell) == pytest.approx(5 / 16 * p.zeta)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 4.0, math.log(1e5)])
@pytest.mark.parametrize("delta", [1e-5, 1e-9, 0.02])
def test_the_factor_in_delta(epsilon, delta):
    if epsilon <= math.log(1 / delta):
        assert 1 / gaussian_mu(epsilon, delta) <= 1.71 * math.sqrt(math.log(1 / delta)) / epsilon


@pytest.mark.parametrize(("d", "nu"), [(1, 1e-4), (2, 1e-4), (3, 0.0)])
def test_steps_of_the_proof_through_many_epochs(d, nu):
    """T = 3000, hard contexts, rewards at distance 1 from their mean; every matrix noise of norm n_M with random signs and directions,
    every vector noise of norm n_Z, both redrawn each round: sandwich, weights, confidence, epochs and the l1 potential (1), (2), (4)."""
    T, S, rng = 3000, 1.0, np.random.default_rng(0)
    p = self_weighted.linear(d, T, S, 0.02, TAU)
    k = self_weighted.weighted(p, nu)
    n_Z = (k.drift - 1.67 * math.sqrt(k.ridge) * S) / (3.51 * k.epochs)
    block, J, total, potential = UnitWeights(Linear(), p, k), k.ridge * np.eye(d), 0.0, 0.0
    epoch, theta = block.init(1), S * np.eye(d)[0]
    for x in hard_contexts(T, d, 1):
        released = np.linalg.inv(epoch.inverse[0])
        for factor, sign in ((8 / 9, 1), (10 / 9, -1)):
            assert np.linalg.eigvalsh(sign * (released - factor * J)).min() >= -1e-9 * k.ridge
        assert k.ridge / 2 < np.linalg.eigvalsh(released).min() and np.linalg.eigvalsh(released).max() < block.ceiling  # neither limit binds
        error = epoch.theta[0] - theta
        assert error @ released @ error <= k.radius(epoch.curvature)[0] ** 2
        q, v = x @ np.linalg.solve(J, x), 1 / np.linalg.norm(epoch.whitening[0] @ x)
        assert 1 / 1.5 <= v * math.sqrt(q) <= 1.0541
        leaf = block.leaf(epoch, np.zeros(1), x[None], x @ theta + rng.choice([-1.0, 1.0], 1))
        potential, J, total = potential + math.sqrt(q), J + v * np.outer(x, x), total + leaf
        Q, n = np.linalg.qr(rng.standard_normal((d, d)))[0], rng.standard_normal(d)
        noise_now = np.concatenate([svec(k.matrix_noise * Q @ np.diag(rng.choice([-1.0, 1.0], d)) @ Q.T), n_Z * n / np.linalg.norm(n)])
        epoch = block.read(epoch, total + noise_now)
    assert potential <= 1.5 * k.growth * k.dimension
    assert 10 <= epoch.number[0] + 1 <= k.epochs


@pytest.mark.parametrize("epsilon", [math.inf, 4.0])
def test_confidence_bounds_hold(epsilon):
    """n = 30 runs of 300 rounds, the theorem's constants, zeta = .02: no upper bound below the truth, no bound on |error| passed."""
    p, world, rng = policy(d=2, epsilon=epsilon, horizon=300, zeta=0.02), LinearBandit(K=3, d=2, S=1.0, noise=1.0), np.random.default_rng(3)
    where, state = world.init(30, rng), p.init(30, rng)
    for t in range(300):
        where, contexts = world.contexts(where, t, rng)
        truth = np.einsum("rkd,rd->rk", contexts, where)
        estimate = np.einsum("rkd,rd->rk", contexts, state.epoch.theta)
        width = p.block.upper(state.epoch, contexts) - estimate
        assert np.all(np.abs(estimate - truth) <= width)
        state, action = p.act(state, contexts, rng)
        feedback = world.step(where, contexts, action, rng)
        state = p.update(state, choose(contexts, action), feedback.reward, rng)
    assert p.sums.Delta**2 == pytest.approx(float(JOINT_LEAF(a=1.0, b=TAU)))  # no third entry
    assert p.block.curvature(state.epoch, state.epoch.snapshot)[0] == 301


@pytest.mark.parametrize("ridge", [1e-8, 1e-12, 1e-40])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_noise_far_above_the_ridge_leaves_nothing_undefined(d, ridge):
    """Off the good event, for as many epochs as there may be: no singular or overflowing matrix, every centre in the ball."""
    p, rng = policy(d=d, horizon=300, scale=Scale(ridge=ridge)), np.random.default_rng(0)
    state = p.init(20, rng)
    for x in hard_contexts(300, d, 1):
        state = p.update(state, np.tile(x, (20, 1)), rng.choice([-2.0, 2.0], 20), rng)
        assert np.isfinite(state.epoch.theta).all() and np.isfinite(state.epoch.inverse).all()
        assert np.linalg.norm(state.epoch.centre, axis=1).max() <= p.S * (1 + 1e-9)
    assert state.epoch.number.max() >= (9 if d == 1 else p.constants.epochs)


def test_regret_formula():
    """Potential times last radius, written out."""
    p, nu = self_weighted.linear(3, 1e9, 2.0, 0.05, TAU), 4.0
    k = self_weighted.weighted(p, nu)
    beta = 1.67 * 4.66 * math.sqrt(2 * k.ell * 1e9) + k.drift
    assert self_weighted.linear_regret(p, nu) == pytest.approx(4.31 * k.growth * k.dimension * beta)


def test_scaled_widths_learn():
    """n = 10, T = 2000, d = 3, K = 20, S = 1: random arms lose 1533; seen 22 without noise and 78 at epsilon = 4, delta = .02."""
    world = LinearBandit(K=20, d=3, S=1.0, noise=1.0)
    for epsilon, scale in ((math.inf, Scale(beta=0.002, drift=0.05)), (4.0, Scale(beta=0.002, drift=1e-4, ridge=1e-5))):
        p = LinearSelfWeighted(d=3, S=1.0, horizon=2000, epsilon=epsilon, delta=0.02, scale=scale)
        run = simulate(p, world, horizon=2000, replications=10, seed=5)
        assert run.final.mean() < 500


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"S": 0.0}, "S must"),
        ({"zeta": 1.0}, "zeta"),
        ({"d": 0}, "d must"),
        ({"tau": -1.0}, "tau"),
        ({"scale": Scale(ridge=0.0)}, "scale.ridge"),
    ],
)
def test_bad_parameters_are_refused(change, word):
    with pytest.raises((ValueError, TypeError), match=word):
        policy(**change)
