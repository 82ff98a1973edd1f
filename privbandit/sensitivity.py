"""How far one user can move a statistic, in L2 (Frobenius) norm. Gaussian noise is scaled to these numbers and no others.

Features satisfy |x| <= 1. `replace` compares any two records; `add-remove` compares a record with none, which contributes zero.
"""

from __future__ import annotations

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from privbandit import validate
from privbandit.formula import OWN, Formula
from privbandit.ledger import NEIGHBOURS

Array = NDArray[np.float64]
tau, Y = sp.symbols("tau Y", positive=True)

OUTER = {
    "replace": Formula("outer-replace", r"\Delta", sp.sqrt(2) * sp.Integer(1), OWN),
    "add-remove": Formula("outer-add-remove", r"\Delta", sp.Integer(1), OWN),
}
"""x x' alone: two orthogonal unit vectors are sqrt(2) apart, although the operator norm of the difference is 1."""

JOINT = {
    "replace": Formula(
        "joint-replace",
        r"\Delta",
        sp.Piecewise(((2 + tau) / sp.sqrt(2), tau <= 2), (2 * sp.sqrt(tau), True)),
        OWN,
    ),
    "add-remove": Formula("joint-add-remove", r"\Delta", sp.sqrt(1 + tau), OWN),
}
"""The leaf (x x', sqrt(tau) y x) without the corner, |y| <= 1: the two parts cannot move most at the same time."""

WEIGHTED = {
    "replace": Formula(
        "weighted-leaf-replace",
        r"\Delta",
        sp.Piecewise((sp.sqrt(sp.Max(1 + 4 * tau, (2 + tau) ** 2 / 2)), tau <= 2), (sp.sqrt(1 + 4 * tau), True)),
        OWN,
    ),
    "add-remove": Formula("weighted-leaf-add-remove", r"\Delta", sp.sqrt(1 + tau), OWN),
}
"""The leaf (w x x', sqrt(tau) y x) with w in [0, 1] and |y| <= 1 chosen freely (generalised linear policies)."""

ARMS = {
    "replace": Formula("arms-replace", r"\Delta", sp.sqrt(sp.Max(2 + 2 * tau, 4 * tau)), OWN),
    "add-remove": Formula("arms-add-remove", r"\Delta", sp.sqrt(1 + tau), OWN),
}
"""The leaf (e_a, sqrt(tau) y e_a) of a K-armed bandit, |y| <= 1: up to tau = 1 the rewards ride along with the counts."""


def outer_distance(v: Array, w: Array) -> Array:
    """|v v' - w w'|_F for v, w (..., p): sqrt(|v|^4 + |w|^4 - 2 <v, w>^2)."""
    v, w = validate.array("v", v), validate.array("w", w)
    if v.ndim < 1 or v.shape[-1:] != w.shape[-1:]:
        raise ValueError(f"v and w must have shapes (..., p), got {v.shape} and {w.shape}")
    squares = np.sum(v * v, axis=-1) ** 2 + np.sum(w * w, axis=-1) ** 2
    return np.sqrt(np.maximum(squares - 2 * np.sum(v * w, axis=-1) ** 2, 0.0))


def _moderate(name: str, value: float) -> float:
    """A positive number whose fourth power is a float."""
    if validate.positive(name, value) > 1e75:
        raise ValueError(f"{name} must be a finite number in (0, 1e75], got {value!r}")
    return float(value)


def joint_leaf(weight: float, neighbours: str = "replace") -> float:
    """L2 sensitivity of the leaf (x x', weight y x) with |x| <= 1, |y| <= 1, for every length of x.

    Proof for replacement. Let u, v be the lengths, c the cosine turned so that the vectors point apart, tau = weight^2:
    f = u^4 + v^4 - 2 u^2 v^2 c^2 + tau (u^2 + v^2 + 2 u v c). Both terms grow when u and v are scaled up together, so u = 1.
    Over c the maximum is at c = tau / (2 v) if that is below 1, and there f = 1 + v^4 + tau (1 + v^2) + tau^2 / 2 grows with v;
    otherwise c = 1 and df/dv = 2 (1 + v)(tau - 2 v (1 - v)) >= 0. So v = 1: f = (2 + tau)^2 / 2 for tau <= 2, else 4 tau.
    """
    validate.one_of("neighbours", neighbours, NEIGHBOURS)
    return float(JOINT[neighbours](tau=_moderate("weight", weight) ** 2))


def block_leaf(Y: float, neighbours: str = "replace") -> float:
    """L2 sensitivity of v v' for v = (x, y), |x| = 1, |y| <= Y: Gram, vector and the corner y^2, which no ridge regression reads.

    Replacement: sqrt(2) (1 + Y^2) up to Y = 1, where v and w can be orthogonal at full length. Beyond, the first record has y = Y
    and the second -z with 1/Y <= z <= Y on the same x, so the square is (1 + Y^2)^2 + (1 + z^2)^2 - 2 (1 - Y z)^2: largest at
    z = Y (8 Y^2) or at a root of z^3 - (Y^2 - 1) z + Y, which wins from about Y = 2.355.
    """
    validate.one_of("neighbours", neighbours, NEIGHBOURS), _moderate("Y", Y)
    if neighbours == "add-remove":
        return 1 + Y**2
    if Y <= 1:
        return float(np.sqrt(2) * (1 + Y**2))
    z = np.roots([1.0, 0.0, 1 - Y**2, Y])
    z = np.append(z[(np.abs(z.imag) < 1e-12) & (z.real > 1 / Y) & (z.real < Y)].real, Y)
    return float(np.sqrt(np.max((1 + Y**2) ** 2 + (1 + z**2) ** 2 - 2 * (1 - Y * z) ** 2)))
