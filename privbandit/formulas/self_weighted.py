"""The constants of the self-weighted exploitation block (this book): regret without a sqrt(T / epsilon) term.

Symbols as in `two_block`. The exploration block and its constants are the same, for the noise level of this algorithm's leaf.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from privbandit.formulas.two_block import MATRIX_NORM, Problem, _own

d, T, S, L, M, kappa_star, ell, D_J, E = sp.symbols("d T S L M kappa_star ell D_J E", positive=True)
lambda_, q1, b_p, C, a_1, Omega, Omega_0 = sp.symbols("lambda_ q1 b_p C a_1 Omega Omega_0", positive=True)
n, n_Z, n_O = sp.symbols("n n_Z n_O", nonnegative=True)
SLOPE = sp.Rational(12215, 10000)  # > e^(1/5)

DIMENSION = _own("weighted-dimension", "D_J", 2 * d * sp.log(1 + sp.Rational(53, 100) * L * T / sp.sqrt(d)))
EPOCHS = _own("weighted-epochs", "E", 1 + sp.floor(D_J / sp.log(sp.Rational(8, 5))))
RIDGE = _own("weighted-ridge", r"\lambda", sp.Max(1, sp.Rational(11, 10) * L, sp.Rational(2122, 100) * E * L * n) ** 2)
"""n is the operator norm bound of a matrix noise in the leaf's units."""
CLIP = _own("weighted-clip", r"\rho", sp.sqrt(sp.Rational(9, 8) / lambda_))
CEILING = _own("weighted-ceiling", r"\bar\lambda", sp.Rational(10, 9) * (sp.sqrt(lambda_ * d) + sp.Rational(211, 400) * L * T) ** 2)
"""No eigenvalue of the released matrix is larger on the good event: the trace bound of the proof and the sandwich."""
THRESHOLD = _own("weighted-threshold", r"\Delta", sp.Min(1 / (10 * M), 1 / (sp.Rational(483, 100) * M * sp.sqrt(q1 * D_J))))
DRIFT = _own("weighted-drift", "b_p", sp.Rational(351, 100) * E * n_Z + sp.Rational(167, 100) * sp.sqrt(lambda_) * S)
RADIUS = _own("weighted-radius", r"\beta - b_p", sp.Rational(77822, 10000) * sp.sqrt(2 * ell * Omega))
"""1.67 * 4.66 = 7.7822 times the root of the released curvature; the drift comes on top."""
POTENTIAL = _own("weighted-potential", "C", sp.Rational(431, 100) * q1 * D_J)
REGRET = _own(
    "weighted-regret",
    "R_J",
    a_1 * sp.sqrt(SLOPE * T / kappa_star + 2 * n_O + Omega_0 + SLOPE * M * C * b_p) + C * b_p + SLOPE * M * a_1**2,
)
LINEAR_REGRET = _own("linear-regret", "R_T", C * (RADIUS.expression + b_p))
"""Linear rewards: the potential times the last radius, at Omega = max(T, Omega_0)."""


class Weighted(NamedTuple):
    """Constants of the block."""

    ridge: float
    drift: float  # b_p
    Delta: float
    dimension: float  # D_J
    epochs: float  # E: a bound on the number of re-whitenings
    ell: float
    floor: float  # Omega_0
    clip: float  # rho: bounds |U x|
    matrix_noise: float  # n_M
    scalar_noise: float  # n_O
    growth: float  # q1
    width: float = 1.0  # public multiplier of the statistical part of beta

    def radius(self, omega: NDArray[np.float64]) -> NDArray[np.float64]:
        """beta for the released sums of weights `omega` (R,); their floor is applied here."""
        return self.width * RADIUS(Omega=np.maximum(omega, self.floor), ell=self.ell) + self.drift


def response_range(L: float, S: float, Y: float) -> float:
    """Range of the centred response r - mu(z) + w z - w <x, theta_j>."""
    return Y + L * S


def weighted(p: Problem, nu: float) -> Weighted:
    """Constants for unit noise of standard deviation `nu`."""
    x_m = MATRIX_NORM(d=p.d, T=p.T, zeta=p.zeta)
    x_v = math.sqrt(p.d) + math.sqrt(2 * math.log(16 * p.T / p.zeta))
    dimension = DIMENSION(d=p.d, L=p.L, T=p.T)
    epochs = EPOCHS(D_J=dimension)
    ridge = RIDGE(L=p.L, E=epochs, n=nu * x_m)
    clip = CLIP(lambda_=ridge)
    n_Z = response_range(p.L, p.S, p.Y) / math.sqrt(p.tau) * nu * x_v
    n_O = math.sqrt(3) * p.L * nu * math.sqrt(2 * math.log(32 * p.T / p.zeta))
    growth = 1 + 1.0541 * p.L / math.sqrt(ridge)
    first = math.log(16 / p.zeta)
    levels = max(1, 1 + math.ceil(math.log2(p.L * p.T / (1.15 * first))))
    ell = math.log(16 * levels / p.zeta)
    return Weighted(
        ridge=ridge,
        drift=DRIFT(E=epochs, n_Z=n_Z, lambda_=ridge, S=p.S),
        Delta=THRESHOLD(M=p.M, q1=growth, D_J=dimension) if p.M > 0 else math.inf,
        dimension=dimension,
        epochs=epochs,
        ell=ell,
        floor=1.15 * ell,
        clip=clip,
        matrix_noise=p.L * clip * nu * x_m,
        scalar_noise=n_O,
        growth=growth,
    )


def weighted_regret(p: Problem, nu: float, kappa_star: float) -> float:
    """Regret of the exploitation rounds, with probability 1 - zeta."""
    k = weighted(p, nu)
    C = POTENTIAL(q1=k.growth, D_J=k.dimension)
    slope = C * 1.67 * 4.66 * math.sqrt(2 * k.ell)
    return REGRET(a_1=slope, T=p.T, kappa_star=kappa_star, n_O=k.scalar_noise, Omega_0=k.floor, M=p.M, C=C, b_p=k.drift)


def linear(d: int, T: float, S: float, zeta: float, tau: float) -> Problem:
    """Linear rewards <x, theta*> + e with |e| <= 1: slope 1, no curvature, |reward| <= 1 + S."""
    return Problem(d, T, S, zeta, c=1.0, L=1.0, M=0.0, Y=1 + S, Y_o=1 + S, tau=tau)


def linear_regret(p: Problem, nu: float) -> float:
    """Regret of the linear corollary, with probability 1 - 5/16 zeta, for p = `linear(...)`."""
    k = weighted(p, nu)
    return LINEAR_REGRET(C=POTENTIAL(q1=k.growth, D_J=k.dimension), Omega=max(p.T, k.floor), ell=k.ell, b_p=k.drift)
