"""Shuffled sums of scalars, vectors and symmetric matrices: fixed-point numbers written in bits, hidden among everybody's noise bits.

A user rounds each coordinate at random to a multiple of `step`, and sends that many ones, padded to a public length, plus `bits` fair
coins, all tagged with the coordinate. The shuffler mixes the messages of all users, so the server sees one count per coordinate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privbandit import validate
from privbandit.formulas.shuffle import SCALAR_BITS, SUM_PROXY, VECTOR_BITS
from privbandit.ledger import ApproximateDP, Entry, Event, Ledger, NonPrivate
from privbandit.linalg import svec_size
from privbandit.mechanisms.shuffle.certificate import BinomialNoise, least_bits, most_shift, target
from privbandit.mechanisms.shuffle.hockey_stick import binomial_shift, moderate
from privbandit.mechanisms.shuffle.messages import Integers, Messages, count, shuffle, write

Array = NDArray[np.float64]


@dataclass(frozen=True)
class VectorSum:
    """The sum of `users` vectors with coordinates in [low_j, high_j], of which one replacement moves at most `Delta` in L2.

    `step` is the grid, `bits` the noise bits of each user and coordinate, `p` their probability of a one, `slack` the mass that one
    coordinate may leave uncovered. Give `claim` to state a published theorem in the ledger instead of the certificate.

    Guarantee: mu-GDP up to mass tau of the shuffled messages for replacement of one user (trust: shuffle), adaptively composable; see
    `certificate`. Couple the roundings of both vectors by one uniform: then each rounded difference lies within 1 of the scaled true
    one, so the counts move by an integer vector of norm at most Delta / step + sqrt(D); joint convexity covers any coupling.
    Source: Cheu et al. (2022), vector summation; calibration and proof: this book.
    """

    users: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    Delta: float
    step: float
    bits: int
    slack: float
    p: float = 0.5
    claim: ApproximateDP | None = None

    def __post_init__(self) -> None:
        validate.positive_int("users", self.users)
        low, high = validate.array("low", self.low, (None,)), validate.array("high", self.high, (len(self.low),))
        if np.any(high <= low):
            raise ValueError(f"high must exceed low in every coordinate, got low {self.low}, high {self.high}")
        validate.positive("Delta", self.Delta)
        validate.positive("step", self.step)
        validate.positive_int("bits", self.bits, at_least=0)
        validate.probability("slack", self.slack)
        validate.probability("p", self.p)

    @classmethod
    def calibrated(
        cls,
        users: int,
        low: ArrayLike,
        high: ArrayLike,
        Delta: float,
        mu: float,
        slack: float,
        *,
        step: float | None = None,
        p: float = 0.5,
    ) -> VectorSum:
        """The least noise certified mu-GDP at the given slack.

        `step` defaults to about Delta / max(2 sqrt(users), D, 4): the finest step that the whole number of noise bits for that grid
        allows, so that no budget is left over.
        """
        low, high = (tuple(validate.array(n, np.atleast_1d(v), (None,)).tolist()) for n, v in (("low", low), ("high", high)))
        users, D = validate.positive_int("users", users), len(low)
        mu, Delta = validate.positive("mu", mu), validate.positive("Delta", Delta)
        first = Delta / grid_points(users, D) if step is None else validate.positive("step", step)
        bits = least_bits(users, Delta / first + math.sqrt(D), D, mu, slack, p)
        finest = Delta / (most_shift(users * bits, D, mu, slack, p) - math.sqrt(D))
        return cls(users, low, high, Delta, finest if step is None else step, bits, slack, p)

    @classmethod
    def ball(
        cls, users: int, dimension: int, epsilon: float, delta: float, radius: float = 1.0, rounds: int = 1, p: float = 0.5
    ) -> VectorSum:
        """Vectors of L2 norm at most `radius`; `rounds` adaptive sums together are (epsilon, delta)-DP."""
        mu, slack = target(validate.positive("epsilon", epsilon), delta, validate.positive_int("dimension", dimension) * validate.positive_int("rounds", rounds))
        edge = np.full(dimension, validate.positive("radius", radius))
        return cls.calibrated(users, -edge, edge, 2 * radius, mu / math.sqrt(rounds), slack, p=p)

    @classmethod
    def published(cls, users: int, dimension: int, epsilon: float, delta: float, radius: float = 1.0) -> VectorSum:
        """The constants of Cheu et al. (2022): p = 1/4, grid g = max(2 sqrt(n), D, 4) over the range,
        24e4 g^2 log^2(4 (D^2+1)/delta) / epsilon^2 noise bits in all. Refused outside epsilon <= 15, delta < 1/2."""
        _published_domain(epsilon, delta)
        g = grid_points(validate.positive_int("users", users), validate.positive_int("dimension", dimension))
        bits = math.ceil(float(VECTOR_BITS(g=g, D=dimension, epsilon=epsilon, delta=delta)) / users)
        edge = (validate.positive("radius", radius),) * dimension
        low = tuple(-e for e in edge)
        return cls(users, low, edge, 2 * radius, 2 * radius / g, bits, delta / (50 * dimension), 0.25, ApproximateDP(epsilon, delta))

    @property
    def size(self) -> int:
        return len(self.low)

    @cached_property
    def grid(self) -> Integers:
        """Data bits of each coordinate."""
        span = (np.array(self.high) - np.array(self.low)) / self.step
        return np.ceil(span - 1e-9).astype(np.int64)

    @property
    def shift(self) -> float:
        """L2 norm by which one replacement can move the counts."""
        return self.Delta / self.step + math.sqrt(self.size)

    @property
    def noise_event(self) -> BinomialNoise:
        return BinomialNoise(self.users * self.bits, self.shift, self.size, self.slack, self.p)

    @property
    def event(self) -> Event:
        """What the ledger is told: the certificate, or the published claim."""
        return self.claim or self.noise_event

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (Entry("shuffled vector sum", self.event),)

    @property
    def ledger(self) -> Ledger:
        return Ledger("one user", "shuffle", self.entries)

    @property
    def sigma(self) -> float:
        """Standard deviation of one coordinate that the noise bits add."""
        return self.step * self.noise_event.sigma

    @property
    def std(self) -> float:
        """Largest standard deviation of one coordinate, rounding included: sqrt(sigma^2 + users step^2 / 4)."""
        return math.hypot(self.sigma, self.step * math.sqrt(self.users) / 2)

    @property
    def proxy(self) -> float:
        """Square root of the sub-Gaussian variance proxy of one coordinate (Hoeffding)."""
        return math.sqrt(float(SUM_PROXY(step=self.step, n=self.users, b=max(self.bits, 1e-300))))

    @property
    def messages_per_user(self) -> int:
        return int(self.grid.sum()) + self.size * self.bits

    @property
    def bits_per_user(self) -> int:
        """Bits on the wire: every message is one bit and the tag of its coordinate."""
        return self.messages_per_user * (1 + math.ceil(math.log2(self.size)))

    def encode(self, x: Array, noise: np.random.Generator) -> Integers:
        """Random rounding of x (..., D) to counts in 0..grid, unbiased; coordinates outside their range are clipped to it."""
        x = validate.array("x", x, (*np.shape(x)[:-1], self.size))
        z = np.clip((x - np.array(self.low)) / self.step, 0.0, self.grid)
        return np.floor(z + noise.random(np.shape(z))).astype(np.int64)

    def messages(self, x: Array, noise: np.random.Generator) -> Messages:
        """What n = `users` users send for their vectors x (n, D), before the shuffle."""
        x = validate.array("x", x, (self.users, self.size))
        ones = self.encode(x, noise) + noise.binomial(self.bits, self.p, x.shape)
        return write(ones, self.grid + self.bits)

    def shuffled(self, x: Array, noise: np.random.Generator) -> Messages:
        """Randomise and shuffle: the view that the guarantee is about."""
        return shuffle(self.messages(x, noise), noise)

    def analyse(self, messages: Messages) -> Array:
        """Unbiased estimate (D,) of the sum from shuffled messages."""
        return self.debias(count(messages, self.size))

    def release(self, counts: Integers, noise: np.random.Generator) -> Array:
        """Fast mode: estimate (R, D) from the summed encodings of all users (R, D), in the same law as through messages."""
        return self.debias(self.noise_event.release(counts, noise))

    def sum(self, x: Array, noise: np.random.Generator) -> Array:
        """Fast mode from raw vectors: x (R, n, D) of n = `users` users -> estimate (R, D)."""
        x = validate.array("x", x, (None, self.users, self.size))
        return self.release(self.encode(x, noise).sum(axis=1), noise)

    def debias(self, total: Integers) -> Array:
        return self.step * (total - self.users * self.bits * self.p) + self.users * np.array(self.low)


@dataclass(frozen=True)
class PlainSum:
    """The unprotected sum of `users` vectors, in the place of a shuffled one where epsilon is infinite."""

    users: int
    entries: ClassVar[tuple[Entry, ...]] = (Entry("unprotected sum", NonPrivate()),)
    std: ClassVar[float] = 0.0
    proxy: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        validate.positive_int("users", self.users)

    def encode(self, x: Array, noise: np.random.Generator) -> Array:
        return validate.array("x", x)

    def release(self, total: Array, noise: np.random.Generator) -> Array:
        return total

    def sum(self, x: Array, noise: np.random.Generator) -> Array:
        return validate.array("x", x, (None, self.users, None)).sum(axis=1)


def _published_domain(epsilon: float, delta: float) -> None:
    """Where Cheu et al. (2022) prove their constants."""
    if validate.positive("epsilon", epsilon) > 15:
        raise ValueError(f"epsilon must be in (0, 15] for the published constants, got {epsilon!r}")
    if validate.probability("delta", delta) >= 0.5:
        raise ValueError(f"delta must be in (0, 1/2) for the published constants, got {delta!r}")


def grid_points(users: int, size: int) -> int:
    """max(2 sqrt(n), D, 4), rounded up: rounding then adds at most 1/16 of Delta^2 to the variance of a coordinate."""
    users, size = validate.positive_int("users", users), validate.positive_int("size", size)
    return math.ceil(max(2 * math.sqrt(users), size, 4))


def symmetric_range(d: int, W: float = 1.0) -> tuple[Array, Array, float]:
    """low, high and replace sensitivity of svec(w x x^T) with |x| <= 1, 0 <= w <= W: sqrt(2) W where a plain vector of that norm has 2 W.

    <w x x^T, w' y y^T> >= 0, so the squared distance is at most 2 W^2; diagonal entries lie in [0, W], off-diagonal ones, scaled by
    sqrt(2), in +-W / sqrt(2).
    """
    rows, columns = np.triu_indices(validate.positive_int("d", d))
    W = validate.positive("W", W)
    high = np.where(rows == columns, W, W / math.sqrt(2))
    return np.where(rows == columns, 0.0, -high), high, math.sqrt(2) * W if d > 1 else W


def matrix_sum(users: int, d: int, mu: float, slack: float, W: float = 1.0) -> VectorSum:
    """The shuffled sum of svec(w x x^T), size d(d+1)/2."""
    low, high, Delta = symmetric_range(d, W)
    return VectorSum.calibrated(users, low, high, Delta, mu, slack)


def matrix_target(epsilon: float, delta: float, d: int) -> tuple[float, float]:
    """`mu` and `slack` with which one matrix sum spends (epsilon, delta)."""
    return target(validate.positive("epsilon", epsilon), delta, svec_size(validate.positive_int("d", d)))


@dataclass(frozen=True)
class ScalarSum:
    """The sum of `users` numbers in [0, L] on a grid of `grid` steps, with `bits` noise bits a user.

    Guarantee: (epsilon, delta(epsilon))-DP of the shuffled messages for replacement of one user, exact: other users' messages only
    post-process the count, rounding is covered by joint convexity, and the largest shift, `grid`, is the worst one. It is attained by
    the data 0 against L. Source: Cheu et al. (2022), scalar summation; exact calibration: this book.
    """

    users: int
    grid: int
    bits: int
    L: float = 1.0
    p: float = 0.5

    def __post_init__(self) -> None:
        for name in ("users", "grid", "bits"):
            validate.positive_int(name, getattr(self, name))
        validate.positive("L", self.L)
        validate.probability("p", self.p)

    @classmethod
    def published(cls, users: int, grid: int, epsilon: float, delta: float, L: float = 1.0, p: float = 0.5) -> ScalarSum:
        """n b p = 90 g^2 log(2/delta) / epsilon^2, refused for grid = 1 (false at large epsilon), epsilon > 15, delta >= 1/2."""
        _published_domain(epsilon, delta)
        validate.positive_int("users", users), validate.positive_int("grid", grid, at_least=2), validate.probability("p", p)
        return cls(users, grid, math.ceil(float(SCALAR_BITS(g=grid, epsilon=epsilon, delta=delta)) / (users * p)), L, p)

    @classmethod
    def calibrated(cls, users: int, grid: int, epsilon: float, delta: float, L: float = 1.0, p: float = 0.5) -> ScalarSum:
        """The least number of noise bits with exact delta <= `delta` (more bits post-process the count, so bisection is valid)."""
        validate.positive_int("users", users), validate.positive_int("grid", grid), validate.probability("p", p), moderate(epsilon)
        low, high = 0, 1
        while binomial_shift(users * high, grid, epsilon, p) > validate.probability("delta", delta):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            enough = binomial_shift(users * middle, grid, epsilon, p) <= delta
            low, high = (low, middle) if enough else (middle, high)
        return cls(users, grid, high, L, p)

    def delta(self, epsilon: float) -> float:
        """Exact delta at `epsilon`."""
        return binomial_shift(self.users * self.bits, self.grid, epsilon, self.p)

    def ledger(self, epsilon: float) -> Ledger:
        """What one user spends, stated at `epsilon`."""
        return Ledger("one user's number", "shuffle", (Entry("shuffled scalar sum", ApproximateDP(epsilon, self.delta(epsilon))),))

    @cached_property
    def vector(self) -> VectorSum:
        """The same protocol as a sum of vectors with one coordinate: encode, messages, shuffled, analyse, release, sum, sigma, costs."""
        return VectorSum(self.users, (0.0,), (self.L,), self.L, self.L / self.grid, self.bits, 1e-12, self.p)
