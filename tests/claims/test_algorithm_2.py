"""Algorithm 2 and its leak: the constants of the printed proof, and the repair."""

import csv
import math
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

from privbandit.accounting import gaussian_epsilon, gaussian_mu
from privbandit.audit.attack import epsilon_lower_bound
from privbandit.audit.policies import shrunk
from privbandit.audit.replay import Neighbours, Users, replay
from privbandit.audit.timing import SHORT, repeats, spirals, watch
from privbandit.environments.glm import GLMEnvironment
from privbandit.formulas.algorithm2 import CALL_RHO, LAMBDA, NODE_SIGMA
from privbandit.formulas.glm import JOINT_LEAF, TAU
from privbandit.linalg import outer
from privbandit.links import Logistic, Probit, TruncatedPoisson
from privbandit.policies.algorithm2 import RepairedAlgorithm2
from privbandit.simulate import simulate

from .claim import claim

LINK = Logistic()
DATA = Path(__file__).parents[2] / "book/data/algorithm-2/regret.csv"


# The constants of the proof ------------------------------------------------------------------------------------------------------


def third(epsilon, delta):
    return epsilon**2 / (144 * sp.log(3 / delta))


@claim(
    "published-zcdp-third",
    subject=third,
    mutants={"a third of the denominator": lambda e, d: 3 * third(e, d), "wrong logarithm": lambda e, d: e**2 / (144 * sp.log(1 + d))},
)
def check_third(rho):
    """sympy: rho + 2 sqrt(rho log(3/delta)) = epsilon^2/(144 log) + epsilon/6, at most epsilon/3 exactly up to epsilon = 24 log(3/delta)."""
    epsilon, delta, log = sp.symbols("epsilon delta L", positive=True)
    r = rho(epsilon, delta).subs(sp.log(3 / delta), log)
    converted = sp.simplify(r + 2 * sp.sqrt(r * log))
    assert sp.simplify(converted - epsilon / 6 - epsilon**2 / (144 * log)) == 0
    assert sp.solve(sp.Eq(converted, epsilon / 3), epsilon) == [24 * log]
    for e in (1.0, 4.0, 8.0):
        for d in (0.02, 1e-5):
            spent, exact = float(rho(sp.Float(e), sp.Float(d))), gaussian_mu(e / 3, d / 3) ** 2 / 2
            assert 5 < exact / spent < 17


test_third = check_third


def needed(T, d, epsilon, delta, zeta, kappa_star):
    """lambda by the displayed bounds, in every reading of their roots: (4 sqrt d + 1) or (4 d + 1) times the noise."""
    levels = math.ceil(math.log2(T)) + 1
    entry = math.sqrt(levels) * NODE_SIGMA(T=T, delta=delta, kappa_star=kappa_star, epsilon=epsilon)
    short = math.sqrt(72) * math.log(32 / delta) * math.log(T) / (epsilon * kappa_star)
    tail = math.log(16 * T / zeta)
    norms = [4 * math.sqrt(d) + 2 * math.sqrt(tail), 4 * math.sqrt(d) + 2 * tail, 4 * d + 2 * math.sqrt(tail), 4 * d + 2 * tail]
    return [scale * noise * norm for scale in (4 * math.sqrt(d) + 1, 4 * d + 1) for noise in (entry, short) for norm in norms]


@claim("published-lambda-constant", subject=LAMBDA, mutants={"ten times": replace(LAMBDA, expression=10 * LAMBDA.expression)})
def check_lambda(printed):
    """Sixteen readings at three settings: what the displayed bound needs over what is printed is between 2 and 75."""
    ratios = []
    for d, T, star in ((3.0, 5000.0, math.sqrt(2 * math.pi)), (5.0, 15_000.0, 4.0), (10.0, 1e6, 4.0)):
        common = {"d": d, "T": T, "epsilon": 4.0, "delta": 0.02, "zeta": 0.02, "kappa_star": star}
        ratios.append(np.array(needed(**common)) / printed(**common))
    assert np.min(ratios) > 2 and np.max(ratios) < 75


test_lambda = check_lambda


