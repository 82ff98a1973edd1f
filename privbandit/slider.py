"""An interactive figure that needs no network and no kernel: every setting is drawn beforehand, the page only shows and hides."""

from __future__ import annotations

import hashlib
import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import validate

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito: told apart in all common colour visions
HIDDEN = ' style="display:none"'


def rounded(value: Any, digits: int = 3) -> str:
    """A number with `digits` significant digits (whole numbers in full), anything else as text.

    >>> rounded(0.000123456), rounded(12345), rounded(-0.0), rounded("yes"), rounded(float("inf"))
    ('0.000123', '12345', '0', 'yes', 'inf')
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        return str(value)
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return f"{float(value) + 0.0:.{digits}g}"


@dataclass(frozen=True)
class Slider:
    """An interactive figure as HTML that needs no network and no kernel; see `slider`."""

    html: str
    summary: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"<{self.summary}>"


@dataclass(frozen=True)
class _Axis:
    """One axis of a slider: limits, scale, and the place of a value in the drawing."""

    label: str
    low: float
    high: float
    log: bool
    start: float
    end: float

    def __call__(self, values: np.ndarray) -> np.ndarray:
        low, high, values = (np.log(v) if self.log else v for v in (self.low, self.high, np.asarray(values, float)))
        return self.start + (values - low) / ((high - low) or 1.0) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        return _log_ticks(self.low, self.high) if self.log else _linear_ticks(self.low, self.high)


def slider(
    parameter: str,
    values: Sequence[float],
    x: Sequence[float],
    curves: Mapping[str, Any],
    *,
    xlabel: str,
    ylabel: str,
    title: str,
    log_x: bool = False,
    log_y: bool = False,
    digits: int = 3,
) -> Slider:
    """Curves on a grid of one parameter, with a slider to move along it.

    Everything is computed here; the page only shows and hides. The slider is a native control (arrow keys work), and without
    scripts the first setting and the table of all numbers remain.

    Parameters
    ----------
    parameter, values
        Name of the parameter (plain text) and its P settings.
    x
        The N places on the horizontal axis; all > 0 if `log_x`.
    curves
        Label -> array of shape (P, N), finite; all > 0 if `log_y`.

    Raises
    ------
    ValueError
        If a shape, a value or a logarithmic axis does not fit.
    """
    settings = validate.array("values", values, (None,))
    places = validate.array("x", x, (None,))
    grids = {label: validate.array(f"curves[{label!r}]", grid, (len(settings), len(places))) for label, grid in curves.items()}
    if not grids or not len(settings) or not len(places):
        raise ValueError(f"curves, values and x must not be empty, got {len(grids)} curves, {len(settings)} values and {len(places)} places")
    for name, log, data in (("x", log_x, places), ("curves", log_y, np.concatenate([g.ravel() for g in grids.values()]))):
        if log and data.min() <= 0:
            raise ValueError(f"{name} must be > 0 on a logarithmic axis, got {data.min()}")
    heights = np.stack(list(grids.values()))
    across = _Axis(xlabel, places.min(), places.max(), log_x, 62, 590)
    upward = _Axis(ylabel, heights.min() if log_y else min(0.0, heights.min()), heights.max(), log_y, 300, 30)
    names = [f"{parameter} = {rounded(v, digits)}" for v in settings]
    body = _figure(across, upward, places, grids, names, title) + _table(xlabel, places, grids, names, digits)
    return Slider(_page(body, names, title), f"slider over {parameter}, {len(settings)} settings: {title}")


def _figure(across: _Axis, upward: _Axis, places: np.ndarray, grids: Mapping[str, np.ndarray], names: list[str], title: str) -> str:
    frames = "".join(
        f'<g data-frame="{i}"{HIDDEN if i else ""}>{_curves(across(places), [upward(g[i]) for g in grids.values()])}</g>'
        for i in range(len(names))
    )
    height = 356 + 21 * len(grids)
    return (
        f'<svg viewBox="0 0 610 {height}" role="img" aria-label="{html.escape(title)}" font-size="16" fill="currentColor">'
        f"{_axes(across, upward)}{frames}{_legend(list(grids))}</svg>"
    )


def _axes(across: _Axis, upward: _Axis) -> str:
    line = '<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="currentColor" stroke-opacity="{}"/>'
    label = '<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>'
    parts = [line.format(62, 300, 590, 300, 1), line.format(62, 30, 62, 300, 1)]
    for tick, place in zip(across.ticks, across(np.array(across.ticks))):
        parts += [line.format(f"{place:.1f}", 300, f"{place:.1f}", 305, 1), label.format(place, 322, "middle", f"{tick:g}")]
    for tick, place in zip(upward.ticks, upward(np.array(upward.ticks))):
        parts += [line.format(62, f"{place:.1f}", 590, f"{place:.1f}", 0.15), label.format(57, place + 5, "end", f"{tick:g}")]
    parts += [label.format(326, 344, "middle", html.escape(across.label)), label.format(8, 18, "start", html.escape(upward.label))]
    return "".join(parts)


def _curves(across: np.ndarray, heights: list[np.ndarray]) -> str:
    parts = []
    for number, height in enumerate(heights):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, height))
        parts.append(f'<polyline points="{points}" fill="none" stroke-width="2.2" {_stroke(number)}/>')
    return "".join(parts)


def _stroke(number: int) -> str:
    dashes = ("none", "7 4", "8 3 2 3", "2 3", "8 2 2 2 2 2", "2 5")
    return f'stroke="{COLOURS[number % len(COLOURS)]}" stroke-dasharray="{dashes[number % len(dashes)]}"'


def _legend(labels: list[str]) -> str:
    rows = []
    for number, label in enumerate(labels):
        y = 362 + 21 * number
        rows.append(f'<line x1="62" y1="{y}" x2="98" y2="{y}" stroke-width="2.2" {_stroke(number)}/><text x="106" y="{y + 5}">{html.escape(label)}</text>')
    return "".join(rows)


def _table(xlabel: str, places: np.ndarray, grids: Mapping[str, np.ndarray], names: list[str], digits: int) -> str:
    """All numbers at up to eight places, for readers without scripts, with screen readers, or who want the numbers."""
    chosen = np.unique(np.linspace(0, len(places) - 1, min(8, len(places))).round().astype(int))
    head = "".join(f'<th scope="col">{html.escape(xlabel)} = {rounded(places[j], digits)}</th>' for j in chosen)
    rows = "".join(
        f'<tr><th scope="row">{html.escape(name)}, {html.escape(label)}</th>' + "".join(f"<td>{rounded(grid[i, j], digits)}</td>" for j in chosen) + "</tr>"
        for i, name in enumerate(names)
        for label, grid in grids.items()
    )
    return f'<details><summary>The numbers as a table</summary><div style="overflow-x:auto"><table><tr><th></th>{head}</tr>{rows}</table></div></details>'


def _page(body: str, names: list[str], title: str) -> str:
    key = "slider-" + hashlib.sha256((title + body).encode()).hexdigest()[:10]
    control = (
        f'<label for="{key}-range"><strong>{html.escape(title)}</strong></label>'
        f'<input id="{key}-range" type="range" min="0" max="{len(names) - 1}" step="1" value="0" style="width:100%" aria-valuetext="{html.escape(names[0])}">'
        f'<output for="{key}-range">{html.escape(names[0])}</output>'
    )
    colours = "background:var(--pst-color-background,#fff);color:var(--pst-color-text-base,#222)"
    return f'<div class="offline-slider" id="{key}" style="{colours}">{control}{body}<script>{_script(key, names)}</script></div>'


def _script(key: str, names: list[str]) -> str:
    listed = ",".join('"' + html.escape(name).replace("\\", "\\\\") + '"' for name in names)
    return (
        f'(function(){{var box=document.getElementById("{key}"),input=box.querySelector("input"),names=[{listed}];'
        'input.addEventListener("input",function(){var i=Number(input.value);'
        'box.querySelectorAll("[data-frame]").forEach(function(g){g.style.display=Number(g.dataset.frame)===i?"":"none";});'
        'box.querySelector("output").innerHTML=names[i];input.setAttribute("aria-valuetext",box.querySelector("output").textContent);});})();'
    )


def _linear_ticks(low: float, high: float) -> list[float]:
    """Four to eight round places between two numbers."""
    span = (high - low) or 1.0
    step = 10.0 ** math.floor(math.log10(span / 4))
    step *= next(m for m in (1, 2, 5, 10) if span / (step * m) <= 7)
    first = math.ceil(low / step - 1e-9)
    return [float(f"{step * k:.10g}") for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between two numbers; 1, 2 and 5 times them when there are few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    inside = [10.0**k for k in decades if low * (1 - 1e-9) <= 10.0**k <= high * (1 + 1e-9)]
    if len(inside) >= 3:
        return inside[:: math.ceil(len(inside) / 8)]
    return [v for k in decades for v in (10.0**k, 2 * 10.0**k, 5 * 10.0**k) if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)] or [low]
