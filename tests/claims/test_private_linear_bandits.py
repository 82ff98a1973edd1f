"""Checks of the claims in the chapter *Private linear bandits*."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sympy as sp
from scipy.special import ndtr, ndtri
from scipy.stats import binom, chi2, kstest

from privbandit.audit import twins
from privbandit.audit.replay import realised_epsilon, replay
from privbandit.audit.users import armed, linear
from privbandit.environments.bernoulli import BernoulliBandit
from privbandit.environments.linear import LinearBandit
from privbandit.formulas.linear import ELIMINATION_REGRET, LARGEST_WIDTH, LINEAR_REGRET, POTENTIAL, RADIUS, UCB_REGRET
from privbandit.ledger import Laplace
from privbandit.linalg import outer, smat, svec
from privbandit.mechanisms import SquareRoot, TreeMechanism
from privbandit.mechanisms.wishart import WishartTree, certified_mu
from privbandit.policies.linucb import LinUCB
from privbandit.policies.private_elimination import PrivateElimination
from privbandit.policies.private_linucb import PrivateLinUCB
from privbandit.policies.private_ucb import PrivateUCB
from privbandit.policies.ucb import UCB
from privbandit.sensitivity import ARMS, JOINT
from privbandit.simulate import simulate
from privbandit.spectra import gaussian_bounds

from .claim import claim

STUDY = Path(__file__).parents[2] / "book" / "data" / "linear"
WEIGHTS = (0.01, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 4.0, 9.0)


def times(formula, factor):
    return replace(formula, expression=factor * formula.expression)


# K arms ------------------------------------------------------------------------------------------------------------------------


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


class NoiseIgnored(PrivateUCB):
    def _error(self, step):
        return 0.0, 0.0


class ErrorQuartered(PrivateUCB):
    def _error(self, step):
        return tuple(e / 8 for e in super()._error(step))


@claim(
    "private-ucb",
    subject=(PrivateUCB, UCB_REGRET),
    mutants={
        "index ignores the noise": (NoiseIgnored, UCB_REGRET),
        "index allows an eighth of it": (ErrorQuartered, UCB_REGRET),
        "an eighth of the bound": (PrivateUCB, times(UCB_REGRET, sp.Rational(1, 8))),
    },
)
def check_ucb(case):
    """Optimism: n = 400 runs of 200 rounds, seed 1, epsilon = 0.5; rounds from 20 on. The theorem allows sum 2 t^-3 + 6 t^-4 < .0035, 1.4 runs;
    limit 10, exceeded with probability below 1e-5. The mutants fail in more than 50 runs. Regret: 50 runs without noise, 5 standard errors below the bound."""
    kind, formula = case
    rng, noise = map(np.random.default_rng, (1, 2))
    R, T, mean = 400, 200, 0.6
    policy, arms = kind.calibrated(0.5, 1e-6, K=2, horizon=T), BernoulliBandit((mean, 0.3))
    state, failed = policy.init(R, noise), np.zeros(R, dtype=bool)
    for t in range(T):
        contexts = arms.contexts(R, t, rng)[1]
        if t >= 20:
            failed |= policy.index(state)[:, 0] < mean
        action = policy.act(state, contexts, rng)[1]
        reward = arms.step(R, contexts, action, rng).reward
        state = policy.update(state, contexts[np.arange(R), action], reward, noise)
    assert failed.sum() <= 10
    L, E, gap = rng.uniform(0.1, 10, 2000), rng.exponential(30, 2000), rng.uniform(0.01, 1, 2000)
    largest = ((np.sqrt(8 * L) + np.sqrt(8 * L + 12 * gap * E)) / (2 * gap)) ** 2  # gap M = sqrt(8 L M) + 3 E
    assert np.all(largest <= (8 * L / gap**2 + 6 * E / gap) * (1 + 1e-12))
    final = simulate(UCB(2), BernoulliBandit((0.8, 0.4)), horizon=2000, replications=50, seed=3).final
    assert final.mean() + 5 * final.std() / 50**0.5 < formula(T=2000.0, gap=0.4, error=0.0)


test_ucb = check_ucb


class NoiseNotPlanned(PrivateElimination):
    def _sum_error(self, epoch, size):
        return np.zeros(len(epoch))


class HalfNoise(PrivateElimination):
    def _release(self, sums, noise):
        return Laplace(1.0, self.scale / 2).release(sums, noise)


@claim(
    "private-elimination",
    subject=(PrivateElimination, ELIMINATION_REGRET),
    mutants={
        "epochs planned without the noise": (NoiseNotPlanned, ELIMINATION_REGRET),
        "half the noise": (HalfNoise, ELIMINATION_REGRET),
        "an eighth of the bound": (PrivateElimination, times(ELIMINATION_REGRET, sp.Rational(1, 8))),
    },
)
def check_elimination(case):
    """Exact: lengths, their sums against the bound, cost of six replacements. Statistical: n = 200 runs, seed 4, zeta = 0.05: at most 10 runs
    may lose the best arm in the mean, limit 25 (5 standard errors); seen: none."""
    kind, formula = case
    zeta = 0.05
    for epsilon in (0.05, 0.5, 4.0):
        for K in (2, 5):
            policy, e = kind.calibrated(epsilon, K=K, zeta=zeta), np.arange(1.0, 11.0)
            N = policy._length(e, np.ones((10, K), dtype=bool))

            def error(N):
                return np.sqrt(np.log(8 * K * e**2 / zeta) / (2 * N)) + np.log(4 * K * e**2 / zeta) / (epsilon * N)

            assert np.all(error(N) <= 2.0**-e / 4 * (1 + 1e-12)) and np.all(error(N - 1) > 2.0**-e / 4)
            for gap in (0.9, 0.5, 0.1, 0.01):
                last = 1 + int(np.floor(np.log2(1 / gap)))
                spent = gap * N[:last].sum()
                assert spent <= formula(K=float(K), t=float(last), zeta=zeta, gap=gap, scale=1 / epsilon)
    policy = kind.calibrated(4.0, K=2, zeta=0.9)
    for one in armed(300, 6, 2, np.random.default_rng(0)).apart():
        assert realised_epsilon(replay(policy, one), policy.ledger, 1e-6) <= 4.0 * (1 + 1e-7)
    run = simulate(kind.calibrated(4.0, K=3, zeta=zeta), BernoulliBandit((0.9, 0.3, 0.3)), horizon=2000, replications=200, seed=4, rounds=[1500, 2000])
    assert np.sum(run.regret[:, 1] > run.regret[:, 0]) <= 25  # regret at the end: the best arm is gone, or another one is still there


test_elimination = check_elimination


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


# Width and regret --------------------------------------------------------------------------------------------------------------


class NoVectorTerm(PrivateLinUCB):
    def width(self, state):
        return super().width(state) - self.bounds.vector / (self.weight * self.ridge**0.5)


class SmallestRegulariser(PrivateLinUCB):
    def width(self, state):
        return super().width(state) - self.S * ((self.added + self.bounds.high) ** 0.5 - self.ridge**0.5)


@claim(
    "private-width",
    subject=(PrivateLinUCB, RADIUS),
    mutants={"no term for the vector": (NoVectorTerm, RADIUS), "lambda_min for lambda_max": (SmallestRegulariser, RADIUS)},
)
def check_width(case):
    """Deterministic: rewards without noise, mechanism noise at the edge of the good event (and 200 random ones inside it), put into the policy's own
    estimate. The largest of |<x, error>| / |x| over x is compared with the width."""
    kind, rng = case[0], np.random.default_rng(7)
    for d in (1, 2, 4):
        policy = kind.calibrated(1.0, 1e-3, d=d, horizon=32, S=0.9, sigma_r=1e-9)
        b = policy.bounds
        edges = [(b.low, 1.0), (b.high, 1.0), (b.high, 0.0), (b.low, 0.0)] + [(None, u) for u in rng.random(200)]
        for n in (0, 31):
            for value, size in edges:
                Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
                H = Q @ np.diag(rng.uniform(b.low, b.high, d) if value is None else np.full(d, value)) @ Q.T
                theta = rng.standard_normal(d)
                theta *= policy.S / np.linalg.norm(theta)
                h = -size * b.vector * theta / policy.S
                x = rng.standard_normal((n, d))
                x /= np.linalg.norm(x, axis=1, keepdims=True)
                prefix = np.concatenate([svec(x.T @ x + H), policy.weight * (x.T @ x @ theta) + h])
                state = policy._estimate(None, prefix[None])
                error = state.theta[0] - theta
                worst = np.sqrt(error @ np.linalg.inv(state.inverse[0, 0]) @ error)
                assert worst <= policy.width(state)[0] * (1 + 1e-9)


test_width = check_width


@claim(
    "potential-any-ridge",
    subject=POTENTIAL,
    mutants={
        "constant 1": times(POTENTIAL, sp.Symbol("lambda_min", positive=True) * sp.log(1 + 1 / sp.Symbol("lambda_min", positive=True))),
        "half": times(POTENTIAL, sp.Rational(1, 2)),
    },
)
def check_potential(bound):
    """Greedy sequences (always the least explored direction) and random ones; equality at d = T = 1."""
    rng = np.random.default_rng(8)
    for d in (1, 2, 5):
        for ridge in (0.05, 0.5, 1.0, 10.0, 300.0):
            for greedy in (True, False):
                V, total = ridge * np.eye(d), 0.0
                for t in range(1, 201):
                    x = np.linalg.eigh(V)[1][:, 0] if greedy else rng.standard_normal(d)
                    x = x / np.linalg.norm(x)
                    total, V = total + x @ np.linalg.solve(V, x), V + np.outer(x, x)
                    assert total <= float(bound(d=float(d), T=float(t), lambda_min=ridge)) * (1 + 1e-9)
                    if d == t == 1:
                        assert total == pytest.approx(float(bound(d=1.0, T=1.0, lambda_min=ridge)))


test_potential = check_potential


@claim(
    "private-linucb-regret",
    subject=(LINEAR_REGRET, LARGEST_WIDTH),
    mutants={"factor 1 for 2": (times(LINEAR_REGRET, sp.Rational(1, 2)), LARGEST_WIDTH), "half the width": (LINEAR_REGRET, times(LARGEST_WIDTH, sp.Rational(1, 2)))},
)
def check_regret(formulas):
    """Runs of 150 rounds, seed 9, one arm a round in turn along the axes (the widest case): the sum of twice the policy's own width times the arm's norm,
    which bounds the regret, stays below the formula, and above 60% of it without noise."""
    regret, width = formulas
    for d in (1, 3):
        for epsilon in (1.0, 8.0, np.inf):
            T, R, noise = 150, 5, np.random.default_rng(9)
            p = PrivateLinUCB.calibrated(epsilon, 1e-5, d=d, horizon=T, S=0.5, sigma_r=0.5)
            state, total = p.init(R, noise), np.zeros(R)
            for t in range(T):
                x = np.tile(np.eye(d)[t % d], (R, 1))
                total += 2 * p.width(state) * p.norm(state, x[:, None])[:, 0]
                state = p.update(state, x, np.zeros(R), noise)
            b = p.bounds
            largest = width(
                sigma_r=p.sigma_r, zeta=p.zeta / 2, d=float(d), T=float(T), lambda_min=p.ridge, lambda_max=p.added + b.high, S=p.S,
                kappa=b.vector / (p.weight * p.ridge**0.5),
            )  # fmt: skip
            proved = float(regret(beta=largest, T=float(T), d=float(d), lambda_min=p.ridge))
            assert np.all(total <= proved)
            if np.isinf(epsilon):
                assert np.all(total > 0.6 * proved)


test_regret = check_regret


def from_below(epsilon):
    return 1 / epsilon


@claim("private-lower-bound", subject=from_below, mutants={"twice as much": lambda e: 2 / e, "nothing": lambda e: 1 / e**2 + 3})
def check_lower(bound):
    """The exact sum over one coordinate, a sum_{m<n} (1 - E tanh(epsilon H_m / 2)), n = floor(2 / (epsilon a)), on a grid; and the step from group privacy
    to tanh: the largest p - q on a grid of probabilities that respect the ratio in both directions."""
    for epsilon in (0.02, 0.05, 0.1, 0.3, 0.6, 1.0):
        for a in (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 0.95, 1.0, min(1.0, 1 / epsilon)):
            n = int(np.floor(2 / (epsilon * a) + 1e-12))
            m = np.arange(n)
            H = np.arange(n + 1)
            mean = binom.pmf(H[None], m[:, None], a) @ np.tanh(epsilon * H / 2)
            assert a * np.sum(1 - mean) >= bound(epsilon) * (1 - 1e-9)
    q, p = np.meshgrid(np.linspace(0, 1, 401), np.linspace(0, 1, 401))
    for h in (0.1, 1.0, 3.0):
        allowed = (p <= np.exp(h) * q) & (1 - q <= np.exp(h) * (1 - p))
        assert 0 <= np.tanh(h / 2) - np.max((p - q)[allowed]) < 0.01


test_lower = check_lower


# Published constants and the study ------------------------------------------------------------------------------------------------


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


def stored():
    return pd.read_csv(STUDY / "linear.csv"), pd.read_csv(STUDY / "linear-curves.csv")


def swapped():
    table, curves = stored()
    names = {"private LinUCB, tree": "private LinUCB, square root", "private LinUCB, square root": "private LinUCB, tree"}
    return table.replace({"policy": names}), curves


def moved():
    table, curves = stored()
    return table, curves.assign(mean=curves["mean"] * 1.01)


@claim("linear-experiment", subject=stored, mutants={"tree and square root exchanged": swapped, "curves off by one percent": moved})
def check_study(read):
    """50 replications, seed 1. Orders hold with disjoint 95% intervals; LinUCB is played again for 250 rounds and must agree to rounding."""
    table, curves = read()
    rows = table.dropna(subset=["epsilon"]).set_index(["policy", "epsilon"])
    for epsilon in (1.0, 4.0, 10.0):
        small, root, tree, old = (rows.loc[(f"private LinUCB, {n}", epsilon)] for n in ("small width", "square root", "tree", "published constants"))
        assert small["mean"] < 0.6 * root["mean"]
        assert small["ci_high"] < root["ci_low"] and root["ci_high"] < tree["ci_low"] and tree["ci_high"] < old["ci_low"]
    curve = curves[curves["policy"] == "LinUCB"].set_index("round")["mean"]
    at, world = [int(t) for t in curve.index if t <= 250], LinearBandit(K=10, d=5)
    policy = LinUCB(d=5, S=world.S, sigma_r=world.sigma_r, Y=world.reward_bound)
    again = simulate(policy, world, horizon=at[-1], replications=50, seed=1, rounds=at)
    np.testing.assert_allclose(again.interval().mean, curve[at], rtol=1e-6)


test_study = check_study
