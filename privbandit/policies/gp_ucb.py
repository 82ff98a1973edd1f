"""Gaussian-process upper confidence bounds without privacy: exact (kernel form) and in finite features.

Here contexts (R, K, d) are the coordinates of the K points on offer, in the box of the features; every round is observed.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.estimators.gp import FeaturePosterior, FeatureState, KernelPosterior, KernelState
from privbandit.features.fourier import FourierFeatures
from privbandit.features.kernels import Kernel
from privbandit.formulas.gp import CONFIDENCE_WIDTH, GP_UCB_WIDTH, IGP_WIDTH
from privbandit.policies.base import Array, Policy, argmax, settled


@dataclass(frozen=True, eq=False)
class KernelUCB(Policy):
    """mean + beta_t std of the exact posterior. A round costs O(K t^2): for comparison, not for long runs."""

    kernel: Kernel
    d: int
    zeta: float = 0.05

    def __post_init__(self) -> None:
        validate.instance("kernel", self.kernel, Kernel), validate.positive_int("d", self.d)
        validate.probability("zeta", self.zeta)

    @property
    @abstractmethod
    def posterior(self) -> KernelPosterior:
        """The model of the rewards."""

    @abstractmethod
    def beta(self, state: KernelState, K: int) -> Array:
        """Width (R,) of the round about to be played."""

    def init(self, R: int, noise: np.random.Generator) -> KernelState:
        return self.posterior.init(R, self.d)

    def act(self, state: KernelState, contexts: Array, rng: np.random.Generator) -> tuple[KernelState, NDArray[np.intp]]:
        mean, std = self.posterior.predict(state, contexts)
        return state, argmax(settled(mean + self.beta(state, contexts.shape[1])[:, None] * std))

    def update(self, state: KernelState, x: Array, reward: Array, noise: np.random.Generator) -> KernelState:
        return self.posterior.update(state, x, reward)


@dataclass(frozen=True, eq=False)
class GPUCB(KernelUCB):
    """GP-UCB in the Bayesian setting: f ~ GP(0, k), reward noise N(0, variance), beta_t = sqrt(2 ln(|D| t^2 pi^2 / (6 zeta))).

    `size` is the number of points |D| of the whole domain. Source: Srinivas et al. (2010), Theorem 1.
    """

    size: int = 100
    variance: float = 0.25
    name = "GP-UCB"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.positive_int("size", self.size)
        validate.positive("variance", self.variance)

    @property
    def posterior(self) -> KernelPosterior:
        return KernelPosterior(self.kernel, self.variance)

    def beta(self, state: KernelState, K: int) -> Array:
        return np.full(len(state.y), GP_UCB_WIDTH(size=self.size, t=state.y.shape[1] + 1, zeta=self.zeta))


@dataclass(frozen=True, eq=False)
class IGPUCB(KernelUCB):
    """Improved GP-UCB: |f|_k <= B and conditionally sub-Gaussian rewards, lambda = 1 + 2/T.

    beta_t = B + subgaussian sqrt(ln det(lambda I + K_{t-1}) + 2 ln(1/zeta)): the self-normalised bound with the realised
    determinant (the paper bounds it by the maximum information gain). Source: Chowdhury and Gopalan (2017), Theorems 1 and 2.
    """

    horizon: int = 1000
    B: float = 1.0
    subgaussian: float = 0.5
    name = "IGP-UCB"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.positive_int("horizon", self.horizon)
        validate.positive("B", self.B)
        validate.positive("subgaussian", self.subgaussian)

    @property
    def posterior(self) -> KernelPosterior:
        return KernelPosterior(self.kernel, 1 + 2 / self.horizon)

    def beta(self, state: KernelState, K: int) -> Array:
        log_det = state.log_det + state.y.shape[1] * np.log(self.posterior.lambda_)
        return IGP_WIDTH(B=self.B, subgaussian=self.subgaussian, log_det=log_det, zeta=self.zeta)


class ApproximateState(NamedTuple):
    t: int
    posterior: FeatureState


@dataclass(frozen=True, eq=False)
class ApproximateGPUCB(Policy):
    """GP-UCB in m finite features: a round costs O(K m^2) whatever t is.

    beta_t = subgaussian sqrt(2 ln(1/zeta) + ln det(G_t/lambda)) + B sqrt(lambda + (t - 1) error). Source: Mutny and Krause (2018);
    the width is the one proved in this book.
    """

    features: FourierFeatures
    B: float = 1.0
    subgaussian: float = 0.5
    zeta: float = 0.05
    lambda_: float = 1.0
    name = "approximate GP-UCB"

    def __post_init__(self) -> None:
        validate.instance("features", self.features, FourierFeatures)
        for field in ("B", "subgaussian", "lambda_"):
            validate.positive(field, getattr(self, field))
        validate.probability("zeta", self.zeta)

    @property
    def dimension(self) -> int:
        return self.features.d

    @property
    def posterior(self) -> FeaturePosterior:
        return FeaturePosterior(self.features.m, self.lambda_, 1 / np.sqrt(self.lambda_))

    def init(self, R: int, noise: np.random.Generator) -> ApproximateState:
        return ApproximateState(1, self.posterior.init(R))

    def beta(self, state: ApproximateState) -> Array:
        """Width (R,) of round state.t."""
        return CONFIDENCE_WIDTH(
            subgaussian=self.subgaussian, zeta=self.zeta, log_det=np.maximum(self.posterior.log_det(state.posterior), 0.0), B=self.B,
            lambda_max=self.lambda_, t=state.t, error=self.features.uniform_error, kappa=0.0,
        )  # fmt: skip

    def act(self, state: ApproximateState, contexts: Array, rng: np.random.Generator) -> tuple[ApproximateState, NDArray[np.intp]]:
        mean, norm = self.posterior.predict(state.posterior, self.features(contexts))
        return state, argmax(settled(mean + self.beta(state)[:, None] * norm))

    def update(self, state: ApproximateState, x: Array, reward: Array, noise: np.random.Generator) -> ApproximateState:
        return ApproximateState(state.t + 1, self.posterior.update(state.posterior, self.features(x), reward))
