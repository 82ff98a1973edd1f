"""Bounds of private Gaussian-process bandits."""

import numpy as np
import sympy as sp
from scipy.special import gammaln

from privbandit.formula import OWN, Formula, Source

n = sp.Symbol("n", positive=True, integer=True)
d, m, t, T = (sp.Symbol(name, positive=True) for name in ("d", "m", "t", "T"))
l = sp.Symbol("lengthscale", positive=True)  # noqa: E741
lambda_, lambda_min, lambda_max, nu, sigma, epsilon, delta = (
    sp.Symbol(name, positive=True) for name in ("lambda_", "lambda_min", "lambda_max", "nu", "sigma", "epsilon", "delta")
)
zeta, B, Y, subgaussian = (sp.Symbol(name, positive=True) for name in ("zeta", "B", "Y", "subgaussian"))
error, kappa, log_det, gain, beta = (sp.Symbol(name, nonnegative=True) for name in ("error", "kappa", "log_det", "gain", "beta"))
b, users = sp.Symbol("b", nonnegative=True), sp.Symbol("T", nonnegative=True)
block, size = (sp.Symbol(name, positive=True, integer=True) for name in ("block", "size"))

HERMITE_ERROR = Formula(
    "hermite-error",
    r"\eta",
    d * sp.factorial(n) / sp.factorial(2 * n) * l ** (-2 * n),
    Source("privbandit", "error term of Gauss quadrature; telescoping over coordinates"),
    stable=lambda d, lengthscale, n: d * np.exp(gammaln(np.add(n, 1)) - gammaln(np.multiply(2, n) + 1) - 2 * n * np.log(lengthscale)),
)

PUBLISHED_HERMITE_ERROR = Formula(
    "hermite-error-published",
    r"\eta",
    d * 2 ** (d - 1) / (sp.sqrt(2) * n**n) * (sp.E / (4 * l**2)) ** n,
    Source("mutny2018", "quadrature Fourier features, error theorem"),
    stable=lambda d, lengthscale, n: d * np.exp((d - 1.5) * np.log(2) + n * (1 - np.log(n) - np.log(4) - 2 * np.log(lengthscale))),
)

FINITE_GAIN = Formula(
    "finite-gain", r"\gamma_T", m / 2 * sp.log(1 + users / (m * lambda_)), Source("abbasiyadkori2011", "Lemma 10 (determinant and trace)")
)

CONFIDENCE_WIDTH = Formula(
    "private-gp-width",
    r"\beta_t",
    subgaussian * sp.sqrt(2 * sp.log(1 / zeta) + log_det) + B * sp.sqrt(lambda_max + (t - 1) * error) + kappa,
    OWN,
)

GP_UCB_WIDTH = Formula(
    "gp-ucb-width",
    r"\sqrt{\beta_t}",
    sp.sqrt(2 * sp.log(size * t**2 * sp.pi**2 / (6 * zeta))),
    Source("srinivas2010", "Theorem 1 (finite domain)"),
)

IGP_WIDTH = Formula(
    "igp-ucb-width",
    r"\beta_t",
    B + subgaussian * sp.sqrt(log_det + 2 * sp.log(1 / zeta)),
    Source("chowdhury2017", "Theorems 1 and 2, with the realised ln det((1 + eta) I + K) for 2 (gamma + 1)"),
)

POTENTIAL_CONSTANT = Formula(
    "potential-constant", r"c(\lambda)", 1 / (lambda_min * sp.log(1 + 1 / lambda_min)), Source("privbandit", "x <= c ln(1 + x) on [0, 1/lambda]")
)

WIDTH_SUM = Formula(
    "private-gp-width-sum",
    r"U(T)",
    2
    * sp.sqrt(2 * POTENTIAL_CONSTANT.expression * (1 + (block - 1) / lambda_min))
    * beta
    * sp.sqrt(T * (gain + sp.Min(m, T) * T * error / (2 * lambda_min))),
    OWN,
)

MISSPECIFICATION = Formula("private-gp-misspecification", r"2BT\sqrt{\eta}", 2 * B * T * sp.sqrt(error), OWN)

JOINT_SENSITIVITY = Formula(
    "gram-vector-sensitivity",
    r"\Delta^2",
    sp.Piecewise((2 + 2 * b + b**2 / 2, b <= 2), (4 * b, True)),
    OWN,
)

PUBLISHED_NODE_SIGMA = Formula(
    "published-tree-sigma",
    r"\sigma",
    4 * sp.sqrt(1 + sp.ceiling(sp.log(T, 2))) * (1 + Y**2) * sp.log(4 / delta) / epsilon,
    Source("shariff2018", "Gaussian noise for the tree (constants as reimplemented)"),
)

LOWER_BOUND_SE = Formula(
    "gp-lower-se", r"\Omega", sp.sqrt(T * sp.log(T) ** (d / 2)), Source("scarlett2017", "abstract", "arXiv; the PMLR abstract has d for d/2")
)
LOWER_BOUND_MATERN = Formula("gp-lower-matern", r"\Omega", T ** ((nu + d) / (2 * nu + d)), Source("scarlett2017", "abstract"))

GAIN_RATE_LINEAR = Formula("gain-rate-linear", r"\gamma_T = O(\cdot)", d * sp.log(T), Source("srinivas2010", "Theorem 5"))
GAIN_RATE_SE = Formula("gain-rate-se", r"\gamma_T = O(\cdot)", sp.log(T) ** (d + 1), Source("srinivas2010", "Theorem 5"))
GAIN_RATE_MATERN = Formula(
    "gain-rate-matern",
    r"\gamma_T = O(\cdot)",
    T ** (d / (2 * nu + d)) * sp.log(T) ** (2 * nu / (2 * nu + d)),
    Source("vakili2021", "information gain of kernels with polynomial eigendecay"),
)
