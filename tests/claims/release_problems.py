"""The problems on which the theorems of one release are checked: their constants, and the noise of a release in them."""

from __future__ import annotations

import math

from privbandit.accounting import gaussian_mu
from privbandit.formulas.glm import TAU
from privbandit.formulas.two_block import Problem
from privbandit.links import Logistic

SETTINGS = ((1, 1.0, 1e4, 8.0), (2, 1.0, 1e12, 4.0), (5, 2.0, 1e7, 0.5), (3, 0.5, 1e5, math.inf))


def problem(d=2, S=1.0, T=1e12, zeta=0.02):
    link = Logistic()
    c = link.c_mu(S)
    return Problem(d, T, S, zeta, c, link.L_mu(S), 1.0, link.leaf_range(S), link.leaf_range(S, slope=c), TAU)


def nu(T, epsilon, extra=0.0):
    return math.sqrt(9 - 4 * math.sqrt(2) + extra) * (1.07 + math.log(T) / math.pi) / gaussian_mu(epsilon, 1e-5)
