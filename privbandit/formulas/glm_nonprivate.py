"""Bounds of generalised linear bandits without privacy: estimation error, confidence, switches, exploration rounds, regret."""

import numpy as np
import sympy as sp
from scipy.special import lambertw

from privbandit.formula import OWN, Formula, Source

d, T, W, R, S, M, L = sp.symbols("d T W R S M L", positive=True)
lambda_, zeta, beta, c, q, threshold = sp.symbols("lambda_ zeta beta c q threshold", positive=True)
log_det, nu, g, n, eta = sp.symbols("log_det nu g n eta", nonnegative=True)

a = 2 + 2 * M * S

ESTIMATION_ERROR = Formula("glm-estimation-error", r"\|\hat\theta - \theta^*\|_{H^*}", (a * g + sp.sqrt(a**2 * g**2 + 4 * a * nu)) / 2, OWN)
"""g: the score in the norm of the inverse of H*, plus S sqrt(lambda); nu: excess loss of the optimiser."""

SELF_NORMALISED = Formula(
    "self-normalised-bernstein",
    r"\|s_t\|_{H_t^{-1}}",
    sp.sqrt(lambda_) / (2 * R) + 2 * R / sp.sqrt(lambda_) * (sp.log(1 / zeta) + d * sp.log(2) + log_det / 2),
    Source("faury2020", "Theorem 1"),
)
"""|noise| <= R; log_det = log det(H_t / lambda)."""

LOG_DET = Formula("log-determinant", r"\log\det(H_T / \lambda)", d * sp.log(1 + T * W / (d * lambda_)), Source("abbasiyadkori2011", "Lemma 10"))

SWITCHES = Formula("switch-bound", "N", LOG_DET.expression / sp.log(q), Source("abbasiyadkori2011", "Section 5.1"))
"""Switches of a rule that waits until the determinant, or one direction, has grown by more than q > 1."""

NOISY_DETERMINANT = Formula("determinant-under-noise", r"\lambda_{\max}", (1 + c) * ((1 + eta) / (1 - eta)) ** (d - 1), OWN)
"""How far one direction can grow before a determinant test with factor 1 + c sees it; noise of norm <= eta lambda, eta < 1."""


def _fixed_point(d, lambda_, threshold):
    """The larger root n of n log(1 + threshold) = d log(1 + n / (d lambda)); 0 if there is none."""
    rate = np.log1p(threshold) * lambda_
    root = -lambertw(-rate * np.exp(-rate), -1).real / rate
    return np.where(rate < 1, d * lambda_ * (root - 1), 0.0)[()]


EXPLORATION = Formula(
    "exploration-count",
    "n",
    d * lambda_ * (-sp.LambertW(-lambda_ * sp.log(1 + threshold) * (1 + threshold) ** -lambda_, -1) / (lambda_ * sp.log(1 + threshold)) - 1),
    OWN,
    stable=_fixed_point,
)
"""Most rounds in which an arm of length <= 1 can have |x|^2_{V^-1} >= threshold, each of which adds x x' to V = lambda I; 0 if that is
impossible (the literal expression holds where lambda log(1 + threshold) < 1)."""

SWITCHED_REGRET = Formula(
    "few-switches-regret",
    r"R_T",
    R * n + sp.E * (sp.exp(4) - 1) / 2 * beta * sp.sqrt(2 * (1 + c) * L * T * LOG_DET.expression),
    OWN,
)
"""n exploration rounds, L = sup of the slope of the mean, W <= lambda the largest weight; beta the width in H_tau."""
