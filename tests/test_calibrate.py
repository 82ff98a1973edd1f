"""`privbandit calibrate`: the right noise, every option counted or refused."""

from __future__ import annotations

import math

import pytest

from privbandit.accounting import gaussian_delta
from privbandit.cli import main

from .test_command_line import answer, refusal

BUDGET = ("--epsilon", "1", "--delta", "1e-5")
SIGMA = 3.73063163481594  # one Gaussian release, sensitivity 1: mpmath, 50 digits


@pytest.mark.parametrize(
    ("mechanism", "sigma", "max_std"),
    [
        ("tree", SIGMA * math.sqrt(11), SIGMA * math.sqrt(110)),
        ("square-root", SIGMA * 1.80902, SIGMA * 3.2725541502731),
        ("local", SIGMA, SIGMA * 32),
    ],
)
def test_running_sums(capsys, mechanism, sigma, max_std):
    found = answer(capsys, "calibrate", mechanism, *BUDGET, "--horizon", "1024")
    assert found["sigma"] == pytest.approx(sigma, rel=1e-2)  # the streaming square root splits its cost 0.5% differently
    assert found["max_std"] == pytest.approx(max_std, rel=1e-3)
    assert 0 < found["mean_std"] <= found["max_std"]
    assert "replace" in found["guarantee"]


def test_square_root_is_at_most_a_third_of_the_tree(capsys):
    def largest(mechanism):
        return answer(capsys, "calibrate", mechanism, *BUDGET, "--horizon", "1024")["max_std"]

    assert largest("square-root") <= largest("tree") / 3


def test_gaussian_releases_are_all_paid_for(capsys):
    """n releases of one user's data cost mu sqrt(n): the noise grows by sqrt(n), the guarantee stays."""
    once = answer(capsys, "calibrate", "gaussian", *BUDGET)
    often = answer(capsys, "calibrate", "gaussian", *BUDGET, "--releases", "1000")
    assert once["sigma"] == pytest.approx(SIGMA) and once["releases"] == 1
    assert often["sigma"] == pytest.approx(SIGMA * math.sqrt(1000)) and often["guarantee"] == once["guarantee"]


def test_sensitivity_is_the_distance_between_neighbours(capsys):
    """x and -x of norm 1 are neighbours by replacement and 2 apart: only --sensitivity 2 gives what the guarantee says."""

    def delta(sensitivity):
        sigma = answer(capsys, "calibrate", "gaussian", *BUDGET, "--sensitivity", sensitivity)["sigma"]
        return gaussian_delta(2 / sigma, 1.0)

    assert delta("2") == pytest.approx(1e-5) and delta("1") > 0.001
    with pytest.raises(SystemExit):
        main(["calibrate", "tree", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "largest L2 distance by which the change of one user moves the sum" in said and "it is 2 if a user is replaced" in said


@pytest.mark.parametrize(
    ("mechanism", "option"),
    [
        ("gaussian", "--horizon 1000"),
        ("gaussian", "--users 10"),
        ("tree", "--users 10"),
        ("tree", "--dimension 3"),
        ("square-root", "--kernel se"),
        ("local", "--releases 2"),
        ("gp", "--sensitivity 3"),
        ("gp", "--users 10"),
        ("shuffle-vector", "--sensitivity 5"),
        ("shuffle-vector", "--horizon 100"),
        ("shuffle-vector", "--lengthscale 1"),
    ],
)
def test_an_option_without_effect_is_refused(capsys, mechanism, option):
    assert f"privbandit calibrate {mechanism}: error: no such option here: {option}" in refusal(
        capsys, "calibrate", mechanism, *BUDGET, *option.split()
    )


@pytest.mark.parametrize("mechanism", ["local", "gp", "shuffle-vector"])
def test_add_remove_is_refused_where_nothing_is_proved(capsys, mechanism):
    assert "invalid choice: 'add-remove'" in refusal(capsys, "calibrate", mechanism, *BUDGET, "--neighbours", "add-remove")
    assert "neighbours: add-remove" in answer(capsys, "calibrate", "tree", *BUDGET, "--neighbours", "add-remove")["guarantee"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tree", "--epsilon", "-1", "--delta", "1e-5"], "epsilon must be a finite number > 0, got -1.0"),
        (["tree", "--epsilon", "nan", "--delta", "1e-5"], "epsilon must be"),
        (["tree", "--epsilon", "1", "--delta", "1"], "delta must be a number strictly between 0 and 1, got 1.0"),
        (["tree", *BUDGET, "--horizon", "0"], "horizon must be"),
        (["tree", *BUDGET, "--horizon", "10000000000"], "horizon must be at most 5000000 on the command line, got 10000000000"),
        (["gp", *BUDGET, "--horizon", "10000000000"], "horizon must be at most 5000000"),
        (["tree", *BUDGET, "--sensitivity", "inf"], "sensitivity must be"),
        (["gaussian", *BUDGET, "--releases", "0"], "releases must be"),
        (["gp", *BUDGET, "--nu", "1.5"], "nu must be left out with --kernel se"),
        (["gp", *BUDGET, "--norm-bound", "-1"], "B must be"),
        (["gp", *BUDGET, "--zeta", "2"], "zeta must be"),
        (["nothing", *BUDGET], "invalid choice: 'nothing'"),
    ],
)
def test_bad_input_is_explained(capsys, arguments, message):
    assert message in refusal(capsys, "calibrate", *arguments)


def test_a_shuffled_vector_sum(capsys):
    """1000 users, dimension 3, epsilon 2, delta 0.01: the exact noise is more than 100 times below the published one (1759)."""
    budget = ["--users", "1000", "--dimension", "3", "--epsilon", "2", "--delta", "0.01"]
    found = answer(capsys, "calibrate", "shuffle-vector", *budget)
    assert found["published_sigma"] == pytest.approx(1759, rel=1e-3) and 2.2 < found["sigma"] < 2.5
    assert found["published_sigma"] > 100 * found["std"] and "shuffle DP" in found["guarantee"]


def test_gp_prints_what_it_assumes(capsys):
    found = answer(capsys, "calibrate", "gp", *BUDGET, "--horizon", "64")
    assumed = {"dimension": 1, "norm_bound": 1.0, "reward_bound": 1.0, "zeta": 0.05, "kernel": "se", "lengthscale": 0.2, "neighbours": "replace"}
    assert assumed.items() <= found.items() and found["mechanism"] == "gp" and "nu" not in found


@pytest.mark.parametrize("option", ["--dimension 2", "--norm-bound 3", "--reward-bound 2", "--zeta 0.01", "--lengthscale 0.7"])
def test_every_option_of_gp_moves_the_width(capsys, option):
    arguments = ("calibrate", "gp", *BUDGET, "--horizon", "64", "--lengthscale", "0.5")
    assert answer(capsys, *arguments)["private_width"] != answer(capsys, *arguments, *option.split())["private_width"]


def test_smoothness_belongs_to_matern(capsys):
    arguments = ("calibrate", "gp", *BUDGET, "--horizon", "1024", "--kernel", "matern", "--lengthscale", "1")
    smooth, rough = answer(capsys, *arguments), answer(capsys, *arguments, "--nu", "1.5")
    assert (smooth["nu"], rough["nu"]) == (2.5, 1.5) and rough["features"] > smooth["features"]