@claim("published-v-scale", subject=NODE_SIGMA, mutants={"sensitivity of V": replace(NODE_SIGMA, expression=sp.sqrt(2) * NODE_SIGMA.expression.subs(sp.Symbol("kappa_star", positive=True), 1))})
def check_v_scale(printed):
    """Exact Gaussian costs for T = 5000: both symmetrisations, both shares of the optimiser."""
    levels = (5000).bit_length()

    def cost(star, epsilon, delta, root=1.0):
        sigma = printed(**{k: v for k, v in {"T": 5000.0, "delta": delta, "kappa_star": star, "epsilon": epsilon}.items() if k in {s.name for s in printed.symbols}})
        return math.sqrt(2 * levels) / (root * sigma)

    for epsilon in (1.0, 4.0, 8.0):
        for delta in (0.02, 1e-5):
            for star in (math.sqrt(2 * math.pi), 4.0):
                optimiser = 2 * CALL_RHO(epsilon=epsilon, delta=delta, count=1.0)
                assert gaussian_epsilon(math.sqrt(cost(star, epsilon, delta) ** 2 + optimiser), delta) < epsilon
    node = ((1 / printed(T=5000.0, delta=0.02, kappa_star=4.0, epsilon=1.0) ** 2) if len(printed.symbols) == 4 else 0.0)
    assert node > 1 / (144 * 14 * math.log(3 / 0.02))  # one node's rho, replacement, against its share
    assert gaussian_epsilon(cost(56.6, 1.0, 0.02), 0.02) > 2.6 and gaussian_epsilon(cost(56.6, 1.0, 0.02, math.sqrt(2)), 0.02) > 1.6


test_v_scale = check_v_scale


@claim("published-h-slack", subject=NODE_SIGMA, mutants={"a third": replace(NODE_SIGMA, expression=NODE_SIGMA.expression / 3)})
def check_h_slack(printed):
    """Variance over the least variance for (epsilon/3, delta/3), sensitivity sqrt(2)/kappa*, 13 nodes of 5000 rounds."""
    ratios = []
    for epsilon in (1.0, 4.0, 8.0):
        for delta in (0.02, 1e-5):
            least = math.sqrt(2 * (5000).bit_length()) / 4 / gaussian_mu(epsilon / 3, delta / 3)
            ratios.append((printed(T=5000.0, delta=delta, kappa_star=4.0, epsilon=epsilon) / least) ** 2)
    assert 36 < min(ratios) and max(ratios) < 99


test_h_slack = check_h_slack


class Unclipped(Probit):
    """A link whose stated bound on the slope is a third of the truth."""

    def L_mu(self, S):
        return super().L_mu(S) / 3


@claim("event-free-weight", subject=(Logistic(), Probit(), TruncatedPoisson(5)), mutants={"bound too small": (Unclipped(),)})
def check_weight(links):
    """4,001 points on |z| <= 3: mu'(z)/e never exceeds L_mu/e, whatever the estimate and whatever happened."""
    z = np.linspace(-3, 3, 4001)
    for link in links:
        assert np.all(link.dmu(z) / math.e <= link.L_mu(3.0) / math.e * (1 + 1e-9))


test_weight = check_weight


# The repair ----------------------------------------------------------------------------------------------------------------------


class OperatorNorm(RepairedAlgorithm2):
    @cached_property
    def sums(self):
        return self.mechanism.calibrated(self.horizon, math.sqrt(self.share) * self.mu, 1.0)


class Triangle(RepairedAlgorithm2):
    @cached_property
    def sums(self):
        return self.mechanism.calibrated(self.horizon, math.sqrt(self.share) * self.mu, 2.0)


@claim("block-leaf", subject=RepairedAlgorithm2, mutants={"operator norm": OperatorNorm, "triangle inequality": Triangle})
def check_block(kind):
    """All pairs of leaves from 3 lengths, 32 directions, both streams, weights 0, 1/2, 1: the largest distance is the charged one."""
    angle = np.arange(32) * np.pi / 16
    x = np.concatenate([r * np.stack([np.cos(angle), np.sin(angle)], -1) for r in (0.0, 0.5, 1.0)])
    M = outer(x)
    leaves = np.concatenate([np.concatenate([M, 0 * M], 1), *(np.concatenate([0 * M, w * M], 1) for w in (0.5, 1.0))])
    distance = np.linalg.norm(leaves[:, None] - leaves[None], axis=-1)
    assert distance.max() == pytest.approx(kind(LINK, 2, 2.0, 16, 1.0, 1e-6).sums.Delta)


