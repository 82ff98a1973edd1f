"""Figures: what is drawn and printed is what was computed."""

from types import SimpleNamespace

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest

from privbandit import plotting


def trajectory(name="LinUCB", scale=1.0, spread=0.5):
    rounds = np.array([1, 5, 10])
    mean = scale * np.sqrt(rounds)
    return SimpleNamespace(policy=SimpleNamespace(name=name), rounds=rounds, interval=lambda level: (mean, mean - spread * level, mean + spread * level))


def test_regret_figure_draws_means_and_bands_at_the_recorded_rounds():
    ax = plotting.regret_figure([trajectory(), trajectory("private", 2.0)], level=0.5)
    line = ax.lines[1]
    np.testing.assert_allclose(line.get_xdata(), [1, 5, 10])
    np.testing.assert_allclose(line.get_ydata(), 2 * np.sqrt([1, 5, 10]))
    assert ax.collections[0].get_datalim(ax.transData).ymax == pytest.approx(np.sqrt(10) + 0.25)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["LinUCB", "private"]


def test_regret_figure_of_one_replication_has_no_band():
    assert len(plotting.regret_figure([trajectory(spread=np.inf)]).collections) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(([],), "at least one"), (([trajectory()], ["a", "b"]), "one label each"), (([trajectory()], None, 1.0), "level must be")],
)
def test_regret_figure_refuses_what_it_cannot_draw(arguments, message):
    names = ("labels", "level")
    with pytest.raises(ValueError, match=message):
        plotting.regret_figure(arguments[0], **dict(zip(names, arguments[1:])))


@pytest.mark.parametrize("count", [0, 7])
def test_facts_are_one_to_six(count):
    with pytest.raises(ValueError, match="1 to 6 facts"):
        plotting.facts({str(i): i for i in range(count)})


def test_the_style_forgets_what_was_set_before():
    matplotlib.rcParams["font.size"] = 33
    plotting.use_style()
    assert matplotlib.rcParams["font.size"] == plotting.STYLE["font.size"]
