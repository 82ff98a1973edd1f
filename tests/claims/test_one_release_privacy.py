"""One release: the leaf's sensitivity, what it spends, its noise, and the bias of the surrogate."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize

from privbandit.accounting import gaussian_mu
from privbandit.audit.replay import Neighbours, Users, replay
from privbandit.environments.glm import GLMEnvironment
from privbandit.formulas import two_block
from privbandit.formulas.glm import JOINT_LEAF, TAU
from privbandit.linalg import outer, smat, svec_size
from privbandit.links import Logistic, Probit
from privbandit.policies.one_release import OneRelease, QuadraticSurrogate, Statistical, Tangent
from privbandit.simulate import simulate

from .claim import claim


@claim(
    "response-range",
    subject=Tangent,
    mutants={
        "half-the-range": lambda: _Ranged(lambda link, S: 0.5),
        "without-the-slope": lambda: _Ranged(lambda link, S: float(link.mu(S))),
    },
)
def check_range(make):
    """Largest response over z and both rewards equals the stated bound, for the tangent and for the constant slope c."""
    for link in (Logistic(), Probit()):
        for S in (1.0, 2.0, 3.5):
            z, (_, Y) = np.linspace(-S, S, 4001), make().bounds(link, S)
            for slope in (link.dmu(z), link.c_mu(S)):
                worst = max(np.abs(r - link.mu(z) + slope * z).max() for r in (0.0, 1.0))
                assert abs(worst - Y) < 1e-6 and Y <= 1


class _Ranged:
    def __init__(self, Y):
        self.Y = Y

    def bounds(self, link, S):
        return link.L_mu(S), self.Y(link, S)


test_response_range = check_range


def _leaf(v, d, tau):
    x = v[:d] / max(1.0, np.linalg.norm(v[:d]))
    return np.concatenate([(1 + np.sin(v[d])) / 2 * outer(x), math.sqrt(tau) * np.sin(v[d + 1]) * x])


@claim(
    "joint-leaf-sensitivity",
    subject=JOINT_LEAF,
    mutants={"separate-suprema": lambda a, b: 2 * a + 4 * b, "one-branch-only": lambda a, b: a + 4 * b},
)
def check_leaf(D):
    """Ten BFGS starts (seed 0) reach D and never pass it."""
    rng = np.random.default_rng(0)
    for d in (2, 3):
        n = d + 2
        for tau in (0.2, TAU, 1.17, 3.0):
            def cost(v, n=n, d=d, tau=tau):
                return -np.sum((_leaf(v[:n], d, tau) - _leaf(v[n:], d, tau)) ** 2)

            best = max(-minimize(cost, 3 * rng.standard_normal(2 * n)).fun for _ in range(10))
            assert abs(best / float(D(a=1.0, b=tau)) - 1) < 1e-5


test_joint_leaf_sensitivity = check_leaf


def _first_user_replaced(T=16, R=200, seed=6):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((T, R, 1, 2))
    users = Users(x / np.maximum(1, np.linalg.norm(x, axis=-1, keepdims=True)), rng.integers(0, 2, (T, R, 1)).astype(float))

    def unit():
        a = rng.uniform(0, 2 * np.pi, (R, 1))
        return np.stack([np.cos(a), np.sin(a)], axis=-1)

    at = np.zeros(R, dtype=int)
    coin = [rng.integers(0, 2, (R, 1)).astype(float) for _ in range(2)]
    return Neighbours(users.replace(at, unit(), coin[0]), users.replace(at, unit(), coin[1]), at)


class _Claims(OneRelease):
    """A twin that charges the two parts of a leaf as if only the matrix moved."""

    @property
    def sums(self):
        return self.mechanism.calibrated(self.horizon, gaussian_mu(self.epsilon, self.delta), 1.0)


@claim("one-release-privacy", subject=OneRelease, mutants={"sensitivity-of-one": _Claims})
def check_privacy(policy):
    """200 replaced users, seed 6: the dearest replay costs at most the budget, and for the surrogate at least 97 % of it."""
    budget = gaussian_mu(1.0, 1e-5)
    for how, reached in ((QuadraticSurrogate(), 0.97), (Tangent(), 0.8), (Statistical(), 0.8)):
        p = policy(Probit(), d=2, S=2.0, horizon=16, epsilon=1.0, delta=1e-5, linearisation=how)
        worst = replay(p, _first_user_replaced()).mu.max()
        assert reached * budget <= worst <= budget * (1 + 1e-9)


test_one_release_privacy = check_privacy


@claim("one-release-zero-noise", subject=OneRelease, mutants={"large-epsilon": lambda *a, **k: OneRelease(*a, **{**k, "epsilon": 1e4})})
def check_zero_noise(policy):
    p, rng = policy(Logistic(), d=3, S=2.0, horizon=30, epsilon=math.inf, delta=1e-5), np.random.default_rng(0)
    x = rng.standard_normal((30, 4, 3)) / 3
    reward = rng.integers(0, 2, (30, 4)).astype(float)
    ends = []
    for seed in (1, 2):
        noise = np.random.default_rng(seed)
        state = p.init(4, noise)
        for t in range(30):
            state = p.update(state, x[t], reward[t], noise)
        ends.append(state.released.theta)
    assert np.array_equal(*ends) and math.isinf(p.guarantee(0.01).epsilon)


test_one_release_zero_noise = check_zero_noise


@claim("surrogate-bias", subject=QuadraticSurrogate, mutants={"the-tangent": Tangent, "the-statistical-line": Statistical})
def check_bias(how):
    """n = 16 runs, T = 4000, seed 11: the last half costs the surrogate more than 15, an unbiased leaf less."""
    world = GLMEnvironment(Probit(), d=3, K=20, S=3.0, contexts_kind="mix")
    p = OneRelease(Probit(), 3, 3.0, 4000, 8.0, 0.02, linearisation=how())
    run = simulate(p, world, horizon=4000, replications=16, seed=11, rounds=[2000, 4000])
    assert (run.regret[:, 1] - run.regret[:, 0]).mean() > 15


test_surrogate_bias = check_bias


@claim(
    "release-noise",
    subject=(two_block.MATRIX_NORM, two_block.VECTOR_NORM),
    mutants={"without-the-factor-two": (lambda d, T, zeta: math.sqrt(d) / 2 + math.sqrt(2 * math.log(16 * T / zeta)), two_block.VECTOR_NORM)},
)
def check_noise(radii):
    """n = 20,000, seed 1: exceedance of each radius at most its share of zeta plus five standard errors, for large zeta / T."""
    matrix, vector = radii
    rng, n = np.random.default_rng(1), 20_000
    for d in (1, 3, 8):
        norms = np.abs(np.linalg.eigvalsh(smat(rng.standard_normal((n, svec_size(d))), d))).max(axis=1)
        lengths = np.linalg.norm(rng.standard_normal((n, d)), axis=1)
        for share in (0.5, 0.1, 0.02):
            zeta = 8 * share  # T = 1: a row and stream fails with probability zeta / 8
            for seen, radius in ((norms, matrix), (lengths, vector)):
                assert np.mean(seen > radius(d=d, T=1.0, zeta=zeta)) <= share + 5 * math.sqrt(share / n)


test_release_noise = check_noise
