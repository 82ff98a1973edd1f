"""Two blocks and the self-weighted block: every inequality of the proofs that is a statement about numbers, then the algorithms."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from privbandit.accounting import gaussian_mu
from privbandit.audit.replay import Neighbours, Users, replay
from privbandit.environments.glm import GLMEnvironment
from privbandit.formulas import self_weighted, two_block
from privbandit.formulas.glm import TAU
from privbandit.formulas.two_block import Problem
from privbandit.linalg import smat, svec_size
from privbandit.links import Linear, Logistic, Probit
from privbandit.policies.base import choose
from privbandit.policies.best_of_both import BestOfBoth
from privbandit.policies.self_weighted import SelfWeighted
from privbandit.policies.two_block import Scale, TwoBlock
from privbandit.simulate import simulate

POLICIES = [TwoBlock, SelfWeighted, BestOfBoth]
every = pytest.mark.parametrize("cls", POLICIES)


def policy(cls, **changes):
    return replace(cls(Logistic(), d=2, S=1.0, horizon=64, epsilon=2.0, delta=1e-5), **changes)


def problem(d=2, S=1.0, T=1e12, zeta=0.02) -> Problem:
    link = Logistic()
    c = link.c_mu(S)
    return Problem(d, T, S, zeta, c, link.L_mu(S), 1.0, link.leaf_range(S), link.leaf_range(S, slope=c), TAU)


def test_numbers_of_the_two_block_proof_close():
    v = math.exp(0.2)
    assert (v - 1) / 0.2 <= 1.1071  # regret of a gap g with M g <= 0.2, against mu'(z*) g
    assert 2 * 1.10702 <= 2.2141
    assert 2.2141 * math.sqrt(v) <= 2.447
    assert v <= 1.2215
    assert 2.2141 * 1.2215 <= 2.71
    assert (v - 1.2) / 0.2**2 <= 0.536  # remainder of the linearisation
    assert 2 * 0.536 <= 1.072
    assert 4 * (math.e - 2) / 3 <= 1  # th0 = 1/(3 v G)
    assert 2 / (1 - 0.2) ** 2 <= 3.125
    assert 2 / (1 - 0.2) <= 2.5


def test_numbers_of_the_self_weighted_proof_close():
    v, eta = math.exp(0.2), Fraction(1, 9)
    assert 4.66**2 >= 3.30 + 3.95 * 4.66
    assert (math.e - 1) * (10 / 9) * v + (10 / 9) / 1.15 <= 3.30  # sum of e^2 v^2 q over Omega, at Omega >= 1.15 ell and ell >= 1
    assert 4 * v * 10 / 9 * (math.e - 2) <= 3.9  # exponent of the mgf step
    assert 2 * math.sqrt(3.9) <= 3.95
    assert math.sqrt(3.9 * 1.15) >= 2.109  # the exponent is at most 1/(2.109 B)
    assert math.sqrt(10 / 9) <= 1.0541 and 2 * 1.0541 <= 2.109
    assert 1.061 / (1 - 0.362) <= 1.67 and 2.237 / (1 - 0.362) <= 3.51 and 0.25 + 0.112 <= 0.362
    assert math.sqrt(9 / 8) <= 1.061 and math.sqrt((1 + eta) / (1 - eta)) <= 1.1185  # norms in J~ against J, and of U^{-1}
    assert 2 * 1.1185 <= 2.237 and 2.237 / 20 <= 0.112
    assert math.sqrt(1.125) / 21.22 <= 1 / 20  # noise of an epoch
    assert Fraction(1, 20) <= eta / (2 * (1 + eta))
    assert 2 * (1 - eta) / (1 + eta) >= Fraction(8, 5)
    assert 2 / (1 - eta) <= Fraction(9, 4)
    assert 2.2141 * v * 1.061 * 1.5 <= 4.31


@pytest.mark.parametrize("link", [Logistic(), Probit()], ids=["logistic", "probit"])
def test_linearisation_remainder(link):
    S = 2.0
    M, z = link.self_concordance(S), np.linspace(-S, S, 401)[:, None]
    h = np.linspace(-0.2, 0.2, 81)[None] / M
    inside = np.abs(z + h) <= S
    remainder = np.abs(link.mu(z + h) - link.mu(z) - link.dmu(z) * h)
    assert np.all(remainder[inside] <= (0.536 * M * link.dmu(z) * h**2)[inside] + 1e-15)


def test_explore_drift_inequality():
    """(ii) of Lemma A on 2e5 random admissible cases: the drift is at most 2 L ph^2."""
    rng = np.random.default_rng(0)
    n = 200_000
    c = rng.uniform(0.01, 1, n)
    L = c * rng.uniform(1, 50, n)
    alpha = c + (L - c) * rng.random(n)
    u, ph = 3 * rng.standard_normal(n), 3 * rng.standard_normal(n)
    k = rng.exponential(1, n) * np.sign(u) * (rng.random(n) < 0.5)
    ut = u + k - ph
    drift = -c * ut**2 + 2 * (c - alpha) * u * ut + c / 4 * ut**2
    assert np.all(drift <= 2 * L * ph**2 + 1e-9)


@pytest.mark.parametrize("d", [1, 3, 8])
def test_norms_of_noise(d):
    """n = 40000, seed 1: frequencies above the stated radius against 2 exp(-x^2/2) and exp(-x^2/2), 5-sigma allowance."""
    rng, n = np.random.default_rng(1), 40_000
    norms = np.abs(np.linalg.eigvalsh(smat(rng.standard_normal((n, svec_size(d))), d))).max(axis=1)
    lengths = np.linalg.norm(rng.standard_normal((n, d)), axis=1)
    for x in (0.5, 1.0, 1.5, 2.0):
        for observed, bound in (
            (np.mean(norms > math.sqrt(2 * d) + x), 2 * math.exp(-(x**2) / 2)),
            (np.mean(lengths > math.sqrt(d) + x), math.exp(-(x**2) / 2)),
        ):
            assert observed <= bound + 5 * math.sqrt(bound / n)


def test_union_bound_of_the_norm_radii():
    p = problem(d=3, T=1000.0)
    x_m = two_block.MATRIX_NORM(d=3, T=1000.0, zeta=p.zeta) - math.sqrt(6)
    x_v = two_block.VECTOR_NORM(d=3, T=1000.0, zeta=p.zeta) - math.sqrt(3)
    assert 1000 * 2 * math.exp(-(x_m**2) / 2) == pytest.approx(p.zeta / 8)
    assert 1000 * math.exp(-(x_v**2) / 2) == pytest.approx(p.zeta / 8)


@pytest.mark.parametrize(("d", "S", "T", "epsilon"), [(1, 1.0, 1e4, 8.0), (2, 1.0, 1e12, 4.0), (5, 2.0, 1e7, 0.5), (3, 0.5, 1e5, math.inf)])
def test_exploration_constants_satisfy_what_the_proof_asks(d, S, T, epsilon):
    p, nu = problem(d, S, T), noise(T, epsilon, 9 - 4 * math.sqrt(2))
    k = two_block.explore(p, nu)
    x_m = two_block.MATRIX_NORM(d=d, T=T, zeta=p.zeta)
    assert p.c * nu * x_m <= k.slack * k.ridge * (1 + 1e-12)  # sandwich
    assert 6.25 * p.L / p.c * k.dimension * k.slack**2 <= 0.5 * (1 + 1e-12)  # potential closes
    assert k.slack <= 0.2 and p.c <= k.ridge


@pytest.mark.parametrize(("d", "S", "T", "epsilon"), [(1, 1.0, 1e4, 8.0), (2, 1.0, 1e12, 4.0), (5, 2.0, 1e7, 0.5), (3, 0.5, 1e5, math.inf)])
def test_exploitation_constants_satisfy_what_the_proof_asks(d, S, T, epsilon):
    p, nu = problem(d, S, T), noise(T, epsilon, 9 - 4 * math.sqrt(2))
    e = two_block.exploit(p, nu)
    assert e.ridge >= 2 * p.L * nu * two_block.MATRIX_NORM(d=d, T=T, zeta=p.zeta)
    assert e.ridge >= 8 / 9 * e.radius**2 / max(1, S) ** 2 and e.ridge >= max(2, 2 * p.L)
    q0 = 1 + 2 * p.L / e.ridge
    reach = 1.072 * p.M * e.Delta * (2 * e.radius + e.drift * math.sqrt(2 / e.ridge)) * math.sqrt(q0 * e.dimension)
    assert q0 <= 2 and reach <= e.radius * (1 + 1e-12) and 10 * p.M * e.Delta <= 1 + 1e-12
    w = self_weighted.weighted(p, noise(T, epsilon, 9 - 4 * math.sqrt(2) + 1 / 3))
    assert w.matrix_noise <= 1 / (20 * w.epochs)
    assert 1.0541 * p.L / math.sqrt(w.ridge) < 1 and w.clip <= math.sqrt(1.125) + 1e-12
    assert w.dimension >= 2 * d * math.log(1 + 0.53 * p.L * T / math.sqrt(d * w.ridge))
    # the centred remainder is at most beta / 4
    assert 1.061 * 0.536 * 2 * p.M * w.Delta * 1.061 * math.sqrt(w.growth * w.dimension) <= 0.25


def noise(T: float, epsilon: float, Delta2: float) -> float:
    """s sqrt(g) of the text with its bound on g, for horizons too long to tabulate."""
    return math.sqrt(Delta2) * (1.07 + math.log(T) / math.pi) / gaussian_mu(epsilon, 1e-5)


def test_magnitudes():
    """What the theorems say in figures (logistic, zeta = .02, delta = 1e-5, kappa* = kappa): two significant digits, from the derivation."""
    D2 = 9 - 4 * math.sqrt(2)
    for d, S, epsilon, T, rounds, regret, weighted_rounds, weighted in (
        (2, 1.0, 4.0, 1e12, 1.9e10, 5.0e8, 2.7e10, 8.1e9),
        (2, 1.0, 1.0, 1e12, 1.5e11, None, 8.9e10, None),
        (3, 3.0, 4.0, 1e12, 3.4e12, None, None, None),
    ):
        p = problem(d, S, T)
        nu, nu_w = noise(T, epsilon, D2), noise(T, epsilon, D2 + 1 / 3)
        found = (
            two_block.exploration_rounds(p, nu, two_block.exploit(p, nu).Delta),
            two_block.exploitation_regret(p, nu, 1 / p.c),
            two_block.exploration_rounds(p, nu_w, self_weighted.weighted(p, nu_w).Delta),
            self_weighted.weighted_regret(p, nu_w, 1 / p.c),
        )
        for value, expected in zip(found, (rounds, regret, weighted_rounds, weighted), strict=True):
            assert expected is None or value == pytest.approx(expected, rel=0.05)


def hard_contexts(T: int, d: int, seed: int) -> np.ndarray:
    """Cyclic unit vectors with tiny informative coordinates: (T, d)."""
    rng = np.random.default_rng(seed)
    x = np.eye(d)[np.arange(T) % d] * rng.choice([0.05, 1.0], size=(T, 1)) + 0.01 * rng.standard_normal((T, d))
    return x / np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))


@pytest.mark.parametrize("d", [1, 3])
def test_potentials(d):
    """Deterministic: the usual potential and the l1 potential of self-normalised leaves, on contexts made to be hard."""
    T, L = 3000, 0.25
    p = problem(d, 1.0, float(T))
    w = self_weighted.weighted(p, 0.0)
    H, J, usual, weighted = np.eye(d), w.ridge * np.eye(d), 0.0, 0.0
    for x in hard_contexts(T, d, 0):
        q = L * x @ np.linalg.solve(H, x)
        usual, H = usual + q / (1 + q), H + L * np.outer(x, x)
        q = x @ np.linalg.solve(J, x)
        weighted, J = weighted + L * math.sqrt(q), J + L * np.outer(x, x) / math.sqrt(q)
    assert usual <= d * math.log(1 + L * T / d)
    assert weighted <= w.growth * w.dimension


def played(p, environment, R: int, T: int, seed: int):
    """Yields (state before the round, contexts, theta*, state after acting) of a run."""
    rng = np.random.default_rng(seed)
    world, state = environment.init(R, rng), p.init(R, rng)
    for t in range(T):
        world, contexts = environment.contexts(world, t, rng)
        state, action = p.act(state, contexts, rng)
        yield state, contexts, world.theta
        feedback = environment.step(world, contexts, action, rng)
        state = p.update(state, choose(contexts, action), feedback.reward, rng)


@every
@pytest.mark.parametrize("epsilon", [math.inf, 4.0])
def test_confidence_bounds_hold(cls, epsilon):
    """n = 30 runs of 300 rounds, theorem constants, the trigger scaled so that both blocks learn: no upper index below the truth.

    The bounds hold with probability 1 - zeta = .98 for all runs' rounds; the ratios seen are below one half, so no luck is needed.
    """
    p = policy(cls, epsilon=epsilon, zeta=0.02, horizon=300)
    k = p.explore_constants
    trigger = 0.8 * k.gamma / math.sqrt(k.ridge) / p.constants.Delta
    p = replace(p, scale=Scale(Delta=trigger))
    environment = GLMEnvironment(Logistic(), d=2, K=2, S=1.0)
    exploited = 0
    for state, contexts, theta in played(p, environment, 30, 300, 7):
        truth = np.einsum("rkd,rd->rk", contexts, theta)
        width = k.gamma * np.sqrt(np.einsum("rkd,rde,rke->rk", contexts, state.explore.inverse, contexts))
        assert np.all(np.abs(np.einsum("rkd,rd->rk", contexts, state.explore.theta) - truth) <= width)
        assert np.all(p.block.upper(state.exploit, contexts) >= truth)
        exploited += np.sum(~state.exploring)
    assert exploited > 1000


@every
def test_theorem_constants_explore_throughout_short_horizons(cls):
    p = policy(cls, horizon=20)
    environment = GLMEnvironment(Logistic(), d=2, K=5, S=1.0)
    assert all(state.exploring.all() for state, _, _ in played(p, environment, 4, 20, 0))


def test_scaled_thresholds_learn():
    """n = 10, T = 2000: random arms lose about .33 a round (660); the means seen are a third of the limit or less."""
    environment = GLMEnvironment(Logistic(), d=3, K=20, S=2.0)
    for cls, epsilon, scale in (
        (TwoBlock, math.inf, Scale(0.05, 0.01, 0.01, 10, 1, 0.1)),
        (TwoBlock, 4.0, Scale(0.05, 0.01, 0.002, 20, 0.02, 0.5)),
        (SelfWeighted, math.inf, Scale(0.05, 0.005, 0.1, 10, 1, 1)),
    ):
        p = cls(Logistic(), d=3, S=2.0, horizon=2000, epsilon=epsilon, delta=0.02, scale=scale)
        assert simulate(p, environment, horizon=2000, replications=10, seed=5).final.mean() < 250


def test_self_weighted_starts_new_epochs_and_keeps_the_sandwich():
    """Without noise J equals lambda I + sum w v x x^T up to rounding, through all epochs, and their number stays below E."""
    p = policy(SelfWeighted, epsilon=math.inf, horizon=400, scale=Scale(gamma=1e-3))
    rng, d = np.random.default_rng(2), 2
    epoch, exact, total = p.block.init(1), p.constants.ridge * np.eye(d), np.zeros((1, 6))
    for x in hard_contexts(400, d, 3):
        x = x[None]
        leaf = p.block.leaf(epoch, x @ epoch.theta[0], x, (rng.random(1) < 0.5).astype(float))
        length = np.linalg.norm(epoch.whitening[0] @ x[0])
        w = leaf[0, -1]
        exact = exact + w / length * np.outer(x, x)
        total = total + leaf
        epoch = p.block.read(epoch, total)
        np.testing.assert_allclose(np.linalg.inv(epoch.inverse[0]), exact, rtol=1e-8)
    assert 2 <= epoch.number[0] <= p.constants.epochs


@every
@pytest.mark.parametrize("ridge", [1e-8, 1e-20, 1e-40])
def test_noise_far_above_the_ridge_is_survived(cls, ridge):
    """Off the good event everything stays finite: noise from a thousand times what the ridge is made for."""
    p = policy(cls, epsilon=1.0, horizon=300, scale=Scale(gamma=1e-3, explore_ridge=max(1e-3, ridge), ridge=ridge))
    environment = GLMEnvironment(Logistic(), d=2, K=3, S=1.0)
    assert np.isfinite(simulate(p, environment, horizon=300, replications=5, seed=1).final).all()


@every
def test_replay_with_moves_between_blocks(cls):
    """Short contexts exploit, long ones explore: 300 neighbours of one user among 24, realised cost at most the ledger's."""
    T, R, rng = 24, 300, np.random.default_rng(8)
    p = policy(cls, horizon=T)
    k = p.explore_constants
    p = replace(p, scale=Scale(Delta=0.5 * k.gamma / math.sqrt(k.ridge) / p.constants.Delta))

    def arms(*shape):
        x = rng.standard_normal((*shape, 1, 2))
        return x / np.linalg.norm(x, axis=-1, keepdims=True) * rng.choice([0.3, 1.0], size=(*shape, 1, 1))

    users = Users(arms(T, R), rng.integers(0, 2, (T, R, 1)).astype(float))
    at = rng.integers(0, T, R)
    pair = Neighbours(users, users.replace(at, arms(R), rng.integers(0, 2, (R, 1)).astype(float)), at)
    mu = replay(p, pair).mu
    assert 0.5 * p.ledger.mu < mu.max() <= p.ledger.mu * (1 + 1e-9)
    assert p.guarantee(1e-5).epsilon == pytest.approx(2.0, rel=1e-8)


