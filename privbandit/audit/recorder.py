"""Stand-ins for the noise Generator: one records everything that leaves through the door, one replays it on other data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Leak(AssertionError):
    """Something that others can see depends on the changed user's raw data other than through a noised release."""


class Release(NamedTuple):
    """One passage through the door: the exact value, the event that noised it, and what was released."""

    value: Array
    event: Any
    released: Array


class Recorder:
    """Plays for the noise Generator and keeps every release of R replications.

    Draws that do not go through an event (random rounding, say) come from a Generator of their own, the same for equal seeds, so
    that a replay is coupled to them.
    """

    def __init__(self, R: int, seed: int) -> None:
        self.R, self.seed = R, seed
        self.releases: list[Release] = []
        self._door, self._other = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(2))

    def release(self, value: Array, event: Any) -> Array:
        released = event.release(value, self._door)
        self.releases.append(Release(np.array(value), event, released))
        return released

    def __getattr__(self, name: str) -> Any:
        return getattr(self._other, name)


class Replayer:
    """Answers what a recorded run released, whatever the values are now, and adds up what the difference of the values costs.

    `mu` and `epsilon`, (R,): the realised cost of the Gaussian and binomial releases (in quadrature) and of the Laplace ones (a sum).
    """

    def __init__(self, recorded: Recorder) -> None:
        self.R, self._left = recorded.R, iter(recorded.releases)
        self._other = np.random.default_rng(np.random.SeedSequence(recorded.seed).spawn(2)[1])
        self._squared, self.epsilon = np.zeros(self.R), np.zeros(self.R)

    @property
    def mu(self) -> Array:
        return np.sqrt(self._squared)

    def release(self, value: Array, event: Any) -> Array:
        was = next(self._left, None)
        if was is None or event != was.event or np.shape(value) != was.value.shape:
            raise Leak(f"the schedule of releases depends on raw data: {event} on shape {np.shape(value)} instead of {was and was.event}")
        if len(was.value) != self.R:
            raise ValueError(f"value must have the replication axis ({self.R}) first, got shape {was.value.shape}")
        shift = np.abs(value - was.value).reshape(self.R, -1).astype(float)
        self._squared += price(event, "mu", np.linalg.norm(shift, axis=1)) ** 2
        self.epsilon += price(event, "epsilon", shift.sum(axis=1))
        return was.released

    def finish(self) -> None:
        """To be called at the end: all that was released then must have been asked for again."""
        if next(self._left, None) is not None:
            raise Leak("the schedule of releases depends on raw data: fewer releases than before")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._other, name)


def price(event: Any, cost: str, shift: Array) -> Array:
    """What moving the value by `shift` costs, from what moving it by the event's own sensitivity costs; both are proportional.

    A shift that is not finite is a `Leak`: no noise hides it.
    """
    sensitivity = getattr(event, "Delta", getattr(event, "shift", None))
    if sensitivity is None:
        raise TypeError(f"event must have a price in proportion to a shift (Gaussian, Laplace or binomial noise), got {event!r}")
    if not np.isfinite(shift).all():
        raise Leak(f"a noised value moved by {shift[~np.isfinite(shift)][0]}, which noise does not hide: {event}")
    full = getattr(event, cost)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.divide(full, sensitivity) if sensitivity else (np.inf if cost == "mu" else 0.0)
        return np.where(shift > 0, shift * rate, 0.0)
