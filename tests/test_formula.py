"""A formula evaluates what it prints, and refuses values outside its domain."""

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

from privbandit.formula import Formula, Source
from privbandit.formulas import privacy

s, n, a = sp.Symbol("s", positive=True), sp.Symbol("n", integer=True, nonnegative=True), sp.Symbol("a", real=True)
SUM = Formula("sum", "y", s + n + a, Source("nobody2000", "(1)", "v2"))
FORMULAS = [f for f in vars(privacy).values() if isinstance(f, Formula)]


def test_broadcasts_over_arrays():
    values = SUM(s=np.array([[1.0], [2.0]]), n=np.arange(3), a=-1.0)
    assert np.array_equal(values, [[0, 1, 2], [1, 2, 3]])


def test_scalars_stay_scalars():
    assert np.ndim(SUM(s=1.0, n=2, a=0.0)) == 0


@pytest.mark.parametrize(
    "bad, message",
    [
        ({"s": 0.0}, "sum: s must be positive, got 0.0"),
        ({"s": np.array([1.0, -2.0])}, "sum: s must be positive, got -2.0"),
        ({"s": float("nan")}, "sum: s must be positive, got nan"),
        ({"s": float("inf")}, "sum: s must be finite, got inf"),
        ({"n": -1}, "sum: n must be nonnegative, got -1"),
        ({"n": 0.5}, "sum: n must be an integer, got 0.5"),
        ({"a": float("nan")}, "sum: a must be finite, got nan"),
    ],
)
def test_refuses_what_the_symbols_exclude(bad, message):
    with pytest.raises(ValueError) as caught:
        SUM(**{"s": 1.0, "n": 1, "a": 1.0, **bad})
    assert message in str(caught.value)


@pytest.mark.parametrize("values", [{"s": 1.0, "n": 1}, {"s": 1.0, "n": 1, "a": 0.0, "b": 2.0}, {}])
def test_names_must_match(values):
    with pytest.raises(TypeError, match="sum takes a, n, s"):
        SUM(**values)


def test_prints_itself():
    assert SUM.latex == "y = a + n + s" and "y = a + n + s" in SUM._repr_latex_()
    assert str(SUM.source) == "nobody2000 (v2), (1)"


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda f: f.label)
@pytest.mark.parametrize("value", [0.01, 0.3, 0.9])
def test_the_privacy_formulas_evaluate_their_expression(formula, value):
    """Against the printed sympy expression at 50 digits, every symbol at a value of its own (whole numbers stay whole)."""
    values = {s.name: float(i + 3) if s.is_integer else value * (1 + 0.05 * i) for i, s in enumerate(formula.symbols)}
    exact = formula.expression.subs({symbol: sp.Rational(values[symbol.name]) for symbol in formula.symbols})
    assert float(formula(**values)) == pytest.approx(float(sp.N(exact, 50)), rel=1e-9, abs=0)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 1e-3, 1.0, 50.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_the_stable_twin_of_the_zcdp_inversion(epsilon, delta):
    """At epsilon = 1e-12 the literal difference of roots is wrong by 6e-4; the twin keeps 14 digits (50-digit oracle, abs = 0)."""
    with mp.workdps(50):
        log = -mp.log(mp.mpf(delta))
        exact = (mp.sqrt(log + mp.mpf(epsilon)) - mp.sqrt(log)) ** 2
    assert privacy.ZCDP_RHO(epsilon=epsilon, delta=delta) == pytest.approx(float(exact), rel=1e-14, abs=0)


def test_labels_are_unique():
    labels = [f.label for f in FORMULAS]
    assert len(labels) == len(set(labels)) >= 6
