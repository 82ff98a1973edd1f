"""What every policy is: public parameters in a frozen dataclass, pure methods on an explicit state, replications first."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.ledger import Guarantee, Ledger

Array = NDArray[np.float64]


class Policy(ABC):
    """A bandit algorithm.

    Each round: `act` picks one of K arms from the contexts, `update` learns from the chosen arm's features and its reward.
    Arrays start with the replication axis R. A round that was not observed reaches `update` as x = 0, reward = 0.
    Privacy noise is drawn from the Generator `noise`, all other randomness from `rng`.

    Every subclass's `act` and `update` refuse contexts, x and reward of another shape than the state and `dimension` ask for, and
    entries that are not finite, before they read them: a clip lets NaN pass, and would publish it past the noise.
    """

    name: str
    trust: ClassVar[str] = "none"  # where its guarantee holds: the trust models of its ledgers, "none" without one

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for method, checked in (("act", _checked_act), ("update", _checked_update)):
            if method in vars(cls):
                setattr(cls, method, checked(vars(cls)[method]))

    @property
    def dimension(self) -> int | None:
        """Length of a feature vector: the field `d`, or `K` where arms are one-hot; None if any will do."""
        return getattr(self, "d", getattr(self, "K", None))

    @abstractmethod
    def init(self, R: int, noise: np.random.Generator) -> Any:
        """State before the first round, for R replications."""

    @abstractmethod
    def act(self, state: Any, contexts: Array, rng: np.random.Generator) -> tuple[Any, NDArray[np.intp]]:
        """Arm indices (R,) for contexts (R, K, d), and the state after choosing them."""

    @abstractmethod
    def update(self, state: Any, x: Array, reward: Array, noise: np.random.Generator) -> Any:
        """State after the chosen features x (R, d) gave reward (R,)."""

    @property
    def ledger(self) -> Ledger:
        """What one user's record costs over the whole run."""
        return Ledger.nonprivate()

    def guarantee(self, delta: float) -> Guarantee:
        return self.ledger.guarantee(delta)


def replications(state: Any) -> int | None:
    """R of a policy's state: the length of the outermost of its arrays; None if it has none."""
    if not isinstance(state, tuple):
        return None
    for part in state:
        if isinstance(part, np.ndarray) and part.ndim:
            return len(part)
    return next((R for R in map(replications, state) if R is not None), None)


def _checked_act(act: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(act)
    def checked(self: Policy, state: Any, contexts: Array, rng: np.random.Generator) -> tuple[Any, NDArray[np.intp]]:
        return act(self, state, validate.array("contexts", contexts, (replications(state), None, self.dimension)), rng)

    return checked


def _checked_update(update: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(update)
    def checked(self: Policy, state: Any, x: Array, reward: Array, noise: np.random.Generator) -> Any:
        x = validate.array("x", x, (replications(state), self.dimension))
        return update(self, state, x, validate.array("reward", reward, (len(x),)), noise)

    return checked


def choose(contexts: Array, action: NDArray[np.intp]) -> Array:
    """The features (R, d) of the chosen arms."""
    return contexts[np.arange(len(action)), action]


def argmax(index: Array) -> NDArray[np.intp]:
    """The best arm of each replication; ties go to the first."""
    return np.argmax(index, axis=1)


def settled(index: Array) -> Array:
    """Each row of index (R, K) in units of its largest finite size, to ten digits, for `argmax`; -inf stays.

    Where arms tie in theory, as all points of a kernel do before the first observation, the last digit of the index would decide. It
    differs between processors, and in a private policy it can depend on what the noise hides.
    """
    size = np.abs(np.where(np.isfinite(index), index, 0.0)).max(axis=1, keepdims=True)
    return np.round(index / np.where(size > 0, size, 1.0), 10)
