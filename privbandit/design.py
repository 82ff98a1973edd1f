"""Experimental design: how to play a set of arms so that no arm stays uncertain.

The ridge G-optimal design of arms x_1..x_K is the p that maximises log det A(p), A(p) = ridge I + sum_k p_k x_k x_k^T. There
max_k x_k^T A^{-1} x_k = sum_k p_k x_k^T A^{-1} x_k = d - ridge tr A^{-1} <= min(d, rank) (the gradient equals its p-average), so the
relative gap of those two numbers is a certificate of any candidate. Every function works on R sets at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.linalg import outer, quadratic

Array = NDArray[np.float64]


class Design(NamedTuple):
    """Arm probabilities `p` (R, K) and their certificate: largest leverage (R,), its relative gap to the mean (R,), and the steps taken."""

    p: Array
    leverage: Array
    gap: Array
    iterations: int


def information(X: Array, p: Array, ridge: float | Array) -> Array:
    """A(p) = ridge I + sum_k p_k x_k x_k^T, (R, d, d). `ridge` is a number or (R,)."""
    if X.ndim != 3 or p.shape != X.shape[:2]:
        raise ValueError(f"p must have shape (R, K) and X (R, K, d), got {p.shape} and {X.shape}")
    ridge = np.broadcast_to(np.asarray(ridge, dtype=float), X.shape[:1])
    return np.swapaxes(X * p[..., None], 1, 2) @ X + ridge[:, None, None] * np.eye(X.shape[-1])


def leverages(X: Array, p: Array, ridge: float | Array) -> Array:
    """x_k^T A(p)^{-1} x_k for every arm, (R, K)."""
    return quadratic(X, np.linalg.inv(information(X, p, ridge)))


def g_optimal(
    X: Array,
    ridge: float | Array,
    *,
    tolerance: float = 1e-3,
    method: str = "away",
    max_iterations: int = 100_000,
    available: NDArray[np.bool_] | None = None,
) -> Design:
    """The ridge G-optimal design of each of R arm sets, by `method` "away" or "multiplicative".

    X (R, K, d): arms, in any number, also duplicate, zero or rank-deficient. ridge > 0: number or (R,). `available` (R, K): arms that may
    be played (default: all; each set needs one). It stops when the largest leverage is at most (1 + tolerance) times the mean leverage in
    every set. Stopping on "leverage <= d" instead stops at the uniform design for most sets and certifies nothing about optimality.

    "away": exact line search towards the most uncertain arm or away from the least uncertain one played (Wolfe 1970; Kumar and
    Yildirim 2005): few steps at high accuracy. "multiplicative": p_k <- p_k w_k / sum_j p_j w_j (Titterington 1976): cheap steps,
    best for a tolerance above 0.05. Raises ValueError for bad input, RuntimeError if `max_iterations` do not suffice.
    """
    X = validate.array("X", X, (None, None, None))
    ridge = _ridge(ridge, X.shape[0])
    validate.positive("tolerance", tolerance), validate.positive_int("max_iterations", max_iterations, at_least=0)
    step = {"away": _away_step, "multiplicative": _multiplicative_step}[validate.one_of("method", method, ("away", "multiplicative"))]
    X, p = _start(X, available)
    for iteration in range(max_iterations + 1):
        inverse = np.linalg.inv(information(X, p, ridge))
        w = quadratic(X, inverse)
        mean, most = np.einsum("rk,rk->r", p, w), w.max(axis=1)
        gap = most / np.where(mean > 0, mean, 1.0) - (mean > 0)
        active = gap > tolerance
        if not active.any():
            return Design(p, most, gap, iteration)
        p = np.where(active[:, None], step(X, p, w, mean, inverse, ridge), p)
    raise RuntimeError(f"the design has gap {gap.max():.3g} > tolerance {tolerance} after {max_iterations} iterations")


def draw(p: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """One arm (R,) from each row of `p` (R, K), by one uniform per row."""
    if p.ndim != 2 or not p.shape[1]:
        raise ValueError(f"p must have shape (R, K), got {p.shape}")
    cumulative = np.cumsum(p, axis=1)
    if not np.all((cumulative[:, -1] > 0) & (cumulative[:, -1] < np.inf)):
        raise ValueError("p must have rows of finite probabilities with a positive sum, got a row that has not")
    u = rng.random(len(p)) * cumulative[:, -1]
    return np.sum(cumulative <= u[:, None], axis=1)


def reduce_support(X: Array, p: Array) -> Array:
    """The same information matrix from at most d(d+1)/2 + 1 arms a set (Caratheodory): X (R, K, d), p (R, K) -> (R, K).

    The points (svec(x x^T), 1) live in d(d+1)/2 + 1 dimensions, so among more of them there is a null combination; moving along it
    until one weight reaches zero changes neither the information matrix nor the total.
    """
    X = validate.array("X", X, (None, None, None))
    p = validate.array("p", p, X.shape[:2])
    return np.stack([_caratheodory(np.column_stack([outer(x), np.ones(len(x))]), q.copy()) for x, q in zip(X, p, strict=True)])


def _caratheodory(points: Array, p: Array) -> Array:
    while True:
        support = np.flatnonzero(p)[: points.shape[1] + 1]
        if len(support) <= points.shape[1]:
            return p
        null = np.linalg.svd(points[support].T)[2][-1]
        null = null if null.max() >= -null.min() else -null
        ratio = np.where(null > 0, p[support] / np.where(null > 0, null, 1.0), np.inf)
        first = int(ratio.argmin())
        p[support] = np.maximum(p[support] - ratio[first] * null, 0.0)
        p[support[first]] = 0.0


def _ridge(ridge: float | Array, R: int) -> Array:
    ridge = np.broadcast_to(validate.array("ridge", ridge), (R,))
    if np.any(ridge <= 0):
        raise ValueError(f"ridge must be > 0, got {ridge.min()}")
    return ridge


def _start(X: Array, available: NDArray[np.bool_] | None) -> tuple[Array, Array]:
    """Uniform over the available arms; the others are replaced by zero vectors, which no step ever plays."""
    if available is None:
        return X, np.full(X.shape[:2], 1 / X.shape[1])
    available = np.asarray(available, dtype=bool)
    if available.shape != X.shape[:2] or not available.any(axis=1).all():
        raise ValueError(f"available must be a {X.shape[:2]} mask with an arm in every row, got shape {available.shape}")
    return X * available[..., None], available / available.sum(axis=1, keepdims=True)


def _multiplicative_step(X: Array, p: Array, w: Array, mean: Array, inverse: Array, ridge: Array) -> Array:
    q = p * w
    total = q.sum(axis=1, keepdims=True)
    return q / np.where(total > 0, total, 1.0)


def _away_step(X: Array, p: Array, w: Array, mean: Array, inverse: Array, ridge: Array) -> Array:
    rows = np.arange(len(p))
    best, worst = w.argmax(axis=1), np.where(p > 0, w, np.inf).argmin(axis=1)
    p_worst = p[rows, worst]
    towards = (w[rows, best] - mean >= mean - w[rows, worst]) | (p_worst >= 1)
    direction = np.where(towards[:, None], -p, p)
    direction[rows, np.where(towards, best, worst)] += np.where(towards, 1.0, -1.0)
    longest = np.where(towards, 1.0, p_worst / np.where(towards, 1.0, 1 - p_worst))
    s = _line_search(X, direction, inverse, longest)
    p = np.maximum(p + s[:, None] * direction, 0.0)
    p[rows, worst] = np.where(~towards & (s == longest), 0.0, p[rows, worst])  # a full away step drops the arm exactly
    return p / p.sum(axis=1, keepdims=True)


def _line_search(X: Array, direction: Array, inverse: Array, longest: Array) -> Array:
    """argmax over 0 <= s <= longest of log det(A + s sum_k D_k x_k x_k^T): the derivative sum_i e_i / (1 + s e_i) falls, so bisect."""
    root = np.linalg.cholesky(inverse)
    change = np.swapaxes(root, 1, 2) @ (np.swapaxes(X * direction[..., None], 1, 2) @ X) @ root
    e = np.linalg.eigvalsh(change)
    low, high = np.zeros_like(longest), longest.copy()
    rises_to_the_end = np.sum(e / (1 + longest[:, None] * e), axis=1) >= 0
    for _ in range(50):
        middle = (low + high) / 2
        rising = np.sum(e / (1 + middle[:, None] * e), axis=1) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return np.where(rises_to_the_end, longest, (low + high) / 2)


class DistributionalDesign(NamedTuple):
    """A design learnt from past context sets: matrices (R, J, d, d) with weights (R, J) over J phases.

    It bounds the uncertainty averaged over the distribution of context sets by O(d log d) where the G-optimal design of each set alone
    gives d^2. Learning it reads raw contexts, so it serves non-private policies and ablations only.
    Source: Ruan, Yang and Zhou (2021), mixed-softmax policies and core learning, in the simplified form described in `learn`.
    """

    matrices: Array
    weights: Array

    @classmethod
    def learn(cls, contexts: Array, ridge: float, growth: float = 2.0) -> DistributionalDesign:
        """From context sets (n, K, d) of one replication: play the most uncertain arm of each set in turn against the matrix of the phase;
        a phase ends when the determinant has grown by the factor `growth`; a phase weighs as many rounds as it lasted."""
        contexts = validate.array("contexts", contexts, (None, None, None))
        validate.above("growth", growth, 1)
        current = validate.positive("ridge", ridge) * np.eye(contexts.shape[-1])
        frozen, inverses, lengths = current, [np.linalg.inv(current)], [0]
        for X in contexts:
            x = X[np.einsum("kd,de,ke->k", X, inverses[-1], X).argmax()]
            current = current + np.outer(x, x)
            lengths[-1] += 1
            if np.linalg.slogdet(current)[1] > np.linalg.slogdet(frozen)[1] + np.log(growth):
                frozen = current
                inverses.append(np.linalg.inv(frozen))
                lengths.append(0)
        return cls(np.stack(inverses)[None], np.array(lengths, dtype=float)[None] / len(contexts))

    @classmethod
    def stack(cls, designs: Sequence[DistributionalDesign]) -> DistributionalDesign:
        """The designs of R replications as one, padded with phases of weight 0."""
        J, d = max(design.weights.shape[1] for design in designs), designs[0].matrices.shape[-1]
        matrices, weights = np.zeros((len(designs), J, d, d)), np.zeros((len(designs), J))
        for r, design in enumerate(designs):
            phases = design.weights.shape[1]
            matrices[r, :phases], weights[r, :phases] = design.matrices[0], design.weights[0]
        return cls(matrices, weights)

    def probabilities(self, X: Array, ridge: float | Array, tolerance: float = 0.1) -> Array:
        """Half the G-optimal design of the set, half the mixture over phases of p_k proportional to (x_k^T M x_k)^{log K}; (R, K)."""
        X = validate.array("X", X, (None, None, self.matrices.shape[-1]))
        K = X.shape[1]
        q = np.maximum(np.einsum("rkd,rjde,rke->rjk", X, self.matrices, X), 0.0)
        q = (q / np.maximum(q.max(axis=2, keepdims=True), np.finfo(float).tiny)) ** np.log(max(K, 2))
        total = q.sum(axis=2, keepdims=True)
        softmax = np.where(total > 0, q / np.where(total > 0, total, 1.0), 1 / K)
        core = np.einsum("rj,rjk->rk", self.weights, softmax)
        return (g_optimal(X, ridge, tolerance=tolerance, method="multiplicative").p + core) / 2
