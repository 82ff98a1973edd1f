"""ACTG 175: adults with HIV, randomised with equal probability to one of four treatments (Hammer et al. 1996).

The table ships with the lifelines package and has 2,139 patients. All constants below are fixed from the trial's protocol and general
knowledge, not from the data, so using them costs no privacy.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.environments.logged import LoggedBandit, doubly_robust

Array = NDArray[np.float64]

PATIENTS = 2139
ARMS = ("zidovudine", "zidovudine + didanosine", "zidovudine + zalcitabine", "didanosine")
PROPENSITY = 0.25  # randomised with equal probability

# covariate: (column, centre, half-range); (value - centre) / half-range is clipped to [-1, 1]
COVARIATES = {
    "history": ("str2", 0.5, 0.5),  # treated with antiretrovirals before: yes / no
    "cd4": ("cd40", 350.0, 150.0),  # CD4 cells per mm^3; entry was 200 to 500, which the table exceeds on both sides
    "symptoms": ("symptom", 0.5, 0.5),  # symptomatic infection: yes / no
    "age": ("age", 40.0, 28.0),  # years; 12 was the least age at entry
    "karnofsky": ("karnof", 85.0, 15.0),  # performance score, 70 to 100
}
OUTCOMES = ("cd4 change", "event-free")
CD4_RANGE = 200.0  # a change of CD4 count at 20 weeks beyond +-200 cells per mm^3 counts as 200


@lru_cache(maxsize=1)
def table() -> dict[str, Array]:
    """The columns of the data set."""
    import pandas as pd

    with (resources.files("lifelines.datasets") / "ACTG175.csv").open() as file:
        frame = pd.read_csv(file, index_col=0)
    return {name: frame[name].to_numpy(dtype=float) for name in frame.columns}


def covariate_matrix(names: tuple[str, ...]) -> Array:
    """The named covariates (n, len(names)), scaled with public constants to [-1, 1]."""
    columns = []
    for name in names:
        column, centre, half_range = COVARIATES[validate.one_of("covariates", name, COVARIATES)]
        columns.append(np.clip((table()[column] - centre) / half_range, -1, 1))
    return np.stack(columns, axis=1) if columns else np.empty((len(table()["arms"]), 0))


def bounded_outcome(name: str) -> Array:
    """A bounded reward (n,) in [0, 1].

    "cd4 change": 1/2 + (CD4 at 20 weeks - CD4 at entry) / 400, clipped to [0, 1]; measured for every patient.
    "event-free": 1 unless the trial's endpoint (CD4 fall of 50 %, AIDS or death) was recorded during follow-up.
    """
    data = table()
    if validate.one_of("outcome", name, OUTCOMES) == "event-free":
        return 1 - data["cens"]
    return np.clip(0.5 + (data["cd420"] - data["cd40"]) / (2 * CD4_RANGE), 0, 1)


def arm_blocks(rows: Array, K: int) -> Array:
    """Features (n, K, K p): arm a puts (1, rows) / sqrt(p) into block a, so that one linear model holds a regression for each arm.

    rows (n, p - 1) lie in [-1, 1], hence every feature vector has norm at most 1.
    """
    block = np.column_stack([np.ones(len(rows)), rows]) / np.sqrt(rows.shape[1] + 1)
    return np.einsum("np,ak->nakp", block, np.eye(K)).reshape(len(rows), K, -1)


@lru_cache(maxsize=16)
def actg175(covariates: tuple[str, ...] = ("history",), outcome: str = "cd4 change") -> LoggedBandit:
    """The trial as a bandit: covariates and treatment as features (d = 4 times one more than the number of covariates).

    With no covariates the features are one-hot: a four-armed bandit. The score that defines regret always uses all covariates.
    """
    arms, reward = table()["arms"].astype(np.intp), bounded_outcome(outcome)
    score = doubly_robust(covariate_matrix(tuple(COVARIATES)), arms, reward, len(ARMS), PROPENSITY)
    return LoggedBandit(arm_blocks(covariate_matrix(tuple(covariates)), len(ARMS)), arms, reward, score)
