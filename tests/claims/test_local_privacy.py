"""Checks of the claims in the chapter on local privacy of Gaussian-process bandits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

from privbandit.accounting import gaussian_mu
from privbandit.audit.replay import Neighbours, Users, replay
from privbandit.environments.gp import GaussianProcessBandit, unit_grid
from privbandit.features import SquaredExponential, features_for_horizon
from privbandit.formulas.gp import POTENTIAL_CONSTANT
from privbandit.gp.calibration import Spectrum, calibrate
from privbandit.gp.fast import play
from privbandit.gp.peeling import epochs, local_regret_bound
from privbandit.gp.prefix_noise import prefix_noise
from privbandit.gp.width import Width
from privbandit.mechanisms import PerUser
from privbandit.policies.noisy_gp_ucb import local_gp_ucb

from .claim import claim

SE = SquaredExponential(0.2)


def pair(seed):
    """Random users; one of them gets other points and opposite rewards."""
    rng, T, R, K = np.random.default_rng(seed), 16, 12, 5
    users = Users(rng.random((T, R, K, 1)), rng.choice([-1.0, 1.0], (T, R, K)))
    at = rng.integers(0, T, R)
    return Neighbours(users, users.replace(at, rng.random((R, K, 1)), -users.rewards[at, np.arange(R)]), at)


def quieter(features, T, epsilon, delta):
    policy = local_gp_ucb(features, T, epsilon, delta)
    c = policy.calibration
    return replace(policy, calibration=replace(c, mechanism=PerUser(T, c.mechanism.sigma / 2, c.leaf.Delta)))


@claim("gp-local-dp", subject=(local_gp_ucb, PerUser), mutants={"half the noise": (quieter, PerUser)})
def check_private(subject):
    """36 neighbouring streams replayed on the running code: cost at most mu (to 1e-9) whatever T is; trust and block as stated."""
    T, mu = 16, gaussian_mu(1.0, 1e-5)
    policy = subject[0](features_for_horizon(SE, T), T, 1.0, 1e-5)
    assert policy.ledger.trust == "local"
    for seed in range(3):
        assert np.all(replay(policy, pair(seed), seed).mu <= mu * (1 + 1e-9))


test_gp_local_dp = check_private


def test_blocks_are_refused():
    with pytest.raises(ValueError, match="block must be 1"):
        local_gp_ucb(features_for_horizon(SE, 16), 16, 1.0, 1e-5, block=2)


def all_linear(self, factor):
    return Spectrum(factor * self.shift, factor * self.lambda_min, factor * self.lambda_max, factor * self.kappa)


def constant_kappa(self, factor):
    return Spectrum(factor * self.shift, factor * self.lambda_min, factor * self.lambda_max, self.kappa)


@claim("local-scaling", subject=Spectrum.scaled, mutants={"kappa like sqrt(t)": all_linear, "kappa constant": constant_kappa})
def check_scaling(scaled):
    """Against the bounds computed anew for a prefix of deviation sigma sqrt(t), to 1e-9 relative."""
    for epsilon in (1.0, 10.0):
        c = calibrate(features_for_horizon(SE, 10**6), 10**6, epsilon, 1e-5, mechanism="local")
        first = c.at(c.mechanism.sigma)
        for t in (2, 100, 10**6):
            fresh, grown = c.at(c.mechanism.sigma * math.sqrt(t)), scaled(first, math.sqrt(t))
            for name in ("shift", "lambda_min", "lambda_max", "kappa"):
                assert abs(getattr(fresh, name) / getattr(grown, name) - 1) < 1e-9


test_local_scaling = check_scaling


class Frozen(Width):
    """Keeps the shift of the first prefix."""

    def spectrum(self, releases):
        return super().spectrum(1)


@claim("local-noise-path", subject=Width, mutants={"shift of the first prefix for all": Frozen})
def check_path(width):
    """60 paths, all 256 prefixes; zeta = 0.05 allows 3 failing paths on average, 13 would be five sigma."""
    T, R = 256, 60
    policy = local_gp_ucb(features_for_horizon(SE, T), T, 1.0, 1e-5)
    c, w = policy.calibration, width(policy.calibration, 0.5, 0.05)
    failed = np.zeros(R, dtype=bool)
    for t, z in enumerate(prefix_noise(c.mechanism, np.arange(1, T + 1), R, c.leaf.size, np.random.default_rng(5)), 1):
        s = w.spectrum(t)
        H, h = c.leaf.decode(z, 0)
        values, vectors = np.linalg.eigh(H + s.shift * np.eye(H.shape[-1]))
        norm = np.sqrt(np.sum(np.einsum("rij,ri->rj", vectors, h) ** 2 / np.maximum(values, 1e-9), axis=1))
        failed |= (values[:, 0] < s.lambda_min) | (values[:, -1] > s.lambda_max) | (norm > s.kappa)
    assert failed.sum() <= 12


test_local_noise_path = check_path


def orthonormal_ratio(T):
    """Left over right for T orthonormal vectors and lambda_t = sqrt(t)."""
    lambdas = np.sqrt(np.arange(1, T + 1))
    right = float(POTENTIAL_CONSTANT(lambda_min=lambdas[-1])) * T * math.log1p(1 / lambdas[-1])
    return float(np.sum(1 / lambdas)) / right


def first_lambda_ratio(T):
    return orthonormal_ratio(T) / math.sqrt(T)


@claim("last-lambda", subject=orthonormal_ratio, mutants={"lambda of the first round": first_lambda_ratio})
def check_last(ratio):
    """T/lambda_T = sqrt(T) against 2 sqrt(T) - 1.46."""
    for T in (10, 100, 1000, 10**6):
        assert ratio(T) > 1
    assert ratio(1000) > 1.9 and ratio(10**6) > 1.9


test_last_lambda = check_last


def potential(lambdas, phi):
    first = lambdas[0]
    return float(POTENTIAL_CONSTANT(lambda_min=first)) * np.linalg.slogdet(np.eye(phi.shape[1]) + phi.T @ phi / first)[1]


def potential_last(lambdas, phi):
    last = lambdas[-1]
    return float(POTENTIAL_CONSTANT(lambda_min=last)) * np.linalg.slogdet(np.eye(phi.shape[1]) + phi.T @ phi / last)[1]


@claim("epoch-potential", subject=potential, mutants={"last lambda": potential_last, "no constant": lambda lam, phi: np.linalg.slogdet(np.eye(phi.shape[1]) + phi.T @ phi / lam[0])[1] * 0.9})
def check_potential(bound):
    """Earlier rounds only help; here there are none, the worst case. 40 streams of every kind."""
    rng = np.random.default_rng(6)
    for a in (0.1, 1.0, 20.0):
        for first in (1, 16, 64):
            lambdas = a * np.sqrt(np.arange(first, first + 64))
            for kind in range(40):
                m = int(rng.integers(1, 9)) if kind else 64
                phi = np.eye(64) if kind == 0 else rng.standard_normal((64, m)) * (rng.random((64, 1)) < 0.7) + 1e-9
                phi = phi / np.linalg.norm(phi, axis=1, keepdims=True)
                total, Sigma = 0.0, np.zeros((m, m))
                for lam, p in zip(lambdas, phi, strict=True):
                    total += p @ np.linalg.solve(lam * np.eye(m) + Sigma, p)
                    Sigma += np.outer(p, p)
                assert total <= bound(lambdas, phi) + 1e-9


test_epoch_potential = check_potential


@claim("local-regret", subject=local_regret_bound, mutants={"a quarter of it": lambda *args: {"bound": 0.25 * local_regret_bound(*args)["width_sum"]}})
def check_regret(bound):
    """Not statistical: on every run with no miss (all must have none here) R <= W <= U, and no width exceeds its epoch's bound."""
    T = 512
    world = GaussianProcessBandit(SE, unit_grid(100), 20)
    f = world.functions(8, np.random.default_rng(3))
    f = f._replace(values=f.values / np.maximum(f.norm, 1.0)[:, None])
    policy = local_gp_ucb(features_for_horizon(SE, T), T, 1000.0, 1e-5)
    run, phi = play(policy, world, f, T, 4, 1.0), policy.features(world.grid)
    assert run.misses.sum() == 0
    assert np.all(run.regret <= run.width_sum)
    assert np.all(run.width_sum <= bound(policy.width, phi, T)["bound"] + 1e-9)
    assert run.max_beta.max() <= max(e.beta for e in epochs(policy.width, phi, T)) + 1e-9


test_local_regret = check_regret

J = sp.Symbol("J", integer=True, positive=True)


def constants(rate):
    """sup over J of sum_{j <= J} 2^(rate j) / 2^(rate J) = 1/(1 - 2^-rate)."""
    return 1 / (1 - sp.Integer(2) ** (-rate))


@claim("local-rate", subject=constants, mutants={"one epoch only": lambda rate: sp.Integer(1), "ratio two": lambda rate: sp.Rational(3, 2)})
def check_rate(limit):
    """The geometric sums symbolically, below their limits for every J to 40, and the printed constants."""
    for rate, printed in ((sp.Rational(1, 2), 3.42), (sp.Rational(3, 4), 2.47)):
        q = sp.Integer(2) ** rate
        closed = (q ** (J + 1) - 1) / (q - 1) / q**J
        assert float(limit(rate)) <= printed < float(limit(rate)) + 0.01
        for n in (0, 1, 5, 40):
            direct = sum(q**j for j in range(n + 1)) / q**n
            assert abs(float(direct) - float(closed.subs(J, n))) < 1e-9
            assert float(direct) <= float(limit(rate)) + 1e-12


test_local_rate = check_rate