test_block = check_block


@claim("cross-move", subject=JOINT_LEAF, mutants={"half": replace(JOINT_LEAF, expression=JOINT_LEAF.expression / 2)})
def check_cross(diameter):
    """One call each of two streams holds the user: twice the squared norm of a leaf, at most the squared diameter; a grid of ratios."""
    tau = np.geomspace(0.01, 2.0, 200)
    assert np.all(2 * (1 + tau) <= diameter(a=1.0, b=tau))
    L = sp.Symbol("L", positive=True)
    assert L**2 + L**2 == (2 * L) ** 2 / 2  # gradients: a quarter and a quarter
    assert 2 * (1 + TAU) <= float(diameter(a=1.0, b=TAU))


test_cross = check_cross


def policy(kind=RepairedAlgorithm2, **changes):
    """Both streams at work and refreshes due within a few rounds."""
    return kind(LINK, 2, 2.0, 24, **{"epsilon": 20.0, "delta": 1e-4, "growth": 1.15, "caps": (3, 4), "gamma": 0.4, "reach": 0.55, "ridge": 0.3, **changes})


def pairs(T, R, seed=0):
    """One user in each of R inputs replaced: arms of length .4 (rarely explored) or 1 (explored), two arms a round.

    Arms of one length tie where a floored matrix is a multiple of I: rounding, which the noise does not hide, must not decide.
    """
    rng = np.random.default_rng(seed)

    def arms(*shape):
        x = rng.standard_normal((*shape, 2, 2))
        return x / np.linalg.norm(x, axis=-1, keepdims=True) * rng.choice([0.4, 1.0], size=(*shape, 1, 1))

    users, at = Users(arms(T, R), rng.integers(0, 2, (T, R, 2)).astype(float)), rng.integers(0, T, R)
    return Neighbours(users, users.replace(at, arms(R), rng.integers(0, 2, (R, 2)).astype(float)), at)


class RefitsOnExploration(RepairedAlgorithm2):
    """The fault of the printed rule put back: a round that explores refits the estimate at once."""

    def update(self, state, x, reward, noise):
        first = state.exploring
        state = super().update(state, x, reward, noise)
        now = np.flatnonzero(first)
        if not now.size:
            return state
        stream, theta = state.explore, state.explore.theta.copy()
        theta[now] = self.fit.fit(stream.history.x[now], stream.history.r[now], theta[now], noise, ridge=self.fit_ridge)
        return state._replace(explore=stream._replace(theta=theta))


class Uncapped(RepairedAlgorithm2):
    """Refreshes for ever, charged for its caps."""

    def refreshed(self, which, stream, noise):
        return super().refreshed(which, stream._replace(refreshes=0 * stream.refreshes), noise)


class ReadsContexts(RepairedAlgorithm2):
    """The fine estimate is refreshed only after rounds that did not explore: criterion II after criterion I."""

    def observed(self, which, stream, rows, *given):
        new = super().observed(which, stream, rows, *given)
        return new if which == 0 else new._replace(matrix=np.where(rows[:, None, None], new.matrix, new.reference))


