"""Wishart noise: a positive definite alternative to the shifted Gaussian, with the published and with exact accounting.

Every node of the tree adds W ~ Wishart_p(k, L^2 I) to the sum of v v^T. v = (phi, y, sqrt(Y^2 - y^2)) has |v|^2 = L^2 = 1 + Y^2 for
every user, so the privacy loss has one law whatever the user holds. Source of the mechanism: Sheffet (2019). The tree of
`mechanisms.wishart` serves leaves of any norm up to a bound, whose loss has no one law, and certifies a Gaussian curve instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve
from scipy.stats import chi2

from privbandit import validate
from privbandit.features.fourier import FourierFeatures
from privbandit.gp.calibration import Calibration, Spectrum, make_shape
from privbandit.gp.leaf import Leaf
from privbandit.ledger import ApproximateDP, Entry, door
from privbandit.linalg import outer, smat, svec, svec_size
from privbandit.mechanisms.tree import TreeMechanism, TreeState
from privbandit.mechanisms.wishart import draw_wishart

Array = NDArray[np.float64]
POINTS = 1 << 14  # grid of one node's privacy loss; losses are rounded up, so delta is an upper bound
TAIL = 1e-12  # mass of one node's loss that is charged as infinite


def node_loss(k: int, p: int, removed: bool) -> tuple[float, float, Array, float]:
    """The privacy loss of one node, discretised upwards: (first loss, step, probabilities, mass at infinity).

    W against W + v v^T, |v| = 1 in units of L: with s = 1/chi2_(k-p+1), the loss is -(k-p-1)/2 ln(1-s) - 1/2 if the truth lacks the
    user (infinite for s >= 1) and 1/2 - (k-p-1)/2 ln(1+s) if it has the user (`removed`: the neighbour lacks it).
    """
    law, c = chi2(k - p + 1), (k - p - 1) / 2
    low, high = max(law.ppf(TAIL / 2), 1.0 + 1e-9), law.isf(TAIL / 2)
    loss = (lambda z: 0.5 - c * np.log1p(1 / z)) if removed else (lambda z: -c * np.log1p(-1 / z) - 0.5)
    ends = sorted((float(loss(low)), float(loss(high))))
    grid = np.linspace(*ends, POINTS)
    inverse = (lambda x: 1 / np.expm1((0.5 - x) / c)) if removed else (lambda x: 1 / -np.expm1(-(x + 0.5) / c))
    z = inverse(grid)
    cdf = law.cdf(z) if removed else law.sf(z)  # P(loss <= grid)
    cdf[-1] = law.cdf(high) if removed else law.sf(low)
    return ends[0], grid[1] - grid[0], np.diff(cdf, prepend=0.0), 1 - float(cdf[-1])


def wishart_delta(k: int, p: int, levels: int, epsilon: float) -> float:
    """An upper bound on delta at `epsilon` of `levels` nodes, for adding or removing one user (the worse of the two).

    The loss of the composition is the sum of independent losses: the law of a node's loss does not depend on the user's data, so
    adaptive choices do not matter.
    """
    validate.positive_int("p", p), validate.positive_int("k", k, at_least=p + 2), validate.positive_int("levels", levels)
    validate.nonnegative("epsilon", epsilon)
    return max(_delta(k, p, levels, epsilon, removed) for removed in (True, False))


@lru_cache(maxsize=4096)
def _delta(k: int, p: int, levels: int, epsilon: float, removed: bool) -> float:
    start, step, mass, infinite = node_loss(k, p, removed)
    total = np.array([1.0])
    for _ in range(levels):
        total = np.maximum(fftconvolve(total, mass), 0.0)
    losses = levels * start + step * np.arange(len(total))
    above = losses > epsilon
    finite = float(np.sum(total[above] * -np.expm1(epsilon - losses[above])))
    return finite + levels * infinite + 1e-12  # the last term covers the rounding of the transforms


def replacement_target(epsilon: float, delta: float) -> tuple[float, float]:
    """(epsilon/2, delta/(1 + e^(epsilon/2))): removing and adding at this level is (epsilon, delta) for replacing."""
    validate.positive("epsilon", epsilon), validate.probability("delta", delta)
    if epsilon > 1400:
        raise ValueError(f"epsilon must be at most 1400 for Wishart noise under replacement, got {epsilon!r}")
    return epsilon / 2, delta / (1 + math.exp(epsilon / 2))


def exact_degrees(p: int, levels: int, epsilon: float, delta: float, neighbours: str = "replace") -> int:
    """The least degrees of freedom k found private by `wishart_delta`, by doubling and bisection."""
    _checked(p, levels, epsilon, delta)
    validate.one_of("neighbours", neighbours, ("replace", "add-remove"))
    target = replacement_target(epsilon, delta) if neighbours == "replace" else (epsilon, delta)
    good = lambda k: wishart_delta(k, p, levels, target[0]) <= target[1]  # noqa: E731
    low, high = p + 3, 2 * p + 8
    while not good(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return high


def _checked(p: int, levels: int, epsilon: float, delta: float) -> None:
    validate.positive_int("p", p), validate.positive_int("levels", levels)
    validate.positive("epsilon", epsilon), validate.probability("delta", delta)


def published_degrees(p: int, levels: int, epsilon: float, delta: float) -> int:
    """p + ceil(224 levels epsilon^-2 ln(8 levels/delta) ln(2/delta)), as printed (Shariff and Sheffet 2018)."""
    _checked(p, levels, epsilon, delta)
    return p + math.ceil(224 * levels * epsilon**-2 * math.log(8 * levels / delta) * math.log(2 / delta))


@dataclass(frozen=True)
class WishartNoise:
    """Adds an independent Wishart_p(k, scale^2 I) to every svec (..., p(p+1)/2)."""

    p: int
    k: int
    scale: float

    def __post_init__(self) -> None:
        validate.positive_int("p", self.p), validate.positive_int("k", self.k, at_least=self.p), validate.nonnegative("scale", self.scale)

    def release(self, value: Array, noise: np.random.Generator) -> Array:
        return door(self, value, noise, lambda: self.draw(np.shape(value)[:-1], self.k, noise))

    def draw(self, shape: tuple[int, ...], k: int, noise: np.random.Generator) -> Array:
        """svec of Wishart(k, scale^2 I); `scale` is a standard deviation, not a covariance."""
        return self.scale**2 * svec(draw_wishart(shape, self.p, k, noise))


@dataclass(frozen=True)
class GPWishartTree(TreeMechanism):
    """A tree with Wishart nodes; every prefix is padded to `levels` summands, so its noise is Wishart(levels k) whatever t is.

    Guarantee: `cost` for one user under `neighbours`; the padding carries no data (post-processing). `sigma` is the scale L.
    """

    p: int = 3
    k: int = 8
    cost: ApproximateDP = ApproximateDP(math.inf, 0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.positive_int("p", self.p), validate.positive_int("k", self.k, at_least=self.p)
        validate.instance("cost", self.cost, ApproximateDP)

    @property
    def node(self) -> WishartNoise:
        return WishartNoise(self.p, self.k, self.sigma)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (Entry("Wishart tree", self.cost),)

    def pad(self, t: int, R: int, noise: np.random.Generator) -> Array:
        """Noise (R, size) for the nodes that a prefix of t lacks."""
        missing = self.levels - int(t).bit_count()
        return self.node.draw((R,), missing * self.k, noise) if missing else np.zeros((R, svec_size(self.p)))

    def release(self, state: TreeState, increment: Array, noise: np.random.Generator) -> tuple[TreeState, Array]:
        state, prefix = super().release(state, increment, noise)
        return state, prefix + self.pad(state.step, len(prefix), noise)


@dataclass(frozen=True, eq=False)
class WishartLeaf(Leaf):
    """v v^T of v = (phi, y, sqrt(Y^2 - y^2)), which has norm^2 1 + Y^2 for every user."""

    @property
    def p(self) -> int:
        return self.features.m + 2

    @property
    def size(self) -> int:
        return svec_size(self.p)

    def encode(self, x: Array, y: Array) -> Array:
        x, y = self.clipped(x, y)
        y = y[..., None]
        return outer(np.concatenate([self.features(x), y, np.sqrt(self.Y**2 - y**2)], axis=-1))

    def decode(self, coordinates: Array, count: int) -> tuple[Array, Array]:
        matrix, m = smat(coordinates, self.p), self.features.m
        return matrix[..., :m, :m], matrix[..., :m, m]


@dataclass(frozen=True, eq=False)
class WishartCalibration(Calibration):
    """The prefix noise is L^2 Wishart_p(n, I), n = levels k; the public shift is negative. Fails with probability <= zeta."""

    @cached_property
    def spectrum(self) -> Spectrum:
        """Singular values of the n x m block lie in sqrt(n) -+ a, a = sqrt(m) + sqrt(2 ln(2/eta)); given it, h is Gaussian with its Gram
        as covariance, so |h|_{R^-1} <= L sqrt(lo/(lo - c)) (sqrt(m) + sqrt(2 ln(1/eta)))."""
        tree, m, scale = self.mechanism, self.features.m, self.mechanism.sigma
        eta = self.zeta / (3 * tree.horizon)
        n = tree.levels * tree.k
        a, tail = math.sqrt(m) + math.sqrt(2 * math.log(1 / eta)), math.sqrt(m) + math.sqrt(2 * math.log(1 / eta))
        low, high = max(math.sqrt(n) - a, 0.0) ** 2, (math.sqrt(n) + a) ** 2
        width = high - low
        candidates = np.geomspace(1e-3 * width, max(low, 2e-3 * width), 400)
        widths = self.B * np.sqrt(width + candidates) + np.sqrt(low / candidates) * tail
        least = float(candidates[np.argmin(widths)])
        kappa = scale * math.sqrt(low / least) * tail
        return Spectrum(scale**2 * (least - low), scale**2 * least, scale**2 * (least + width), kappa)


def wishart_calibration(
    features: FourierFeatures,
    horizon: int,
    epsilon: float,
    delta: float,
    *,
    B: float = 1.0,
    Y: float = 1.0,
    zeta: float = 0.05,
    published: bool = False,
) -> WishartCalibration:
    """A runnable Wishart tree for replacement neighbours, with exact degrees of freedom or the (add/remove) published ones.

    Both hold for adding or removing a user, so the target is split in two by `replacement_target`.
    """
    validate.positive("epsilon", epsilon), validate.probability("delta", delta), validate.probability("zeta", zeta)
    validate.positive("B", B)
    leaf = WishartLeaf(make_shape(features, "symmetric"), validate.positive("Y", Y), 1.0)
    levels = TreeMechanism(horizon, 1.0).levels
    if published:
        target, tail = replacement_target(epsilon, delta)
        k = published_degrees(leaf.p, levels, target, tail)
    else:
        k = exact_degrees(leaf.p, levels, epsilon, delta)
    scale = math.sqrt(1 + Y**2)
    tree = GPWishartTree(horizon, scale, scale**2, leaf.p, k, ApproximateDP(epsilon, delta))
    return WishartCalibration(leaf, tree, 1.0, zeta, B)
