"""One small instance of every policy: class name -> a function of (class, K, d, horizon, epsilon). A new policy adds one line.

Policies in ARMED take one-hot contexts (d = K); those in PRIVATE read epsilon. The others ignore it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from privbandit.features.kernels import SquaredExponential
from privbandit.features.quadrature import equispaced_features
from privbandit.gp.calibration import calibrate
from privbandit.links import Logistic

DELTA = 1e-5
LINK = Logistic()
KERNEL = SquaredExponential(0.5)


def features(d: int):
    return equispaced_features(KERNEL, 3, d)


def doubled(cls, K: int, d: int, T: int, epsilon: float):
    from privbandit.policies.private_linucb import PrivateLinUCB

    return cls(lambda horizon: PrivateLinUCB.practical(epsilon, DELTA, d=d, horizon=horizon), first=2)


EXAMPLES: dict[str, Callable[..., Any]] = {
    "Algorithm2": lambda cls, K, d, T, e: cls.printed(LINK, d, 2.0, T, 1.0, DELTA),
    "ApproximateGPUCB": lambda cls, K, d, T, e: cls(features(d)),
    "BestOfBoth": lambda cls, K, d, T, e: cls(LINK, d=d, S=2.0, horizon=T, epsilon=e, delta=DELTA),
    "BGLinCB": lambda cls, K, d, T, e: cls(link=LINK, d=d, S=2.0, horizon=T, first_batch=2),
    "Doubling": doubled,
    "ECOLog": lambda cls, K, d, T, e: cls(d, S=2.0),
    "GLMUCB": lambda cls, K, d, T, e: cls(LINK, d, S=2.0, horizon=T),
    "GLOC": lambda cls, K, d, T, e: cls(LINK, d, S=2.0),
    "GPUCB": lambda cls, K, d, T, e: cls(KERNEL, d),
    "GreedyGLM": lambda cls, K, d, T, e: cls(LINK, d),
    "IGPUCB": lambda cls, K, d, T, e: cls(KERNEL, d, horizon=T),
    "LDPGLM": lambda cls, K, d, T, e: cls(link=LINK, d=d, S=2.0, epsilon=e, delta=DELTA),
    "LDPLinUCB": lambda cls, K, d, T, e: cls.practical(e, DELTA, d=d, horizon=T),
    "LinUCB": lambda cls, K, d, T, e: cls(d=d),
    "LinearSelfWeighted": lambda cls, K, d, T, e: cls(d=d, S=1.0, horizon=T, epsilon=e, delta=DELTA),
    "NoisyGPUCB": lambda cls, K, d, T, e: cls(calibrate(features(d), T, e, DELTA)),
    "OFULog": lambda cls, K, d, T, e: cls(d, S=2.0),
    "OL2M": lambda cls, K, d, T, e: cls(d, S=2.0),
    "OneRelease": lambda cls, K, d, T, e: cls(LINK, d=d, S=2.0, horizon=T, epsilon=e, delta=DELTA),
    "Oracle": lambda cls, K, d, T, e: cls((1.0,) * d),
    "PrivateElimination": lambda cls, K, d, T, e: cls.calibrated(e, K=K),
    "PrivateLinUCB": lambda cls, K, d, T, e: cls.calibrated(e, DELTA, d=d, horizon=T),
    "PrivateUCB": lambda cls, K, d, T, e: cls.calibrated(e, DELTA, K=K, horizon=T),
    "RSGLinCB": lambda cls, K, d, T, e: cls(LINK, d, S=2.0, horizon=T),
    "RepairedAlgorithm2": lambda cls, K, d, T, e: cls(LINK, d=d, S=2.0, horizon=T, epsilon=e, delta=DELTA),
    "SelfWeighted": lambda cls, K, d, T, e: cls(LINK, d=d, S=2.0, horizon=T, epsilon=e, delta=DELTA),
    "ShuffleGLM": lambda cls, K, d, T, e: cls(link=LINK, d=d, S=2.0, horizon=T, epsilon=e, delta=DELTA, first_batch=2, width=1e-3, rounds=3),
    "ShuffleLinUCB": lambda cls, K, d, T, e: cls.practical(e, DELTA, d=d, horizon=T, batch=2),
    "ShuffleOneSum": lambda cls, K, d, T, e: cls(link=LINK, d=d, S=2.0, horizon=T, epsilon=e, delta=DELTA, first_batch=2),
    "SuccessiveElimination": lambda cls, K, d, T, e: cls(K=K),
    "TwoBlock": lambda cls, K, d, T, e: cls(LINK, d=d, S=2.0, horizon=T, epsilon=e, delta=DELTA),
    "UCB": lambda cls, K, d, T, e: cls(K=K),
    "Uniform": lambda cls, K, d, T, e: cls(),
}

ARMED = {"UCB", "PrivateUCB", "SuccessiveElimination", "PrivateElimination"}
PRIVATE = {
    "BestOfBoth", "Doubling", "LDPGLM", "LDPLinUCB", "LinearSelfWeighted", "NoisyGPUCB", "OneRelease", "PrivateElimination", "PrivateLinUCB",
    "PrivateUCB", "RepairedAlgorithm2", "SelfWeighted", "ShuffleGLM", "ShuffleLinUCB", "ShuffleOneSum", "TwoBlock",
}  # fmt: skip
RANDOM = {"Algorithm2", "BGLinCB", "ShuffleGLM", "ShuffleOneSum", "Uniform"}  # draw from `rng`, or noise whatever epsilon is
STATELESS = {"Oracle", "Uniform"}  # remember nothing, not even how many replications they play
ANY_LENGTH = {"Uniform"}  # do not look at the features, so any number of them will do
EVERY_ROUND = {"SuccessiveElimination", "PrivateElimination"}  # refuse unobserved rounds
