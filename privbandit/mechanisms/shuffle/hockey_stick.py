"""Exact (epsilon, delta) curves of shuffled sums. What the shuffler shows is a count, and counts can be enumerated."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import next_fast_len
from scipy.special import betainc
from scipy.stats import binom

from privbandit import validate

Array = NDArray[np.float64]


MOST = 700.0
"""The largest epsilon of these curves: beyond it e^epsilon is no float."""


def moderate(epsilon: float, *, at_least_zero: bool = False, name: str = "epsilon") -> float:
    """An epsilon > 0 (or >= 0) whose exponential is a float."""
    number = (validate.nonnegative if at_least_zero else validate.positive)(name, epsilon)
    if number > MOST:
        raise ValueError(f"{name} must be at most {MOST:g}, got {epsilon!r}")
    return number


def divergence(P: Array, Q: Array, epsilon: float) -> float:
    """sum_y (P(y) - e^epsilon Q(y))_+ of two probability tables of one shape: the exact delta of telling P from Q."""
    P = validate.array("P", P)
    Q = validate.array("Q", Q, P.shape)
    return float(np.maximum(P - math.exp(moderate(epsilon, at_least_zero=True)) * Q, 0.0).sum())


def binomial_shift(N: int, shift: int, epsilon: float, p: float = 0.5) -> float:
    """The exact delta of Bin(N, p) against Bin(N, p) + shift, the larger of both directions.

    The binomial is log-concave, so the best rejection sets are half-lines: delta is the largest F(t) - e^epsilon F(t - shift), or the
    same from above. A larger shift keeps every such set and only lowers the subtracted term, so delta grows with the shift: of all
    shifts up to g, the shift g alone has to be checked.
    """
    N, shift = validate.positive_int("N", N), validate.positive_int("shift", shift, at_least=0)
    factor, p = math.exp(moderate(epsilon, at_least_zero=True)), validate.probability("p", p)
    t = np.arange(-1.0, N + shift + 1)
    cdf, sf = tails(t, N, p)
    cdf_shifted, sf_shifted = tails(t - shift, N, p)
    return float(max(np.max(cdf - factor * cdf_shifted), np.max(sf_shifted - factor * sf), 0.0))


def binomial_shift_vector(N: int, shift: ArrayLike, epsilon: float, p: float = 0.5) -> float:
    """The exact delta of D independent Bin(N, p) against the same plus the integer vector `shift`, by enumeration."""
    N, p = validate.positive_int("N", N), validate.probability("p", p)
    shift = np.atleast_1d(np.asarray(shift))
    if shift.dtype.kind not in "iu" or shift.ndim != 1:
        raise ValueError(f"shift must be a vector of whole numbers, got {shift!r}")
    points = math.prod(N + abs(int(k)) + 1 for k in shift)
    if points > 2e7:
        raise ValueError(f"shift must leave at most 2e7 points to enumerate, got {points}")
    P = Q = np.ones(())
    for k in shift:
        y = np.arange(min(0, k), N + max(0, k) + 1)
        P, Q = np.multiply.outer(P, binom.pmf(y, N, p)), np.multiply.outer(Q, binom.pmf(y - k, N, p))
    return max(divergence(P, Q, epsilon), divergence(Q, P, epsilon))


def bit_sum_delta(users: int, q: float, epsilon: float, ones: ArrayLike | None = None) -> float:
    """The exact delta of the shuffled bit sum when one user's bit is replaced: the worst number of ones among the others.

    `ones` restricts that number (default: all of 0..users-1, which is what a proof needs: neither end need be the worst).
    Sums of independent bits are log-concave, so half-lines are the best rejection sets here as well.
    """
    users, q = validate.positive_int("users", users), validate.probability("q", q)
    factor = math.exp(moderate(epsilon, at_least_zero=True))
    ones = np.arange(users) if ones is None else np.atleast_1d(np.asarray(ones))
    if ones.dtype.kind not in "iu" or np.any((ones < 0) | (ones >= users)):
        raise ValueError(f"ones must be whole numbers in 0..{users - 1}, got {ones}")
    low, high = q / 2, 1 - q / 2
    if low * factor >= high:  # randomised response protects each user alone
        return 0.0
    length = next_fast_len(users + 1, real=True)
    frequency = np.exp(-2j * np.pi * np.fft.rfftfreq(length))
    bit = np.stack([1 - low + low * frequency, 1 - high + high * frequency])  # characteristic functions of one message
    log_bit = np.log(bit)
    worst = 0.0
    for m in ones:
        others = np.exp(m * log_bit[1] + (users - 1 - m) * log_bit[0])
        P = np.maximum(np.fft.irfft(others * bit, length), 0.0)
        cdf, survival = np.cumsum(P, axis=1), np.cumsum(P[:, ::-1], axis=1)
        worst = max(worst, np.max(cdf[0] - factor * cdf[1]), np.max(survival[1] - factor * survival[0]))
    return float(worst)


def tails(t: Array, N: int, p: float) -> tuple[Array, Array]:
    """P(Y <= t) and P(Y > t) of Y ~ Bin(N, p) for whole t of any size, each with full relative precision (incomplete beta functions)."""
    t = np.asarray(t, dtype=float)
    inside = np.clip(t, 0, N - 1)
    cdf = np.where(t < 0, 0.0, np.where(t >= N, 1.0, betainc(N - inside, inside + 1, 1 - p)))
    sf = np.where(t < 0, 1.0, np.where(t >= N, 0.0, betainc(inside + 1, N - inside, p)))
    return cdf, sf
