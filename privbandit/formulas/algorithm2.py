"""Constants of Algorithm 2 of sarmasarkar2026 as printed (roots restored), and those behind its published tables.

R bounds rewards, S the parameter; kappa = 1/min mu', kappa* = 1/max mu'; the unspecified constant C of beta and gamma is 1.
"""

import math

import sympy as sp

from privbandit.formula import Formula, Source

d, T, R, S, kappa, kappa_star, epsilon, delta, zeta, gamma, lambda_, count = sp.symbols(
    "d T R S kappa kappa_star epsilon delta zeta gamma lambda_ count", positive=True
)
Lambda_T, Lambda_delta = sp.log(T / zeta), sp.log(1 / delta)


def _printed(label: str, symbol: str, expression: sp.Expr, place: str) -> Formula:
    return Formula(f"algorithm2-{label}", symbol, expression, Source("sarmasarkar2026", place, "v2"))


LAMBDA = _printed(
    "lambda",
    r"\lambda",
    sp.Rational(5, 4) * d * Lambda_T
    + 100 * sp.sqrt(d) * Lambda_delta * sp.log(T) * sp.sqrt(Lambda_T + d) / (epsilon * kappa_star),
    "Appendix J.1",
)
_BRANCH = d ** sp.Rational(1, 4) * sp.sqrt(Lambda_T) * (d + Lambda_T) ** sp.Rational(1, 4) * sp.sqrt(Lambda_delta)
BETA = _printed("beta", r"\beta", R * sp.sqrt(d * Lambda_T) + R * S * _BRANCH / sp.sqrt(epsilon * sp.Min(kappa_star, 1)), "Section 6")
GAMMA = _printed(
    "gamma",
    r"\gamma",
    R**2 * S * sp.sqrt(d * Lambda_T)
    + R**2 * S * _BRANCH / sp.sqrt(epsilon * kappa_star)
    + R**4 * S**4 * d * sp.sqrt(kappa) * Lambda_T * sp.sqrt(Lambda_delta) / epsilon,
    "Section 6",
)
COUNT1 = _printed("count1", r"\mathrm{count}_1", 8 * d * R**2 * kappa * gamma**2 * sp.log(T), "Section 6")
COUNT2 = _printed("count2", r"\mathrm{count}_2", 4 * sp.log(1 + T * R**3 / d, 2), "Section 6")
THRESHOLD = _printed("threshold", r"\tau_I", 1 / (gamma**2 * kappa * R**2), "Algorithm 2, line 4")
CALL_RHO = _printed("rho", r"\rho", epsilon**2 / (144 * count * sp.log(8 / delta)), "Algorithm 2, lines 9 and 12")
NODES = _printed("nodes", "m", sp.ceiling(sp.log(T, 2)) + 1, "Section 6")
NODE_SIGMA = _printed(
    "node-sigma", r"\sigma", sp.sqrt(72 * (sp.ceiling(sp.log(T, 2)) + 1)) * sp.log(32 / delta) / (kappa_star * epsilon), "Section 6"
)

CODE = Source("sarmasarkar2026", "public code, April 2026")


def _code(label: str, symbol: str, expression: sp.Expr) -> Formula:
    return Formula(f"published-{label}", symbol, expression, CODE)


_SPREAD = sp.log(4 / delta) * sp.log(4 * T / zeta) ** 2 / (epsilon * kappa_star)
PUBLISHED_LAMBDA = _code("lambda", r"\lambda", 2 * _SPREAD + sp.Rational(3, 4) * d * sp.log(4 * T / zeta) / R**2)
PUBLISHED_SPREAD = _code("spread", r"\lambda_{\max} - \lambda", sp.Rational(3, 2) * _SPREAD)
PUBLISHED_GAMMA = _code("gamma", r"\gamma", R * S * sp.sqrt(d * Lambda_T))
PUBLISHED_BETA = _code("beta", r"\beta", 4 * sp.sqrt(d * Lambda_T))
PUBLISHED_THRESHOLD = _code("threshold", r"\tau_I", 100 / (kappa * R**4 * S**2 * d))
PUBLISHED_COUNT1 = _code("count1", r"\mathrm{count}_1", sp.floor(d * R**2 * kappa * gamma**2 * sp.log(T) / 20000))
PUBLISHED_GROWTH = _code("growth", "1 + c", sp.Rational(105, 100) + 5 / (8 * sp.sqrt(d)))


def published_count2(T: int, d: int, kappa_star: float, lambda_: float, spread: float) -> int:
    """The code's cap on refreshes of theta_tau."""
    low, high = lambda_ - spread, lambda_ + spread
    return max(1, math.floor(3 * math.log2(high / low + T / (kappa_star**2 * low * d))))

W, eta, c = sp.symbols("W eta c", positive=True)
REFRESHES = Formula(
    "refreshes",
    "N",
    d * sp.log(1 + T * W / (d * lambda_)) / sp.log((1 + c) * (1 - eta) / (1 + eta)),
    Source("privbandit", "derived in this book"),
)
"""Bound on refreshes triggered by M_t not <= (1 + c) M_tau in PSD order, for leaves of trace <= W on lambda I and noise of operator
norm <= eta lambda with eta < c / (2 + c): each one multiplies the noiseless determinant by at least (1 + c)(1 - eta)/(1 + eta)."""
