"""Private linear bandits: confidence widths, norms of the noise, and the constants of the literature."""

import sympy as sp

from privbandit.formula import OWN, Formula, Source

d, m, t, T, K = sp.symbols("d m t T K", positive=True)
S, Y, sigma, sigma_r, epsilon, delta, zeta = sp.symbols("S Y sigma sigma_r epsilon delta zeta", positive=True)
log_det = sp.Symbol("log_det", real=True)
lambda_min, lambda_max = sp.symbols("lambda_min lambda_max", positive=True)
kappa = sp.Symbol("kappa", nonnegative=True)
N, beta, gap = sp.symbols("N beta gap", positive=True)
error, scale = sp.symbols("error scale", nonnegative=True)

RADIUS = Formula(
    "linucb-radius",
    r"\beta_t",
    sigma_r * sp.sqrt(2 * sp.log(1 / zeta) + log_det - d * sp.log(lambda_min)) + S * sp.sqrt(lambda_max) + kappa,
    Source("shariff2018", "confidence ellipsoid; the determinant is that of the released matrix, as in the authors' public code"),
)

MATRIX_NORM = Formula(
    "symmetric-noise-norm",
    r"\Upsilon",
    sigma * (sp.sqrt(2 * d) + sp.sqrt(2 * sp.log(2 / zeta))),
    OWN,
)

VECTOR_NORM = Formula("vector-noise-norm", r"h", sigma * (sp.sqrt(d) + sp.sqrt(2 * sp.log(1 / zeta))), OWN)

PUBLISHED_SIGMA = Formula(
    "shariff-sheffet-sigma",
    r"\sigma",
    4 * sp.sqrt(m) * (1 + Y**2) * sp.log(4 / delta) / epsilon,
    Source("shariff2018", "the authors' public code, Gaussian mechanism"),
)

PUBLISHED_NORM = Formula(
    "shariff-sheffet-norm",
    r"\Upsilon",
    sigma * sp.sqrt(2 * m) * (4 * sp.sqrt(d) + 2 * sp.log(T / zeta)),
    Source("shariff2018", "the authors' public code, Gaussian mechanism"),
)

PUBLISHED_DEGREES = Formula(
    "shariff-sheffet-wishart",
    r"k - p",
    sp.floor(28 * sp.log(4 * (m + 1) / delta) * 8 * m * sp.log((m + 1) / delta) / epsilon**2),
    Source("shariff2018", "the authors' public code, Wishart mechanism under advanced composition"),
)

ELIMINATION_ERROR = Formula(
    "elimination-error",
    r"h_e",
    sp.sqrt(sp.log(8 * K * t**2 / zeta) / (2 * N)),
    Source("sajed2019", "epochs of the private successive elimination"),
)

LARGEST_WIDTH = Formula(
    "linucb-largest-width",
    r"\bar\beta_T",
    sigma_r * sp.sqrt(2 * sp.log(1 / zeta) + d * sp.log(lambda_max / lambda_min + T / (d * lambda_min))) + S * sp.sqrt(lambda_max) + kappa,
    OWN,
)
"""The width of `RADIUS` at its largest: on the good event the released matrix has trace at most T + d lambda_max."""

POTENTIAL = Formula(
    "elliptical-potential",
    r"\sum_t \lVert x_t\rVert^2",
    d * sp.log(1 + T / (d * lambda_min)) / (lambda_min * sp.log(1 + 1 / lambda_min)),
    OWN,
)
"""Bound on the squared bonuses of T unit vectors, each in the inverse of lambda_min I plus the vectors before it."""

LINEAR_REGRET = Formula("linucb-regret", r"\mathrm{Reg}_T", 2 * beta * sp.sqrt(T * POTENTIAL.expression), OWN)

UCB_REGRET = Formula("private-ucb-regret", r"\mathrm{Reg}_T(a)", 8 * sp.log(T) / gap + 6 * error + 4 * gap, OWN)
"""Of one arm with gap `gap`; `error` bounds the noise of its two statistics."""

ELIMINATION_REGRET = Formula(
    "private-elimination-regret",
    r"\mathrm{Reg}_T(a)",
    sp.Rational(128, 3) * sp.log(8 * K * t**2 / zeta) / gap + 32 * scale * sp.log(4 * K * t**2 / zeta) + gap * t,
    OWN,
)
"""Of one arm with gap `gap`, Laplace noise of scale `scale`; t = 1 + floor(log2(1 / gap)) is the epoch at whose end it has gone."""
