"""A formula is written once: the book prints it, a test derives and checks it, the code evaluates it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp


@dataclass(frozen=True)
class Source:
    """Where a statement comes from: a key of the bibliography, the place in that work, and its version."""

    work: str
    place: str
    version: str = ""

    def __str__(self) -> str:
        version = f" ({self.version})" if self.version else ""
        return f"{self.work}{version}, {self.place}"


OWN = Source("privbandit", "derived in this book")


@dataclass(frozen=True)
class Formula:
    """A scalar expression with its label, its left-hand side, its domain and its source.

    The domain is what the sympy symbols assume: `Symbol("sigma", positive=True)` refuses sigma = 0.
    `stable` is an optional hand-written twin for arguments where the literal expression loses digits;
    a test must hold it to the expression.

    >>> s, D = sp.symbols("sigma Delta", positive=True)
    >>> rho = Formula("gaussian-rho", r"\\rho", D**2 / (2 * s**2), Source("bun2016", "Proposition 1.6"))
    >>> float(rho(sigma=2.0, Delta=1.0))
    0.125
    >>> rho(sigma=0.0, Delta=1.0)
    Traceback (most recent call last):
        ...
    ValueError: gaussian-rho: sigma must be positive, got 0.0
    """

    label: str
    symbol: str
    expression: sp.Expr
    source: Source
    stable: Callable[..., Any] | None = field(default=None, repr=False)

    @cached_property
    def symbols(self) -> tuple[sp.Symbol, ...]:
        return tuple(sorted(self.expression.free_symbols, key=lambda s: s.name))

    @cached_property
    def _evaluate(self) -> Callable[..., Any]:
        return sp.lambdify(self.symbols, self.expression, modules=["scipy", "numpy"])

    def __call__(self, **values: Any) -> np.ndarray | float:
        """Evaluate by broadcasting; the keywords are the names of the symbols."""
        names = [s.name for s in self.symbols]
        if set(values) != set(names):
            raise TypeError(f"{self.label} takes {', '.join(names)}, got {', '.join(sorted(values))}")
        arrays = {s.name: self._checked(s, values[s.name]) for s in self.symbols}
        if self.stable is not None:
            return self.stable(**arrays)
        return self._evaluate(*(arrays[n] for n in names))

    def _checked(self, symbol: sp.Symbol, value: Any) -> np.ndarray | float:
        number = np.asarray(value, dtype=float)
        tests = {
            "positive": (symbol.is_positive, number > 0),
            "nonnegative": (symbol.is_nonnegative, number >= 0),
            "an integer": (symbol.is_integer, number == np.round(number)),
            "finite": (True, np.isfinite(number)),
        }
        for word, (assumed, holds) in tests.items():
            if assumed and not np.all(holds):
                bad = number[~holds].flat[0] if number.ndim else float(number)
                raise ValueError(f"{self.label}: {symbol.name} must be {word}, got {bad}")
        return number if number.ndim else float(number)

    @property
    def latex(self) -> str:
        return f"{self.symbol} = {sp.latex(self.expression)}"

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex}$"
