"""The doubling trick: phases, budget, and what it costs."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from privbandit.ledger import BudgetExceeded, Entry, GaussianDP, Ledger
from privbandit.policies.base import Policy
from privbandit.policies.doubling import Doubling
from privbandit.policies.ldp_linucb import LDPLinUCB


@dataclass(frozen=True)
class Counter(Policy):
    """Plays its horizon modulo K and counts its rounds."""

    horizon: int
    mu: float = 1.0
    name: ClassVar[str] = "counter"

    def init(self, R, noise):
        return 0

    def act(self, state, contexts, rng):
        assert state < self.horizon
        return state, np.full(len(contexts), self.horizon % contexts.shape[1])

    def update(self, state, x, reward, noise):
        return state + 1

    @property
    def ledger(self):
        return Ledger("one user", "joint", (Entry("x", GaussianDP(self.mu)),))


def drive(policy, rounds):
    noise, rng = np.random.default_rng(0), np.random.default_rng(1)
    state, actions = policy.init(2, noise), []
    for _ in range(rounds):
        state, action = policy.act(state, np.zeros((2, 7, 1)), rng)
        actions.append(int(action[0]))
        state = policy.update(state, np.zeros((2, 1)), np.zeros(2), noise)
    return actions


def test_phases_double_and_every_phase_starts_afresh():
    """Horizons 3, 6, 12 (modulo 7: 3, 6, 5), each for as many rounds; an inner policy that outlives its horizon would assert."""
    assert drive(Doubling(Counter, first=3, phases=3), 21) == [3] * 3 + [6] * 6 + [5] * 12
    with pytest.raises(BudgetExceeded, match="all 3 phases"):
        drive(Doubling(Counter, first=3, phases=3), 22)


def test_one_user_pays_for_one_phase_the_dearest():
    wrapped = Doubling(lambda horizon: Counter(horizon, mu=1.0 + 0.1 * (horizon == 8)), first=2, phases=4)
    assert wrapped.ledger.mu == pytest.approx(1.1)
    private = Doubling(lambda horizon: LDPLinUCB.practical(2.0, 1e-3, d=1, horizon=horizon), first=4, phases=3)
    assert private.ledger.trust == "local" and private.ledger.epsilon(1e-3) == pytest.approx(2.0)


def test_one_round_and_bad_input():
    assert drive(Doubling(Counter, first=1, phases=1), 1) == [1]
    with pytest.raises(ValueError, match="first must be"):
        Doubling(Counter, first=0)
    with pytest.raises(ValueError, match="phases must be"):
        Doubling(Counter, phases=0)