@claim(
    "algorithm2-privacy",
    subject=RepairedAlgorithm2,
    mutants={"refits on exploration": RefitsOnExploration, "no caps": Uncapped, "criterion II second": ReadsContexts, "operator norm": OperatorNorm},
)
def check_privacy(kind):
    """120 neighbours one by one, 24 rounds: no other action and no release time changes, and the realised mu never exceeds the ledger's;
    then users whose contexts shrink, and the worst case of the matrices (orthogonal features) alone."""
    p, worst = policy(kind), 0.0
    for r, pair in enumerate(pairs(24, 120).apart()):
        worst = max(worst, replay(p, pair, seed=r).mu.max())
    assert 0.3 * p.ledger.mu < worst <= p.ledger.mu * (1 + 1e-9)
    eager = kind(LINK, 2, 2.0, 8, 1.0, 1e-6, caps=(1, 1), growth=1.05, reach=1e-3)
    for seed in range(2):
        for pair in shrunk(8, 2)(np.random.default_rng(seed)).apart():
            assert replay(eager, pair, seed).mu.max() <= eager.ledger.mu * (1 + 1e-9)
    matrices = kind(LINK, 2, 2.0, 4, 1.0, 1e-6, growth=1e9, reach=1e-9)
    users = Users(np.ones((4, 1, 1, 1)) * np.eye(2)[0], np.zeros((4, 1, 1)))
    other = users.replace(np.zeros(1, dtype=int), np.eye(2)[[1]][None], np.zeros((1, 1)))
    cost = replay(matrices, Neighbours(users, other, np.zeros(1, dtype=int))).mu.max()
    assert cost == pytest.approx(math.sqrt(matrices.share) * matrices.mu, rel=1e-6)


test_privacy = check_privacy


def repaired_hits(kind, own, seed, R=1000, T=240):
    """The attack's event after T - 5 public rounds with e_1 and e_2 in turn; the accomplices and the attacked user meet `kind`."""
    policies = [k(LINK, 2, 2.0, T, 4.0, 1e-3, gamma=0.9, reach=0.3) for k in (RepairedAlgorithm2, kind)]
    p, rng = policies[0], np.random.default_rng(seed)
    state = p.init(R, rng)
    for t in range(T - 5):
        arms = np.broadcast_to(np.eye(2)[[t % 2]], (R, 1, 2))
        state, _ = p.act(state, arms, rng)
        state = p.update(state, arms[:, 0], (rng.random(R) < LINK.mu(2.0 * (t % 2))).astype(float), rng)
    return int(repeats(watch(policies[1], state, own, spirals(), rng)).sum())


@claim("repaired-attack", subject=RepairedAlgorithm2, mutants={"refits on exploration": RefitsOnExploration})
def check_repaired(kind):
    """n = 1,000 a data set, seeds 3 and 4, exact limits at confidence .999. Seen: .97 and .97, standard error of the difference .008: at most
    .05 apart; the mutant's rates are .8 apart. And no limit contradicts (4, 1e-3), in either direction."""
    stays, moves = repaired_hits(kind, SHORT, 3), repaired_hits(kind, 1.0, 4)
    assert abs(stays - moves) <= 50 and min(stays, moves) > 900
    for one, other in ((stays, moves), (moves, stays), (1000 - stays, 1000 - moves), (1000 - moves, 1000 - stays)):
        assert epsilon_lower_bound(one, other, 1000, 1e-3, 0.999) <= 4.0


test_repaired = check_repaired


@claim(
    "algorithm2-regret",
    subject=RepairedAlgorithm2,
    mutants={"never refreshes": partial(RepairedAlgorithm2, growth=1e12), "bonus 30": partial(RepairedAlgorithm2, beta=30.0)},
)
def check_regret(kind):
    """Stored: 10 runs each, seed 1. Replayed: epsilon = 8, 6 runs of 5000 rounds, seed 5: below 150 (30 runs gave a mean of 44 and a worst of
    110), half of the least stored mean of the published preset; the mutants are above 400."""
    rows = list(csv.DictReader(DATA.open()))
    mean = {(row["policy"], row["epsilon"]): float(row["mean"]) for row in rows}
    for epsilon in ("4", "8"):
        published = mean["as published, same instance", epsilon]
        assert mean["repaired, same instance", epsilon] < published / 2 and mean["repaired, fresh instances", epsilon] < published / 2
    environment = GLMEnvironment(Probit(), d=3, K=20, S=2.0)
    final = simulate(kind(Probit(), 3, 2.0, 5000, 8.0, 0.02), environment, horizon=5000, replications=6, seed=5, progress=False).final
    assert final.mean() <= 150


test_regret = check_regret
