"""What was spent, on whom, and who is trusted. An event draws its own noise, so claim and act cannot drift apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.accounting import compose_mu, gaussian_delta, gaussian_epsilon, gaussian_mu

TRUST = {
    "central": "the curator; everything released is private",
    "joint": "the curator; what all other users see is private, each user sees an own action",
    "shuffle": "the shuffler; the server sees shuffled messages only",
    "local": "nobody; each user's message is private by itself",
}
NEIGHBOURS = ("replace", "add-remove")


class BudgetExceeded(RuntimeError):
    """A release was asked for that the budget does not cover."""


class Event(Protocol):
    """One private release. Its cost: `mu` (Gaussian DP) up to probability mass `tau`, plus `epsilon`, `delta` where mu says nothing."""

    @property
    def mu(self) -> float: ...
    @property
    def tau(self) -> float: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...


def door(event: Event, value: NDArray[Any], noise: np.random.Generator, draw: Callable[[], NDArray[Any]] | None) -> NDArray[Any]:
    """The door that every noised value leaves through: `value` plus `draw()`, or exactly `value` where there is nothing to draw.

    An audit passes a recorder instead of a Generator; it is handed the exact value and answers what was released. Everybody else's
    noise must be a numpy Generator, and the value finite: no noise hides a NaN.
    """
    recorder = getattr(noise, "release", None)
    if recorder is not None:
        return recorder(value, event)
    validate.generator("noise", noise), validate.array("value", value)
    return value if draw is None else value + draw()


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise of standard deviation `sigma` on a value that neighbours move by at most `Delta` in L2.

    Guarantee: (Delta/sigma)-GDP, exactly (Dong, Roth and Su 2022, Theorem 2.7), for exact real arithmetic; the floating-point
    implementation is for study, not for release against an adversary who reads low-order bits.
    """

    Delta: float
    sigma: float
    tau: float = field(default=0.0, init=False)
    epsilon: float = field(default=0.0, init=False)
    delta: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        validate.nonnegative("Delta", self.Delta)
        validate.nonnegative("sigma", self.sigma)

    @property
    def mu(self) -> float:
        if self.Delta == 0:
            return 0.0
        return self.Delta / self.sigma if self.sigma else math.inf

    def release(self, value: NDArray[np.float64], noise: np.random.Generator) -> NDArray[np.float64]:
        """`value` plus independent N(0, sigma^2) in every entry, through the `door`; `value` itself if sigma = 0."""
        return door(self, value, noise, (lambda: self.sigma * noise.standard_normal(np.shape(value))) if self.sigma else None)


@dataclass(frozen=True)
class Laplace:
    """Laplace noise of the given scale on a value that neighbours move by at most `Delta` in L1: (Delta/scale)-DP, pure."""

    Delta: float
    scale: float
    mu: float = field(default=0.0, init=False)
    tau: float = field(default=0.0, init=False)
    delta: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        validate.nonnegative("Delta", self.Delta)
        validate.nonnegative("scale", self.scale)

    @property
    def epsilon(self) -> float:
        if self.Delta == 0:
            return 0.0
        return self.Delta / self.scale if self.scale else math.inf

    def release(self, value: NDArray[np.float64], noise: np.random.Generator) -> NDArray[np.float64]:
        """`value` plus independent Laplace noise in every entry, through the `door`; `value` itself if scale = 0."""
        return door(self, value, noise, (lambda: noise.laplace(scale=self.scale, size=np.shape(value))) if self.scale else None)


@dataclass(frozen=True)
class GaussianDP:
    """A release proved mu-GDP up to probability mass `tau` by other means than Gaussian noise (for instance a binomial sum)."""

    mu: float
    tau: float = 0.0
    epsilon: float = field(default=0.0, init=False)
    delta: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        validate.nonnegative("mu", self.mu, allow_inf=True)
        if not 0 <= self.tau < 1:
            raise ValueError(f"tau must be a number in [0, 1), got {self.tau!r}")


@dataclass(frozen=True)
class ApproximateDP:
    """A release proved (epsilon, delta)-DP and nothing more."""

    epsilon: float
    delta: float = 0.0
    mu: float = field(default=0.0, init=False)
    tau: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        validate.nonnegative("epsilon", self.epsilon, allow_inf=True)
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be a number in [0, 1), got {self.delta!r}")


@dataclass(frozen=True)
class NonPrivate:
    """Nothing is known of its privacy, so it costs everything."""

    mu: float = field(default=math.inf, init=False)
    tau: float = field(default=0.0, init=False)
    epsilon: float = field(default=math.inf, init=False)
    delta: float = field(default=0.0, init=False)


def _is_event(thing: Any) -> bool:
    """Whether it has the four costs; they are not computed, which may take long."""
    own = getattr(thing, "__dict__", {})
    return not isinstance(thing, type) and all(cost in own or hasattr(type(thing), cost) for cost in ("mu", "tau", "epsilon", "delta"))


