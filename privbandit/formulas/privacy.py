"""The Gaussian mechanism and its conversions."""

import sympy as sp

from privbandit.formula import Formula, Source

epsilon, sigma, Delta, mu, rho = sp.symbols("epsilon sigma Delta mu rho", positive=True)
delta = sp.Symbol("delta", positive=True)
k = sp.Symbol("k", positive=True, integer=True)


def _normal_cdf(x: sp.Expr) -> sp.Expr:
    return sp.erfc(-x / sp.sqrt(2)) / 2


GAUSSIAN_RHO = Formula("gaussian-zcdp", r"\rho", Delta**2 / (2 * sigma**2), Source("bun2016", "Proposition 1.6"))

GAUSSIAN_MU = Formula("gaussian-gdp", r"\mu", Delta / sigma, Source("dong2022", "Theorem 2.7"))

GAUSSIAN_DELTA = Formula(
    "gaussian-delta",
    r"\delta(\varepsilon)",
    _normal_cdf(-epsilon / mu + mu / 2) - sp.exp(epsilon) * _normal_cdf(-epsilon / mu - mu / 2),
    Source("balle2018", "Theorem 8"),
)

CLASSICAL_SIGMA = Formula(
    "gaussian-classical",
    r"\sigma",
    Delta * sp.sqrt(2 * sp.log(sp.Rational(5, 4) / delta)) / epsilon,
    Source("dwork2014", "Theorem A.1 (epsilon < 1 only)"),
)

ADVANCED_EPSILON = Formula(
    "advanced-epsilon",
    r"\varepsilon_{\mathrm{adv}}",
    epsilon * sp.sqrt(2 * k * sp.log(1 / delta)) + k * epsilon * (sp.exp(epsilon) - 1),
    Source("dwork2014", "Theorem 3.20 (pure case)"),
)

ZCDP_EPSILON = Formula(
    "zcdp-to-dp",
    r"\varepsilon",
    rho + 2 * sp.sqrt(rho * sp.log(1 / delta)),
    Source("bun2016", "Proposition 1.3"),
)

ZCDP_RHO = Formula(
    "dp-from-zcdp",
    r"\rho",
    (sp.sqrt(sp.log(1 / delta) + epsilon) - sp.sqrt(sp.log(1 / delta))) ** 2,
    Source("bun2016", "Proposition 1.3, solved for rho"),
    # the literal difference of roots loses all digits for small epsilon
    stable=lambda delta, epsilon: _zcdp_rho(delta, epsilon),
)


def _zcdp_rho(delta, epsilon):
    import numpy as np

    log = np.log(1 / np.asarray(delta))
    return (epsilon / (np.sqrt(log + epsilon) + np.sqrt(log))) ** 2
