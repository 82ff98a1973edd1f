"""LinUCB, also called OFUL (Abbasi-Yadkori, Pal and Szepesvari 2011; Li, Chu, Langford and Schapire 2010)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.formulas.linear import RADIUS
from privbandit.linalg import into_ball, outer, smat, svec_size
from privbandit.policies.base import Array, Policy, argmax
from privbandit.spectra import NO_NOISE, NoiseBounds


class LinearState(NamedTuple):
    memory: Any  # what the sums are kept in; (R, size) exact sums here, a mechanism's state in the private policy
    theta: Array  # (R, d) ridge estimate
    inverse: Array  # (R, blocks, p, p) inverse of the regularised Gram matrix, block by block; d = blocks p
    log_det: Array  # (R,) log-determinant of that matrix


@dataclass(frozen=True, kw_only=True)
class LinUCB(Policy):
    """Index: <x, theta> + beta |x|_{V^-1} with V = ridge I + sum x x', theta = V^-1 sum y x, y = reward - centre.

    d: dimension; features are shrunk to the unit ball. S: bound on |theta*|. sigma_r: sub-Gaussian parameter of the rewards' noise.
    ridge > 0. zeta: failure probability of all confidence statements together. alpha: a fixed width instead of beta (common in
    practice; then nothing is guaranteed about coverage). centre: subtracted from rewards. Y: |reward - centre| is clipped to Y.
    weight: factor on y x inside the leaf (x x', weight y x), 1 without privacy. blocks: features of any arm use one of this many
    equal blocks of coordinates (disjoint models, one for each arm), so that the Gram matrix is block-diagonal and the rest is dropped.
    """

    d: int
    S: float = 1.0
    sigma_r: float = 1.0
    ridge: float = 1.0
    zeta: float = 0.05
    alpha: float | None = None
    centre: float = 0.0
    Y: float = 1.0
    weight: float = 1.0
    blocks: int = 1
    name = "LinUCB"

    def __post_init__(self) -> None:
        validate.positive_int("d", self.d), validate.probability("zeta", self.zeta), validate.number("centre", self.centre)
        for field in ("S", "sigma_r", "ridge", "Y", "weight"):
            validate.positive(field, getattr(self, field))
        if self.alpha is not None:
            validate.nonnegative("alpha", self.alpha)
        if self.d % validate.positive_int("blocks", self.blocks):
            raise ValueError(f"blocks must divide d = {self.d}, got {self.blocks!r}")

    @property
    def gram_size(self) -> int:
        """Numbers in the Gram part of a leaf."""
        return self.blocks * svec_size(self.d // self.blocks)

    @property
    def size(self) -> int:
        """Length of a leaf."""
        return self.gram_size + self.d

    @property
    def bounds(self) -> NoiseBounds:
        """What is known about the noise in the sums."""
        return NO_NOISE

    @property
    def added(self) -> float:
        """Multiple of the identity added to the released Gram matrix; on the good event the regulariser is at least `ridge`."""
        return self.ridge - self.bounds.low

    def init(self, R: int, noise: np.random.Generator) -> LinearState:
        return self._estimate(self._open(R, noise), np.zeros((R, self.size)))

    def act(self, state: LinearState, contexts: Array, rng: np.random.Generator) -> tuple[LinearState, NDArray[np.intp]]:
        x = into_ball(contexts)
        mean = (x @ state.theta[:, :, None])[..., 0]
        return state, argmax(mean + self.width(state)[:, None] * self.norm(state, x))

    def update(self, state: LinearState, x: Array, reward: Array, noise: np.random.Generator) -> LinearState:
        memory, prefix = self._add(state.memory, self.leaf(x, reward), noise)
        return self._estimate(memory, prefix)

    def leaf(self, x: Array, reward: Array) -> Array:
        """(svec(x x') of each block, weight y x), (R, size): all that is ever learnt from a round."""
        x, y = into_ball(x), np.clip(reward - self.centre, -self.Y, self.Y)
        gram = outer(x.reshape(len(x), self.blocks, -1)).reshape(len(x), -1)
        return np.concatenate([gram, (self.weight * y)[:, None] * x], axis=1)

    def norm(self, state: LinearState, x: Array) -> Array:
        """|x|_{V^-1} (R, K) for x (R, K, d)."""
        parts = x.reshape(*x.shape[:2], self.blocks, -1).transpose(0, 2, 1, 3)  # (R, blocks, K, p)
        return np.sqrt(np.maximum(np.sum((parts @ state.inverse) * parts, axis=(1, 3)), 0.0))

    def width(self, state: LinearState) -> Array:
        """beta (R,), from released quantities and public constants only."""
        if self.alpha is not None:
            return np.full(len(state.theta), self.alpha)
        bounds = self.bounds
        return RADIUS(
            sigma_r=self.sigma_r,
            zeta=self.zeta / 2,
            log_det=state.log_det,
            d=float(self.d),
            lambda_min=self.ridge,
            S=self.S,
            lambda_max=self.added + bounds.high,
            kappa=bounds.vector / (self.weight * self.ridge**0.5),
        )

    def _estimate(self, memory: Any, prefix: Array) -> LinearState:
        return self._solve(memory, prefix, self.added, self.ridge)

    def _solve(self, memory: Any, prefix: Array, added: float, floor: float) -> LinearState:
        """The estimate from released sums, with `added` I in the Gram matrix and its eigenvalues at least `floor`."""
        R, p = len(prefix), self.d // self.blocks
        gram, vector = prefix[:, : self.gram_size], prefix[:, self.gram_size :] / self.weight
        V = smat(gram.reshape(R, self.blocks, -1), p) + added * np.eye(p)
        values, vectors = np.linalg.eigh(V)
        values = np.maximum(values, floor)  # off the good event: post-processing, never a second draw
        inverse = (vectors / values[..., None, :]) @ vectors.swapaxes(-1, -2)
        theta = (inverse @ vector.reshape(R, self.blocks, p, 1)).reshape(R, self.d)
        return LinearState(memory, theta, inverse, np.log(values).sum(axis=(1, 2)))

    def _open(self, R: int, noise: np.random.Generator) -> Any:
        return np.zeros((R, self.size))

    def _add(self, memory: Any, leaf: Array, noise: np.random.Generator) -> tuple[Any, Array]:
        total = memory + leaf
        return total, total
