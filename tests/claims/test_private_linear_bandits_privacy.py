"""Private LinUCB: sensitivity of a leaf, the algorithm and what it spends, its noise, and published constants."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp
from scipy.special import ndtr, ndtri
from scipy.stats import chi2, kstest

from privbandit.audit import twins
from privbandit.audit.replay import realised_epsilon, replay
from privbandit.audit.users import linear
from privbandit.linalg import outer, smat
from privbandit.mechanisms import SquareRoot, TreeMechanism
from privbandit.mechanisms.wishart import WishartTree, certified_mu
from privbandit.policies.private_linucb import PrivateLinUCB
from privbandit.sensitivity import ARMS, JOINT
from privbandit.spectra import gaussian_bounds

from .claim import claim

WEIGHTS = (0.01, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 4.0, 9.0)


# A leaf of K arms -------------------------------------------------------------------------------------------------------------


@claim(
    "arms-leaf",
    subject=ARMS,
    mutants={
        "counts and sums charged apart": ARMS | {"replace": replace(ARMS["replace"], expression=sp.sqrt(2 + 4 * sp.Symbol("tau", positive=True)))},
        "counts only": ARMS | {"replace": replace(ARMS["replace"], expression=sp.sqrt(2))},
        "one relation": ARMS | {"add-remove": ARMS["replace"]},
    },
)
def check_arms(formulas):
    """All pairs of three arms and 21 rewards: the largest distance is the formula, for both relations."""
    arm, y = (a.ravel() for a in np.meshgrid(np.arange(3), np.linspace(-1, 1, 21)))
    for tau in WEIGHTS[:7]:
        leaf = np.concatenate([np.eye(3)[arm], tau**0.5 * y[:, None] * np.eye(3)[arm]], axis=1)
        values = [float(formulas[n](**{s.name: tau for s in formulas[n].symbols})) for n in ("replace", "add-remove")]
        assert np.linalg.norm(leaf[:, None] - leaf[None], axis=-1).max() == pytest.approx(values[0], rel=1e-12)
        assert np.linalg.norm(leaf, axis=-1).max() == pytest.approx(values[1], rel=1e-12)


test_arms = check_arms


# The joint leaf and privacy -----------------------------------------------------------------------------------------------------


@claim(
    "joint-leaf",
    subject=JOINT,
    mutants={
        "parts charged apart": JOINT | {"replace": replace(JOINT["replace"], expression=sp.sqrt(2 + 4 * sp.Symbol("tau", positive=True)))},
        "matrix only": JOINT | {"replace": replace(JOINT["replace"], expression=sp.sqrt(2))},
        "one relation": JOINT | {"add-remove": JOINT["replace"]},
        "first case everywhere": JOINT | {"replace": replace(JOINT["replace"], expression=(2 + sp.Symbol("tau", positive=True)) / sp.sqrt(2))},
    },
)
def check_joint(formulas):
    """All pairs of 960 records of the disc, whose largest distance is the formula within 2 in 1000; no random pair in five dimensions is further apart."""
    angle = np.arange(64) * np.pi / 32
    x = np.concatenate([r * np.stack([np.cos(angle), np.sin(angle)], 1) for r in (0.3, 0.6, 0.8, 0.9, 1.0)])
    x, y = np.tile(x, (3, 1)), np.repeat([-1.0, 0.4, 1.0], len(x))[:, None]
    rng = np.random.default_rng(0)
    z = rng.standard_normal((2, 20_000, 5))
    z *= rng.random((2, 20_000, 1)) ** 0.2 / np.linalg.norm(z, axis=-1, keepdims=True)
    sign = rng.choice([-1.0, 1.0], (2, 20_000, 1))
    for tau in WEIGHTS:
        replaced, added = (float(formulas[n](**{s.name: tau for s in formulas[n].symbols})) for n in ("replace", "add-remove"))
        leaf = np.concatenate([outer(x), tau**0.5 * y * x], axis=1)
        squares = np.sum(leaf**2, axis=1)
        furthest = np.sqrt(np.max(squares[:, None] + squares[None] - 2 * leaf @ leaf.T))
        assert furthest == pytest.approx(replaced, rel=2e-3) and furthest <= replaced * (1 + 1e-9)
        assert squares.max() ** 0.5 == pytest.approx(added, rel=1e-9)
        a, b = (np.concatenate([outer(v), tau**0.5 * s * v], axis=1) for v, s in zip(z, sign))
        assert np.all(np.linalg.norm(a - b, axis=1) <= replaced)


test_joint = check_joint


class ExactWidth(PrivateLinUCB):
    def _estimate(self, memory, prefix):
        exact = super()._estimate(memory, memory.total)
        return super()._estimate(memory, prefix)._replace(inverse=exact.inverse)


class Unclipped(PrivateLinUCB):
    def leaf(self, x, reward):
        leaf = super().leaf(x, np.sign(reward))
        leaf[:, self.gram_size :] *= np.abs(reward)[:, None]
        return leaf


@claim("private-linucb-algorithm", subject=PrivateLinUCB, mutants={"bonus reads the exact matrix": ExactWidth, "rewards not clipped": Unclipped})
def check_algorithm(kind):
    """Actions of the policy against the printed steps with plain inverses, same noise; rewards beyond the clip, features beyond the ball."""
    rng, T, R, d = np.random.default_rng(11), 30, 8, 3
    contexts, rewards = 0.5 * rng.uniform(-1, 1, (T, R, 4, d)), rng.normal(0, 3, (T, R))
    contexts[:, :, 0] *= 4  # one arm at most is shrunk: two of length 1 would tie in the first round
    for epsilon in (1.0, 100.0):
        policy = kind.practical(epsilon, 1e-6, d=d, horizon=T, alpha=2.0)
        mine, theirs = np.random.default_rng(12), np.random.default_rng(12)
        state, sums, prefix = policy.init(R, mine), policy.mechanism.init(R, 9, theirs), np.zeros((R, 9))
        for x, r in zip(contexts, rewards):
            x = x / np.maximum(1, np.linalg.norm(x, axis=-1, keepdims=True))
            expected = []
            for one, released in zip(x, prefix):
                values, Q = np.linalg.eigh(smat(released[:6], d) + policy.shift * np.eye(d))
                V = Q @ np.diag(np.maximum(values, policy.ridge)) @ Q.T
                theta = np.linalg.solve(V, released[6:] / policy.weight)
                expected.append(np.argmax([v @ theta + 2.0 * np.sqrt(v @ np.linalg.solve(V, v)) for v in one]))
            action = policy.act(state, x, None)[1]
            assert np.array_equal(action, expected)
            chosen = x[np.arange(R), action]
            state = policy.update(state, chosen, r, mine)
            leaf = np.concatenate([outer(chosen), policy.weight * np.clip(r, -1, 1)[:, None] * chosen], axis=1)
            sums, prefix = policy.mechanism.release(sums, leaf, theirs)


test_algorithm = check_algorithm


class ThirdOfNoise:
    @staticmethod
    def practical(*values, **fields):
        return twins.Quiet(PrivateLinUCB.practical(*values, **fields))


@claim(
    "private-linucb-privacy",
    subject=PrivateLinUCB,
    mutants={"bonus reads the exact matrix": ExactWidth, "rewards not clipped": Unclipped, "a third of the noise": ThirdOfNoise},
)
def check_privacy(kind):
    """Replays (no sampling error): 72 replacements near the worst case, seed 4; rewards 100 times the bound. The dearest costs at most epsilon = 1
    and more than 0.9, so the charge is not idle."""
    pair = linear(16, 72, 3, 2, np.random.default_rng(4), -1.0)
    wild = pair._replace(users=pair.users._replace(rewards=100 * pair.users.rewards), other=pair.other._replace(rewards=100 * pair.other.rewards))
    for mechanism in (SquareRoot, TreeMechanism):
        policy = kind.practical(1.0, 1e-6, d=2, horizon=16, alpha=3.0, mechanism=mechanism)
        assert 0.9 < realised_epsilon(replay(policy, wild), policy.ledger, 1e-6) <= 1.0 + 1e-7


test_privacy = check_privacy


# Noise -------------------------------------------------------------------------------------------------------------------------


@claim(
    "shifted-gaussian",
    subject=gaussian_bounds,
    mutants={
        "half the norm": lambda *a: gaussian_bounds(*a)._replace(low=gaussian_bounds(*a).low / 2),
        "a third of the vector": lambda *a: gaussian_bounds(*a)._replace(vector=gaussian_bounds(*a).vector / 3),
    },
)
def check_gaussian(bounds):
    """n = 400 runs of 64 prefixes for six cases, seed 5, zeta / 2 = 0.05: at most 20 runs leave the bounds in the mean, limit 42 (5 standard errors);
    the mutants leave them in more than 100."""
    for d in (1, 3, 8):
        for kind in (SquareRoot, TreeMechanism):
            m, noise, size = kind.calibrated(64, 1.0), np.random.default_rng(5), d * (d + 1) // 2
            low, high, vector = bounds(m, d, 0.05)
            state, left = m.init(400, size + d, noise), np.zeros(400, dtype=bool)
            for _ in range(64):
                state, prefix = m.release(state, np.zeros((400, size + d)), noise)
                values = np.linalg.eigvalsh(smat(prefix[:, :size], d))
                left |= (values[:, 0] < low) | (values[:, -1] > high) | (np.linalg.norm(prefix[:, size:], axis=1) > vector)
            assert left.sum() <= 42


test_gaussian = check_gaussian


@claim(
    "wishart-one-dimension",
    subject=certified_mu,
    mutants={"nine tenths": lambda n, tau: 0.9 * certified_mu(n, tau), "Gaussian noise of the same variance": lambda n, tau: (2 * n) ** -0.5},
)
def check_wishart(certificate):
    """The trade-off of chi-square(n) + 1 against chi-square(n) at 20,001 thresholds is above the certificate (power of the mutants: they are below it by
    far). Law of the sufficient statistic: 20,000 literal draws, seed 6, Kolmogorov-Smirnov p > 1e-6."""
    for n in (40, 200, 470):
        for tau in (1e-4, 1e-7):
            mu = certificate(n, tau)
            c = np.linspace(chi2.ppf(tau / 4, n), chi2.isf(tau / 4, n) + 1, 20_001)
            for false_alarm, miss in ((chi2.sf(c, n), chi2.cdf(c - 1, n)), (chi2.cdf(c - 1, n), chi2.sf(c, n))):
                a = np.clip(false_alarm / (1 - tau), 1e-300, 1.0)
                assert np.all((1 - tau) * ndtr(ndtri(1 - a) - mu) <= miss + 1e-13)
    rng, k, p = np.random.default_rng(6), 9, 4
    v = rng.normal(size=p)
    v /= np.linalg.norm(v)
    G = rng.normal(size=(20_000, k, p))
    W = np.einsum("nki,nkj->nij", G, G)
    for X, shift in ((W, 0.0), (W + np.outer(v, v), 1.0)):
        y = 1 / np.einsum("i,nij,j->n", v, np.linalg.inv(X), v)
        assert kstest(y - shift, chi2(k - p + 1).cdf).pvalue > 1e-6


test_wishart = check_wishart


# Published constants -------------------------------------------------------------------------------------------------------------


def with_less_noise(*values, **fields):
    policy = PrivateLinUCB.published(*values, **fields)
    return replace(policy, mechanism=replace(policy.mechanism, sigma=policy.mechanism.sigma / 2**0.5))


@claim("published-spends", subject=PrivateLinUCB.published, mutants={"not symmetrised": with_less_noise, "calibrated": PrivateLinUCB.calibrated})
def check_published(make):
    """The exact ledger, and the noise by hand: 4 sqrt(15) 2 ln(4e5) per node, 14 nodes, leaf at weight sqrt(2) on an off-diagonal coordinate."""
    policy = make(1.0, 1e-5, d=5, horizon=10_000)
    assert policy.ledger.epsilon(1e-5) == pytest.approx(0.0545, abs=5e-5)
    assert policy.mechanism.sigma == pytest.approx(2**0.5 * 8 * 15**0.5 * np.log(4e5))


test_published = check_published


@claim(
    "published-wishart",
    subject=WishartTree,
    mutants={
        "one level less": SimpleNamespace(published=lambda T, *a: WishartTree.published(T // 2, *a), calibrated=WishartTree.calibrated),
        "half the horizon certified": SimpleNamespace(published=WishartTree.published, calibrated=lambda T, *a: WishartTree.calibrated(T // 2, *a)),
    },
)
def check_degrees(trees):
    """One setting; the certified number is the least that the certificate accepts."""
    assert trees.published(1024, 1.0, 1e-5, 5).degrees == 530_614
    tree = trees.calibrated(1024, 1.0, 1e-5, 5)
    assert tree.degrees == 476 and tree.delta <= 1e-5


test_degrees = check_degrees
