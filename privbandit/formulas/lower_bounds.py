"""What reward privacy costs any learner: coordinates visited in turn, logistic rewards, signs to be learnt (this book).

Round t shows the arms +e_j and -e_j for j = t mod d, and theta* = a V with V in {-1, 1}^d and a = S / sqrt(d). The wrong sign costs
p = 2 mu(a) - 1 = tanh(a / 2), and p is also the total variation distance between the reward laws of the two signs.
"""

import math

import numpy as np
import sympy as sp
from scipy.stats import binom

from privbandit import validate
from privbandit.formula import OWN, Formula, Source

d, S, epsilon, p, h = sp.symbols("d S epsilon p h", positive=True)
delta = sp.Symbol("delta", nonnegative=True)

MISTAKE = Formula("lower-bound-mistake", "p", sp.tanh(S / (2 * sp.sqrt(d))), OWN)

GROUP_ADVANTAGE = Formula(
    "group-advantage",
    r"\lvert\Pr - \Pr{}'\rvert",
    sp.tanh(h * epsilon / 2) * (1 + 2 * delta / (sp.exp(epsilon) - 1)),
    OWN,
)
"""Largest change of the probability of one event when h records are replaced (cap it at 1)."""

LOWER_BOUND = Formula("private-lower-bound", r"\mathbb{E}\,R_T", d / (2 * epsilon) * (1 - 4 * delta / epsilon), OWN)

LOWER_BOUND_FROM = Formula("private-lower-bound-from", r"T_0", 2 * d / (epsilon * p), OWN)

PRINTED = Formula("printed-lower-bound", r"\mathbb{E}\,R_T", d / epsilon, Source("sarmasarkar2026", "Lemma 7.1, without constants", "v2"))

PRINTED_FROM = Formula(
    "printed-lower-bound-from",
    r"T_0",
    d / (epsilon**2 + delta * sp.log(1 / delta)),
    Source("sarmasarkar2026", "Lemma 7.1 as extracted, without constants", "v2"),
)


def reward_privacy_bound(T: int, d: int, S: float, epsilon: float, delta: float = 0.0) -> float:
    """The sum behind `LOWER_BOUND`: d sum_{t < T // d} (p / 2) (1 - E min(1, GROUP_ADVANTAGE(H_t)))_+ with H_t ~ Bin(t, p).

    A lower bound on the regret, averaged over V, of every (epsilon, delta)-jointly private learner; valid for every T, S, epsilon > 0
    and 0 <= delta < 1. Never below the closed form from T = `LOWER_BOUND_FROM` on, for epsilon <= 2 / p.
    """
    T, d = validate.positive_int("T", T), validate.positive_int("d", d)
    validate.positive("S", S), validate.positive("epsilon", epsilon), validate.nonnegative("delta", delta)
    wrong = float(MISTAKE(S=S, d=d))
    flips = np.arange(T // d)
    advantage = np.minimum(1.0, np.tanh(flips * epsilon / 2) * (1 + 2 * delta / math.expm1(epsilon)))
    mean = [binom.pmf(flips[: t + 1], t, wrong) @ advantage[: t + 1] for t in range(T // d)]
    return d * wrong / 2 * sum(max(0.0, 1 - m) for m in mean)
