"""Records of every length a float can have: none moves a release by more than its ledger says, however its squares round."""

import math

import numpy as np
import pytest

from privbandit.audit import users
from privbandit.audit.policies import POLICIES
from privbandit.audit.replay import Neighbours, Users, realised_epsilon, replay
from privbandit.linalg import outer, polar
from privbandit.links import Linear, Logistic
from privbandit.mechanisms.optimisers import NoisyGradientDescent
from privbandit.policies.best_of_both import BestOfBoth, Pair
from privbandit.policies.linear_self_weighted import LinearSelfWeighted, UnitWeights
from privbandit.policies.self_weighted import SelfWeighted, WeightedLeastSquares, times
from privbandit.policies.two_block import Scale

DELTA = 1e-6
TINY = np.concatenate([[5e-324, 1e-320, 1e-310, 1.0], np.geomspace(1e-163, 1e-157, 400)])
HUGE = np.array([1e155, 1e160, 1e200, 1e300, 1.0])
ONE_HOT = ("private-ucb", "private-elimination")  # their contexts are one-hot


def audited(*without: str):
    left_out = {*ONE_HOT, "algorithm2-refresh", *without}
    found = [a for a in POLICIES if a.method == "replay" and a.name.removesuffix("-replay") not in left_out]
    return pytest.mark.parametrize("audit", found, ids=lambda a: a.name)


def stretched(d: int, lengths: np.ndarray, R: int) -> Neighbours:
    """The worst pairs of the audits, with contexts of lengths drawn from `lengths`, for either record by itself."""
    rng, every = np.random.default_rng(0), np.arange(R)
    pair = users.linear(16, R, 3, d, rng, -1.0, 1.0)
    for side in (pair.users, pair.other):
        side.contexts[pair.at, every] *= rng.choice(lengths, R)[:, None, None]
    return pair


def spent(policy, audit, lengths) -> float:
    """Largest realised epsilon over the claimed one."""
    apart = audit.name.startswith("algorithm2")
    pair = stretched(1 if audit.name.startswith("gp") else 2, lengths, 24 if apart else 240)
    with np.errstate(all="ignore"):
        runs = [replay(policy, run) for run in (pair.apart() if apart else [pair])]
    return max(realised_epsilon(run, policy.ledger, DELTA) for run in runs) / policy.ledger.epsilon(DELTA)


@audited()
def test_tiny_records_cost_at_most_the_ledger(audit):
    assert spent(audit.subject(), audit, TINY) <= 1 + 1e-7


@audited()
def test_huge_records_cost_at_most_the_ledger(audit):
    assert spent(audit.subject(), audit, HUGE) <= 1 + 1e-7


class Underflowing:
    """Normalises by a length whose squares are rounded to multiples of 5e-324."""

    def leaf(self, epoch, z_o, x, reward):
        leaf = super().leaf(epoch, z_o, x, reward)
        white = times(epoch.whitening, x)
        length = np.linalg.norm(white, axis=1)
        stretch = np.linalg.norm(white / np.where(length > 0, length, 1.0)[:, None], axis=1) / np.linalg.norm(polar(white)[0], axis=1)
        m = outer(x).shape[1]
        leaf[:, :m] *= stretch[:, None] ** 2
        leaf[:, m : m + x.shape[1]] *= stretch[:, None]
        return leaf


class UnderflowingBlock(Underflowing, WeightedLeastSquares):
    pass


class UnderflowingUnits(Underflowing, UnitWeights):
    pass


class UnderflowingSelfWeighted(SelfWeighted):
    @property
    def block(self):
        return UnderflowingBlock(self.link, self.problem, self.constants)


class UnderflowingBestOfBoth(BestOfBoth):
    @property
    def block(self):
        weighted = super().block.weighted
        return Pair(super().block.plain, UnderflowingBlock(weighted.link, weighted.problem, weighted.constants))


class UnderflowingLinear(LinearSelfWeighted):
    @property
    def block(self):
        return UnderflowingUnits(Linear(), self.problem, self.constants)


GLM = {"link": Logistic(), "S": 1.0, "scale": Scale(Delta=1e9)}
WHITENED = [
    (SelfWeighted, UnderflowingSelfWeighted, GLM),
    (BestOfBoth, UnderflowingBestOfBoth, GLM),
    (LinearSelfWeighted, UnderflowingLinear, {"S": 1.0}),
]


def at_the_edge(policy, d: int) -> Neighbours:
    """User 0 with the same nearly equal entries, of whose whitened squares the first rounds to 5e-324, others to 0; opposite rewards."""
    block = getattr(policy.block, "weighted", policy.block)
    direction = np.full(d, 0.9999)
    direction[0] = 1.01
    x = np.geomspace(1.555e-162, 1.573e-162, 12)[:, None] * direction * math.sqrt(block.constants.ridge)
    R, at = len(x), np.zeros(len(x), dtype=int)
    same = Users(np.broadcast_to(np.eye(d)[0], (4, R, 1, d)).copy(), np.zeros((4, R, 1)))
    return Neighbours(*(same.replace(at, x[:, None], np.full((R, 1), r)) for r in (2.0, -2.0)), at)


@pytest.mark.parametrize("d", [2, 10, 30])
@pytest.mark.parametrize(("cls", "twin", "fields"), WHITENED, ids=lambda v: getattr(v, "__name__", ""))
def test_a_user_whose_squares_underflow(cls, twin, fields, d):
    """The replay of normalisation in two steps is within the ledger; by a plain norm it costs up to sqrt(d/2) times as much."""
    common = {**fields, "d": d, "horizon": 4, "epsilon": 1.0, "delta": 1e-5}
    policy, wrong = cls(**common), twin(**common)
    assert replay(policy, at_the_edge(policy, d)).mu.max() <= policy.ledger.mu * (1 + 1e-9)
    excess = replay(wrong, at_the_edge(wrong, d)).mu.max() / replay(policy, at_the_edge(policy, d)).mu.max()
    assert excess > 0.99 * math.sqrt(d / 2)
    if d == 30:
        assert replay(wrong, at_the_edge(wrong, d)).mu.max() > policy.ledger.mu


@pytest.mark.parametrize("d", [1, 2, 50])
def test_no_gradient_is_longer_than_its_clip(d):
    """Linear rewards have no bound, so only the clip limits a gradient: at lengths from 5e-324 to 1e300, residuals up to 1e300."""
    descent, noise = NoisyGradientDescent(Linear(), steps=1, sigma=0.0, L=0.5), np.random.default_rng(0)
    direction = np.full(d, 0.9999)
    direction[0] = 1.01
    for length in [*TINY, *HUGE[:-1]]:
        for r in (1.0, 1e100, 1e165, 1e300):
            with np.errstate(over="ignore"):
                g = descent.gradient(np.zeros((1, d)), length * direction[None, None], np.array([[r]]), noise)
            assert polar(g)[1][0] <= 0.5 * (1 + 1e-12)
