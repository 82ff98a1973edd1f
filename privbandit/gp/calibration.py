"""The private part of the confidence width, B sqrt(lambda_max) + kappa, and the public design that makes it small.

The released matrix is Sigma_t + H_t with noise H_t; a public shift c makes R_t = c I + H_t positive definite. With probability at
least 1 - zeta, for all prefixes at once: lambda_min I <= R_t <= lambda_max I and |h_t|_{R_t^-1} <= kappa. Nothing here reads data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from scipy.optimize import minimize_scalar

from privbandit import validate
from privbandit.accounting import gaussian_mu
from privbandit.features.certificate import POINTS
from privbandit.features.fourier import FourierFeatures
from privbandit.gp.gram import FullGram, MomentGram
from privbandit.gp.leaf import Leaf, Shape
from privbandit.mechanisms import PREFIX_SUMS, PrefixSums

GRAMS = ("symmetric", "shaped", "moment")
EVENTS = 4  # |H|, -tr(SH), |H S^(1/2)|_F and |h|: each fails with probability zeta / (4 releases)
SPLITS = (0.1, 5.0)  # range of the vector's scale that is searched
RATIOS = (0.02, 50.0)  # range of lambda_min / |H| that is searched
EXPONENTS = (0.0, 0.3, 0.4)  # shapes of the vector's noise that are tried


@dataclass(frozen=True)
class Spectrum:
    """Deterministic bounds that hold for every prefix with probability >= 1 - zeta."""

    shift: float
    lambda_min: float
    lambda_max: float
    kappa: float

    def width(self, B: float) -> float:
        """B sqrt(lambda_max) + kappa, the private part of beta_t."""
        validate.positive("B", B)
        return B * math.sqrt(self.lambda_max) + self.kappa

    def scaled(self, factor: float) -> Spectrum:
        """The bounds when every noise standard deviation is `factor` times as large and the shift follows."""
        return Spectrum(factor * self.shift, factor * self.lambda_min, factor * self.lambda_max, math.sqrt(factor) * self.kappa)


@dataclass(frozen=True)
class NoiseBounds:
    """High-probability bounds for noise of standard deviation 1 in every coordinate of a shape, for a failure eta per event."""

    norm: float  # |H|
    trace: float  # -tr(S H)
    frobenius: float  # |H S^(1/2)|_F
    weight: float  # tr S
    top: float  # max S
    tail: float  # sqrt(2 ln(1/eta))

    @classmethod
    def of(cls, shape: Shape, eta: float) -> NoiseBounds:
        gram, s = shape.gram, shape.s
        tail = math.sqrt(2 * math.log(1 / eta))
        return cls(gram.norm(eta), gram.weighted_trace(s, eta), gram.frobenius(s, eta), float(s.sum()), float(s.max()), tail)

    def spectrum(self, std: float, scale: float, ratio: float) -> Spectrum:
        """Bounds for coordinates of standard deviation `std`, vector scaled by `scale`, lambda_min = ratio |H|.

        h = (std/scale) S^(1/2) g with g standard normal and independent of H, so |h|_{R^-1} <= (std/scale) (sqrt(tr(S R^-1)) +
        sqrt(max S / lambda_min) tail). On the good event tr(S R^-1) <= tr S / c - tr(S H) / c^2 + |H S^(1/2)|_F^2 / (c^2 lambda_min),
        from R^-1 = 1/c - H/c^2 + H R^-1 H / c^2, and it never exceeds tr S / lambda_min.
        """
        norm = std * self.norm
        low = ratio * norm
        c = norm + low
        trace = self.weight / c + std * self.trace / c**2 + (std * self.frobenius) ** 2 / (c**2 * low)
        trace = min(trace, self.weight / low)
        kappa = std / scale * (math.sqrt(trace) + math.sqrt(self.top / low) * self.tail)
        return Spectrum(c, low, norm + c, kappa)


@dataclass(frozen=True, eq=False)
class Calibration:
    """A public design: what is released, through which mechanism, and the bounds that follow.

    Guarantee: `mechanism` is mu-GDP for replacement of one user's contribution, hence (epsilon, delta)-joint DP of the user (decision
    set and response function) for everything computed from its prefixes; with PerUser noise, local DP of every report.
    """

    leaf: Leaf
    mechanism: PrefixSums
    ratio: float
    zeta: float
    B: float
    block: int = 1  # users added up before each release
    ridge: float = 1.0  # lambda of a run without noise

    def __post_init__(self) -> None:
        validate.instance("leaf", self.leaf, Leaf), validate.instance("mechanism", self.mechanism, PrefixSums)
        for name in ("ratio", "B", "ridge"):
            validate.positive(name, getattr(self, name))
        validate.probability("zeta", self.zeta), validate.positive_int("block", self.block)

    @cached_property
    def bounds(self) -> NoiseBounds:
        return NoiseBounds.of(self.leaf.shape, self.zeta / (EVENTS * self.mechanism.horizon))

    @property
    def features(self) -> FourierFeatures:
        return self.leaf.features

    @property
    def private(self) -> bool:
        return self.mechanism.sigma > 0

    def at(self, std: float) -> Spectrum:
        """Bounds for a prefix of this noise standard deviation, with a shift made for it."""
        if not self.private:
            return Spectrum(self.ridge, self.ridge, self.ridge, 0.0)
        return self.bounds.spectrum(std, self.leaf.scale, self.ratio)

    @cached_property
    def spectrum(self) -> Spectrum:
        """Bounds with the shift held at what the noisiest prefix needs."""
        return self.at(self.mechanism.max_std)

    @property
    def private_width(self) -> float:
        return self.spectrum.width(self.B)


def make_shape(features: FourierFeatures, gram: str, exponent: float = 0.0) -> Shape:
    """"symmetric" (the literature's Gaussian), "shaped" (less noise where weights are small) or "moment" (equispaced only)."""
    validate.one_of("gram", gram, GRAMS)
    form = MomentGram(features) if gram == "moment" else FullGram(features, 0.2 if gram == "shaped" else 0.0)
    return Shape(form, exponent)


def _search(f, low: float, high: float) -> tuple[float, float]:
    """Minimiser and minimum of f over [low, high] on a logarithmic scale."""
    found = minimize_scalar(lambda u: f(math.exp(u)), bounds=(math.log(low), math.log(high)), method="bounded", options={"xatol": 1e-4})
    return math.exp(found.x), float(found.fun)


def design(shape: Shape, std: float, releases: int, B: float, Y: float, zeta: float) -> tuple[float, float, float]:
    """The width B sqrt(lambda_max) + kappa, vector scale and ratio lambda_min / |H| of the best design of a shape.

    `std` is the noise of the worst prefix for sensitivity 1.
    """
    validate.positive("std", std), validate.positive_int("releases", releases)
    validate.positive("B", B), validate.positive("Y", Y), validate.probability("zeta", zeta)
    bounds = NoiseBounds.of(shape, zeta / (EVENTS * releases))

    def best_ratio(scale: float) -> tuple[float, float]:
        noise = std * shape.sensitivity(Y, scale)
        return _search(lambda ratio: bounds.spectrum(noise, scale, ratio).width(B), *RATIOS)

    scale, width = _search(lambda scale: best_ratio(scale)[1], *SPLITS)
    return width, scale, best_ratio(scale)[0]


def calibrate(
    features: FourierFeatures,
    horizon: int,
    epsilon: float,
    delta: float,
    *,
    B: float = 1.0,
    Y: float = 1.0,
    zeta: float = 0.05,
    mechanism: str = "square-root",
    gram: str = "moment",
    block: int = 1,
    exponents: Sequence[float] = EXPONENTS,
) -> Calibration:
    """The best design of the given kind for (epsilon, delta), a norm bound |f|_k <= B and rewards clipped to [-Y, Y].

    `block` users are added up before each release: T/block releases and as many events in the union bound. epsilon = inf: no noise.
    """
    validate.instance("features", features, FourierFeatures)
    releases = -(-validate.positive_int("horizon", horizon) // validate.positive_int("block", block))
    mu = gaussian_mu(epsilon, delta)
    validate.positive("B", B), validate.positive("Y", Y), validate.probability("zeta", zeta)
    validate.array("exponents", exponents, (None,))
    kind = PREFIX_SUMS[validate.one_of("mechanism", mechanism, PREFIX_SUMS)]
    if features.d > max(POINTS):  # no grid certificate there: only the closed-form sensitivity is left
        exponents = (0.0,)
    shapes = [make_shape(features, gram, e) for e in exponents]
    if math.isinf(mu):
        return Calibration(Leaf(shapes[0], Y, 1.0), kind(releases, 0.0), 1.0, zeta, B, block)
    std = kind.calibrated(releases, mu).max_std
    designs = [design(shape, std, releases, B, Y, zeta) for shape in shapes]
    best = min(range(len(shapes)), key=lambda i: designs[i][0])
    _, scale, ratio = designs[best]
    leaf = Leaf(shapes[best], Y, scale)
    return Calibration(leaf, kind.calibrated(releases, mu, leaf.Delta), ratio, zeta, B, block)
