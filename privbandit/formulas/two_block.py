"""The constants of the two-block regret theorem (this book).

`nu` is the largest standard deviation of an entry of the released prefix sums in the leaf's own units (weight <= 1, |response| <= 1);
it is s sqrt(g) for the exact square-root factorisation. c <= mu' <= L and |mu''| <= M mu' on [-S, S]; kappa = 1/c.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import sympy as sp

from privbandit.formula import OWN, Formula

d, T, S, zeta, c, L, M, kappa_star = sp.symbols("d T S zeta c L M kappa_star", positive=True)
ell, D, D_o, eta, lambda_, lambda_o, q0 = sp.symbols("ell D D_o eta lambda_ lambda_o q0", positive=True)
b_s, b_p, gamma, Delta, Phi_max, A = sp.symbols("b_s b_p gamma Delta Phi_max A", positive=True)
n_V, n_H, n_Z, n_o = sp.symbols("n_V n_H n_Z n_o", nonnegative=True)
v = sp.exp(sp.Rational(1, 5))
R = sp.Rational


def _own(label: str, symbol: str, expression: sp.Expr) -> Formula:
    return Formula(label, symbol, expression, OWN)


MATRIX_NORM = _own("noise-matrix-norm", "x_m", sp.sqrt(2 * d) + sp.sqrt(2 * sp.log(16 * T / zeta)))
"""Pr(some of T symmetric noises in d dimensions has operator norm > x_m std) <= zeta/8: Sudakov-Fernique and Gaussian concentration."""
VECTOR_NORM = _own("noise-vector-norm", "x_v", sp.sqrt(d) + sp.sqrt(2 * sp.log(8 * T / zeta)))
DIMENSION = _own("log-det-dimension", "D", d * sp.log(1 + L * T / d))

# exploration
ETA = _own("explore-eta", r"\eta", sp.Min(R(1, 5), (R(25, 2) * L * D_o / c) ** R(-1, 2)))
EXPLORE_RIDGE = _own(
    "explore-ridge", r"\lambda_o", sp.Max(1, c, c * n_V / eta, n_o * sp.sqrt(R(25, 4) * L * D_o / c) / S)
)
EXPLORE_POTENTIAL = _own(
    "explore-potential",
    r"\Phi_{\max}",
    2 * (lambda_o * S**2 + 2 * ell / c + D_o / c + R(25, 4) * L * D_o / c * n_o**2 / lambda_o),
)
GAMMA = _own("explore-width", r"\gamma", sp.sqrt(1 + eta) / (1 - eta) * (sp.sqrt(Phi_max) + n_o / sp.sqrt(lambda_o)))
EXPLORE_ROUNDS = _own("explore-rounds", "N_o", R(5, 2) * gamma**2 * D_o / (c * Delta**2))

# exploitation
NOISE_RADIUS = _own("exploit-radius", "b_s", sp.sqrt((sp.E - 1) * v * D + (3 * v * sp.Max(1, S) + 1) * ell))
EXPLOIT_RIDGE = _own("exploit-ridge", r"\lambda", sp.Max(2, 2 * L, R(8, 9) * b_s**2 / sp.Max(1, S) ** 2, 2 * n_H, n_Z / S))
DRIFT = _own("exploit-drift", "b_p", n_Z + R(3, 2) * lambda_ * S)
THRESHOLD = _own(
    "exploit-threshold",
    r"\Delta",
    sp.Min(1 / (10 * M), b_s / (R(1072, 1000) * M * sp.sqrt(q0 * D) * (2 * b_s + b_p * sp.sqrt(2 / lambda_)))),
)
REGRET_SLOPE = _own("exploit-slope", "A", R(2447, 1000) * sp.sqrt(q0 * D) * (2 * b_s + b_p * sp.sqrt(2 / lambda_)))
EXPLOIT_REGRET = _own("exploit-regret", "R_H", A * sp.sqrt(T / kappa_star) + M * A**2)
"""Part (a) of the theorem: with probability 1 - zeta, regret of the exploitation rounds."""


class Problem(NamedTuple):
    """What the theorems need to know of the instance: all public."""

    d: int
    T: float
    S: float
    zeta: float
    c: float
    L: float
    M: float
    Y: float  # range of the tangent's response
    Y_o: float  # range of the response with slope c
    tau: float


class Explore(NamedTuple):
    ridge: float
    gamma: float
    dimension: float
    slack: float  # eta


class Exploit(NamedTuple):
    ridge: float
    radius: float  # b_s
    drift: float  # b_p
    Delta: float
    dimension: float


def explore(p: Problem, nu: float) -> Explore:
    """Constants of the exploration block for noise of standard deviation `nu`."""
    x_m, x_v = MATRIX_NORM(d=p.d, T=p.T, zeta=p.zeta), VECTOR_NORM(d=p.d, T=p.T, zeta=p.zeta)
    n_V, n_P = nu * x_m, nu * x_v * p.Y_o / math.sqrt(p.tau)
    n_o = n_P + p.c * n_V * p.S
    dimension = DIMENSION(d=p.d, L=p.c, T=p.T)
    eta = ETA(L=p.L, D_o=dimension, c=p.c)
    ridge = EXPLORE_RIDGE(c=p.c, n_V=n_V, eta=eta, n_o=n_o, L=p.L, D_o=dimension, S=p.S)
    peak = EXPLORE_POTENTIAL(lambda_o=ridge, S=p.S, ell=math.log(8 / p.zeta), c=p.c, D_o=dimension, L=p.L, n_o=n_o)
    return Explore(ridge, GAMMA(eta=eta, Phi_max=peak, n_o=n_o, lambda_o=ridge), dimension, eta)


def exploit(p: Problem, nu: float) -> Exploit:
    """Constants of the exploitation block of the two-block algorithm."""
    n_H = p.L * nu * MATRIX_NORM(d=p.d, T=p.T, zeta=p.zeta)
    n_Z = p.Y / math.sqrt(p.tau) * nu * VECTOR_NORM(d=p.d, T=p.T, zeta=p.zeta)
    dimension = DIMENSION(d=p.d, L=p.L, T=p.T)
    radius = NOISE_RADIUS(D=dimension, S=p.S, ell=math.log(8 / p.zeta))
    ridge = EXPLOIT_RIDGE(L=p.L, b_s=radius, S=p.S, n_H=n_H, n_Z=n_Z)
    drift = DRIFT(n_Z=n_Z, lambda_=ridge, S=p.S)
    Delta = THRESHOLD(M=p.M, b_s=radius, q0=1 + 2 * p.L / ridge, D=dimension, b_p=drift, lambda_=ridge)
    return Exploit(ridge, radius, drift, Delta, dimension)


def exploration_rounds(p: Problem, nu: float, Delta: float) -> float:
    """Bound on the number of exploration rounds with threshold `Delta`."""
    o = explore(p, nu)
    return EXPLORE_ROUNDS(gamma=o.gamma, D_o=o.dimension, c=p.c, Delta=Delta)


def exploitation_regret(p: Problem, nu: float, kappa_star: float) -> float:
    """Part (a) of the theorem, for the realised kappa* (1/kappa* is the mean slope at the best arms)."""
    e = exploit(p, nu)
    A = REGRET_SLOPE(q0=1 + 2 * p.L / e.ridge, D=e.dimension, b_s=e.radius, b_p=e.drift, lambda_=e.ridge)
    return EXPLOIT_REGRET(A=A, T=p.T, kappa_star=kappa_star, M=p.M)
