"""Figures of the book: one style, regret curves with intervals, and the facts that stand for a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler

from . import validate
from .slider import COLOURS, rounded, slider

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2)))  # told apart in grey print
MOST_FACTS = 6

__all__ = ["COLOURS", "DASHES", "facts", "regret_figure", "rounded", "slider", "use_style"]

STYLE: dict[str, Any] = {
    "axes.prop_cycle": cycler(color=COLOURS) + cycler(linestyle=DASHES),
    "axes.grid": True, "grid.color": "#d9d9d9", "grid.linewidth": 0.6, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False,
    "figure.figsize": (6.4, 3.8), "figure.dpi": 120, "savefig.dpi": 120, "figure.constrained_layout.use": True,
    "figure.facecolor": "white", "savefig.facecolor": "white",  # opaque: readable on light and dark pages and in print
    "font.size": 10, "axes.titlesize": 11, "legend.frameon": False, "lines.linewidth": 1.8,
    "svg.hashsalt": "privbandit",
}  # fmt: skip


def use_style() -> None:
    """Set the book's style for the figures that follow; starts from matplotlib's defaults, so the result depends on nothing else."""
    plt.rcdefaults()
    plt.rcParams.update(STYLE)


def regret_figure(trajectories: Sequence[Any], *, labels: Sequence[str] | None = None, level: float = 0.95, ax: Axes | None = None) -> Axes:
    """Mean cumulative regret of each trajectory against the round, with its confidence band over replications.

    Parameters
    ----------
    trajectories
        Results of `simulate`, one curve each.
    labels
        Names in the legend; by default the policies' names.
    level
        Confidence level of the bands, in (0, 1).

    Raises
    ------
    ValueError
        If there is no trajectory, or not one label for each.
    """
    validate.probability("level", level)
    names = list(labels) if labels is not None else [t.policy.name for t in trajectories]
    if not trajectories or len(names) != len(trajectories):
        raise ValueError(f"trajectories must be at least one, with one label each, got {len(trajectories)} and {len(names)} labels")
    ax = plt.subplots()[1] if ax is None else ax
    for trajectory, name in zip(trajectories, names):
        mean, low, high = trajectory.interval(level)
        (line,) = ax.plot(trajectory.rounds, mean, label=name)
        if np.isfinite(low).all():  # one replication has no interval
            ax.fill_between(trajectory.rounds, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    ax.set(xlabel="round", ylabel="cumulative regret")
    ax.legend()
    return ax


def facts(values: Mapping[str, Any], digits: int = 3) -> None:
    """Print at most six rounded facts about the figure of the same cell.

    The notebook tests compare what is printed, so the figure's data is checked although images are not; the facts also become
    the figure's alternative text.

    >>> facts({"tree, largest deviation": 10.0, "square root": 3.2701, "rounds": 1024})
    Figure facts:
      tree, largest deviation: 10
      square root: 3.27
      rounds: 1024
    """
    if not 1 <= len(values) <= MOST_FACTS:
        raise ValueError(f"values must hold 1 to {MOST_FACTS} facts, got {len(values)}")
    validate.positive_int("digits", digits)
    print("Figure facts:")
    for name, value in values.items():
        print(f"  {name}: {rounded(value, digits)}")
