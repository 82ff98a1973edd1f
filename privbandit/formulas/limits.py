"""What privacy forbids: the success of any attack, the regret of any private action, the accuracy of any local sum."""

import sympy as sp

from privbandit.formula import OWN, Formula

epsilon, mu, n, T, gap = sp.symbols("epsilon mu n T gap", positive=True)
delta = sp.Symbol("delta", nonnegative=True)

ATTACK_SUCCESS = Formula("attack-success", r"p_{\max}", (1 + delta * sp.exp(-epsilon)) / (1 + sp.exp(-epsilon)), OWN)

GAUSSIAN_SUCCESS = Formula("gaussian-attack-success", r"p_{\max}", sp.erfc(-mu / (2 * sp.sqrt(2))) / 2, OWN)

CENTRAL_REGRET = Formula("central-regret", r"\mathrm{Reg}_T", T * gap * (1 - delta) * sp.exp(-epsilon) / (1 + sp.exp(-epsilon)), OWN)

LOCAL_SUM_ERROR = Formula("local-sum-error", r"\mathrm{RMSE}", sp.sqrt(n) / (2 * sp.cosh(epsilon / 2)), OWN)
