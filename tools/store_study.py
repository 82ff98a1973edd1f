"""Keep the small part of a finished study under book/data: `python tools/store_study.py RUNS_FOLDER NAME ... --seconds N`.

RUNS_FOLDER is what `privbandit run NAME --out RUNS_FOLDER` wrote. Kept for each study NAME, in book/data/NAME/: its table, the mean
curves at about 20 rounds (`NAME-curves.csv`, a row for each run), the final regret of every replication (`NAME-final.csv`, a row for each
run), all to six significant digits, and manifest.json with the command, the seed, the package's version and SHA-256 sums.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import pandas as pd

from privbandit import __version__

HEAD = ["setting", "protocol", "policy", "epsilon", "delta"]
BOOK = Path(__file__).parents[1] / "book" / "data"
DIGITS = "%.6g"
POINTS = 20


def wide(long: pd.DataFrame, column: str, value: str) -> pd.DataFrame:
    """One row for each run, in the order of the study, one column for each value of `column`."""
    run = long.groupby(HEAD, dropna=False, sort=False).ngroup()
    table = long.assign(run=run).pivot(index="run", columns=column, values=value)
    return pd.concat([long.assign(run=run).groupby("run")[HEAD].first(), table], axis=1)


def sparse(rounds: pd.Series) -> pd.Series:
    """True for about POINTS of the recorded rounds of each run's curve, the last one included."""
    at = sorted(rounds.unique())
    return rounds.isin(at[:: -max(1, len(at) // POINTS)])


def store(source: Path, name: str, seconds: int, seed: int, replications: int) -> None:
    table = pd.read_csv(source / f"{name}.csv")
    if not (table["replications"] == replications).all():
        raise ValueError(f"replications must be {replications} in every run of {name}")
    curves = pd.read_csv(source / f"{name}-curves.csv")
    kept = curves.groupby("setting", group_keys=False)["round"].apply(sparse)
    frames = {
        f"{name}.csv": table,
        f"{name}-curves.csv": wide(curves[kept], "round", "mean"),
        f"{name}-final.csv": wide(pd.read_csv(source / f"{name}-final.csv"), "replication", "regret"),
    }
    folder = BOOK / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, frame in frames.items():
        frame.to_csv(folder / file, index=False, float_format=DIGITS, lineterminator="\n")
    manifest = {
        "command": f"privbandit run {name} --replications {replications} --seed {seed} --out book/data/{name}",
        "stored_by": "tools/store_study.py",
        "files": {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in frames},
        "package": __version__,
        "seed": seed,
        "replications": replications,
        "cpu_seconds_about": seconds,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("name", nargs="+")
    parser.add_argument("--seconds", type=int, required=True, help="processor time of the study, roughly")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replications", type=int, default=50)
    options = parser.parse_args()
    for name in options.name:
        store(options.source, name, options.seconds, options.seed, options.replications)