@dataclass(frozen=True)
class Entry:
    """`count` >= 1 adaptive releases of one kind that one unit can touch; `event` says what one of them costs."""

    name: str
    event: Event
    count: int = 1

    def __post_init__(self) -> None:
        validate.text("name", self.name)
        if not _is_event(self.event):
            raise TypeError(f"event must be an object with costs mu, tau, epsilon and delta, got {self.event!r}")
        validate.positive_int("count", self.count)


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-differential privacy of `unit` under `neighbours`, in the trust model `trust`."""

    epsilon: float
    delta: float
    trust: str
    unit: str
    neighbours: str

    def __str__(self) -> str:
        if math.isinf(self.epsilon):
            return "no privacy guarantee"
        return (
            f"({self.epsilon:.6g}, {self.delta:.3g})-{self.trust} DP of {self.unit}; neighbours: {self.neighbours}; "
            f"trusted: {TRUST[self.trust]}"
        )


@dataclass(frozen=True)
class Ledger:
    """All releases one `unit` can touch, adaptively composed. `unit` says in words whose record is protected, and must not be empty.

    Gaussian and certified Gaussian-DP entries add in quadrature (exact); pure and approximate entries add linearly (basic
    composition). Sources: Dong, Roth and Su (2022), Corollary 3.3; Dwork and Roth (2014), Theorem 3.16.
    """

    unit: str
    trust: str
    entries: tuple[Entry, ...]
    neighbours: str = "replace"

    def __post_init__(self) -> None:
        validate.text("unit", self.unit)
        validate.one_of("trust", self.trust, TRUST)
        if not isinstance(self.entries, tuple) or not all(isinstance(entry, Entry) for entry in self.entries):
            raise TypeError(f"entries must be a tuple of Entry, got {self.entries!r}")
        validate.one_of("neighbours", self.neighbours, NEIGHBOURS)

    @classmethod
    def nonprivate(cls) -> Ledger:
        """The ledger of something that promises nothing."""
        return cls("one user", "central", (Entry("unprotected data", NonPrivate()),))

    @property
    def mu(self) -> float:
        """GDP parameter of all entries that have one; exact if `only_gaussian`."""
        return compose_mu(*(e.event.mu * math.sqrt(e.count) for e in self.entries))

    @property
    def tau(self) -> float:
        """Probability mass that the GDP entries leave uncovered."""
        return -math.expm1(sum(e.count * math.log1p(-e.event.tau) for e in self.entries))

    @property
    def only_gaussian(self) -> bool:
        return all(e.event.epsilon == 0 and e.event.delta == 0 for e in self.entries)

    def _basic(self) -> tuple[float, float]:
        return sum(e.count * e.event.epsilon for e in self.entries), sum(e.count * e.event.delta for e in self.entries)

    def epsilon(self, delta: float) -> float:
        """The epsilon proved at `delta`; infinite if `delta` does not even cover what the entries spend."""
        delta = validate.probability("delta", delta)
        epsilon, spent = self._basic()
        left = (delta - spent - self.tau) / (1 - self.tau)
        if self.mu == 0 and spent <= delta and self.tau == 0:
            return epsilon
        return epsilon + gaussian_epsilon(self.mu, left) if left > 0 else math.inf

    def delta(self, epsilon: float) -> float:
        """The delta proved at `epsilon` (1 if none)."""
        pure, spent = self._basic()
        left = validate.nonnegative("epsilon", epsilon) - pure
        if left < 0:
            return 1.0
        return min(1.0, spent + self.tau + (1 - self.tau) * gaussian_delta(self.mu, left))

    def guarantee(self, delta: float) -> Guarantee:
        """The proved statement at `delta`, with its trust model, unit and neighbour relation."""
        return Guarantee(self.epsilon(delta), delta, self.trust, self.unit, self.neighbours)

    def table(self) -> list[dict[str, object]]:
        """One row per entry: name, event, count, mu, epsilon, delta."""
        return [
            {
                "name": e.name,
                "event": repr(e.event),
                "count": e.count,
                "mu": e.event.mu * math.sqrt(e.count),
                "epsilon": e.count * e.event.epsilon,
                "delta": e.count * (e.event.delta + e.event.tau),
            }
            for e in self.entries
        ]


@dataclass(frozen=True)
class Account:
    """A running budget. Each `spend` returns the account after it, or raises `BudgetExceeded` and spends nothing.

    Stopping before the budget is passed is a privacy filter: the adaptive choice of events is covered, since the sum of mu^2
    never exceeds the budget on any path (see the lemma on adaptive Gaussian transcripts in the book).
    """

    budget: float
    entries: tuple[Entry, ...] = ()

    def __post_init__(self) -> None:
        validate.positive("budget", self.budget, allow_inf=True)

    @classmethod
    def of(cls, epsilon: float, delta: float) -> Account:
        """The account that (epsilon, delta)-DP pays for."""
        return cls(gaussian_mu(epsilon, delta))

    @property
    def spent(self) -> float:
        return compose_mu(*(e.event.mu * math.sqrt(e.count) for e in self.entries))

    @property
    def left(self) -> float:
        """GDP parameter that one more event may have."""
        return math.inf if math.isinf(self.budget) else math.sqrt(max(0.0, self.budget**2 - self.spent**2))

    def spend(self, name: str, event: Event, count: int = 1) -> Account:
        if event.epsilon or event.delta or event.tau:
            raise ValueError(f"event must be a Gaussian-DP event, got {event!r}")
        after = replace(self, entries=(*self.entries, Entry(name, event, count)))
        if after.spent > self.budget * (1 + 1e-12):
            raise BudgetExceeded(f"{name} costs mu = {event.mu * math.sqrt(count):.6g}, only {self.left:.6g} of {self.budget:.6g} is left")
        return after
