"""The regret bound of the local model, where the shift grows like sqrt(t): epoch by epoch.

With lambda_t ~ sqrt(t) the elliptical potential with the last lambda is false; within an epoch [2^j, 2^(j+1)) the first lambda of the
epoch is a lower bound for all, and the epochs' contributions are geometric.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit.features.information_gain import relaxed_gain
from privbandit.formulas.gp import CONFIDENCE_WIDTH, FINITE_GAIN, MISSPECIFICATION, WIDTH_SUM
from privbandit.gp.width import Width

Array = NDArray[np.float64]


class Epoch(NamedTuple):
    first: int  # users known when its first round is played
    rounds: int
    lambda_min: float  # of the first round
    beta: float  # deterministic bound on the width of every round in it
    gain: float  # certified bound on gamma_rounds(lambda_min) for the rows of `features`
    width_sum: float


def epochs(width: Width, features: Array, horizon: int) -> Iterator[Epoch]:
    """Epochs [first, first + rounds): first = 0, 1, 2, 4, ... users known, the last one cut at the horizon."""
    first, m = 0, width.calibration.features.m
    while first < horizon:
        rounds = min(max(first, 1), horizon - first)
        lambda_min = width.spectrum(first).lambda_min
        gain = min(relaxed_gain(features, rounds, lambda_min, iterations=200)[0], float(FINITE_GAIN(m=m, T=rounds, lambda_=lambda_min)))
        beta = largest_width(width, first, first + rounds - 1)
        # both misspecification terms are charged once, for the whole horizon, in `local_regret_bound`
        width_sum = float(WIDTH_SUM(T=rounds, beta=beta, gain=gain, lambda_min=lambda_min, m=m, error=0.0, block=1))
        yield Epoch(first, rounds, lambda_min, beta, gain, width_sum)
        first += rounds


def largest_width(width: Width, first: int, last: int) -> float:
    """A bound on beta for every number of users in [first, last]: log-determinant and lambda_max at the end, lambda at the start."""
    c, end = width.calibration, width.spectrum(last)
    lambda_ = width.grid_lambda(width.spectrum(first).lambda_min)
    log_det = 2 * float(FINITE_GAIN(m=c.features.m, T=last, lambda_=lambda_))
    return float(CONFIDENCE_WIDTH(
        subgaussian=width.subgaussian, zeta=width.zeta_reward / width.grid_values, log_det=log_det, B=c.B,
        lambda_max=end.lambda_max, t=last + 1, error=c.features.uniform_error, kappa=end.kappa,
    ))  # fmt: skip


def local_regret_bound(width: Width, features: Array, horizon: int) -> dict[str, float]:
    """The regret theorem of the local model for decision sets among the rows of `features` (N, m), a refresh after every user.

    The sum over epochs of 2 sqrt(2 c(lambda)) beta sqrt(rounds gamma_rounds(lambda)), plus 2 B T sqrt(error), capped by 2 B T.
    `gain` is taken in the features' own space, so no kernel error enters it.
    """
    B, error = width.calibration.B, width.calibration.features.uniform_error
    width_sum = math.fsum(epoch.width_sum for epoch in epochs(width, features, horizon))
    bias = float(MISSPECIFICATION(B=B, T=horizon, error=error))
    return {"width_sum": width_sum, "misspecification": bias, "trivial": 2 * B * horizon, "bound": min(width_sum + bias, 2 * B * horizon)}
