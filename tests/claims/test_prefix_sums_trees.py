"""Private prefix sums: fresh noise, noise at each user, and trees."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp

from privbandit.audit.covariance import noise_matrix
from privbandit.ledger import Entry, Gaussian
from privbandit.mechanisms import HonakerTree, PerUser, TreeMechanism

from .claim import claim
from .measured_noise import is_honest, row_norms

HORIZONS = (1, 2, 3, 7, 8, 1023, 1024, 1025)


# Naive ways --------------------------------------------------------------------------------------------------------------------


class FreshNoise(PerUser):
    """Fresh noise in every prefix."""

    @property
    def entries(self):
        return (Entry("prefix", self.report, self.horizon),)

    def std(self, t):
        return self.sigma + 0 * super().std(t)

    def release(self, state, increment, noise):
        total = state.total + increment
        return state._replace(step=state.step + 1, total=total), self.report.release(total, noise)


class ChargedOnce(FreshNoise):
    @property
    def entries(self):
        return (Entry("prefix", self.report),)


class ChargedByLevels(FreshNoise):
    @property
    def entries(self):
        return (Entry("prefix", self.report, self.horizon.bit_length()),)


@claim("fresh-noise", subject=FreshNoise, mutants={"charged once": ChargedOnce, "charged by levels": ChargedByLevels})
def check_fresh(kind):
    """Exact, by the covariance of what is published; least noise sqrt(T) at mu = 1."""
    is_honest(kind)
    assert kind.calibrated(1024, 1.0).max_std == pytest.approx(32.0)


test_fresh = check_fresh


class HalfReports(PerUser):
    @property
    def report(self):
        return Gaussian(self.Delta, self.sigma / 2)


class GrowsLinearly(PerUser):
    def std(self, t):
        return self.sigma * self._check_t(t).astype(float)


@claim("local-noise", subject=PerUser, mutants={"half the noise": HalfReports, "adds deviations": GrowsLinearly})
def check_local(kind):
    is_honest(kind)
    assert kind.calibrated(1024, 1.0).std(np.array([1, 4, 1024])) == pytest.approx([1.0, 2.0, 32.0])


test_local = check_local


# Tree --------------------------------------------------------------------------------------------------------------------------


def nodes(T):
    """All complete dyadic blocks of 1..T, as (first, last)."""
    return [(a * 2**h + 1, (a + 1) * 2**h) for h in range(T.bit_length()) for a in range(T // 2**h)]


class LevelsOfCeiling(TreeMechanism):
    @property
    def levels(self):
        return max(1, (self.horizon - 1).bit_length())


class OneLevelMore(TreeMechanism):
    @property
    def levels(self):
        return self.horizon.bit_length() + 1


@claim("tree-levels", subject=TreeMechanism, mutants={"ceiling of log2": LevelsOfCeiling, "one level more": OneLevelMore})
def check_levels(kind):
    """Exact: the blocks that hold a user, counted, at eight horizons; the measured cost at six."""
    for T in HORIZONS:
        first, last = np.array(nodes(T)).T
        held = [int(np.sum((first <= i) & (i <= last))) for i in range(1, T + 1)]
        assert kind(T, 1.0).levels == max(held) == math.floor(math.log2(T)) + 1
    is_honest(kind)


test_levels = check_levels


class Flat(TreeMechanism):
    def std(self, t):
        return self.sigma * math.sqrt(self.levels) + 0 * super().std(t)


class Redrawn(TreeMechanism):
    """Reads every node with fresh noise."""

    def release(self, state, increment, noise):
        state, prefix = super().release(state, increment, noise)
        return state, prefix + self.node.release(np.zeros_like(prefix), noise)


@claim("tree-noise", subject=TreeMechanism, mutants={"all levels": Flat, "fresh noise at each reading": Redrawn})
def check_tree_noise(kind):
    """Exact: weights of all draws in all prefixes of the running code."""
    for T in (1, 2, 3, 7, 8, 255, 256, 257):
        tree = kind(T, 1.5)
        t = np.arange(1, T + 1)
        ones = np.array([int(i).bit_count() for i in t])
        assert np.allclose(row_norms(noise_matrix(tree)) ** 2, 1.5**2 * ones)
        assert np.allclose(tree.std(t) ** 2, 1.5**2 * ones)


test_tree_noise = check_tree_noise


class EqualWeights(HonakerTree):
    def _merge(self, level, node, right, left):
        return (node + left + right) / 2


class ClaimsMore(HonakerTree):
    @staticmethod
    def variance_factor(level):
        return HonakerTree.variance_factor(level) / 2


@claim("honaker-variance", subject=HonakerTree, mutants={"plain tree": TreeMechanism, "equal weights": EqualWeights, "claims half": ClaimsMore})
def check_honaker(kind):
    """sympy: the recursion v = 2u/(1 + 2u) has the closed form; then the running code, and that no other weight does better."""
    h = sp.Symbol("h", integer=True, nonnegative=True)
    v = 2**h / (2 ** (h + 1) - 1)
    u = v.subs(h, h - 1)
    assert v.subs(h, 0) == 1 and sp.simplify(v - 2 * u / (1 + 2 * u)) == 0
    w, U = sp.symbols("w U", positive=True)
    assert sp.solve(sp.diff(w**2 + (1 - w) ** 2 * U, w), w) == [U / (1 + U)]
    is_honest(kind, tight=False)
    for T in (7, 64):
        level = np.arange(T.bit_length())
        t = np.arange(1, T + 1)
        expected = ((t[:, None] >> level) & 1) @ (2.0**level / (2.0 ** (level + 1) - 1))
        assert np.allclose(row_norms(noise_matrix(kind(T, 1.0))) ** 2, expected)


test_honaker = check_honaker
