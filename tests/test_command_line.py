"""The command line as its user meets it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import privbandit
from privbandit.cli import main


def answer(capsys, *arguments, code=0):
    assert main([*arguments, "--json"]) == code
    captured = capsys.readouterr()
    return json.loads(captured.out)


def refusal(capsys, *arguments):
    """What standard error says to a request that is refused: exit code 2 and nothing on standard output."""
    try:
        code = main(arguments)
    except SystemExit as stop:  # argparse
        code = stop.code
    captured = capsys.readouterr()
    assert code == 2 and captured.out == ""
    return captured.err


def shown(capsys, *arguments, code=0):
    assert main(arguments) == code
    return capsys.readouterr().out


@pytest.mark.parametrize("kind", ["policies", "mechanisms", "formulas", "claims", "experiments"])
def test_list(capsys, kind):
    rows = answer(capsys, "list", kind)[kind]
    names = [row["id" if kind == "claims" else "name"] for row in rows]
    assert len(names) > 10 and len(set(names)) == len(names)  # no name twice


@pytest.mark.parametrize("kind", ["policies", "mechanisms"])
def test_broken_twins_are_not_offered(capsys, kind):
    names = {row["name"] for row in answer(capsys, "list", kind)[kind]}
    twins = {"Claiming", "Peek", "Quiet", "OneLevelTooFew", "OneRow", "OneRowFFT", "RootOnly", "QuietSums"}
    assert not names & twins and names & {"LinUCB", "TreeMechanism"}


def test_policies_say_where_they_are_private(capsys):
    trust = {row["name"]: row["trust"] for row in answer(capsys, "list", "policies")["policies"]}
    assert trust["LinUCB"] == "none" and trust["OneRelease"] == "joint" and trust["ShuffleGLM"] == "shuffle"
    assert trust["LDPLinUCB"] == "local" and trust["PrivateUCB"] == "joint or local" and trust["PrivateElimination"] == "central"
    head = shown(capsys, "list", "policies").splitlines()[1].split()
    assert head[:2] == ["name", "trust"]


def test_formulas_fit_into_the_terminal_and_hold_no_latex(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    lines = shown(capsys, "list", "formulas").splitlines()
    assert max(map(len, lines)) <= 100 and "dwork2014" in "".join(lines) and not any("\\" in line for line in lines)
    rows = {row["name"]: row for row in answer(capsys, "list", "formulas")["formulas"]}
    assert "\\sqrt" in rows["advanced-epsilon"]["latex"] and "sqrt(k)" in rows["advanced-epsilon"]["formula"]


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0 and capsys.readouterr().out == f"privbandit {privbandit.__version__}\n"


COMMANDS = [["list"], ["run"], ["claims"], ["audit"], *(["calibrate", m] for m in ("gaussian", "tree", "local", "gp", "shuffle-vector"))]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_option_has_help(capsys, command):
    from privbandit.cli import parser

    sub = parser()
    for name in command:
        sub = next(a for a in sub._actions if a.dest in ("command", "mechanism")).choices[name]
    assert all(action.help for action in sub._actions)
    with pytest.raises(SystemExit):
        main([*command, "--help"])
    said = capsys.readouterr().out
    lists = {"audit": "tree-covariance", "run": "actg175-choices"}
    assert lists.get(command[0], "") in said


def documented():
    """The commands that README and chapters show, without comments and shell operators."""
    root = Path(privbandit.__file__).parents[1]
    texts = [path.read_text("utf-8") for path in (root / "README.md", *sorted((root / "book").glob("*/*.ipynb")))]
    found = re.findall(r"\bprivbandit ((?:list|calibrate|run|claims|audit)\b[^`#&|\\\"\n;]*)", "\n".join(texts))
    return sorted({" ".join(command.split()) for command in found})


@pytest.mark.parametrize("command", documented())
def test_documented_commands_are_valid(command):
    from privbandit.cli import parser

    if command.endswith(" --help"):
        with pytest.raises(SystemExit, match="^0$"):
            parser().parse_args(command.split())
    else:
        assert parser().parse_known_args(command.split())[1] == []


def test_a_reader_that_stops_early_is_no_error():
    """`privbandit list policies --json | head -1`."""
    command = [sys.executable, "-m", "privbandit", "list", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(privbandit.__file__).parents[1]) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 0


class TestClaims:
    def test_one_claim_is_told_in_full(self, capsys):
        (row,) = answer(capsys, "claims", "tree-levels", code=self.code(capsys, "tree-levels"))["claims"]
        assert "increments a user stands in" in row["statement"] and row["domain"].startswith("T = 1") and row["chapter"] == "prefix_sums"
        assert {"ceiling of log2", "one level more"} <= set(row["variants"]) and set(row["rejected"]) <= set(row["variants"])
        text = shown(capsys, "claims", "tree-levels", code=self.code(capsys, "tree-levels"))
        assert all(word in text for word in (row["statement"], row["domain"], *row["variants"], "exact enumeration"))

    def test_a_chapter(self, capsys):
        rows = answer(capsys, "claims", "gp-bandits", code=self.code(capsys, "gp-bandits"))["claims"]
        assert {row["chapter"] for row in rows} == {"gp_bandits"} and len(rows) > 1

    def test_unknown(self, capsys):
        assert "name must be the id of a claim" in refusal(capsys, "claims", "nothing")

    @pytest.mark.parametrize("status", ["stale", "failed", "unchecked"])
    def test_what_is_not_checked_is_a_failure(self, capsys, monkeypatch, status):
        rows = [{**row, "status": "checked"} for row in answer(capsys, "claims", "tree-levels", code=self.code(capsys, "tree-levels"))["claims"]]
        monkeypatch.setattr("privbandit.cli.claims.load", lambda: rows)
        assert main(["claims"]) == 0
        rows.append({**rows[0], "id": "other", "status": status})
        capsys.readouterr()
        assert main(["claims"]) == 1
        assert f"1 of 2 claims are not checked: other ({status})" in capsys.readouterr().err

    @staticmethod
    def code(capsys, name):
        """0 if what is recorded is fresh: while sources change it may not be, and that is for test_ledger to say."""
        code = main(["claims", name, "--json"])
        rows = json.loads(capsys.readouterr().out)["claims"]
        assert code == int(any(row["status"] not in ("checked", "cited") for row in rows))
        return code


class TestAudit:
    def test_fine(self, capsys):
        said = shown(capsys, "audit", "gaussian")
        assert "gaussian-enumeration" in said and "claimed_epsilon: what the ledger promises" in said

    @pytest.mark.parametrize("broken", ["passed", "twin_caught"])
    def test_a_failure_is_an_exit_code(self, capsys, monkeypatch, broken):
        from dataclasses import replace

        from privbandit import audit

        run = audit.run
        monkeypatch.setattr(audit, "run", lambda name: replace(run(name), **{broken: False}))
        assert main(["audit", "gaussian"]) == 1
        assert "1 of 1 audits failed: gaussian-enumeration" in capsys.readouterr().err

    def test_unknown(self, capsys):
        assert "name must be one of" in refusal(capsys, "audit", "nothing")


class TestRun:
    QUICK = ("run", "few-switches", "--replications", "1", "--horizon", "5")

    def test_names_and_units(self, capsys, tmp_path):
        said = shown(capsys, "run", "actg175", "--replications", "2", "--horizon", "8")
        assert "regret" in said.split("\n")[0].split() and "400 CD4 cells" in said and "95% Student interval" in said
        found = answer(capsys, *self.QUICK)
        assert found["unit"] == "one unit of reward" and found["reused"] == 0 and found["runs"] == len(found["rows"]) == 8

    @pytest.mark.parametrize(("name", "longest"), [("actg175", 2139), ("actg175-choices", 2139), ("trial-logistic", 2139), ("visits-count", 4038)])
    def test_a_horizon_beyond_the_data_is_refused(self, capsys, name, longest):
        assert f"horizon must be at most {longest}, where the data of {name} end, got {longest + 1}" in refusal(
            capsys, "run", name, "--horizon", str(longest + 1)
        )

    def test_the_data_end_where_it_says(self):
        from privbandit.environments.actg175 import PATIENTS, actg175
        from privbandit.environments.visits import visits
        from privbandit.experiments import experiments

        assert experiments()["visits-count"].longest == visits().rounds and actg175(()).n == PATIENTS == experiments()["actg175"].longest

    def test_a_horizon_beyond_memory_is_refused(self, capsys):
        assert "horizon must be at most 5000000" in refusal(capsys, "run", "linear", "--horizon", "999999999999")

    def test_a_shorter_horizon_than_asked_for_is_said(self, capsys):
        """gp-rates plays powers of four only. Its runs are long, so the note is asked for directly."""
        from types import SimpleNamespace

        from privbandit.cli.run import _notes

        results = [SimpleNamespace(run=SimpleNamespace(horizon=T)) for T in (256, 1024)]
        assert _notes(results, 0, None, 2000) == ("the longest run has horizon 1024, not 2000",)
        assert _notes(results, 0, None, 1024) == _notes(results, 0, None, None) == ()

    def test_out_is_not_a_folder(self, capsys, tmp_path):
        (tmp_path / "file").write_text("")
        for out in (tmp_path / "file", tmp_path / "file" / "deeper"):
            assert "out must be a folder that exists or can be made" in refusal(capsys, *self.QUICK, "--out", str(out))

    def test_unknown(self, capsys):
        assert "experiment must be one of" in refusal(capsys, "run", "nothing")

    def test_a_change_of_the_code_is_played_again(self, capsys, monkeypatch, tmp_path):
        """A run directory never answers with the numbers of other code. The key reads a copy of the sources, which is edited here."""
        import shutil

        from privbandit.experiments import store

        copy = tmp_path / "privbandit"
        shutil.copytree(store.ROOT, copy, ignore=shutil.ignore_patterns("__pycache__", "*.json", "*.toml"))
        monkeypatch.setattr(store, "ROOT", copy)

        def forget():
            store.sources.cache_clear(), store.code.cache_clear()

        def reused(edited, text):
            with (copy / edited).open("a") as file:
                file.write(text)
            forget()
            assert main([*self.QUICK, "--out", str(tmp_path / "out"), "--json"]) == 0
            captured = capsys.readouterr()
            found = json.loads(captured.out)["reused"]
            assert f"{found} of 8 runs were taken from {tmp_path / 'out' / 'runs'}" in captured.err
            return found

        try:
            assert reused("policies/linucb.py", "") == 0
            assert reused("policies/linucb.py", "") == 8
            assert reused("cli/run.py", "# no run depends on the command line\n") == 8
            assert reused("policies/linucb.py", "# another line\n") == 0
            assert reused("experiments/base.py", "# another line\n") == 0
        finally:
            forget()
