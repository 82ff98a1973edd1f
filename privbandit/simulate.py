"""Play a policy in an environment, many replications at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import t as student
from tqdm import tqdm

from privbandit import validate
from privbandit.environments.base import Environment
from privbandit.policies.base import Policy, choose

Array = NDArray[np.float64]
BLOCK = 50  # replications played in one numpy pass


class Streams(NamedTuple):
    """One Generator per purpose, so that policies with the same seed meet the same contexts and reward draws."""

    environment: np.random.Generator
    reward: np.random.Generator
    policy: np.random.Generator
    noise: np.random.Generator

    @classmethod
    def of(cls, seed: np.random.SeedSequence) -> Streams:
        return cls(*(np.random.default_rng(child) for child in seed.spawn(4)))


class Interval(NamedTuple):
    mean: Array
    low: Array
    high: Array


def student_interval(values: Array, level: float = 0.95) -> Interval:
    """Mean over the first axis with a Student interval, for values (R, ...); infinite for R = 1."""
    R, mean = len(values), values.mean(axis=0)
    validate.probability("level", level)
    if R < 2:
        return Interval(mean, np.full_like(mean, -np.inf), np.full_like(mean, np.inf))
    half = student.ppf((1 + level) / 2, R - 1) * values.std(axis=0, ddof=1) / np.sqrt(R)
    return Interval(mean, mean - half, mean + half)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What happened: cumulative pseudo-regret `regret` (R, len(rounds)) after each of `rounds`, and who played where."""

    policy: Policy
    environment: Environment
    rounds: NDArray[np.int64]
    regret: Array
    reward: Array  # (R, len(rounds)) cumulative observed reward
    observed: NDArray[np.int64]  # (R,) rounds that taught something
    seed: int

    @property
    def horizon(self) -> int:
        return int(self.rounds[-1])

    @property
    def final(self) -> Array:
        """Final cumulative regret of each replication, (R,)."""
        return self.regret[:, -1]

    def interval(self, level: float = 0.95) -> Interval:
        """`student_interval` of the regret at each of `rounds`."""
        return student_interval(self.regret, level)

    def table(self) -> list[dict[str, Any]]:
        """Tidy rows: one per replication and recorded round."""
        return [
            {"policy": self.policy.name, "replication": r, "round": int(t), "regret": float(self.regret[r, i])}
            for r in range(len(self.regret))
            for i, t in enumerate(self.rounds)
        ]


def play(
    policy: Policy, environment: Environment, rounds: NDArray[np.int64], R: int, streams: Streams, tick: Callable[[], Any]
) -> tuple[Array, Array, NDArray[np.int64]]:
    """One block of R replications: cumulative regret and reward at `rounds`, and the number of observed rounds."""
    regret, reward, observed = np.zeros(R), np.zeros(R), np.zeros(R, dtype=np.int64)
    regrets, rewards, at = np.empty((R, len(rounds))), np.empty((R, len(rounds))), 0
    world, state = environment.init(R, streams.environment), policy.init(R, streams.noise)
    for t in range(int(rounds[-1])):
        world, contexts = environment.contexts(world, t, streams.environment)
        state, action = policy.act(state, contexts, streams.policy)
        feedback = environment.step(world, contexts, action, streams.reward)
        x, seen = choose(contexts, action), feedback.observed
        r = feedback.reward
        if seen is None:
            observed += 1
        else:
            x, r, observed = x * seen[:, None], r * seen, observed + seen
        state = policy.update(state, x, r, streams.noise)
        regret, reward = regret + feedback.regret, reward + r
        if t + 1 == rounds[at]:
            regrets[:, at], rewards[:, at], at = regret, reward, at + 1
        tick()
    return regrets, rewards, observed


def record_rounds(horizon: int, points: int = 200) -> NDArray[np.int64]:
    """At most about `points` rounds, evenly spaced, ending at the horizon."""
    return np.unique(np.linspace(1, horizon, min(points, horizon)).round().astype(np.int64))


def _block(policy: Policy, environment: Environment, rounds: NDArray[np.int64], R: int, seed: np.random.SeedSequence, bar: bool):
    with tqdm(total=int(rounds[-1]), desc=policy.name, disable=not bar, leave=False) as progress:
        return play(policy, environment, rounds, R, Streams.of(seed), progress.update)


def simulate(
    policy: Policy,
    environment: Environment,
    *,
    horizon: int,
    replications: int,
    seed: int,
    jobs: int = 1,
    progress: bool | None = None,
    rounds: Sequence[int] | None = None,
    block: int = BLOCK,
) -> Trajectory:
    """Play `replications` independent runs of `horizon` rounds and return their regret.

    `seed` and `block` fix everything; they give every policy the same contexts and reward draws, and the numbers do not depend on
    `jobs` (processes). `rounds` are the rounds at which the curve is recorded (default: about 200, evenly spaced).
    `progress` shows a bar (default: only on a terminal). `block` replications are played in one numpy pass: more take less time
    each and more memory.
    """
    validate.instance("policy", policy, Policy), validate.instance("environment", environment, Environment)
    horizon = validate.positive_int("horizon", horizon)
    replications = validate.positive_int("replications", replications)
    seed, jobs = validate.positive_int("seed", seed, at_least=0), validate.positive_int("jobs", jobs)
    block = validate.positive_int("block", block)
    at = record_rounds(horizon) if rounds is None else np.unique(validate.array("rounds", rounds, (None,)))
    if np.any(at % 1) or at[0] < 1 or at[-1] != horizon:
        raise ValueError(f"rounds must be whole numbers in 1..{horizon} and end with {horizon}, got {rounds!r}")
    at = at.astype(np.int64)
    sizes = [min(block, replications - done) for done in range(0, replications, block)]
    seeds = np.random.SeedSequence(seed).spawn(len(sizes))
    bar = sys.stderr.isatty() if progress is None else progress
    work = (delayed(_block)(policy, environment, at, R, s, bar and jobs == 1) for R, s in zip(sizes, seeds, strict=True))
    regrets, rewards, observed = zip(*Parallel(n_jobs=min(jobs, len(sizes)))(work), strict=True)
    return Trajectory(policy, environment, at, np.concatenate(regrets), np.concatenate(rewards), np.concatenate(observed), seed)
