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
from privbandit.policies.base import choose
from privbandit.policies.linear_self_weighted import LinearSelfWeighted
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


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("epsilon", [math.inf, 5.0])
def test_potential_through_the_released_whitening(d, epsilon):
    """T = 1500, hard contexts, seed 0, the noise at its ridge: sum of |x| in J^{-1}, exact J, at most 1.5 q1 D_J, and the sandwich."""
    T = 1500
    p = policy(d=d, epsilon=epsilon, horizon=T)
    rng, k = np.random.default_rng(0), p.constants
    state, J, total = p.init(1, rng), p.constants.ridge * np.eye(d), 0.0
    for x in hard_contexts(T, d, 0):
        assert np.linalg.eigvalsh(np.linalg.inv(state.epoch.inverse[0]) - 8 / 9 * J).min() >= -1e-9 * k.ridge
        assert np.linalg.eigvalsh(10 / 9 * J - np.linalg.inv(state.epoch.inverse[0])).min() >= -1e-9 * k.ridge
        total += math.sqrt(x @ np.linalg.solve(J, x))
        J = J + np.outer(x, x) / np.linalg.norm(state.epoch.whitening[0] @ x)
        state = p.update(state, x[None], np.sign(rng.standard_normal(1)), rng)
    assert total <= 1.5 * k.growth * k.dimension
    assert state.epoch.number[0] + 1 <= k.epochs and (state.epoch.number[0] >= 3 or epsilon < math.inf)


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
    [({"S": 0.0}, "S must"), ({"zeta": 1.0}, "zeta"), ({"d": 0}, "d must"), ({"tau": -1.0}, "tau"), ({"scale": Scale(ridge=0.0)}, "scale.ridge")],
)
def test_bad_parameters_are_refused(change, word):
    with pytest.raises((ValueError, TypeError), match=word):
        policy(**change)
