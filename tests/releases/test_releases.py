"""Releases: the public posterior, Kusner et al., cloaking, reward-only local privacy."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from privbandit.accounting import gaussian_mu
from privbandit.environments.gp import GaussianProcessBandit, unit_grid
from privbandit.features import SquaredExponential, features_for_horizon
from privbandit.policies.base import choose
from privbandit.policies.noisy_gp_ucb import joint_gp_ucb
from privbandit.releases.cloaking import Cloaking, d_optimal, function_mechanism_std
from privbandit.releases.kusner import KusnerRelease
from privbandit.releases.posterior import PrivatePosterior
from privbandit.releases.reward_local import RewardLocalGPUCB
from privbandit.simulate import simulate

KERNEL = SquaredExponential(0.2)
FEATURES = features_for_horizon(KERNEL, 128)
ENVIRONMENT = GaussianProcessBandit(KERNEL, unit_grid(40), 8)


def test_private_posterior_is_free_and_covers():
    policy, R = joint_gp_ucb(FEATURES, 128, 5.0, 1e-5), 10
    rng = np.random.default_rng(0)
    world, state = ENVIRONMENT.init(R, rng), policy.init(R, rng)
    for t in range(128):
        world, contexts = ENVIRONMENT.contexts(world, t, rng)
        state, action = policy.act(state, contexts, rng)
        state = policy.update(state, choose(contexts, action), ENVIRONMENT.step(world, contexts, action, rng).reward, rng)
    posterior = PrivatePosterior.of(policy, state)
    assert posterior.released.count == 128 and posterior.ledger == policy.ledger
    x = np.random.default_rng(1).random((200, 1))
    f = np.einsum("rnc,rc->rn", KERNEL(np.broadcast_to(x, (R, *x.shape)), world.functions.centres), world.functions.coefficients)
    assert np.all(np.abs(f - posterior.mean(x)) <= posterior.band(x))
    assert posterior.best(x).shape == (R,)
    index = policy.index(state.released, np.broadcast_to(FEATURES(x), (R, 200, FEATURES.m)))
    np.testing.assert_allclose(posterior.mean(x) + posterior.band(x) - posterior.bias, index, atol=1e-10)


def test_d_optimal_ellipsoid_against_a_general_solver():
    """Minimise ln det M over M = L L^T subject to c_i^T M^-1 c_i <= 1, by SLSQP on L."""
    C = np.random.default_rng(2).normal(size=(3, 12))
    M = d_optimal(C, 1e-9)
    leverage = np.einsum("pn,pn->n", C, np.linalg.solve(M, C))
    assert abs(leverage.max() - 1) < 1e-9
    lower = np.tril_indices(3)

    def matrix(v):
        L = np.zeros((3, 3))
        L[lower] = v
        return L

    slack = lambda v: 1 - np.sum(np.linalg.solve(matrix(v), C) ** 2, axis=0)  # noqa: E731
    start = np.linalg.cholesky(M * 2)[lower]
    found = minimize(
        lambda v: 2 * np.sum(np.log(np.abs(np.diag(matrix(v))))), start, constraints={"type": "ineq", "fun": slack}, options={"maxiter": 500}
    )
    assert abs(found.fun - np.linalg.slogdet(M)[1]) < 1e-4


@pytest.mark.parametrize("isotropic", [False, True])
def test_cloaking_hides_any_single_output(isotropic):
    rng = np.random.default_rng(3)
    x, star = rng.random((30, 1)), np.linspace(0, 1, 8)[:, None]
    release = Cloaking(SquaredExponential(0.3), x, star, 0.1, 2.0, 1.0, 1e-5, isotropic)
    # exact GDP parameter of the released Gaussian vector: the Mahalanobis distance of two means
    inverse = np.linalg.pinv(release.covariance, rcond=1e-9)
    shift = 2.0 * release.weights
    mu = np.sqrt(np.max(np.einsum("pn,pq,qn->n", shift, inverse, shift)))
    assert mu <= gaussian_mu(1.0, 1e-5) * (1 + 1e-5) and mu > 0.98 * gaussian_mu(1.0, 1e-5)
    y = np.broadcast_to(rng.uniform(-1, 1, 30), (20000, 30))
    out = release.release(y, rng)
    assert out.shape == (20000, 8)
    np.testing.assert_allclose(out.mean(axis=0), release.weights @ y[0], atol=5 * np.sqrt(release.covariance.diagonal().max() / 20000))
    assert abs(release.ledger.epsilon(1e-5) - 1.0) < 1e-6


@pytest.mark.parametrize("y, message", [([0.0, np.nan], "finite entries only, got nan"), (np.zeros(3), r"shape \(\*, 2\), got shape \(1, 3\)")])
def test_cloaking_refuses_odd_outputs(y, message):
    release = Cloaking(SquaredExponential(0.3), np.array([[0.1], [0.7]]), np.array([[0.5]]), 0.1, 2.0, 1.0, 1e-5)
    with pytest.raises(ValueError, match="^y must have " + message):
        release.release(y, np.random.default_rng(0))


@pytest.mark.parametrize("far", [5.0, 27.0, 28.0, 30.0])
@pytest.mark.parametrize("isotropic", [True, False])
def test_cloaking_far_from_all_outputs_still_costs_what_it_says(far, isotropic):
    """Thirty lengthscales away weights are 1e-182 and their squares are 0: noise of that size is drawn all the same, none is saved."""
    x = np.linspace(0, 1, 5)[:, None]
    release = Cloaking(SquaredExponential(1.0), x, np.array([[far], [far + 0.01]]), 0.1, 1.0, 1.0, 1e-5, isotropic)
    whitened = np.linalg.lstsq(release.root, release.weights, rcond=None)[0]
    moved = [math.hypot(*column) for column in whitened.T]  # hypot rescales
    assert release.event.sigma > 0 and max(moved) / release.event.sigma <= gaussian_mu(1.0, 1e-5) * (1 + 1e-6)
    noise = release.release(np.zeros(5), np.random.default_rng(0))
    assert np.all(noise != 0) and np.abs(noise).max() < 100 * np.abs(release.weights).max() / gaussian_mu(1.0, 1e-5)


def test_cloaking_needs_less_noise_than_isotropic_and_function_noise():
    rng = np.random.default_rng(4)
    x, star = rng.random((60, 1)), np.linspace(0, 1, 6)[:, None]
    arguments = (SquaredExponential(0.2), x, star, 0.1, 2.0, 1.0, 1e-5)
    logdet = [np.linalg.slogdet(Cloaking(*arguments, isotropic).covariance)[1] for isotropic in (False, True)]
    assert logdet[0] < logdet[1]
    std = function_mechanism_std(arguments[0], x, 0.1, 2.0, 1.0, 1e-5)
    assert np.sqrt(Cloaking(*arguments).covariance.diagonal().mean()) < std


def test_exponential_mechanism_frequencies():
    """n = 40000 recommendations: frequencies within five standard errors of exp(epsilon mean / (2 sensitivity))."""
    release, n = KusnerRelease(30.0, 0.05, 3), 40000
    mean = np.array([0.0, 0.5, 1.0])
    p = np.exp(30 * mean / (2 * release.sensitivity))
    p /= p.sum()
    counts = np.bincount(release.recommend(np.broadcast_to(mean, (n, 3)), np.random.default_rng(5)), minlength=3) / n
    assert np.all(np.abs(counts - p) < 5 * np.sqrt(p * (1 - p) / n))
    assert release.ledger.epsilon(0.2) == 30.0
    with pytest.raises(ValueError, match="correlation"):
        KusnerRelease(1.0, 0.05, 3).published_sensitivity(100, 2.0)


def test_reward_local_protects_the_reward_only_and_learns_better_than_noise():
    policy = RewardLocalGPUCB(FEATURES, epsilon=1.0, delta=1e-5)
    guarantee = policy.guarantee(1e-5)
    assert guarantee.trust == "local" and abs(guarantee.epsilon - 1.0) < 1e-6 and "point" in guarantee.unit
    assert abs(policy.subgaussian - np.hypot(0.5, 2 / gaussian_mu(1.0, 1e-5))) < 1e-12
    assert RewardLocalGPUCB(FEATURES, epsilon=np.inf).guarantee(1e-5).epsilon == np.inf
    plain = simulate(RewardLocalGPUCB(FEATURES, epsilon=np.inf), ENVIRONMENT, horizon=100, replications=10, seed=1).final.mean()
    noisy = simulate(policy, ENVIRONMENT, horizon=100, replications=10, seed=1).final.mean()
    assert plain < noisy
