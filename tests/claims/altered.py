"""Formulas of the package with another expression, for checks that must reject them, and their symbols."""

from __future__ import annotations

import dataclasses


def formula(original, expression):
    return dataclasses.replace(original, expression=expression)


def scaled(formula, factor):
    return dataclasses.replace(formula, expression=factor * formula.expression)


def symbol(original, name):
    return next(s for s in original.symbols if s.name == name)
