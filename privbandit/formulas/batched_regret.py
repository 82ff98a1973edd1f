"""Regret of batched elimination on the event that all its confidence widths hold, with explicit constants (this book).

Lengths: B_1, then B_2 = alpha, B_k = alpha sqrt(B_{k-1}). Widths: gamma sqrt(kappa) |x|_{V^-1} from the first batch, gamma |x|_{H^-1} from
the others. M bounds |mu''| / mu', L_mu bounds mu', 1 / kappa_hat is the mean slope at the best arm.
"""

import sympy as sp

from privbandit.formula import OWN, Formula

gamma, S, d, B_1, alpha, kappa, kappa_hat, L_mu = sp.symbols("gamma S d B_1 alpha kappa kappa_hat L_mu", positive=True)
slope, scaled, crude, a = sp.symbols("slope scaled crude a", positive=True)
M = sp.Symbol("M", nonnegative=True)

_curvature = sp.Rational(7, 5) * (sp.exp(5 * M * S) - 1) / S

ROUND_REGRET = Formula(
    "batched-round-regret", r"\mathrm{regret}_t", 4 * gamma * sp.sqrt(slope) * scaled * (1 + _curvature * crude), OWN
)
"""A round after the second batch: `slope` mu' at the best arm, `scaled` the largest |x~|_{H^-1} and `crude` the largest first width among
surviving arms."""

SECOND_BATCH = Formula("batched-regret-second", r"R^{(2)}", 4 * sp.sqrt(2) * L_mu * gamma * sp.sqrt(kappa) * d * alpha / sp.sqrt(B_1), OWN)

LATER_BATCH = Formula("batched-regret-leading", r"R^{(k)}", 4 * sp.sqrt(2) * gamma * d * alpha / sp.sqrt(kappa_hat), OWN)

LATER_BATCH_CURVATURE = Formula(
    "batched-regret-curvature",
    r"R^{(k)}_{\mathrm{curv}}",
    8 * _curvature * gamma**2 * sp.sqrt(kappa * L_mu) * d**2 * alpha / sp.sqrt(B_1),
    OWN,
)

DOUBLING_COST = Formula("doubling-cost", r"\mathrm{factor}", 2**a / (2**a - 1), OWN)
"""Regret of a doubling run against C (T + first)^a, when a phase of known length n costs at most C n^a."""
