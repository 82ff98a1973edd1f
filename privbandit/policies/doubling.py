"""Unknown horizon: restart a policy with doubled horizons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.ledger import BudgetExceeded, Ledger
from privbandit.policies.base import Array, Policy


class DoublingState(NamedTuple):
    phase: int
    step: int  # rounds played in this phase
    R: int
    inner: Any


@dataclass(frozen=True)
class Doubling(Policy):
    """Phase i = 0, 1, .. runs a fresh `make(first * 2^i)` for that many rounds; at most `phases` of them.

    A policy whose regret is O(T^a) for known T pays about 2^a / (2^a - 1) times as much at most for not knowing it, and nothing in privacy.

    *Guarantee.* Each user lives in one phase and phases start from nothing, so the whole run spends what the most expensive phase
    spends, in the trust model and unit of `make`'s policies; `ledger` is that phase's. A phase may be a whole private release, which
    is why the phase borders must be public: they are.
    """

    make: Callable[[int], Policy]
    first: int = 64
    phases: int = 12
    _made: dict[int, Policy] = field(default_factory=dict, init=False, repr=False, compare=False)
    trust = "as its phases"

    def __post_init__(self) -> None:
        validate.positive_int("first", self.first), validate.positive_int("phases", self.phases)

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"doubling {self.policy(0).name}"

    def policy(self, phase: int) -> Policy:
        """The policy of a phase; built once."""
        if phase >= self.phases:
            raise BudgetExceeded(f"all {self.phases} phases are spent")
        if phase not in self._made:
            self._made[phase] = self.make(self.first * 2**phase)
        return self._made[phase]

    @property
    def ledger(self) -> Ledger:
        """Of the most expensive phase."""
        ledgers = [self.policy(i).ledger for i in range(self.phases)]
        return max(ledgers, key=lambda ledger: (ledger.epsilon(1e-6), ledger.mu))

    def init(self, R: int, noise: np.random.Generator) -> DoublingState:
        return DoublingState(0, 0, R, self.policy(0).init(R, noise))

    def act(self, state: DoublingState, contexts: Array, rng: np.random.Generator) -> tuple[DoublingState, NDArray[np.intp]]:
        inner, action = self.policy(state.phase).act(state.inner, contexts, rng)
        return state._replace(inner=inner), action

    def update(self, state: DoublingState, x: Array, reward: Array, noise: np.random.Generator) -> DoublingState:
        phase, step = state.phase, state.step + 1
        inner = self.policy(phase).update(state.inner, x, reward, noise)
        if step < self.first * 2**phase:
            return DoublingState(phase, step, state.R, inner)
        if phase + 1 == self.phases:
            return DoublingState(phase + 1, 0, state.R, None)  # the next call raises
        return DoublingState(phase + 1, 0, state.R, self.policy(phase + 1).init(state.R, noise))
