"""The command line as its user meets it."""

from __future__ import annotations

import json
import math

import pytest

from privbandit.__main__ import main


def answer(capsys, *arguments):
    assert main([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out)


@pytest.mark.parametrize("kind", ["policies", "mechanisms", "formulas", "claims", "experiments"])
def test_list(capsys, kind):
    rows = answer(capsys, "list", kind)[kind]
    assert all(("name" in row or "id" in row) for row in rows)


@pytest.mark.parametrize(
    ("mechanism", "sigma", "max_std"),
    [
        # reference: mpmath, 50 digits, sigma of one Gaussian release 3.73063163481594 (times the factorisation's own figures)
        ("gaussian", 3.73063163481594, 3.73063163481594),
        ("tree", 3.73063163481594 * math.sqrt(11), 3.73063163481594 * math.sqrt(110)),
        ("square-root", 3.73063163481594 * 1.80902, 3.73063163481594 * 3.2725541502731),
        ("local", 3.73063163481594, 3.73063163481594 * 32),
    ],
)
def test_calibrate(capsys, mechanism, sigma, max_std):
    found = answer(capsys, "calibrate", mechanism, "--epsilon", "1", "--delta", "1e-5", "--horizon", "1024")
    assert found["sigma"] == pytest.approx(sigma, rel=1e-2)  # the streaming square root splits its cost 0.5% differently
    assert found["max_std"] == pytest.approx(max_std, rel=1e-3)
    assert 0 < found["mean_std"] <= found["max_std"]
    assert "replace" in found["guarantee"]


def test_square_root_is_at_most_a_third_of_the_tree(capsys):
    def largest(mechanism):
        return answer(capsys, "calibrate", mechanism, "--epsilon", "1", "--delta", "1e-5", "--horizon", "1024")["max_std"]

    assert largest("square-root") <= largest("tree") / 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["calibrate", "tree", "--epsilon", "-1", "--delta", "1e-5"], "epsilon must be a finite number > 0, got -1.0"),
        (["calibrate", "tree", "--epsilon", "nan", "--delta", "1e-5"], "epsilon must be"),
        (["calibrate", "tree", "--epsilon", "1", "--delta", "1"], "delta must be a number strictly between 0 and 1, got 1.0"),
        (["calibrate", "tree", "--epsilon", "1", "--delta", "0.1", "--horizon", "0"], "horizon must be"),
        (["calibrate", "tree", "--epsilon", "1", "--delta", "0.1", "--sensitivity", "inf"], "sensitivity must be"),
        (["calibrate", "local", "--epsilon", "1", "--delta", "0.1", "--neighbours", "add-remove"], "neighbours must be 'replace'"),
        (["run", "nothing"], "experiment must be one of"),
        (["audit", "nothing"], "name must be one of"),
    ],
)
def test_bad_input_is_explained(capsys, arguments, message):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.out == ""


def test_calibrate_a_shuffled_vector_sum(capsys):
    """1000 users, dimension 3, epsilon 2, delta 0.01: the exact noise is more than 100 times below the published one (1759)."""
    budget = ["--users", "1000", "--dimension", "3", "--epsilon", "2", "--delta", "0.01"]
    found = answer(capsys, "calibrate", "shuffle-vector", *budget)
    assert found["published_sigma"] == pytest.approx(1759, rel=1e-3) and 2.2 < found["sigma"] < 2.5
    assert found["published_sigma"] > 100 * found["std"] and "shuffle DP" in found["guarantee"]