@every
def test_without_noise_nothing_is_random(cls):
    p = policy(cls, epsilon=math.inf, horizon=60, scale=Scale(gamma=0.1))
    environment = GLMEnvironment(Logistic(), d=2, K=3, S=1.0)
    a, b = (simulate(p, environment, horizon=60, replications=4, seed=9).final for _ in range(2))
    np.testing.assert_array_equal(a, b)
    assert p.sums.sigma == 0 and math.isinf(p.guarantee(0.01).epsilon)


@every
@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"zeta": 0.0}, "zeta"),
        ({"S": math.nan}, "S must"),
        ({"tau": 3.0}, "tau must"),
        ({"link": Linear()}, "link must"),
        ({"scale": Scale(beta=0.0)}, "scale.beta"),
        ({"epsilon": -1.0}, "epsilon"),
    ],
)
def test_bad_parameters_are_refused(cls, change, word):
    with pytest.raises((ValueError, TypeError), match=word):
        policy(cls, **change)


@every
def test_smallest_sizes_work(cls):
    p = policy(cls, d=1, horizon=1)
    noise = np.random.default_rng(0)
    state, action = p.act(p.init(1, noise), np.zeros((1, 1, 1)), noise)
    state = p.update(state, np.zeros((1, 1)), np.zeros(1), noise)
    assert action.shape == (1,) and np.isfinite(state.explore.theta).all()
