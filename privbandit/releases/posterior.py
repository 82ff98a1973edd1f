"""The whole private posterior as a public function: post-processing of what the policy already released."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privbandit.features.fourier import FourierFeatures
from privbandit.gp.width import Released
from privbandit.ledger import Ledger
from privbandit.policies.noisy_gp_ucb import NoisyGPUCB, NoisyState

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PrivatePosterior:
    """x -> mean and band of the learnt function, for any x of the box.

    Guarantee: the policy's own `ledger`, with no further cost: everything here is computed from the last released prefix, public
    hyperparameters and x. A posterior in kernel form could not be published: k_t(x) contains the raw points. |f - mean| <= `band` on
    the whole box with the probability stated in `gp.width.Width`.
    """

    features: FourierFeatures
    released: Released
    bias: float
    ledger: Ledger

    @classmethod
    def of(cls, policy: NoisyGPUCB, state: NoisyState) -> PrivatePosterior:
        """Reads `state.released` only; users since the last release (fewer than one block) are not in it."""
        c = policy.calibration
        return cls(c.features, state.released, c.B * float(np.sqrt(c.features.uniform_error)), policy.ledger)

    def mean(self, x: Array) -> Array:
        """Posterior mean (R, n) at x (n, d)."""
        return self.released.theta @ self.features(x).T

    def band(self, x: Array) -> Array:
        """Half-width (R, n) of the simultaneous confidence band at x (n, d)."""
        phi = self.features(x)
        variance = np.einsum("nm,rmk,nk->rn", phi, self.released.inverse, phi, optimize=True)
        return self.released.beta[:, None] * np.sqrt(np.maximum(variance, 0.0)) + self.bias

    def best(self, x: Array) -> NDArray[np.intp]:
        """Index (R,) of the candidate with the largest mean: a free recommendation."""
        return np.argmax(self.mean(x), axis=1)
