"""Algorithm 1: what a replaced user costs, with two sums, with one sum, and when batches double."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from privbandit.audit.recorder import Leak
from privbandit.audit.replay import replay
from privbandit.audit.users import linear
from privbandit.formulas.batched_regret import DOUBLING_COST
from privbandit.linalg import outer
from privbandit.links import Logistic, Probit
from privbandit.mechanisms.shuffle.sums import symmetric_range
from privbandit.policies.doubling import Doubling
from privbandit.policies.shuffle_glm import ShuffleGLM
from privbandit.policies.shuffle_one_sum import ShuffleOneSum

from .altered import formula, symbol
from .claim import claim
from .small_problem import SMALL

# Privacy -----------------------------------------------------------------------------------------------------------------------


def realised(policy, pair):
    try:
        return replay(policy, pair).mu.max()
    except Leak:
        return math.inf


class QuarterOfTheLedger(ShuffleGLM):
    @property
    def ledger(self):
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return ShuffleGLM(**fields | {"epsilon": self.epsilon / 4}).ledger


class PeeksAtBatch(ShuffleGLM):
    """Drops the arms that the running batch's raw rewards speak against."""

    def probabilities(self, state, contexts):
        p = super().probabilities(state, contexts)
        records = state.gathered
        if records.n == 0 or state.batch == len(self.ends) - 1:
            return p
        score = (contexts @ ((records.r - 0.5)[..., None] * records.x).sum(axis=1)[:, :, None])[..., 0]
        return (score == score.max(axis=1, keepdims=True)).astype(float)


@claim(
    "algorithm-1-privacy",
    subject=ShuffleGLM,
    mutants={"a quarter of the ledger": QuarterOfTheLedger, "reads the running batch": PeeksAtBatch},
)
def check_privacy(kind):
    """12 changed users; budgets of the corrected and the printed form."""
    fields = SMALL | {"horizon": 40, "first_batch": 10, "delta": 1e-3, "rounds": 6, "width": 1e-3}
    policy = kind(**fields, epsilon=2.0)
    mu = realised(policy, linear(40, 12, 3, 2, np.random.default_rng(7)))
    assert 0.3 * policy.ledger.mu < mu <= policy.ledger.mu * (1 + 1e-9)
    for epsilon in (0.5, 2.0, 4.0):
        for form in ("corrected", "printed"):
            assert kind(**fields, epsilon=epsilon, form=form).ledger.epsilon(1e-3) <= epsilon * (1 + 1e-9)


test_privacy = check_privacy


class HalfTheBits(ShuffleOneSum):
    def _sum(self, users):
        exact = super()._sum(users)
        return dataclasses.replace(exact, bits=max(1, exact.bits // 2))


class HalfTheLedger(ShuffleOneSum):
    @property
    def ledger(self):
        return ShuffleOneSum(**{f.name: getattr(self, f.name) for f in dataclasses.fields(self)} | {"epsilon": self.epsilon / 2}).ledger


@claim("one-sum-privacy", subject=ShuffleOneSum, mutants={"half the bits": HalfTheBits, "half the ledger": HalfTheLedger})
def check_one_sum(kind):
    policy = kind(**SMALL, horizon=24, first_batch=4, epsilon=1.0, delta=0.01)
    mu = realised(policy, linear(24, 72, 3, 2, np.random.default_rng(12)))
    assert 0.6 * policy.ledger.mu < mu <= policy.ledger.mu * (1 + 1e-9)
    for epsilon in (0.5, 1.0, 4.0):
        ledger = kind(**SMALL, horizon=500, epsilon=epsilon, delta=1e-4).ledger
        assert 0.99 * epsilon < ledger.epsilon(1e-4) <= epsilon * (1 + 1e-9) and ledger.trust == "shuffle"


test_one_sum = check_one_sum


@claim(
    "two-leaves",
    subject=symmetric_range,
    mutants={"one scale": lambda d, W=1.0: symmetric_range(d, 1.0), "2 W": lambda d, W=1.0: (*symmetric_range(d, W)[:2], 2 * W)},
)
def check_leaves(ranges):
    e = np.eye(3)
    for link, ratio in ((Logistic(), 4.0), (Probit(), math.sqrt(2 * math.pi))):
        W = link.L_mu(2.0)
        first, later = ranges(3, 1.0)[2], ranges(3, W)[2]
        assert first == pytest.approx(np.linalg.norm(outer(e[0]) - outer(e[1])))
        assert later == pytest.approx(W * np.linalg.norm(outer(e[0]) - outer(e[1])))
        assert first / later == pytest.approx(ratio, rel=1e-6)


test_leaves = check_leaves


# Regret terms ------------------------------------------------------------------------------------------------------------------


class FirstPhaseOnly(Doubling):
    @property
    def ledger(self):
        return self.policy(0).ledger


class FeedsTwice(Doubling):
    """Every user is sent twice."""

    def update(self, state, x, reward, noise):
        return super().update(super().update(state, x, reward, noise), x, reward, noise)


def phase(T):
    return ShuffleOneSum(**SMALL, horizon=T, first_batch=4, epsilon=1.0 if T < 16 else 2.0, delta=0.01)


@claim("doubling-budget", subject=Doubling, mutants={"ledger of the first phase": FirstPhaseOnly, "every user sent twice": FeedsTwice})
def check_doubling(kind):
    """Phases of 8, 16, 32 and 64 users, the later ones with twice the epsilon: 56 changed users."""
    policy = kind(phase, first=8, phases=4)
    mu = realised(policy, linear(8 + 16 + 31, 110, 3, 2, np.random.default_rng(13)))
    assert 0.5 * policy.ledger.mu < mu <= policy.ledger.mu * (1 + 1e-9)
    assert policy.ledger.epsilon(0.01) == pytest.approx(2.0, rel=0.01)


test_doubling = check_doubling


a = symbol(DOUBLING_COST, "a")


@claim("doubling-cost", subject=DOUBLING_COST, mutants={"half": formula(DOUBLING_COST, 2 ** (a - 1) / (2**a - 1)), "1": formula(DOUBLING_COST, 1 + 0 * a)})
def check_cost(factor):
    tight = 0.0
    for power in (0.3, 0.5, 0.75, 1.0):
        for first in (1, 5, 64):
            played, total, length = 0, 0.0, first
            while played < 5000:
                total += length**power  # a phase begun is paid in full
                for T in {played + 1, played + length}:
                    bound = float(factor(a=power)) * (T + first) ** power if factor.symbols else (T + first) ** power
                    assert total <= bound * (1 + 1e-12)
                    tight = max(tight, total / bound)
                played, length = played + length, 2 * length
    assert tight > 0.9


test_cost = check_cost
