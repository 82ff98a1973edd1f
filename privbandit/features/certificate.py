"""Certified suprema of smooth functions on a box, from a grid and a bound on the second derivative."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privbandit import validate

Array = NDArray[np.float64]
POINTS = {1: 20001, 2: 401, 3: 61}  # grid points a side
CHUNK = 1 << 16


def difference_grid(sides: tuple[float, ...], points: int | None = None) -> tuple[Array, float]:
    """A grid with end points on the differences of a box, one of each pair +-z: prod [-a_j, a_j] with z_1 >= 0.

    Returns the points (n, d) and half the diagonal of a cell, the largest distance to a grid point.
    """
    d = len(validate.array("sides", sides, (None,)))
    if min(sides) <= 0:
        raise ValueError(f"sides must be > 0, got {sides!r}")
    if points is None:
        if d not in POINTS:
            raise ValueError(f"sides must have at most {max(POINTS)} entries for a grid certificate, got {d}")
        points = POINTS[d]
    validate.positive_int("points", points, at_least=2)
    axes = [np.linspace(0 if j == 0 else -a, a, points) for j, a in enumerate(sides)]
    radius = 0.5 * np.sqrt(sum((axis[1] - axis[0]) ** 2 for axis in axes))
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d), float(radius)


def certified_sup(f: Callable[[Array], Array], curvature: float, sides: tuple[float, ...], points: int | None = None) -> float:
    """An upper bound on sup f over the differences of the box prod [0, sides_j], for even f.

    `f` maps (n, d) to (n,); `curvature` bounds the second derivative of f along every unit direction. At a maximiser on the
    interior of a face the derivative along that face vanishes, and the grid contains every face, so the nearest grid point
    loses at most curvature radius^2 / 2.
    """
    validate.nonnegative("curvature", curvature)
    z, radius = difference_grid(sides, points)
    largest = max(float(np.max(f(z[i : i + CHUNK]))) for i in range(0, len(z), CHUNK))
    return largest + 0.5 * curvature * radius**2
