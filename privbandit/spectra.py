"""How large symmetric Gaussian noise is: norms, eigenvalues, and what a ridge regression must add to stay positive definite.

The noise of a released matrix has independent N(0, s^2) coordinates in `linalg.svec`: variance s^2 on the diagonal, s^2/2 off it.
That is the Gaussian orthogonal ensemble; its eigenvalues fill [-s sqrt(2d), s sqrt(2d)] in a semicircle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.formulas.linear import MATRIX_NORM, VECTOR_NORM
from privbandit.linalg import smat, svec_size
from privbandit.mechanisms.base import PrefixSums

Array = NDArray[np.float64]


class NoiseBounds(NamedTuple):
    """Public bounds that hold for every prefix at once, except with probability zeta.

    Eigenvalues of the matrix noise lie in [low, high]. If the released matrix is shifted so that its regulariser is at least
    lambda I, the vector noise has norm at most vector / sqrt(lambda) in the inverse of that regulariser.
    """

    low: float
    high: float
    vector: float


NO_NOISE = NoiseBounds(0.0, 0.0, 0.0)


def matrix_norm(d: int, sigma: float, zeta: float) -> float:
    """Upper bound on the operator norm of d x d symmetric noise with svec standard deviation sigma; fails with probability <= zeta.

    Mean: the field x'Zx has increments E (x'Zx - y'Zy)^2 = s^2 |xx' - yy'|_F^2 <= 2 s^2 |x - y|^2, so E lambda_max <= s sqrt(2d)
    (Sudakov-Fernique). Tail: lambda_max is s-Lipschitz in the standardised coordinates; two signs.
    """
    return _zero_or(MATRIX_NORM, d, sigma, zeta)


def vector_norm(d: int, sigma: float, zeta: float) -> float:
    """Upper bound on the norm of a d-vector of independent N(0, sigma^2); fails with probability <= zeta."""
    return _zero_or(VECTOR_NORM, d, sigma, zeta)


def _zero_or(formula, d: int, sigma: float, zeta: float) -> float:
    validate.positive_int("d", d), validate.probability("zeta", zeta)
    return float(formula(d=d, sigma=sigma, zeta=zeta)) if validate.nonnegative("sigma", sigma) else 0.0


def gaussian_bounds(mechanism: PrefixSums, d: int, zeta: float, blocks: int = 1) -> NoiseBounds:
    """Bounds for a mechanism with Gaussian noise that releases (matrix d x d, vector d): zeta / (2T) for each part of each prefix.

    With `blocks` > 1 the matrix is block-diagonal, blocks of equal size, and noise elsewhere has been dropped.
    """
    validate.instance("mechanism", mechanism, PrefixSums), validate.positive_int("d", d)
    if d % validate.positive_int("blocks", blocks):
        raise ValueError(f"blocks must divide d = {d}, got {blocks!r}")
    share = validate.probability("zeta", zeta) / (2 * mechanism.horizon)
    norm = matrix_norm(d // blocks, mechanism.max_std, share / blocks)
    return NoiseBounds(-norm, norm, vector_norm(d, mechanism.max_std, share))


def sample_eigenvalues(d: int, sigma: float, draws: int, rng: np.random.Generator) -> Array:
    """Eigenvalues (draws, d), ascending, of independent noise matrices: for pictures and tests, never for a release."""
    validate.positive_int("d", d), validate.nonnegative("sigma", sigma), validate.positive_int("draws", draws), validate.generator("rng", rng)
    return np.linalg.eigvalsh(smat(sigma * rng.standard_normal((draws, svec_size(d))), d))


def semicircle(x: Array, d: int, sigma: float) -> Array:
    """Limiting density of the eigenvalues at x."""
    radius = validate.positive("sigma", sigma) * np.sqrt(2 * validate.positive_int("d", d))
    return 2 / (np.pi * radius) * np.sqrt(np.maximum(1 - (validate.array("x", x) / radius) ** 2, 0.0))
