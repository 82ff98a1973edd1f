"""Runs, their results, and a run directory from which an interrupted study goes on."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from tqdm import tqdm

from privbandit import __version__, validate
from privbandit.environments.base import Environment
from privbandit.policies.base import Policy
from privbandit.simulate import Interval, simulate, student_interval
from privbandit.summary import ending


@dataclass(frozen=True)
class Run:
    """One policy in one setting. `epsilon` and `delta` are None for a policy without a privacy guarantee.

    `name` is what tables call the policy; by default the policy's own name.
    """

    setting: str
    protocol: str
    policy: Policy
    environment: Environment
    horizon: int
    epsilon: float | None = None
    delta: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.policy.name)

    def record(self, replications: int, seed: int) -> dict[str, np.ndarray]:
        """Play; the fields of the `Result`: rounds (n,), regret (R, n), and any further numbers (R,) by name."""
        found = simulate(self.policy, self.environment, horizon=self.horizon, replications=replications, seed=seed, progress=False)
        return {"rounds": found.rounds, "regret": found.regret}


@dataclass(frozen=True)
class Experiment:
    """A published table or figure, or a question of ours.

    `build(horizon)` gives the runs; horizon None stands for each setting's own.
    """

    name: str
    description: str
    build: Callable[[int | None], Iterable[Run]]
    replications: int = 50
    seed: int = 1

    def run(
        self,
        *,
        replications: int | None = None,
        horizon: int | None = None,
        seed: int | None = None,
        jobs: int = 1,
        store: Path | None = None,
        progress: bool = False,
    ) -> list[Result]:
        """Play every run. All runs share `seed`, so policies in one setting meet the same contexts and reward draws.

        With `store`, each finished run is written there at once and an interrupted study goes on from what is there.
        """
        runs = list(self.build(None if horizon is None else validate.positive_int("horizon", horizon)))
        R = self.replications if replications is None else validate.positive_int("replications", replications)
        seed = self.seed if seed is None else validate.positive_int("seed", seed, at_least=0)
        work = (delayed(play)(run, R, seed, store) for run in runs)
        results = Parallel(n_jobs=validate.positive_int("jobs", jobs), return_as="generator")(work)
        return list(tqdm(results, total=len(runs), desc=self.name, disable=not progress))


@dataclass(frozen=True, eq=False)
class Result:
    """The recorded regret of one run: `rounds` (n,) and `regret` (R, n); `more` holds further numbers (R,) that a kind of run reports."""

    run: Run
    rounds: np.ndarray
    regret: np.ndarray
    more: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run, rounds: np.ndarray, regret: np.ndarray, **more: np.ndarray) -> Result:
        """From the arrays of `Run.record`."""
        return cls(run, rounds, regret, more)

    @property
    def head(self) -> dict[str, Any]:
        """What was run, as the first columns of every table."""
        run = self.run
        return {"setting": run.setting, "protocol": run.protocol, "policy": run.name, "epsilon": run.epsilon, "delta": run.delta}

    def row(self) -> dict[str, Any]:
        """Final cumulative regret, with a 95% Student interval of the mean (null for a single replication), and the means of `more`."""
        final = self.regret[:, -1]
        means = {name: float(np.mean(values)) for name, values in self.more.items()}
        return self.head | ending(final) | {"horizon": int(self.rounds[-1]), "worst": float(final.max())} | means

    def interval(self, level: float = 0.95) -> Interval:
        """Pointwise Student interval of the mean regret curve."""
        return student_interval(self.regret, level)


def play(run: Run, replications: int, seed: int, store: Path | None) -> Result:
    """One run, or its stored result."""
    path = None if store is None else store / f"{_key(run, replications, seed)}.npz"
    if path is not None and path.exists():
        with np.load(path) as data:
            return Result.of(run, **data)
    arrays = run.record(replications, seed)
    if path is not None:
        _write(path, **arrays)
    return Result.of(run, **arrays)


def _key(run: Run, replications: int, seed: int) -> str:
    return hashlib.sha256(f"{__version__}|{run!r}|{replications}|{seed}".encode()).hexdigest()[:20]


def _write(path: Path, **arrays: np.ndarray) -> None:
    """Whole or not at all: a run killed while writing leaves no half file behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}.part")
    with scratch.open("wb") as file:
        np.savez_compressed(file, **arrays)
    scratch.replace(path)


def as_json(value: Any) -> str:
    """JSON with infinities and NaN as null, which strict readers accept."""

    def clean(v: Any) -> Any:
        if isinstance(v, dict):
            return {k: clean(x) for k, x in v.items()}
        if isinstance(v, list | tuple):
            return [clean(x) for x in v]
        if isinstance(v, np.generic):
            v = v.item()
        return None if isinstance(v, float) and not math.isfinite(v) else v

    return json.dumps(clean(value), indent=2, allow_nan=False)
