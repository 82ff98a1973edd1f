"""Bounds of generalised linear bandits used in more than one file."""

import math

import sympy as sp

from privbandit.formula import OWN, Formula

a, b = sp.symbols("a b", positive=True)

TAU = 2 - math.sqrt(2)
"""Where the two branches of the joint leaf sensitivity meet: D(1, TAU) = 9 - 4 sqrt(2) = 3.3431..."""

JOINT_LEAF = Formula(
    "joint-leaf",
    "D(a, b)",
    sp.Max(a + 4 * b, sp.Piecewise((2 * a + 2 * b + b**2 / (2 * a), b <= 2 * a), (4 * b, True))),
    OWN,
)
"""Square of the L2 diameter of {(sqrt(a) w x x^T, sqrt(b) y x): |x| <= 1, 0 <= w <= 1, |y| <= 1}."""
