"""What the command line shows: the private width of our design beside the published one."""

from __future__ import annotations

from typing import Any

from privbandit import validate
from privbandit.features.kernels import Kernel, SquaredExponential, make_kernel
from privbandit.features.quadrature import features_for_horizon
from privbandit.gp.calibration import calibrate
from privbandit.gp.published import published_features, published_spectrum
from privbandit.policies.noisy_gp_ucb import NoisyGPUCB


def private_width(
    kernel: str = "se",
    lengthscale: float = 0.2,
    horizon: int = 16384,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    B: float = 1.0,
    Y: float = 1.0,
    zeta: float = 0.05,
    *,
    nu: float = 2.5,
    d: int = 1,
    mechanism: str = "square-root",
    gram: str = "moment",
    block: int = 1,
) -> float:
    """B sqrt(lambda_max) + kappa of the best design: valid at every prefix at once with probability >= 1 - zeta."""
    features = features_for_horizon(make_kernel(kernel, lengthscale, nu, d), horizon, d)
    return calibrate(
        features, horizon, epsilon, delta, B=B, Y=Y, zeta=zeta, mechanism=mechanism, gram=gram, block=block
    ).private_width


def published_private_width(
    kernel: str = "se",
    lengthscale: float = 0.2,
    horizon: int = 16384,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    B: float = 1.0,
    Y: float = 1.0,
    zeta: float = 0.05,
    *,
    nu: float = 2.5,
    d: int = 1,
    m: int | None = None,
) -> float:
    """The same quantity with the literature's constants, at its own number of features (squared exponential) or at `m`."""
    validate.positive("B", B)
    covariance = make_kernel(kernel, lengthscale, nu, d)
    m = _published_m(covariance, horizon, d) if m is None else m
    return published_spectrum(m, horizon, epsilon, delta, Y, zeta)[1].width(B)


def _published_m(kernel: Kernel, horizon: int, d: int) -> int:
    if isinstance(kernel, SquaredExponential):
        return published_features(kernel, horizon, d).m
    return features_for_horizon(kernel, horizon, d).m  # no published rule: compared at our features


def calibrate_gp(
    kernel: str = "se",
    lengthscale: float = 0.2,
    horizon: int = 16384,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    *,
    B: float = 1.0,
    Y: float = 1.0,
    zeta: float = 0.05,
    nu: float = 2.5,
    d: int = 1,
    mechanism: str = "square-root",
    gram: str = "moment",
    block: int = 1,
) -> dict[str, Any]:
    """Everything a user of the command line needs: widths, noise, bounds, the number of features and the guarantee.

    kernel "se" or "matern" (smoothness nu, a product form for d > 1); points in [0, 1]^d; |f|_k <= B; rewards clipped to [-Y, Y];
    zeta: probability that a bound on the noise fails at some prefix.
    """
    validate.one_of("kernel", kernel, ("se", "matern"))
    covariance = make_kernel(kernel, lengthscale, nu, d)
    features = features_for_horizon(covariance, horizon, d)
    c = calibrate(features, horizon, epsilon, delta, B=B, Y=Y, zeta=zeta, mechanism=mechanism, gram=gram, block=block)
    tree = calibrate(features, horizon, epsilon, delta, B=B, Y=Y, zeta=zeta, mechanism="tree", gram="symmetric")
    m = _published_m(covariance, horizon, d)
    return {
        "private_width": c.private_width,
        "published_private_width": published_spectrum(m, horizon, epsilon, delta, Y, zeta)[1].width(B),
        "published_private_width_same_features": published_spectrum(features.m, horizon, epsilon, delta, Y, zeta)[1].width(B),
        "exact_tree_private_width": tree.private_width,
        "features": features.m,
        "published_features": m,
        "uniform_error": features.uniform_error,
        "sensitivity": c.leaf.Delta,
        "sigma": c.mechanism.sigma,
        "prefix_sigma": c.mechanism.max_std,
        "vector_scale": c.leaf.scale,
        "vector_shape": c.leaf.shape.exponent,
        "shift": c.spectrum.shift,
        "lambda_min": c.spectrum.lambda_min,
        "lambda_max": c.spectrum.lambda_max,
        "kappa": c.spectrum.kappa,
        "releases": c.mechanism.horizon,
        "mechanism": mechanism,
        "gram": gram,
        "guarantee": str(NoisyGPUCB(c).guarantee(delta)),
    }
