"""The confidence width of a private Gaussian-process bandit, from released quantities and public constants only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.formulas.gp import CONFIDENCE_WIDTH, FINITE_GAIN, MISSPECIFICATION, WIDTH_SUM
from privbandit.gp.calibration import Calibration, Spectrum
from privbandit.mechanisms import PerUser

Array = NDArray[np.float64]


class Released(NamedTuple):
    """All that anybody may see: the regularised noisy matrix in three forms, and the width."""

    count: int  # users in the sum
    theta: Array  # (R, m) V^-1 u
    inverse: Array  # (R, m, m) V^-1
    beta: Array  # (R,)


@dataclass(frozen=True, eq=False)
class Width:
    """beta_t = subgaussian sqrt(2 ln(1/zeta') + LD_t) + B sqrt(lambda_max + n error) + kappa for n users in V.

    LD_t = min(ln det V - m ln lambda, m ln(1 + n/(m lambda)), 2 gain(n)); the third if a certificate `gain` of gamma_n(lambda_min)
    for the offered points is given (it needs a constant lambda_min). Valid for all t and all points of the box at once with probability
    >= 1 - zeta_reward - calibration.zeta (plus the probability that a reward is clipped), if the reward noise is conditionally
    `subgaussian` given the past and the whole privacy noise. With a constant lambda_min, lambda = lambda_min and zeta' = zeta_reward.
    With local noise lambda_min grows like sqrt(t): lambda is rounded down to a public grid of ratio 1 + 1/m, and zeta' is
    zeta_reward over the number of grid values.
    """

    calibration: Calibration
    subgaussian: float
    zeta_reward: float
    gain: Callable[[int], float] | None = None

    def __post_init__(self) -> None:
        validate.instance("calibration", self.calibration, Calibration)
        validate.nonnegative("subgaussian", self.subgaussian), validate.probability("zeta_reward", self.zeta_reward)

    @property
    def varying(self) -> bool:
        """True if the shift follows the noise (local model)."""
        return isinstance(self.calibration.mechanism, PerUser) and self.calibration.private

    def spectrum(self, releases: int) -> Spectrum:
        """Bounds at the prefix of this many releases (before the first: those of the first)."""
        if not self.varying:
            return self.calibration.spectrum
        return self._first.scaled(math.sqrt(max(releases, 1)))

    @cached_property
    def _first(self) -> Spectrum:
        return self.calibration.at(self.calibration.mechanism.sigma)

    @cached_property
    def grid_values(self) -> int:
        if not self.varying:
            return 1
        return int(0.5 * math.log(self.calibration.mechanism.horizon) / math.log1p(1 / self.calibration.features.m)) + 1

    def grid_lambda(self, lambda_min: float) -> float:
        """The largest grid value below lambda_min."""
        if not self.varying:
            return lambda_min
        step, start = math.log1p(1 / self.calibration.features.m), self._first.lambda_min
        return start * math.exp(step * math.floor(math.log(lambda_min / start) / step + 1e-9))

    def log_det(self, V_log_det: Array, count: int, lambda_: float) -> Array:
        m = self.calibration.features.m
        most = 2 * float(FINITE_GAIN(m=m, T=count, lambda_=lambda_))
        if self.gain is not None and not self.varying:
            most = min(most, 2 * self.gain(count))
        return np.clip(V_log_det - m * math.log(lambda_), 0.0, most)

    def beta(self, V_log_det: Array, count: int, spectrum: Spectrum) -> Array:
        """(R,) widths for ln det V (R,)."""
        c = self.calibration
        lambda_ = self.grid_lambda(spectrum.lambda_min)
        return CONFIDENCE_WIDTH(
            subgaussian=self.subgaussian, zeta=self.zeta_reward / self.grid_values, log_det=self.log_det(V_log_det, count, lambda_),
            B=c.B, lambda_max=spectrum.lambda_max, t=count + 1, error=c.features.uniform_error, kappa=spectrum.kappa,
        )  # fmt: skip

    def publish(self, coordinates: Array, count: int, releases: int) -> Released:
        """From a noisy prefix (R, size) of `count` users to what policies act on. Post-processing: reads nothing else."""
        H, u = self.calibration.leaf.decode(coordinates, count)
        spectrum = self.spectrum(releases)
        values, vectors = np.linalg.eigh(H + spectrum.shift * np.eye(H.shape[-1]))
        values = np.maximum(values, spectrum.lambda_min)  # off the good event; privacy does not depend on it
        inverse = (vectors / values[:, None, :]) @ np.swapaxes(vectors, -1, -2)
        theta = (inverse @ u[..., None])[..., 0]
        return Released(count, theta, inverse, self.beta(np.sum(np.log(values), axis=-1), count, spectrum))

    def start(self, R: int) -> Released:
        """Before any release: V is the shift."""
        return self.publish(np.zeros((R, self.calibration.leaf.size)), 0, 0)


def regret_bound(
    T: int, beta: float, gain: float, lambda_min: float, m: int, error: float, B: float, block: int = 1
) -> dict[str, float]:
    """The regret theorem, term by term, for a constant lambda_min and a refresh after every `block` users.

    2 sqrt(2 c s) max_t beta_t sqrt(T (gamma_T(lambda_min) + min(m, T) T error / (2 lambda_min))) + 2 B T sqrt(error), capped by 2 B T;
    c = 1/(lambda_min ln(1 + 1/lambda_min)). `gain` must be an upper bound on gamma_T(lambda_min) for the kernel or the features.
    s = 1 + (block - 1)/lambda_min: users of one block add at most (block - 1) I <= (s - 1) V to V, so |phi|^2 in the stale norm is
    at most s times that in the fresh one. A block no longer than lambda_min costs at most sqrt(2).
    """
    validate.positive_int("T", T), validate.positive_int("m", m), validate.positive_int("block", block)
    validate.nonnegative("beta", beta), validate.nonnegative("gain", gain), validate.positive("lambda_min", lambda_min)
    validate.nonnegative("error", error), validate.positive("B", B)
    width_sum = float(WIDTH_SUM(T=T, beta=beta, gain=gain, lambda_min=lambda_min, m=m, error=error, block=block))
    bias = float(MISSPECIFICATION(B=B, T=T, error=error))
    return {"width_sum": width_sum, "misspecification": bias, "trivial": 2 * B * T, "bound": min(width_sum + bias, 2 * B * T)}
