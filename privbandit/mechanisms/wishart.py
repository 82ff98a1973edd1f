"""Wishart noise (Sheffet 2015; Shariff and Sheffet 2018): the released matrix is positive definite by construction.

A user's leaf (svec(x x'), z x), |x| <= 1, |z| <= Z, is part of the block v v' with v = (x, z), |v|^2 <= L = 1 + Z^2. A tree node adds
W ~ L * Wishart(k, I) of size p = d + 1; its corner is never released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import chi2

from privbandit import validate
from privbandit.accounting import gaussian_delta
from privbandit.formulas.linear import PUBLISHED_DEGREES, VECTOR_NORM
from privbandit.ledger import ApproximateDP, BudgetExceeded, Entry, door
from privbandit.linalg import svec, svec_size
from privbandit.sensitivity import joint_leaf
from privbandit.spectra import NoiseBounds

Array = NDArray[np.float64]
CELL = 0.02  # width of a cell of the certificate, against a shift of 1: a wider one is as valid and less tight


@lru_cache(maxsize=4096)
def certified_mu(n: int, tau: float) -> float:
    """A mu such that chi-square(n) against chi-square(n) + 1 is mu-GDP up to probability mass tau; n >= 2.

    The likelihood ratio is monotone, so the best tests reject above a threshold c, with errors a = P(Y > c) and b = P(Y + 1 <= c).
    (1 - tau) G_mu(a / (1 - tau)) <= b for every c is what is needed. On a cell of thresholds a is least at its right end and b at its
    left end; using both makes the finite grid a proof. Outside the grid a or b exceeds 1 - tau and nothing is needed.
    """
    low, high = chi2.ppf(tau / 2, n), chi2.isf(tau / 2, n) + 1
    c = np.linspace(low, high, math.ceil((high - low) / CELL) + 1)
    a, b = chi2.sf(c[1:], n) / (1 - tau), chi2.cdf(c[:-1] - 1, n) / (1 - tau)
    needed = (a < 1) & (b < 1)
    return float(np.max(-ndtri(a[needed]) - ndtri(b[needed]), initial=0.0))


def draw_wishart(shape: tuple[int, ...], p: int, degrees: int, noise: np.random.Generator) -> Array:
    """Independent Wishart_p(degrees, I) matrices (*shape, p, p) by Bartlett's decomposition A A' with A lower triangular; degrees >= p."""
    A, diagonal = np.zeros((*shape, p, p)), np.arange(p)
    rows, columns = np.tril_indices(p, -1)
    A[..., rows, columns] = noise.standard_normal((*shape, len(rows)))
    A[..., diagonal, diagonal] = np.sqrt(noise.chisquare(degrees - diagonal, size=(*shape, p)))
    return A @ A.swapaxes(-1, -2)


@dataclass(frozen=True)
class Wishart:
    """Noise of one node: L times a Wishart matrix with k degrees of freedom, on (matrix, vector).

    *Guarantee* (add/remove: a leaf or zero): mu-GDP up to mass tau. Proof: in X = W or W + v v' the number 1/(v' X^-1 v) is
    sufficient; it is chi-square with k - p + 1 degrees of freedom, or the same plus |v|^2 / L <= 1. Its density is log-concave, so
    a smaller shift is harder to tell, and shift 1 is certified by `certified_mu`.
    """

    degrees: int
    d: int
    L: float
    tau: float
    epsilon: float = field(default=0.0, init=False)
    delta: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        validate.positive_int("d", self.d), validate.positive("L", self.L), validate.probability("tau", self.tau)
        validate.positive_int("degrees", self.degrees, at_least=self.d + 2)

    @property
    def mu(self) -> float:
        return certified_mu(self.degrees - self.d, self.tau)  # k - p + 1 with p = d + 1

    def release(self, value: Array, noise: np.random.Generator) -> Array:
        """value (R, svec(d) + d) plus noise, through the `door`."""
        return door(self, value, noise, lambda: self.sample(len(value), noise))

    def sample(self, R: int, noise: np.random.Generator) -> Array:
        """(R, svec(d) + d): L times a Wishart matrix without its corner."""
        W = self.L * draw_wishart((R,), self.d + 1, self.degrees, noise)
        return np.concatenate([svec(W[:, :-1, :-1]), W[:, :-1, -1]], axis=1)


class WishartState(NamedTuple):
    step: int
    open: tuple[tuple[int, Array, Array], ...]  # level, exact sum, released sum of each complete subtree
    pads: Array  # (levels + 1, R, size) sums of 0, 1, ... further noises


@dataclass(frozen=True)
class WishartTree:
    """Binary tree with Wishart noise, padded to the same number of noises at every prefix.

    Without padding the noise of a prefix of t leaves has popcount(t) summands and no one shift fits all of them. Pads are drawn once
    and do not depend on the data, so adding them is post-processing. `epsilon` is where the replacement guarantee is stated; `tau`
    the mass each node may leave uncovered.

    *Guarantee.* Add/remove: a leaf enters `levels` nodes. Replacement, stated at (epsilon, delta) with `delta` below: via the zero leaf,
    delta <= (1 + e^(epsilon/2)) delta_add_remove(epsilon/2). Later leaves may be chosen adaptively.
    """

    horizon: int
    degrees: int
    d: int
    epsilon: float
    Z: float = 1.0
    tau: float = 1e-12

    def __post_init__(self) -> None:
        validate.positive_int("horizon", self.horizon), validate.positive("epsilon", self.epsilon), validate.positive("Z", self.Z)
        Wishart(self.degrees, self.d, 1.0, self.tau)

    @classmethod
    def calibrated(cls, horizon: int, epsilon: float, delta: float, d: int, Z: float = 1.0) -> WishartTree:
        """The fewest degrees of freedom for (epsilon, delta) under replacement that this proof reaches."""
        levels = validate.positive_int("horizon", horizon).bit_length()
        if validate.positive("epsilon", epsilon) > 1400:
            raise ValueError(f"epsilon must be at most 1400 for Wishart noise under replacement, got {epsilon!r}")
        target = validate.probability("delta", delta) / (1 + math.exp(epsilon / 2))

        def tree(k: int) -> WishartTree:
            return cls(horizon, k, d, epsilon, Z, target / (20 * levels))

        low = high = validate.positive_int("d", d) + 2
        while tree(high).delta > delta:
            low, high = high, 2 * high
        while low + 1 < high:  # adding an independent chi-square is post-processing, so more degrees are never less private
            middle = (low + high) // 2
            low, high = (middle, high) if tree(middle).delta > delta else (low, middle)
        return tree(high)

    @classmethod
    def published(cls, horizon: int, epsilon: float, delta: float, d: int, Z: float = 1.0) -> WishartTree:
        """Degrees of freedom from the authors' public code (advanced composition over 1 + ceil(log2 T) levels)."""
        m = 1.0 + (validate.positive_int("horizon", horizon) - 1).bit_length()
        k = PUBLISHED_DEGREES(m=m, delta=validate.probability("delta", delta), epsilon=validate.positive("epsilon", epsilon))
        return cls(horizon, d + 1 + int(k), d, epsilon, Z)

    @property
    def levels(self) -> int:
        return self.horizon.bit_length()

    @cached_property
    def node(self) -> Wishart:
        return Wishart(self.degrees, self.d, 1 + self.Z**2, self.tau)

    @property
    def Delta(self) -> float:
        """The distance of leaves this is made for, to be compared with the leaf of a policy."""
        return joint_leaf(self.Z)

    def add_remove_delta(self, epsilon: float) -> float:
        """delta proved at `epsilon` for a leaf against zero: GDP parameters add in quadrature, uncovered masses add."""
        slack = -math.expm1(self.levels * math.log1p(-self.tau))
        return slack + (1 - slack) * gaussian_delta(self.node.mu * math.sqrt(self.levels), epsilon)

    @cached_property
    def delta(self) -> float:
        """delta proved at `epsilon` for replacement."""
        return min(1.0, (1 + math.exp(self.epsilon / 2)) * self.add_remove_delta(self.epsilon / 2))

    @property
    def mu(self) -> float:
        """No Gaussian-DP parameter is claimed for replacement; see `entries`."""
        return 0.0

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (Entry("Wishart tree, one leaf replaced", ApproximateDP(self.epsilon, self.delta)),)

    def noise_bounds(self, zeta: float, ridge: float) -> NoiseBounds:
        """Eigenvalue bounds of the noise of every prefix, a Wishart matrix with levels * k degrees of freedom, and of its vector part.

        Singular values of an n x d Gaussian matrix lie within sqrt(n) +- (sqrt(d) + x) except with probability 2 exp(-x^2/2). Given the
        matrix part, the vector part has squared norm L chi-square(d) in its inverse; a shift that leaves the regulariser >= lambda,
        ridge <= lambda <= max(low, ridge), lets that grow by at most max(low, ridge) / lambda.
        """
        share = validate.probability("zeta", zeta) / (3 * self.horizon)
        root, reach = math.sqrt(self.levels * self.degrees), float(VECTOR_NORM(sigma=1.0, d=float(self.d), zeta=share))
        low = self.node.L * max(0.0, root - reach) ** 2
        return NoiseBounds(low, self.node.L * (root + reach) ** 2, math.sqrt(self.node.L * max(low, ridge)) * reach)

    def init(self, R: int, size: int, noise: np.random.Generator) -> WishartState:
        if size != svec_size(self.d) + self.d:
            raise ValueError(f"size must be {svec_size(self.d) + self.d}, the leaf of one block of dimension {self.d}, got {size}")
        validate.positive_int("R", R), validate.generator("noise", noise)
        pads = np.array([self.node.sample(R, noise) for _ in range(self.levels)])
        return WishartState(0, (), np.concatenate([np.zeros((1, R, size)), np.cumsum(pads, axis=0)]))

    def release(self, state: WishartState, increment: Array, noise: np.random.Generator) -> tuple[WishartState, Array]:
        if state.step >= self.horizon:
            raise BudgetExceeded(f"all {self.horizon} releases are spent")
        increment = validate.array("increment", increment, state.pads.shape[1:])
        level, exact, released, open = 0, increment, self.node.release(increment, noise), state.open
        while open and open[-1][0] == level:
            level, exact = level + 1, exact + open[-1][1]
            released, open = self.node.release(exact, noise), open[:-1]
        open = (*open, (level, exact, released))
        prefix = sum(node[2] for node in open) + state.pads[self.levels - len(open)]
        return WishartState(state.step + 1, open, state.pads), prefix
