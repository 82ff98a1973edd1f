"""Runs, their results, and a run directory from which an interrupted study goes on."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from tqdm import tqdm

from privbandit import validate
from privbandit.environments.base import Environment
from privbandit.experiments import store as stored
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

    `build(horizon)` gives the runs; horizon None stands for each setting's own. `longest`: the horizon at which the data end, if they do.
    `unit` says what one unit of its regret is.
    """

    name: str
    description: str
    build: Callable[[int | None], Iterable[Run]]
    replications: int = 50
    seed: int = 1
    longest: int | None = None
    unit: str = "one unit of reward"

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

        With `store`, each finished run is written there at once and an interrupted study goes on from what is there, as long as the
        code behind it has not changed.
        """
        if horizon is not None and validate.positive_int("horizon", horizon) > (self.longest or math.inf):
            raise ValueError(f"horizon must be at most {self.longest}, where the data of {self.name} end, got {horizon}")
        runs = list(self.build(horizon))
        R = self.replications if replications is None else validate.positive_int("replications", replications)
        seed = self.seed if seed is None else validate.positive_int("seed", seed, at_least=0)
        work = (delayed(play)(run, R, seed, None if store is None else stored.location(store, run, R, seed)) for run in runs)
        results = Parallel(n_jobs=validate.positive_int("jobs", jobs), return_as="generator")(work)
        return list(tqdm(results, total=len(runs), desc=self.name, disable=not progress))


@dataclass(frozen=True, eq=False)
class Result:
    """The recorded regret of one run: `rounds` (n,) and `regret` (R, n); `more` holds further numbers (R,) that a kind of run reports.

    `reused`: read from disk, not played now.
    """

    run: Run
    rounds: np.ndarray
    regret: np.ndarray
    more: Mapping[str, np.ndarray] = field(default_factory=dict)
    reused: bool = False

    @classmethod
    def of(cls, run: Run, arrays: Mapping[str, np.ndarray], reused: bool = False) -> Result:
        """From the arrays of `Run.record`."""
        more = {name: values for name, values in arrays.items() if name not in ("rounds", "regret")}
        return cls(run, arrays["rounds"], arrays["regret"], more, reused)

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


def play(run: Run, replications: int, seed: int, path: Path | None) -> Result:
    """One run, or its result stored at `path`."""
    if path is not None and path.exists():
        return Result.of(run, stored.read(path), reused=True)
    arrays = run.record(replications, seed)
    if path is not None:
        stored.write(path, arrays)
    return Result.of(run, arrays)


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
