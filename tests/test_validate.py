"""Every check returns the checked value or raises an error with the argument's name, its value and what was expected."""

import numpy as np
import pytest

from privbandit import validate

NAN, INF = float("nan"), float("inf")

ACCEPTED = [
    (validate.positive, (2,), {}, 2.0),
    (validate.positive, (np.float64(0.5),), {}, 0.5),
    (validate.positive, (INF,), {"allow_inf": True}, INF),
    (validate.number, (-2,), {}, -2.0),
    (validate.nonnegative, (0,), {}, 0.0),
    (validate.nonnegative, (INF,), {"allow_inf": True}, INF),
    (validate.probability, (0.25,), {}, 0.25),
    (validate.positive_int, (np.int64(3),), {}, 3),
    (validate.positive_int, (0,), {"at_least": 0}, 0),
    (validate.one_of, ("tree", ("tree", "local")), {}, "tree"),
]

REFUSED = [
    (validate.positive, 0.0, {}, ValueError),
    (validate.positive, -1, {}, ValueError),
    (validate.positive, NAN, {}, ValueError),
    (validate.positive, INF, {}, ValueError),
    (validate.positive, NAN, {"allow_inf": True}, ValueError),
    (validate.positive, -INF, {"allow_inf": True}, ValueError),
    (validate.positive, True, {}, TypeError),
    (validate.positive, "1", {}, TypeError),
    (validate.positive, None, {}, TypeError),
    (validate.positive, 1 + 0j, {}, TypeError),
    (validate.number, NAN, {}, ValueError),
    (validate.number, -INF, {}, ValueError),
    (validate.number, "x", {}, TypeError),
    (validate.nonnegative, -1e-300, {}, ValueError),
    (validate.nonnegative, NAN, {}, ValueError),
    (validate.nonnegative, INF, {}, ValueError),
    (validate.probability, 0.0, {}, ValueError),
    (validate.probability, 1.0, {}, ValueError),
    (validate.probability, 1.5, {}, ValueError),
    (validate.probability, NAN, {}, ValueError),
    (validate.positive_int, 0, {}, ValueError),
    (validate.positive_int, 2.0, {}, TypeError),
    (validate.positive_int, True, {}, TypeError),
    (validate.positive_int, NAN, {}, TypeError),
    (validate.positive_int, 1, {"at_least": 2}, ValueError),
]


@pytest.mark.parametrize("check, args, options, wanted", ACCEPTED)
def test_accepted(check, args, options, wanted):
    assert check("x", *args, **options) == wanted


@pytest.mark.parametrize("check, value, options, error", REFUSED)
def test_refused_with_name_and_value(check, value, options, error):
    with pytest.raises(error) as caught:
        check("epsilon", value, **options)
    assert str(caught.value).startswith("epsilon must be ") and repr(value) in str(caught.value)


def test_one_of_lists_the_options():
    with pytest.raises(ValueError, match="trust must be one of 'a', 'b', got 'c'"):
        validate.one_of("trust", "c", ("a", "b"))


@pytest.mark.parametrize("odd", [[], None, 1, {}])
def test_one_of_refuses_what_is_no_name(odd):
    with pytest.raises(ValueError, match="trust must be one of 'a', 'b', got"):
        validate.one_of("trust", odd, {"a": 1, "b": 2})


def test_an_integer_beyond_the_floats():
    with pytest.raises(ValueError, match="epsilon must be a finite number > 0, got an integer beyond"):
        validate.positive("epsilon", 10**400)


@pytest.mark.parametrize("value", ["a", ["1", "2"], [1j], True, [True, False], [[1, 2], [3]], [1, None], [10**400]])
def test_array_of_no_numbers(value):
    with pytest.raises((TypeError, ValueError), match="^x must be "):
        validate.array("x", value)


def test_array_returns_floats():
    result = validate.array("x", [[1, 2, 3]], shape=(None, 3))
    assert result.dtype == float and result.shape == (1, 3)


@pytest.mark.parametrize("value", [[1.0, 2.0], [[1.0, 2.0]], np.empty((0, 3))])
def test_array_of_another_shape(value):
    with pytest.raises(ValueError, match=r"x must have shape \(\*, 3\), got shape"):
        validate.array("x", value, shape=(None, 3))


def test_array_lets_finite_numbers_pass_however_large():
    """Their squares overflow, which is not the caller's fault."""
    assert np.array_equal(validate.array("x", [1e300, -1e300]), [1e300, -1e300])


def test_array_looks_at_what_a_broadcast_repeats():
    rows = np.array([[0.0, 1.0], [2.0, NAN]])
    with pytest.raises(ValueError, match="x must have finite entries only, got nan"):
        validate.array("x", np.broadcast_to(rows, (5, 2, 2)), (5, 2, 2))
    with pytest.raises(ValueError, match="x must have finite entries only, got nan"):
        validate.array("x", np.broadcast_to(NAN, (5, 2)))
    assert validate.array("x", np.broadcast_to(rows[:1], (5, 2))).shape == (5, 2)
    assert validate.array("x", np.broadcast_to(rows[:0, None], (0, 3, 2))).size == 0


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_array_with_bad_entries(bad):
    with pytest.raises(ValueError, match=f"x must have finite entries only, got {bad}"):
        validate.array("x", [0.0, bad])


def test_generator():
    noise = np.random.default_rng(0)
    assert validate.generator("noise", noise) is noise
    for bad in (None, 0, np.random):
        with pytest.raises(TypeError, match="noise must be a numpy random Generator"):
            validate.generator("noise", bad)


def test_instance_takes_no_class_for_an_object():
    assert validate.instance("link", 1.5, int, float) == 1.5
    for bad in (float, "1.5", None):
        with pytest.raises(TypeError, match="link must be an instance of int or float, got ") as caught:
            validate.instance("link", bad, int, float)
        assert repr(bad) in str(caught.value)


@pytest.mark.parametrize("value", [1, 0.5, -2.0, float("inf"), float("nan"), "2", True])
def test_above_names_what_is_not_beyond_the_bound(value):
    assert validate.above("growth", 1.5, 1) == 1.5
    with pytest.raises((TypeError, ValueError), match="^growth must be a finite number > 1, got "):
        validate.above("growth", value, 1)
