"""One release: what the regret bounds of all its algorithms are in figures."""

from __future__ import annotations

import math

from privbandit.formulas import best_of_both, self_weighted, two_block
from privbandit.formulas.glm import TAU

from . import wrong_bounds
from .claim import claim
from .release_problems import nu as _nu
from .release_problems import problem as _problem

RIGHT = {
    "exploration": two_block.exploration_rounds,
    "plain": two_block.exploitation_regret,
    "weighted": self_weighted.weighted_regret,
    "rounds": best_of_both.exploration_rounds,
    "pair": best_of_both.exploitation_regret,
    "linear": self_weighted.linear_regret,
}


def _bounds(*names, **changed):
    """The bounds called `names`, some of them changed."""
    return tuple((RIGHT | changed)[name] for name in names)


def _louder(bound):
    """A bound for 6 % more noise."""
    return lambda p, nu, *rest: bound(p, 1.06 * nu, *rest)


def _twice_as_sure(bound):
    """A bound for the square of the failure probability."""
    return lambda p, nu, *rest: bound(p._replace(zeta=p.zeta**2), nu, *rest)


def _close(found, printed):
    return all(abs(value / figure - 1) < 0.006 for value, figure in zip(found, printed, strict=True))


@claim(
    "one-release-magnitudes",
    subject=_bounds("exploration", "plain", "weighted"),
    mutants={
        name: _bounds("exploration", "plain", "weighted", **changed)
        for name, changed in {
            "exploration-twice-as-sure": {"exploration": _twice_as_sure(RIGHT["exploration"])},
            "two-blocks-twice-as-sure": {"plain": _twice_as_sure(RIGHT["plain"])},
            "self-weighted-twice-as-sure": {"weighted": _twice_as_sure(RIGHT["weighted"])},
        }.items()
    },
)
def check_magnitudes(parts):
    """Three significant digits of all rows of the chapter's table at d = 2, S = 1."""
    exploration, plain, weighted = parts
    for T, epsilon, printed in (
        (1e12, 4.0, (1.91e10, 4.96e8, 8.06e9)),
        (1e12, 1.0, (1.51e11, 7.67e8, 8.67e9)),
        (1e16, 4.0, (6.16e10, 6.79e10, 1.04e12)),
    ):
        p, first, second = _problem(2, 1.0, T), _nu(T, epsilon), _nu(T, epsilon, 1 / 3)
        found = exploration(p, first, two_block.exploit(p, first).Delta), plain(p, first, 1 / p.c), weighted(p, second, 1 / p.c)
        assert _close(found, printed), found


test_one_release_magnitudes = check_magnitudes

COROLLARIES = ("rounds", "pair", "plain", "weighted", "linear")


@claim(
    "corollary-magnitudes",
    subject=_bounds(*COROLLARIES),
    mutants={
        name: _bounds(*COROLLARIES, **changed)
        for name, changed in {
            "rounds-of-the-first-threshold": {"rounds": wrong_bounds.rounds_of_the_first_threshold},
            "rounds-with-the-root-of-two": {"rounds": wrong_bounds.rounds_at_root},
            "pair-without-the-root-of-two": {"pair": wrong_bounds.regret_at_nu},
            "pair-at-zeta": {"pair": wrong_bounds.regret_at_zeta},
            "two-blocks-twice-as-sure": {"plain": _twice_as_sure(RIGHT["plain"])},
            "self-weighted-for-more-noise": {"weighted": _louder(RIGHT["weighted"])},
            "linear-for-more-noise": {"linear": _louder(RIGHT["linear"])},
        }.items()
    },
)
def check_corollaries(parts):
    """Three significant digits of all rows of the chapter's table; the linear bound falls below 2 S T between the two horizons given; at
    T = 1e6 the pair never exploits, on contexts of length one."""
    *four, linear = parts

    def share(d, T, epsilon):
        return linear(self_weighted.linear(d, T, 1.0, 0.02, TAU), _nu(T, epsilon)) / (2 * T)

    for T, epsilon, printed, above in (
        (1e6, 4.0, (1.80e9, 6.21e5, 5.26e5, 1.12e8), 57.0),
        (1e12, 4.0, (2.60e10, 5.62e8, 4.96e8, 8.06e9), 8.6e-3),
        (1e12, 0.001, (2.82e16, 1.65e10, 1.35e10, 4.00e11), 0.82),
        (1e20, 0.001, (2.50e17, 1.38e14, 2.31e14, 1.36e14), 1.5e-6),
        (1e20, 4.0, (2.03e11, 9.86e12, 8.69e12, 1.34e14), 1.4e-6),
    ):
        found = _row(four, _problem(2, 1.0, T), epsilon)
        assert _close(found, printed), found
        assert found[1] > min(found[2:]) and abs(share(2, T, epsilon) / above - 1) < 0.05
    for d, epsilon, first in ((1, 4.0, 4.6e7), (2, 4.0, 2.4e8), (2, 1.0, 8.3e8)):
        assert share(d, 0.98 * first, epsilon) > 1 > share(d, 1.02 * first, epsilon)
    _check_never_exploits()


def _row(bounds, p, epsilon):
    rounds, pair, plain, weighted = bounds
    both, kappa = _nu(p.T, epsilon, 1 / 6), 1 / p.c
    return rounds(p, both), pair(p, both, kappa), plain(p, _nu(p.T, epsilon), kappa), weighted(p, _nu(p.T, epsilon, 1 / 3), kappa)


def _check_never_exploits():
    """d = 2, epsilon = 4, T = 1e6: after a million unit contexts in one direction the exploration width there is above the threshold."""
    p, nu = best_of_both.events(_problem(2, 1.0, 1e6)), _nu(1e6, 4.0, 1 / 6)
    o, Delta = two_block.explore(p, nu), best_of_both.halves(p, nu).Delta
    assert o.gamma / math.sqrt((1 + o.slack) * (o.ridge + p.c * p.T)) > Delta
    assert abs(Delta * math.sqrt(o.ridge) / o.gamma / 0.0131 - 1) < 0.01  # contexts shorter than this are never explored


test_corollary_magnitudes = check_corollaries
