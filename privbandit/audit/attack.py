"""Distinguishing attacks: lower bounds on epsilon from many runs, exact at their confidence whatever the mechanism is."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta

from privbandit import validate

Array = NDArray[np.float64]


def clopper_pearson(hits: ArrayLike, n: int, alpha: float) -> tuple[Array, Array]:
    """Exact one-sided limits on a probability after `hits` in `n` trials: each fails with probability at most `alpha`.

    Source: Clopper and Pearson (1934).
    """
    n, alpha = validate.positive_int("n", n), validate.probability("alpha", alpha)
    hits = validate.array("hits", hits)
    if np.any((hits < 0) | (hits > n) | (hits != np.round(hits))):
        raise ValueError(f"hits must be whole numbers in 0..{n}, got {hits}")
    with np.errstate(invalid="ignore"):
        low = np.where(hits == 0, 0.0, beta.ppf(alpha, hits, n - hits + 1))
        high = np.where(hits == n, 1.0, beta.ppf(1 - alpha, hits + 1, n - hits))
    return low, high


def epsilon_lower_bound(hits: ArrayLike, false_hits: ArrayLike, n: int, delta: float, confidence: float) -> Array:
    """A lower limit on epsilon at `delta` from an event seen `hits` times in n runs on one input, `false_hits` times on its neighbour.

    P(S) <= e^epsilon Q(S) + delta, so epsilon >= log((P(S) - delta) / Q(S)); P from below and Q from above, half the error each.
    """
    alpha = (1 - validate.probability("confidence", confidence)) / 2
    delta = validate.nonnegative("delta", delta)
    low, _ = clopper_pearson(hits, n, alpha)
    _, high = clopper_pearson(false_hits, n, alpha)
    return np.log(np.maximum((low - delta) / high, 1.0))


def attack(score: Array, other: Array, delta: float, confidence: float) -> float:
    """The lower limit from scores (n,) of runs on one input and on its neighbour.

    The event is a half-line; its end and the direction are chosen on the even runs, the limit comes from the odd ones alone.
    """
    score = validate.array("score", score, (None,))
    other = validate.array("other", other, score.shape)
    if len(score) < 2:
        raise ValueError(f"score must hold at least 2 runs, got {len(score)}")
    train, test = (score[::2], other[::2]), (score[1::2], other[1::2])
    best, choice = -1.0, None
    for sign in (1, -1):
        for swap in (1, -1):
            P, Q = (sign * s for s in train[::swap])
            ends = np.quantile(P, np.linspace(0.002, 0.998, 250))
            bounds = _limits(P, Q, ends, delta, confidence)
            if bounds.max() > best:
                best, choice = bounds.max(), (sign, swap, ends[np.argmax(bounds)])
    sign, swap, end = choice
    P, Q = (sign * s for s in test[::swap])
    return float(_limits(P, Q, np.array([end]), delta, confidence)[0])


def _limits(P: Array, Q: Array, ends: Array, delta: float, confidence: float) -> Array:
    n = min(len(P), len(Q))
    above = [n - np.searchsorted(np.sort(s[:n]), ends) for s in (P, Q)]
    return epsilon_lower_bound(*above, n, delta, confidence)
