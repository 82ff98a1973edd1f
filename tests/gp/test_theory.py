"""The lemmas behind the width and the regret theorem, each against an independent computation."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from privbandit.features import Matern, SquaredExponential, equispaced_features, hermite_features
from privbandit.formulas.gp import CONFIDENCE_WIDTH, FINITE_GAIN, JOINT_SENSITIVITY, POTENTIAL_CONSTANT, WIDTH_SUM
from privbandit.gp.width import regret_bound


@pytest.mark.parametrize(
    "phi",
    [
        hermite_features(SquaredExponential(0.3), 6),
        equispaced_features(SquaredExponential(0.2), 7),
        equispaced_features(Matern(0.3, 1.5), 9),
    ],
    ids=["hermite", "equispaced", "matern"],
)
def test_minimax_transfer(phi):
    """One theta for all points: min_theta |theta|^2 + max_x (f - Phi theta)^2 / error <= B^2, for f of norm B (60-point grid).

    The minimum over theta is found by exponentiated-gradient ascent in the weights of the dual, whose every value is a lower bound
    and whose primal value (at the ridge solution of those weights) is an upper bound: it is the upper bound that must pass.
    """
    x, error, rng = np.linspace(0, 1, 60)[:, None], phi.uniform_error, np.random.default_rng(0)
    Phi, worst = phi(x), 0.0
    for _ in range(4):
        z, a = rng.random((5, 1)), rng.standard_normal(5)
        f, B2 = phi.kernel(x, z) @ a, a @ phi.kernel(z, z) @ a
        mu, best = np.full(60, 1 / 60), math.inf
        for step in range(3000):
            theta = np.linalg.solve((Phi.T * mu) @ Phi + error * np.eye(phi.m), Phi.T @ (mu * f))
            gap2 = (f - Phi @ theta) ** 2
            best = min(best, theta @ theta + gap2.max() / error)
            mu = mu * np.exp(np.clip(2.0 / math.sqrt(step + 1) * (gap2 / gap2.max() - 1), -50, 0))
            mu /= mu.sum()
        assert best <= B2 * (1 + 1e-9)
        worst = max(worst, best / B2)
    assert worst > 0.3  # the lemma is not idle


def test_misspecification_enters_the_width_once():
    """|Phi b|_{V^-1}^2 + |R theta|_{V^-1}^2 <= (lambda_max |theta|^2 + |b|_2^2) <= B^2 (lambda_max + n error), by one Cauchy-Schwarz."""
    rng, n, m, error, B = np.random.default_rng(1), 40, 6, 0.01, 1.3
    for _ in range(50):
        Phi = rng.normal(size=(n, m))
        Phi /= np.linalg.norm(Phi, axis=1, keepdims=True)
        A = rng.normal(size=(m, m))
        R = A @ A.T + 0.5 * np.eye(m)
        split = rng.random()  # |theta|^2 = split B^2, max b^2 = (1 - split) error B^2
        theta = rng.normal(size=m)
        theta *= B * math.sqrt(split) / np.linalg.norm(theta)
        b = rng.uniform(-1, 1, n) * B * math.sqrt((1 - split) * error)
        V = Phi.T @ Phi + R
        vector = Phi.T @ b - R @ theta
        width = CONFIDENCE_WIDTH(
            subgaussian=1e-12, zeta=0.5, log_det=0.0, B=B, lambda_max=np.linalg.eigvalsh(R)[-1], t=n + 1, error=error, kappa=0.0
        )
        assert math.sqrt(vector @ np.linalg.solve(V, vector)) <= width


def test_potential_inequality_with_its_constant():
    """sum min |phi_t|^2 in the running inverse <= c ln det(I + Sigma/lambda), at lambda below and above one."""
    rng = np.random.default_rng(2)
    for lambda_ in (0.1, 1.0, 30.0):
        phi = rng.normal(size=(300, 5))
        phi /= np.linalg.norm(phi, axis=1, keepdims=True)
        phi[50:150] = phi[0]
        V, total = lambda_ * np.eye(5), 0.0
        for row in phi:
            total += row @ np.linalg.solve(V, row)
            V += np.outer(row, row)
        log_det = np.linalg.slogdet(V / lambda_)[1]
        assert total <= POTENTIAL_CONSTANT(lambda_min=lambda_) * log_det * (1 + 1e-12)
        assert log_det <= 2 * FINITE_GAIN(m=5, T=300, lambda_=lambda_)


def test_stale_norms_in_blocks():
    """|phi|^2 at the start of a block is at most 1 + (block - 1)/lambda times its value just before the user."""
    rng, lambda_, block = np.random.default_rng(3), 4.0, 9
    V = lambda_ * np.eye(4)
    for _ in range(20):
        start, rows = V.copy(), rng.normal(size=(block, 4))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        for row in rows:
            assert row @ np.linalg.solve(start, row) <= (1 + (block - 1) / lambda_) * (row @ np.linalg.solve(V, row)) + 1e-12
            V += np.outer(row, row)


def test_regret_bound_terms():
    c = 1 / (2 * math.log(1.5))
    terms = regret_bound(1000, 3.0, 20.0, 2.0, 15, 1e-6, 0.7)
    assert abs(terms["width_sum"] - 2 * math.sqrt(2 * c) * 3 * math.sqrt(1000 * (20 + 15 * 1000 * 1e-6 / 4))) < 1e-9
    assert abs(terms["misspecification"] - 2 * 0.7 * 1000 * 1e-3) < 1e-9
    assert terms["bound"] == min(terms["width_sum"] + terms["misspecification"], terms["trivial"])
    assert WIDTH_SUM(T=1000, beta=3.0, gain=20.0, lambda_min=2.0, m=15, error=0.0, block=3) > terms["width_sum"]
    assert abs(2 * math.sqrt(2 * POTENTIAL_CONSTANT(lambda_min=1.0)) - 3.397) < 1e-3  # the often-printed constant is 4


@pytest.mark.parametrize("b", [0.0, 0.7, 2.0, 5.0])
def test_joint_sensitivity_formula_against_maximisation(b):
    """Oracle: maximise 2(1 - c^2) + 2 b (1 + |c|) over c in [-1, 1] numerically."""
    best = max(-minimize(lambda c: -(2 * (1 - c[0] ** 2) + 2 * b * (1 + abs(c[0]))), [start], bounds=[(-1, 1)]).fun for start in (-0.9, -0.1, 0.2, 0.9))
    assert abs(float(JOINT_SENSITIVITY(b=b)) - best) < 1e-8


def test_self_normalised_bound_survives_privacy_noise():
    """Any-time: |sum phi eps|_{V^-1} <= sqrt(2 ln(1/zeta) + ln det V - m ln lambda), V with noise in it, points chosen from V.

    n = 300 adaptive paths, zeta = 0.1: 30 failures allowed in expectation, 56 would be five sigma.
    """
    rng, n, m, T, zeta, lambda_ = np.random.default_rng(4), 300, 4, 150, 0.1, 2.0
    Sigma, S, failed = np.zeros((n, m, m)), np.zeros((n, m)), np.zeros(n, dtype=bool)
    pool = rng.normal(size=(12, m))
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    for _ in range(T):
        A = rng.normal(size=(n, m, m))
        V = Sigma + lambda_ * np.eye(m) + A @ np.swapaxes(A, 1, 2) / m  # any positive definite noise above lambda I
        bound2 = 2 * math.log(1 / zeta) + np.linalg.slogdet(V)[1] - m * math.log(lambda_)
        failed |= np.einsum("ni,ni->n", S, np.linalg.solve(V, S[..., None])[..., 0]) > bound2
        pick = np.argmax(np.einsum("ki,nij,kj->nk", pool, np.linalg.inv(V), pool), axis=1)
        phi, noise = pool[pick], rng.standard_normal(n)
        Sigma, S = Sigma + phi[:, :, None] * phi[:, None, :], S + phi * noise[:, None]
    assert failed.sum() <= 55
