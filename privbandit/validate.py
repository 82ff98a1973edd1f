"""Checks of arguments. Each returns the checked value or raises an error that names the argument, its value and what was expected."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def _real(name: str, value: Any, expected: str) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {expected}, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{name} must be {expected}, got an integer beyond the largest float") from None


def number(name: str, value: Any) -> float:
    """`value` as a float if it is finite, of either sign."""
    result = _real(name, value, "a finite number")
    if not np.isfinite(result):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return result


def positive(name: str, value: Any, *, allow_inf: bool = False) -> float:
    """`value` as a float if it is > 0 (and finite, unless `allow_inf`)."""
    expected = "a number > 0 (infinity allowed)" if allow_inf else "a finite number > 0"
    number = _real(name, value, expected)
    if not number > 0 or (np.isinf(number) and not allow_inf):
        raise ValueError(f"{name} must be {expected}, got {value!r}")
    return number


def above(name: str, value: Any, bound: float) -> float:
    """`value` as a float if it is finite and > `bound`."""
    expected = f"a finite number > {bound:g}"
    number = _real(name, value, expected)
    if not bound < number < np.inf:
        raise ValueError(f"{name} must be {expected}, got {value!r}")
    return number


def nonnegative(name: str, value: Any, *, allow_inf: bool = False) -> float:
    """`value` as a float if it is >= 0 (and finite, unless `allow_inf`)."""
    expected = "a number >= 0 (infinity allowed)" if allow_inf else "a finite number >= 0"
    number = _real(name, value, expected)
    if not number >= 0 or (np.isinf(number) and not allow_inf):
        raise ValueError(f"{name} must be {expected}, got {value!r}")
    return number


def probability(name: str, value: Any) -> float:
    """`value` as a float if it lies strictly between 0 and 1."""
    number = _real(name, value, "a number strictly between 0 and 1")
    if not 0 < number < 1:
        raise ValueError(f"{name} must be a number strictly between 0 and 1, got {value!r}")
    return number


def positive_int(name: str, value: Any, *, at_least: int = 1) -> int:
    """`value` as an int if it is a whole number >= `at_least`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number >= {at_least}, got {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be a whole number >= {at_least}, got {value!r}")
    return int(value)


def one_of(name: str, value: Any, options: Collection[str]) -> str:
    """`value` if it is one of `options`."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}")
    return value


def _fits(actual: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    for m, n in zip(actual, wanted, strict=False):
        if m != n and (n is not None or m < 1):
            return False
    return len(actual) == len(wanted)


def _finite(a: NDArray[np.float64]) -> bool:
    """Every policy asks this every round: entries that a broadcast repeats are read once, and a finite sum of squares proves it."""
    if 0 in a.strides:
        a = a[tuple(slice(0, 1) if step == 0 else slice(None) for step in a.strides)]
    return math.isfinite(np.vdot(a, a)) or bool(np.isfinite(a).all())


def array(name: str, value: ArrayLike, shape: tuple[int | None, ...] | None = None) -> NDArray[np.float64]:
    """`value` as a float array with finite entries and the given shape (None in the shape: any length >= 1).

    Only real numbers are numbers here: no strings, booleans, complex numbers or ragged lists.
    """
    try:
        result = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must be a full array of numbers, got rows of different lengths") from None
    if result.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be an array of numbers, got {result.dtype.name} entries: {result.ravel()[:3].tolist()!r}")
    result = result.astype(float, copy=False)
    if shape is not None and result.shape != shape and not _fits(result.shape, shape):
        wanted = "(" + ", ".join("*" if n is None else str(n) for n in shape) + ")"
        raise ValueError(f"{name} must have shape {wanted}, got shape {result.shape}")
    if not _finite(result):
        bad = result[~np.isfinite(result)].flat[0]
        raise ValueError(f"{name} must have finite entries only, got {bad}")
    return result


def text(name: str, value: Any) -> str:
    """`value` if it is a string that says something."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a non-empty string, got {value!r}")
    if not value.strip():
        raise ValueError(f"{name} must be a non-empty string, got {value!r}")
    return value


def generator(name: str, value: Any) -> np.random.Generator:
    """`value` if it is a numpy Generator (or an audit's stand-in for one): no global randomness."""
    if not isinstance(value, np.random.Generator) and not hasattr(value, "release"):
        raise TypeError(f"{name} must be a numpy random Generator, got {value!r}")
    return value


def instance(name: str, value: Any, *kinds: type) -> Any:
    """`value` if it is an instance of one of `kinds` (the class itself is not)."""
    if not isinstance(value, kinds):
        raise TypeError(f"{name} must be an instance of {' or '.join(kind.__name__ for kind in kinds)}, got {value!r}")
    return value
