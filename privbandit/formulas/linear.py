"""Private linear bandits: confidence widths, norms of the noise, and the constants of the literature."""

import sympy as sp

from privbandit.formula import OWN, Formula, Source

d, m, t, T, K = sp.symbols("d m t T K", positive=True)
S, Y, sigma, sigma_r, epsilon, delta, zeta = sp.symbols("S Y sigma sigma_r epsilon delta zeta", positive=True)
log_det = sp.Symbol("log_det", real=True)
lambda_min, lambda_max = sp.symbols("lambda_min lambda_max", positive=True)
kappa = sp.Symbol("kappa", nonnegative=True)
N = sp.Symbol("N", positive=True)

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
