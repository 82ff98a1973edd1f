"""Amplification by shuffling: a weak local guarantee becomes a strong one once nobody knows who sent which message.

The numerical bound follows the clones of Feldman, McMillan and Talwar (2021). Fix the replaced user's two inputs. Every other message is,
with probability e^{-epsilon_0}, a draw from the even mixture of the user's two message laws ("a clone"). Given C clones, A of them look
like the first law, A ~ Bin(C, 1/2), and the user's own message lands on its side with probability e^{epsilon_0} / (1 + e^{epsilon_0}).
Telling the two inputs apart is no easier than telling (A + 1, C - A) and (A, C - A + 1) apart up to that coin: a two-column table.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc

from privbandit import validate
from privbandit.accounting import gaussian_delta, gaussian_sigma
from privbandit.formulas.shuffle import AMPLIFICATION
from privbandit.mechanisms.shuffle.hockey_stick import moderate, tails

Array = NDArray[np.float64]


def closed_form_epsilon(epsilon_0: float, users: int, delta: float) -> float:
    """Published bound (Theorem 3.1): epsilon of the shuffled messages of `users` epsilon_0-local randomisers at `delta`.

    Proved for epsilon_0 <= log(users / (16 log(2/delta))), refused beyond.
    """
    epsilon_0, delta = validate.positive("epsilon_0", epsilon_0), validate.probability("delta", delta)
    limit = math.log(validate.positive_int("users", users) / (16 * math.log(2 / delta)))
    if epsilon_0 > limit:
        raise ValueError(f"epsilon_0 must be at most log(users / (16 log(2/delta))) = {limit:.4g} for the closed form, got {epsilon_0}")
    return float(AMPLIFICATION(epsilon_0=epsilon_0, n=users, delta=delta))


def shuffled_delta(epsilon: float, epsilon_0: float, users: int) -> float:
    """The delta that the clones prove at `epsilon` for `users` shuffled epsilon_0-local messages, the binomial sums done exactly.

    epsilon >= 0, epsilon_0 > 0. For every number of clones the likelihood ratio rises with A, so the best test is a threshold and delta
    needs two binomial tails. Numbers of clones outside 12 standard deviations count as fully revealing.
    """
    epsilon, epsilon_0 = moderate(epsilon, at_least_zero=True), validate.positive("epsilon_0", epsilon_0)
    users = validate.positive_int("users", users)
    clone = math.exp(-epsilon_0)
    spread = 12 * math.sqrt(users * clone * (1 - clone)) + 50
    C = np.arange(max(0, math.floor(users * clone - spread)), min(users - 1, math.ceil(users * clone + spread)) + 1.0)
    if users == 1:
        weight = np.ones(1)
    else:
        cdf, sf = tails(C, users - 1, clone)
        before = tails(C - 1, users - 1, clone)
        weight = np.where(cdf < 0.5, cdf - before[0], before[1] - sf)
    return float(min(1.0, max(0.0, weight @ _clone_divergence(C, epsilon, epsilon_0) + max(0.0, 1 - weight.sum()))))


def _clone_divergence(C: Array, epsilon: float, epsilon_0: float) -> Array:
    """Hockey-stick divergence of the two-column tables given C clones."""
    own = 1 / (1 + math.exp(-epsilon_0))  # the user's message lands on its own side
    factor = math.exp(epsilon)
    # P(A' = a) / Q(A' = a) = (own a + other c) / (other a + own c), c = C + 1 - a; it exceeds e^epsilon from a = first on
    slope_a, slope_c = own - factor * (1 - own), factor * own - (1 - own)
    if slope_a <= 0:
        return np.zeros_like(C)
    first = np.ceil((C + 1) * slope_c / (slope_a + slope_c) - 1e-9)
    at, before = _half_tail(first - 1, C), _half_tail(first - 2, C)  # P(A >= first), P(A + 1 >= first)
    P, Q = own * before + (1 - own) * at, (1 - own) * before + own * at
    return np.maximum(P - factor * Q, 0.0)


def _half_tail(t: Array, C: Array) -> Array:
    """P(Bin(C, 1/2) > t) for arrays of both."""
    inside = np.clip(t, 0, np.maximum(C - 1, 0))
    value = betainc(inside + 1, np.maximum(C - inside, 1e-300), 0.5)
    return np.where(t < 0, 1.0, np.where(t >= C, 0.0, value))


def shuffled_epsilon(epsilon_0: float, users: int, delta: float) -> float:
    """The least epsilon with `shuffled_delta` <= `delta`; never above epsilon_0."""
    delta = validate.probability("delta", delta)
    moderate(epsilon_0, name="epsilon_0")
    if shuffled_delta(0.0, epsilon_0, users) <= delta:
        return 0.0
    if shuffled_delta(epsilon_0 * (1 - 1e-9), epsilon_0, users) > delta:
        return epsilon_0
    return float(brentq(lambda e: shuffled_delta(e, epsilon_0, users) - delta, 0.0, epsilon_0, xtol=1e-9))


def gaussian_shuffled_delta(epsilon: float, sigma: float, users: int, Delta: float = 1.0) -> float:
    """Delta at `epsilon` when `users` users each send their vector (L2 replace sensitivity Delta) plus N(0, sigma^2 I), shuffled.

    A Gaussian message is (epsilon_0, delta_0)-local for every epsilon_0. Change every message law by little: the others' to contain
    e^{-epsilon_0} times the user's mixture (total variation e^{-epsilon_0} delta_0 each), the user's two laws to be epsilon_0-close
    (delta_0 / (1 + e^{epsilon_0}) each; Dwork and Roth 2014, Lemma 3.17), which moves the mixture by as much. With tv the sum of all
    changes, delta = shuffled_delta + (1 + e^epsilon) tv; the best epsilon_0 of a grid is returned.
    """
    epsilon, users = moderate(epsilon, at_least_zero=True), validate.positive_int("users", users)
    mu = validate.positive("Delta", Delta) / validate.positive("sigma", sigma)
    local = np.linspace(0.05, min(2 * math.log(users + 1.0) + 1, 30.0), 60)
    return min(_approximate(epsilon, e, gaussian_delta(mu, float(e)), users) for e in local)


def _approximate(epsilon: float, epsilon_0: float, delta_0: float, users: int) -> float:
    pair = delta_0 / (1 + math.exp(epsilon_0))
    variation = pair + (users - 1) * math.exp(-epsilon_0) * (delta_0 + pair)
    extra = (1 + math.exp(epsilon)) * variation
    return 1.0 if extra >= 1 else min(1.0, extra + shuffled_delta(epsilon, float(epsilon_0), users))


def gaussian_local_sigma(epsilon: float, delta: float, users: int, Delta: float = 1.0) -> float:
    """The least local noise, to a thousandth, whose shuffled messages are (epsilon, delta)-DP by `gaussian_shuffled_delta`.

    Never more than the noise that makes each message (epsilon, delta)-DP by itself.
    """
    epsilon, users = moderate(epsilon), validate.positive_int("users", users)
    alone = gaussian_sigma(epsilon, delta, Delta)
    low, high = alone / math.sqrt(users) / 2, alone
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        enough = gaussian_shuffled_delta(epsilon, middle, users, Delta) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high
