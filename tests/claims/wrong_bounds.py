"""Constants and bounds of the one-release theorems with one thing wrong, and what the constants of a self-weighted block must satisfy."""

from __future__ import annotations

import math

from privbandit.formulas import best_of_both, self_weighted, two_block


def whole_zeta(p):
    return p


def larger_threshold(q, nu):
    plain, weighted = two_block.exploit(q, math.sqrt(2) * nu), self_weighted.weighted(q, math.sqrt(2) * nu)
    Delta = max(plain.Delta, weighted.Delta)
    return best_of_both.Halves(plain._replace(Delta=Delta), weighted._replace(Delta=Delta))


def same_noise(q, nu):
    return best_of_both.halves(q, nu / math.sqrt(2))


def regret_at_zeta(p, nu, kappa_star):
    return best_of_both.exploitation_regret(p._replace(zeta=best_of_both.EVENTS * p.zeta), nu, kappa_star)


def rounds_at_zeta(p, nu):
    return best_of_both.exploration_rounds(p._replace(zeta=best_of_both.EVENTS * p.zeta), nu)


def regret_at_nu(p, nu, kappa_star):
    return best_of_both.exploitation_regret(p, nu / math.sqrt(2), kappa_star)


def rounds_at_root(p, nu):
    q = best_of_both.events(p)
    return two_block.exploration_rounds(q, math.sqrt(2) * nu, best_of_both.halves(q, nu).Delta)


def rounds_of_the_first_threshold(p, nu):
    q = best_of_both.events(p)
    return two_block.exploration_rounds(q, nu, two_block.exploit(q, math.sqrt(2) * nu).Delta)


def weighted_with(**changes):
    """The constants of the self-weighted block, some of them changed: each change is a function of the right constants."""

    def constants(p, nu):
        right = self_weighted.weighted(p, nu)
        return right._replace(**{name: change(right) for name, change in changes.items()})

    return constants


WEIGHTED = {
    "half-the-dimension": weighted_with(dimension=lambda w: w.dimension / 2),
    "half-the-epochs": weighted_with(epochs=lambda w: w.epochs // 2),
    "no-growth": weighted_with(growth=lambda w: 1.0),
    "twice-the-clip": weighted_with(clip=lambda w: 2 * w.clip),
    "half-the-floor": weighted_with(floor=lambda w: w.floor / 2),
}
"""Wrong constants of the self-weighted block that both of its theorems must refuse."""


def check_potential(p, w):
    """Dimension, epochs, growth, clip and floor at least what steps (1) to (3) of the proofs need."""
    assert w.dimension >= 2 * p.d * math.log(1 + 0.53 * p.L * p.T / math.sqrt(p.d)) * (1 - 1e-12)
    assert w.epochs >= 1 + math.floor(w.dimension / math.log(1.6))
    assert w.growth >= (1 + 1.0541 * p.L / math.sqrt(w.ridge)) * (1 - 1e-12)
    assert abs(w.clip / math.sqrt(1.125 / w.ridge) - 1) < 1e-12
    assert w.floor >= 1.15 * w.ell * (1 - 1e-12)
