"""Mechanisms and policies broken on purpose, each in a way that has happened: the audits must catch them all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbandit.ledger import Entry, Gaussian, Ledger
from privbandit.mechanisms import PerUser, PrefixSums, SquareRoot, SquareRootFFT, TreeMechanism
from privbandit.mechanisms.local import SumState
from privbandit.policies.base import Array, Policy


@dataclass(frozen=True)
class OneLevelTooFew(TreeMechanism):
    """Charges ceil(log2 T) levels: one too few when T is a power of two."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        (entry,) = super().entries
        return (replace(entry, count=max(1, (self.horizon - 1).bit_length())),)


@dataclass(frozen=True)
class RootOnly(TreeMechanism):
    """Charges each user one node, as if nobody were in two."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        (entry,) = super().entries
        return (replace(entry, count=1),)


@dataclass(frozen=True)
class OneRow(SquareRoot):
    """Charges a user the own row only: the sensitivity of the increment instead of that of the rows."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (Entry("square-root rows", Gaussian(self.Delta, self.sigma)),)


@dataclass(frozen=True)
class OneRowFFT(SquareRootFFT):
    """The same mistake with the noise drawn up front."""

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (Entry("square-root rows", Gaussian(self.Delta, self.sigma)),)


@dataclass(frozen=True)
class Undefined(PerUser):
    """Cannot compute every user's increment (here: one far below zero) and adds noise to NaN, which stays NaN."""

    def release(self, state: SumState, increment: Array, noise: Any) -> tuple[SumState, Array]:
        total = state.total + self.report.release(np.where(increment < -0.35 * self.Delta, np.nan, increment), noise)
        return SumState(state.step + 1, total), total


class QuietDoor:
    """Hands every event one `factor`-th of the noise it charges for."""

    def __init__(self, noise: Any, factor: float = 3) -> None:
        self._noise, self._factor = noise, factor

    def release(self, value: Array, event: Any) -> Array:
        return event.release(self._factor * value, self._noise) / self._factor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._noise, name)


@dataclass(frozen=True)
class QuietSums(PrefixSums):
    """Any prefix sums with a third of the noise that their ledger claims."""

    inner: PrefixSums = None  # type: ignore[assignment]

    @classmethod
    def of(cls, inner: PrefixSums) -> QuietSums:
        return cls(inner.horizon, inner.sigma, inner.Delta, inner)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.inner.entries

    def std(self, t: ArrayLike) -> Array:
        return self.inner.std(t)

    def init(self, R: int, size: int, noise: Any) -> Any:
        return self.inner.init(R, size, QuietDoor(noise))

    def release(self, state: Any, increment: Array, noise: Any) -> tuple[Any, Array]:
        return self.inner.release(state, increment, QuietDoor(noise))


@dataclass(frozen=True)
class Quiet(Policy):
    """Any policy with one `factor`-th of the noise that its ledger claims."""

    inner: Policy
    factor: float = 3

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.inner.name}, under-noised"

    @property
    def ledger(self) -> Ledger:
        return self.inner.ledger

    def init(self, R: int, noise: Any) -> Any:
        return self.inner.init(R, QuietDoor(noise, self.factor))

    def act(self, state: Any, contexts: Array, rng: np.random.Generator) -> tuple[Any, NDArray[np.intp]]:
        return self.inner.act(state, contexts, rng)

    def update(self, state: Any, x: Array, reward: Array, noise: Any) -> Any:
        return self.inner.update(state, x, reward, QuietDoor(noise, self.factor))


@dataclass(frozen=True)
class Claiming(Policy):
    """Any policy under the ledger of another."""

    inner: Policy
    claim: Ledger

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.inner.name

    @property
    def ledger(self) -> Ledger:
        return self.claim

    def init(self, R: int, noise: Any) -> Any:
        return self.inner.init(R, noise)

    def act(self, state: Any, contexts: Array, rng: np.random.Generator) -> tuple[Any, NDArray[np.intp]]:
        return self.inner.act(state, contexts, rng)

    def update(self, state: Any, x: Array, reward: Array, noise: Any) -> Any:
        return self.inner.update(state, x, reward, noise)


class PeekState(NamedTuple):
    inner: Any
    bit: NDArray[np.intp]  # (R,) a low-order bit of the last user's record


@dataclass(frozen=True)
class Peek(Policy):
    """Any policy whose action follows, besides, one bit of the last user's raw record."""

    inner: Policy

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.inner.name}, peeking"

    @property
    def ledger(self) -> Ledger:
        return self.inner.ledger

    def init(self, R: int, noise: Any) -> PeekState:
        return PeekState(self.inner.init(R, noise), np.zeros(R, dtype=np.intp))

    def act(self, state: PeekState, contexts: Array, rng: np.random.Generator) -> tuple[PeekState, NDArray[np.intp]]:
        inner, action = self.inner.act(state.inner, contexts, rng)
        return PeekState(inner, state.bit), (action + state.bit) % contexts.shape[1]

    def update(self, state: PeekState, x: Array, reward: Array, noise: Any) -> PeekState:
        bit = np.floor(1e3 * np.abs(x.sum(axis=1)) + 5 * (reward > 0.5)).astype(np.intp) % 2
        return PeekState(self.inner.update(state.inner, x, reward, noise), bit)
