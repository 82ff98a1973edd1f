"""The offline slider: self-contained, stable, accessible, and true to its numbers."""

import re

import numpy as np
import pytest

from privbandit.slider import _linear_ticks, _log_ticks, slider

X = np.array([1.0, 10.0, 100.0])
CURVES = {"tree": np.array([[1.0, 2, 3], [2, 4, 6]]), "root & <b>": np.array([[1.0, 1, 1], [1, 1, 2]])}
LABELS = dict(xlabel="round", ylabel="noise", title="Noise of a prefix")


def make(**changes):
    return slider("epsilon", [0.5, 1.0], X, CURVES, **LABELS, **changes)


def test_it_is_self_contained_and_the_same_every_time():
    first, second = make().html, make().html
    assert first == second
    assert not re.search(r"https?:|src=|<link|@import", first)


def test_it_shows_one_frame_at_first_and_holds_one_per_setting():
    page = make().html
    assert page.count("<polyline") == 2 * len(CURVES)
    assert re.findall(r'data-frame="(\d)"( style="display:none")?', page) == [("0", ""), ("1", ' style="display:none"')]


def test_it_can_be_operated_and_read_without_a_mouse_or_scripts():
    page = make().html
    identifier = re.search(r'<input id="([^"]+)" type="range"', page)[1]
    assert f'<label for="{identifier}">' in page and 'aria-valuetext="epsilon = 0.5"' in page
    assert '<th scope="row">epsilon = 1, tree</th><td>2</td><td>4</td><td>6</td>' in page


def test_labels_are_escaped():
    assert "root &amp; &lt;b&gt;" in make().html and "<b>" not in make().html


def test_points_lie_where_the_numbers_say():
    page = make(log_x=True).html
    points = re.findall(r'points="([^"]+)"', page)[2]  # second setting of the first curve: 2, 4, 6 on an axis from 0 to 6
    across, up = np.array([p.split(",") for p in points.split()], float).T
    np.testing.assert_allclose(across, [62, 326, 590], atol=0.06)
    np.testing.assert_allclose(up, [210, 120, 30], atol=0.06)


@pytest.mark.parametrize(
    ("curves", "options", "message"),
    [
        ({"a": np.ones((2, 2))}, {}, r"curves\['a'\] must have shape \(2, 3\)"),
        ({"a": np.full((2, 3), np.nan)}, {}, "finite"),
        ({}, {}, "must not be empty"),
        ({"a": np.zeros((2, 3))}, {"log_y": True}, "curves must be > 0 on a logarithmic axis"),
    ],
)
def test_wrong_data_is_refused(curves, options, message):
    with pytest.raises(ValueError, match=message):
        slider("epsilon", [0.5, 1.0], X, curves, **LABELS, **options)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 3.27), (-2, 900), (5, 5), (0.001, 0.0042)])
def test_linear_ticks_are_few_and_inside(low, high):
    ticks = _linear_ticks(low, high)
    assert 1 <= len(ticks) <= 9
    assert all(low - 1e-9 <= t <= high + 1e-9 for t in ticks)


@pytest.mark.parametrize(("low", "high"), [(1, 1e5), (2, 30), (3, 3), (1e-12, 1e9), (1.5, 1.9)])
def test_logarithmic_ticks_are_few_and_inside(low, high):
    ticks = _log_ticks(low, high)
    assert 1 <= len(ticks) <= 9
    assert all(low * 0.999 <= t <= high * 1.001 for t in ticks)


def test_a_single_place_and_setting_work():
    page = slider("K", [1], [1.0], {"flat": [[0.0]]}, **LABELS).html
    assert "nan" not in page and "inf" not in page
