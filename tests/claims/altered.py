"""Formulas of the package with another expression, for checks that must reject them, and their symbols."""

from __future__ import annotations

import dataclasses

from privbandit.formula import Formula


def formula(original, expression):
    return dataclasses.replace(original, expression=expression)


def scaled(formula, factor):
    return dataclasses.replace(formula, expression=factor * formula.expression)


def mutant(formula: Formula, change) -> Formula:
    """The formula with a changed expression."""
    return dataclasses.replace(formula, expression=change(formula.expression), stable=None)


def symbol(original, name):
    return next(s for s in original.symbols if s.name == name)
