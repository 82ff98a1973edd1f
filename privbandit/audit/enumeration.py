"""Exact laws of small mechanisms, and of large ones after rounding: rounding is post-processing, so the bound stays a lower bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privbandit import validate

Array = NDArray[np.float64]


def hockey_stick(P: Array, Q: Array, epsilon: float) -> float:
    """The smallest delta for which neither of two laws on the same finite set exceeds e^epsilon times the other by more.

    Not the mechanisms' own function: an audit shares no code with what it audits.
    """
    grown = np.exp(epsilon)
    return float(max(np.maximum(P - grown * Q, 0).sum(), np.maximum(Q - grown * P, 0).sum()))


def exact_epsilon(P: Array, Q: Array, delta: float) -> float:
    """The smallest epsilon >= 0 at `delta` (0 allowed) for which two laws on the same finite set are (epsilon, delta)-close."""
    P, Q = validate.array("P", P, (None,)), validate.array("Q", Q, (len(P),))
    if hockey_stick(P, Q, 0.0) <= delta:
        return 0.0
    if max(P[Q == 0].sum(), Q[P == 0].sum()) > delta:
        return np.inf
    both = (P > 0) & (Q > 0)
    low, high = 0.0, float(np.abs(np.log(P[both]) - np.log(Q[both])).max())
    while high - low > 1e-13 * high:  # delta falls with epsilon
        middle = (low + high) / 2
        low, high = (low, middle) if hockey_stick(P, Q, middle) <= delta else (middle, high)
    return high


def rounded(cdf, centre: float, step: float, reach: float) -> Array:
    """The law of a real output rounded to a grid on +-reach, from its distribution function around `centre`; the ends are open."""
    edges = np.arange(-reach, reach + step, step)
    return np.diff(np.concatenate([[0.0], cdf(edges - centre), [1.0]]))


def bernoulli_sum(probabilities: Array) -> Array:
    """The law of a sum of independent bits, by multiplying it out."""
    law = np.ones(1)
    for p in probabilities:
        law = np.convolve(law, [1 - p, p])
    return law
