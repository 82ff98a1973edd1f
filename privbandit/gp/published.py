"""The calibration of the literature, for comparison: Shariff and Sheffet (2018) constants carried to m features.

Tree of 1 + ceil(log2 T) levels, advanced composition, the classical Gaussian mechanism with both logarithms merged, the shift
2 Upsilon with Upsilon = sigma sqrt(levels) (4 sqrt(m) + 2 ln(2T/zeta)). The original paper's own constants for Gaussian
processes are not available to us: this is a reconstruction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privbandit import validate
from privbandit.features.fourier import FourierFeatures
from privbandit.features.quadrature import LIMIT, hermite_features
from privbandit.formulas.gp import PUBLISHED_HERMITE_ERROR, PUBLISHED_NODE_SIGMA
from privbandit.gp.calibration import Calibration, Spectrum, make_shape
from privbandit.gp.leaf import Leaf
from privbandit.mechanisms import TreeMechanism


def published_nodes(lengthscale: float, horizon: int, d: int = 1) -> int:
    """Gauss-Hermite nodes a side by the printed rule: more than 1/l^2, and the printed error bound at most 1/T."""
    validate.positive_int("horizon", horizon), validate.positive_int("d", d)
    if validate.positive("lengthscale", lengthscale) < LIMIT**-0.5:
        raise ValueError(f"lengthscale must allow at most {LIMIT} nodes, got {lengthscale!r}")
    n = int(1 / lengthscale**2 + 1e-9) + 1
    while PUBLISHED_HERMITE_ERROR(d=d, lengthscale=lengthscale, n=n) > 1 / horizon:
        n += 1
        if n > LIMIT:
            raise ValueError(f"lengthscale must allow at most {LIMIT} nodes, got {lengthscale!r}")
    return n


def published_features(kernel, horizon: int, d: int = 1) -> FourierFeatures:
    """Half-space Gauss-Hermite features with the printed number of nodes."""
    scale = min(kernel.lengthscales(validate.positive_int("d", d)))
    return hermite_features(kernel, published_nodes(scale, horizon, d), d)


def published_spectrum(m: int, horizon: int, epsilon: float, delta: float, Y: float = 1.0, zeta: float = 0.05) -> tuple[float, Spectrum]:
    """The printed node noise sigma (off-diagonal standard deviation) and spectral bounds."""
    validate.positive_int("m", m), validate.positive_int("horizon", horizon), validate.positive("Y", Y), validate.probability("zeta", zeta)
    validate.positive("epsilon", epsilon), validate.probability("delta", delta)
    sigma = float(PUBLISHED_NODE_SIGMA(T=horizon, Y=Y, delta=delta, epsilon=epsilon))
    levels = 1 + math.ceil(math.log2(horizon))
    log = math.log(2 * horizon / zeta)
    upsilon = sigma * math.sqrt(levels) * (4 * math.sqrt(m) + 2 * log)
    kappa = sigma * math.sqrt(levels / upsilon) * (math.sqrt(m) + math.sqrt(2 * log))
    return sigma, Spectrum(2 * upsilon, upsilon, 3 * upsilon, kappa)


@dataclass(frozen=True, eq=False)
class PublishedCalibration(Calibration):
    """The literature's noise and shift. The tree's exact accounting still applies: it is far more private than it claims."""

    published: Spectrum | None = None

    @property
    def spectrum(self) -> Spectrum:
        return self.published


def published_calibration(
    features: FourierFeatures, horizon: int, epsilon: float, delta: float, *, B: float = 1.0, Y: float = 1.0, zeta: float = 0.05
) -> PublishedCalibration:
    """A runnable tree with the printed noise: equal standard deviations in matrix and vector, hence scale sqrt(2) in svec coordinates."""
    validate.positive("B", B)
    sigma, spectrum = published_spectrum(features.m, validate.positive_int("horizon", horizon), epsilon, delta, Y, zeta)
    leaf = Leaf(make_shape(features, "symmetric"), Y, math.sqrt(2))
    tree = TreeMechanism(horizon, math.sqrt(2) * sigma, leaf.Delta)
    return PublishedCalibration(leaf, tree, 1.0, zeta, B, published=spectrum)
