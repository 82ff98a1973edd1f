"""A response surface learnt from people: the change of CD4 count of the patients of ACTG 175 against the count at entry.

Each round K patients (rows of the trial, drawn with replacement) could be helped and one is. The reward is the fitted surface at the
patient's cell plus the residual of a patient drawn at random: the surface, the covariates and the residuals are real, their
independence is an assumption. The constants below are chosen from the protocol's ranges, not from the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit import validate
from privbandit.environments.actg175 import CD4_RANGE, table
from privbandit.environments.gp import Functions, GaussianProcessBandit
from privbandit.features.kernels import SquaredExponential

Array = NDArray[np.float64]

CELLS = 100  # the covariate is rounded to this fraction of its range
ENTRY = (200.0, 500.0)  # CD4 cells per mm^3 at entry, mapped to [0, 1]
RIDGE = 10.0  # lambda of the fit
NORM, SUBGAUSSIAN, REWARD_BOUND = 0.5, 0.65, 0.8  # public bounds on |f|_k, |noise| and |reward|: |outcome| <= 1/2, |f| <= 0.15


class Patients(NamedTuple):
    cells: Array  # (N, 1) distinct covariate cells
    cell: NDArray[np.intp]  # (n,) cell of each patient
    surface: Array  # (N,) fitted mean outcome
    weights: Array  # (N,): surface = K(cells, cells) weights
    residuals: Array  # (n,) centred


@lru_cache(maxsize=1)
def patients(kernel: SquaredExponential) -> Patients:
    """Kernel ridge regression of the outcome, half the clipped CD4 change in units of 200 cells, on the patients' cells."""
    data = table()
    scaled = (data["cd40"] - ENTRY[0]) / (ENTRY[1] - ENTRY[0])
    x = np.rint(np.clip(scaled, 0, 1)[:, None] * CELLS) / CELLS
    y = np.clip((data["cd420"] - data["cd40"]) / CD4_RANGE, -1, 1) / 2
    cells, cell, counts = np.unique(x, axis=0, return_inverse=True, return_counts=True)
    sums = np.bincount(cell, y)
    K = kernel(cells, cells)
    weights = np.linalg.solve(counts[:, None] * K + RIDGE * np.eye(len(cells)), sums)
    surface = K @ weights
    residuals = y - surface[cell]
    return Patients(cells, cell, surface, weights, residuals - residuals.mean())


@dataclass(frozen=True, eq=False)
class ResponseSurface(GaussianProcessBandit):
    """Which of K waiting patients to help. All replications share the surface; patients and residuals are drawn anew.

    Build with `response_surface`. `reward_noise` is a real patient's residual, not uniform.
    """

    @cached_property
    def patients(self) -> Patients:
        return patients(self.kernel)

    def functions(self, R: int, rng: np.random.Generator) -> Functions:
        p = self.patients
        norm = float(np.sqrt(p.weights @ p.surface))
        return Functions(np.tile(p.surface, (R, 1)), np.full(R, norm), np.tile(p.weights, (R, 1)), np.tile(p.cells, (R, 1, 1)))

    def decision_sets(self, R: int, rounds: int, rng: np.random.Generator) -> NDArray[np.intp]:
        return self.patients.cell[rng.integers(0, len(self.patients.cell), size=(rounds, R, self.K))].swapaxes(0, 1)

    def reward_noise(self, uniform: Array) -> Array:
        residuals = self.patients.residuals
        return residuals[(uniform * len(residuals)).astype(np.intp)]


def response_surface(K: int = 20, lengthscale: float = 0.5) -> ResponseSurface:
    """The bandit with K patients waiting in every round."""
    kernel = SquaredExponential(validate.positive("lengthscale", lengthscale))
    return ResponseSurface(kernel, patients(kernel).cells, K)
