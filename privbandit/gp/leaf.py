"""What one user contributes to the released statistic, as one vector with one sensitivity.

User t holds a decision set and a response function; the contribution is (phi phi^T, y phi) at the chosen point. The matrix is
encoded by a `Gram`; the vector is scaled by `scale` and by weights per feature. All coordinates then get noise of one standard
deviation, so one mechanism and one ledger entry cover both, and `scale` is the split of the budget between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.features.certificate import difference_grid
from privbandit.features.fourier import FourierFeatures
from privbandit.formulas.gp import JOINT_SENSITIVITY
from privbandit.gp.gram import FullGram, Gram

Array = NDArray[np.float64]


class Profile(NamedTuple):
    """Squared distances of two users' encodings as functions of the difference of their points, on a grid."""

    gram: Array  # (n,)
    cosine: Array  # (n,): <E phi(x), E phi(x')>
    norm: float  # |E phi(x)|^2, the same for every x
    slack: tuple[float, float]  # what the grid may miss of `gram` and of `cosine`


@dataclass(frozen=True, eq=False)
class Shape:
    """The encoding up to the split: the matrix form, and E = diag(s)^(-1/2) on the vector, s_i = (w_i / max w)^exponent."""

    gram: Gram
    exponent: float = 0.0

    def __post_init__(self) -> None:
        validate.instance("gram", self.gram, Gram), validate.nonnegative("exponent", self.exponent)

    @property
    def features(self) -> FourierFeatures:
        return self.gram.features

    @cached_property
    def s(self) -> Array:
        w = self.features.feature_weights
        return (w / w.max()) ** self.exponent

    @property
    def plain(self) -> bool:
        """True if the sensitivity is a closed form of c = <phi(x), phi(x')> alone."""
        return self.exponent == 0 and isinstance(self.gram, FullGram) and self.gram.shape == 0

    @cached_property
    def profile(self) -> Profile:
        phi = self.features
        z, radius = difference_grid(phi.sides)
        weights = phi.weights / self.s[: len(phi.weights)]
        chunks = [z[i : i + 65536] for i in range(0, len(z), 65536)]
        gram = np.concatenate([self.gram.distance(c) for c in chunks])
        cosine = np.concatenate([np.cos(c @ phi.frequencies.T) @ weights for c in chunks])
        bend = weights @ np.sum(phi.frequencies**2, axis=1)
        return Profile(gram, cosine, float(weights.sum()), (0.5 * self.gram.curvature * radius**2, 0.5 * float(bend) * radius**2))

    def sensitivity(self, Y: float, scale: float) -> float:
        """sup over two users of the distance of their encodings: points x, x' in the box, rewards in [-Y, Y].

        |y E phi - y' E phi'|^2 is largest at y = Y, y' = -+Y: 2 Y^2 (|E phi|^2 + |<E phi, E phi'>|). The plain form gives
        2(1 - c^2) + 2 b (1 + c), b = (scale Y)^2, whose maximum over c in [0, 1] is closed; otherwise a certified grid in the
        difference of the points (at most three dimensions).
        """
        b = (scale * Y) ** 2
        if self.plain:
            return math.sqrt(float(JOINT_SENSITIVITY(b=b)))
        p = self.profile
        slack = p.slack[0] + 2 * b * p.slack[1]
        return float(np.sqrt(np.max(p.gram + 2 * b * (p.norm + np.abs(p.cosine))) + slack))


@dataclass(frozen=True, eq=False)
class Leaf:
    """The encoding of one user, |y| <= Y enforced by clipping.

    Guarantee: replacing the user moves `encode` by at most `Delta` in L2 whatever the two points and rewards are.
    """

    shape: Shape
    Y: float
    scale: float

    def __post_init__(self) -> None:
        validate.instance("shape", self.shape, Shape), validate.positive("Y", self.Y)
        validate.positive("scale", self.scale)

    @property
    def features(self) -> FourierFeatures:
        return self.shape.features

    @cached_property
    def Delta(self) -> float:
        return self.shape.sensitivity(self.Y, self.scale)

    @property
    def size(self) -> int:
        return self.shape.gram.size + self.features.m

    def encode(self, x: Array, y: Array) -> Array:
        """The contribution (..., size) of points x (..., d) with rewards y (...); points are moved into the box, rewards into [-Y, Y]."""
        x, y = self.clipped(x, y)
        vector = self.scale * y[..., None] * self.features(x) / np.sqrt(self.shape.s)
        return np.concatenate([self.shape.gram.encode(x), vector], axis=-1)

    def clipped(self, x: Array, y: Array) -> tuple[Array, Array]:
        """x in the box and y in [-Y, Y], once both are found finite."""
        x = validate.array("x", x, (*np.shape(x)[:-1], self.features.d))
        return np.clip(x, 0.0, np.asarray(self.features.sides)), np.clip(validate.array("reward", y, x.shape[:-1]), -self.Y, self.Y)

    def decode(self, coordinates: Array, count: int) -> tuple[Array, Array]:
        """Matrix (R, m, m) and vector (R, m) from a noisy sum of `count` contributions (R, size)."""
        split = self.shape.gram.size
        vector = coordinates[..., split:] * np.sqrt(self.shape.s) / self.scale
        return self.shape.gram.decode(coordinates[..., :split], count), vector
