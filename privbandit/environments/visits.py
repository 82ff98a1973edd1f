"""Choosing among recorded persons: whom to call, when the record of everyone who could have been called is in the table.

Data: RAND Health Insurance Experiment, 20,190 person-years, number of outpatient visits to a physician in a year (table `randhie` of
statsmodels). Families were randomised to insurance plans, but the table does not say by which probabilities: these differed by site
and enrolment period, of which it has no column, and refusal and attrition differed by plan. So there is no propensity to defend, and
plans are not the arms here. An arm is a person. Whoever is picked, that person's count is in the table: no propensity is needed,
and no effect of anything on anything is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.environments.base import Environment, Feedback
from privbandit.estimators.glm import fit_glm
from privbandit.links import Link, TruncatedPoisson

Array = NDArray[np.float64]

# All constants are fixed from the meaning of the columns, not from the data, so using them costs no privacy.
CAP = 10  # visits a year; more count as ten (5% of the rows). A policy may count fewer: its link decides
COVARIATES = {
    "limitation": ("physlm", 0.5, 0.5),  # physically limited: yes / no
    "disease": ("disea", 15.0, 15.0),  # index of chronic diseases; beyond 30 counts as 30
    "health": ("health", 1.5, 1.5),  # own rating: 0 excellent, 1 good, 2 fair, 3 poor
    "coinsurance": ("lncoins", np.log(101) / 2, np.log(101) / 2),  # log of 1 + the percentage paid by the family
}


class Round(NamedTuple):
    order: NDArray[np.intp]  # (R, T K) the rows in the order in which they are shown
    shown: NDArray[np.intp]  # (R, K) the rows of this round


@dataclass(frozen=True, eq=False)
class RecordedPersons(Environment):
    """Each round shows the next K rows of a table in an order redrawn for each replication; the reward is the recorded outcome of the
    row that is picked. Every row is shown at most once, so there are at most n // K rounds.

    features (n, d), norms at most 1; outcome (n,); link of the reference rule.

    *Regret* of a round is outcome[reference pick] - outcome[pick]. The reference picks the largest <x, theta> for the one theta fitted
    to the whole table (`link`, ridge 1). It is not the best rule, so regret may be negative; its mean over orders is exactly
    what following the reference would have gained. Intervals over replications cover the order and the policy's randomness, not which
    persons entered the table.
    """

    features: Array
    outcome: Array
    link: Link
    K: int = 5

    def __post_init__(self) -> None:
        features = validate.array("features", self.features, (None, None))
        validate.array("outcome", self.outcome, (len(features),))
        if validate.positive_int("K", self.K) > len(features):
            raise ValueError(f"K must be at most the number of rows {len(features)}, got {self.K}")

    @property
    def d(self) -> int:
        return self.features.shape[1]

    @property
    def rounds(self) -> int:
        """How many rounds the table is enough for."""
        return len(self.outcome) // self.K

    @cached_property
    def reference(self) -> Array:
        """(d,) fitted to all rows: knowledge of the judge, not of a policy."""
        return fit_glm(self.link, self.features[None], self.outcome[None], 1.0).theta[0]

    def init(self, R: int, rng: np.random.Generator) -> Round:
        order = rng.permuted(np.tile(np.arange(len(self.outcome)), (R, 1)), axis=1)
        return Round(order, order[:, : self.K])

    def contexts(self, state: Round, t: int, rng: np.random.Generator) -> tuple[Round, Array]:
        if t >= self.rounds:
            raise ValueError(f"horizon must be at most {self.rounds}: every row is shown once")
        shown = state.order[:, t * self.K : (t + 1) * self.K]
        return Round(state.order, shown), self.features[shown]

    def step(self, state: Round, contexts: Array, action: NDArray[np.intp], rng: np.random.Generator) -> Feedback:
        every, outcome = np.arange(len(action)), self.outcome[state.shown]
        best = np.argmax(contexts @ self.reference, axis=1)
        return Feedback(outcome[every, action], outcome[every, best] - outcome[every, action])


@lru_cache(maxsize=1)
def table() -> dict[str, Array]:
    """Columns of the data set, with the own rating of health as one number."""
    from statsmodels.datasets import randhie  # type: ignore[import-untyped]

    frame = randhie.load_pandas().data
    columns = {name: frame[name].to_numpy(dtype=float) for name in frame.columns}
    return columns | {"health": columns["hlthg"] + 2 * columns["hlthf"] + 3 * columns["hlthp"]}


def covariate_matrix() -> Array:
    """(n, 5) intercept and covariates, each in [-1, 1], divided by sqrt(5): rows of norm at most 1."""
    scaled = [np.clip((table()[column] - centre) / half, -1, 1) for column, centre, half in COVARIATES.values()]
    return np.column_stack([np.ones(len(scaled[0])), *scaled]) / np.sqrt(1 + len(scaled))


@lru_cache(maxsize=4)
def visits(K: int = 5) -> RecordedPersons:
    """Pick one of K persons; the reward is how often that person saw a physician in the year, at most `CAP`."""
    return RecordedPersons(covariate_matrix(), np.minimum(table()["mdvis"], CAP), TruncatedPoisson(CAP), K)
