"""The noise of a mechanism at a few chosen prefixes, drawn with exactly the law it has in the streaming mechanism.

Reading only some prefixes is post-processing of the full release; a long run that refreshes rarely needs no others.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.gp.wishart import GPWishartTree
from privbandit.mechanisms import HonakerTree, PerUser, PrefixSums, SquareRoot, SquareRootFFT, TreeMechanism
from privbandit.mechanisms.square_root import square_root_coefficients

Array = NDArray[np.float64]
COLUMNS = 4096


def prefix_noise(mechanism: PrefixSums, times: NDArray[np.int64], R: int, size: int, noise: np.random.Generator) -> Array:
    """Noise (G, R, size) of the prefixes `times` (increasing, in 1..horizon)."""
    validate.positive_int("R", R), validate.positive_int("size", size)
    times = np.asarray(times)
    if times.ndim != 1 or times.dtype.kind not in "iu" or len(times) == 0 or times[0] < 1 or times[-1] > mechanism.horizon or np.any(np.diff(times) <= 0):
        raise ValueError(f"times must increase within 1..{mechanism.horizon}, got {times!r}")
    if isinstance(mechanism, PerUser):
        steps = np.sqrt(np.diff(times, prepend=0))
        return np.cumsum(steps[:, None, None] * mechanism.report.release(np.zeros((len(times), R, size)), noise), axis=0)
    if isinstance(mechanism, SquareRoot | SquareRootFFT):
        raw = mechanism.rows.release(np.zeros((len(times), R * size)), noise)
        return (np.linalg.cholesky(_covariance(mechanism, tuple(times.tolist()))) @ raw).reshape(len(times), R, size)
    if isinstance(mechanism, TreeMechanism) and not isinstance(mechanism, HonakerTree):
        return np.stack(list(_tree(mechanism, times, R, size, noise)))
    raise ValueError(f"mechanism must be a tree, a square root or PerUser, got {mechanism!r} ({HonakerTree.__name__} only streams)")


def _tree(mechanism: TreeMechanism, times: NDArray[np.int64], R: int, size: int, noise: np.random.Generator):
    """One noise per node (level, index), drawn when first read and kept while it is on the path."""
    nodes: dict[tuple[int, int], Array] = {}
    for t in times.tolist():
        path = [(level, (t >> level) - 1) for level in range(mechanism.levels) if t >> level & 1]
        nodes = {key: nodes[key] if key in nodes else mechanism.node.release(np.zeros((R, size)), noise) for key in path}
        pad = mechanism.pad(t, R, noise) if isinstance(mechanism, GPWishartTree) else 0.0
        yield sum(nodes.values()) + pad


def row_coefficients(mechanism: SquareRoot | SquareRootFFT) -> Array:
    """b_0 .. b_{T-1}: the prefix of t increments has noise sum_{j <= t} b_{t-j} z_j."""
    if isinstance(mechanism, SquareRootFFT):
        return square_root_coefficients(mechanism.horizon)
    return np.sqrt(np.diff(mechanism.factor.row_variance, prepend=0.0))


@lru_cache(maxsize=8)
def _covariance(mechanism: SquareRoot | SquareRootFFT, times: tuple[int, ...]) -> Array:
    """Covariance (G, G) of the prefixes for unit row noise: B_t B_s^T, summed over blocks of columns that some row still reaches."""
    b, t = row_coefficients(mechanism), np.array(times)
    total = np.zeros((len(t), len(t)))
    for start in range(0, int(t[-1]), COLUMNS):
        first = int(np.searchsorted(t, start, side="right"))
        lag = t[first:, None] - 1 - np.arange(start, min(start + COLUMNS, int(t[-1])))
        rows = np.where(lag >= 0, b[np.maximum(lag, 0)], 0.0)
        total[first:, first:] += rows @ rows.T
    return total
