"""Private successive elimination: one noisy sum per arm and epoch (Sajed and Sheffet 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privbandit import validate
from privbandit.accounting import gaussian_sigma
from privbandit.ledger import Entry, Gaussian, Laplace, Ledger
from privbandit.policies.base import Array
from privbandit.policies.successive_elimination import SuccessiveElimination


@dataclass(frozen=True, kw_only=True)
class PrivateElimination(SuccessiveElimination):
    """Successive elimination whose epoch sums leave through `event`, Laplace (pure) or Gaussian noise.

    *Guarantee.* Differential privacy of one user's rewards (what every arm would have paid), neighbours by replacement, a trusted
    curator. Stronger than joint privacy: within an epoch the arms are played by a schedule that no reward influences, so a user's
    own action is covered as well. A user enters one sum of one epoch (parallel composition), rewards are clipped to [0, 1], hence
    both the L1 and the L2 sensitivity is 1.
    Source: Sajed and Sheffet (2019); epoch lengths are solved here for the total error of rewards and noise.
    """

    event: Laplace | Gaussian
    trust = "central"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.event, Laplace | Gaussian):
            raise TypeError(f"event must be a Laplace or Gaussian event, got {self.event!r}")
        if self.event.Delta < 1:
            raise ValueError(f"event.Delta must be at least 1, the sensitivity of an epoch's sums, got {self.event.Delta!r}")

    @classmethod
    def calibrated(cls, epsilon: float, delta: float = 0.0, *, K: int, zeta: float = 0.05) -> PrivateElimination:
        """Laplace noise for delta = 0, Gaussian noise otherwise; epsilon = inf gives `SuccessiveElimination`."""
        epsilon = validate.positive("epsilon", epsilon, allow_inf=True)
        event = Laplace(1.0, 1 / epsilon) if delta == 0 else Gaussian(1.0, gaussian_sigma(epsilon, delta))
        return cls(K=K, zeta=zeta, event=event)

    @property
    def scale(self) -> float:
        return self.event.scale if isinstance(self.event, Laplace) else self.event.sigma

    @property
    def name(self) -> str:
        return f"private elimination ({type(self.event).__name__})"

    @property
    def ledger(self) -> Ledger:
        if self.scale == 0:
            return Ledger.nonprivate()
        return Ledger("one user's rewards", "central", (Entry("sums of one epoch", self.event),))

    def _sum_error(self, epoch: Array, size: Array) -> Array:
        log = np.log(4 * size * epoch**2 / self.zeta)
        return self.scale * (log if isinstance(self.event, Laplace) else np.sqrt(2 * log))

    def _release(self, sums: Array, noise: np.random.Generator) -> Array:
        return self.event.release(sums, noise)
