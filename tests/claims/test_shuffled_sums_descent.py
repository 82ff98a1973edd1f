"""Gradient descent on sums from shuffled messages: regret, excess risk and the split of the budget."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import sympy as sp
from scipy.stats import chi2

from privbandit.formulas.shuffle import PGD_EXCESS, PGD_MEAN_EXCESS, PGD_STEP, PGD_STEP_EPSILON
from privbandit.linalg import into_ball
from privbandit.mechanisms.shuffle.gradient_descent import ShuffleGradientDescent
from privbandit.mechanisms.shuffle.sums import VectorSum

from .altered import formula
from .claim import claim

# Gradient descent --------------------------------------------------------------------------------------------------------------


class ExplicitRidge(ShuffleGradientDescent):
    def run(self, gradient, R, noise):
        theta = np.zeros((R, self.gradients.size))
        total = np.zeros_like(theta)
        for _ in range(self.rounds):
            total += theta
            g = self.gradients.sum(gradient(theta), noise)
            theta = into_ball(theta - self.eta * (g + self.ridge * theta), self.S)
        return total / self.rounds


class AveragesLater(ShuffleGradientDescent):
    def run(self, gradient, R, noise):
        seen = []
        super().run(lambda theta: seen.append(theta) or gradient(theta), R, noise)
        return np.mean(seen[1:], axis=0)


class Exact(VectorSum):
    """Stands in for the vector sum: adds up without noise."""

    proxy, entries = 1.0, ()

    def __init__(self, users, size):
        vars(self).update(users=users, low=(-1.0,) * size, high=(1.0,) * size)

    def sum(self, x, noise):
        return x.sum(axis=1)


class Adversary(Exact):
    """Returns prescribed gradient sums and remembers the iterates they were returned for."""

    def __init__(self, g):
        super().__init__(1, 3)
        vars(self).update(g=iter(g), seen=[])

    def sum(self, x, noise):
        self.seen.append(x[:, 0] * 1e6)  # the callback passes the iterate, scaled below the clip
        return next(self.g)


@claim("pgd-regret", subject=ShuffleGradientDescent, mutants={"explicit ridge": ExplicitRidge, "averages later iterates": AveragesLater})
def check_regret(kind):
    """200 sequences at once: random, and pushing to one side and back; every comparator at the boundary and inside."""
    rng, R, T, S = np.random.default_rng(7), 200, 12, 2.0
    for ridge in (0.0, 1.0, 500.0):
        g = rng.standard_normal((T, R, 3)) * rng.uniform(0.1, 5, (1, R, 1))
        g[:, ::2] = np.where(np.arange(T)[:, None, None] < 6, 3.0, -3.0) * rng.choice([-1, 1], (1, R // 2, 3))
        sums = Adversary(g)
        optimiser = kind(sums, T, S, 1.0, ridge)
        result = optimiser.run(lambda theta: theta[:, None] / 1e6, R, rng)
        theta = np.array(sums.seen)
        np.testing.assert_allclose(result, theta.mean(axis=0), atol=1e-6)
        assert np.all(np.linalg.norm(theta, axis=2) <= S + 1e-6)
        bound = optimiser.eta / 2 * np.sum(g**2, axis=(0, 2))
        for u in S * into_ball(rng.standard_normal((30, R, 3)), 1.0):
            left = np.sum(g * (theta - u), axis=(0, 2)) + ridge / 2 * np.sum(np.sum(theta**2, axis=2) - np.sum(u**2, axis=1), axis=0)
            assert np.all(left <= np.sum(u**2, axis=1) / (2 * optimiser.eta) + bound + 1e-5 * (1 + ridge))


test_regret = check_regret


v = {s.name: s for f in (PGD_EXCESS, PGD_MEAN_EXCESS) for s in f.symbols}


@claim(
    "pgd-excess",
    subject=(PGD_MEAN_EXCESS, PGD_EXCESS, PGD_STEP),
    mutants={
        "the mean stands for every run": (PGD_MEAN_EXCESS, formula(PGD_EXCESS, PGD_MEAN_EXCESS.expression), PGD_STEP),
        "no martingale term": (PGD_MEAN_EXCESS, formula(PGD_EXCESS, PGD_EXCESS.expression.subs(v["S"], 0) + v["S"] ** 2 / (2 * v["eta"] * v["T"])), PGD_STEP),
        "step without noise": (PGD_MEAN_EXCESS, PGD_EXCESS, formula(PGD_STEP, v["S"] / (v["n"] * v["L"] * sp.sqrt(v["T"])))),
    },
)
def check_excess(triple):
    """Assembly from the lemma, E|g|^2, the norm tail, |g|^2 <= 2|a|^2 + 2|b|^2 and Azuma; least step; the tail against chi-square."""
    mean, high, step = triple
    S, T, eta, n, L, d, sigma, zeta = (v[name] for name in ("S", "T", "eta", "n", "L", "d", "sigma", "zeta"))
    start = S**2 / (2 * eta * T)
    assert sp.simplify(mean.expression - start - eta / 2 * (n**2 * L**2 + d * sigma**2)) == 0
    noise = sigma * (sp.sqrt(d) + sp.sqrt(2 * sp.log(2 * T / zeta)))
    azuma = sp.sqrt(2 * T * (2 * S * sigma) ** 2 * sp.log(1 / (zeta / 2))) / T
    difference = high.expression - start - eta / 2 * (2 * n**2 * L**2 + 2 * noise**2) - azuma
    values = {S: 2.0, T: 30.0, eta: 0.01, n: 100.0, L: 1.0, d: 3.0, sigma: 7.0, zeta: 0.01}
    assert abs(float(difference.subs(values))) < 1e-9
    assert sp.simplify(sp.diff(mean.expression, eta).subs(eta, step.expression)) == 0
    for dimension in (1, 2, 5, 20):
        t = np.linspace(0.01, 30, 300)
        assert np.all(chi2.sf((math.sqrt(dimension) + np.sqrt(2 * t)) ** 2, dimension) <= np.exp(-t))


test_excess = check_excess


def proved(epsilon, delta, T, e0):
    l = np.log(2 / delta)  # noqa: E741
    return np.minimum(T * e0, e0 * np.sqrt(2 * T * l) + T * e0 * np.expm1(e0)) <= epsilon * (1 + 1e-12)


@claim(
    "pgd-split",
    subject=PGD_STEP_EPSILON,
    mutants={
        "without the 2 in front": formula(PGD_STEP_EPSILON, PGD_STEP_EPSILON.expression * 2),
        "three quarters": formula(PGD_STEP_EPSILON, PGD_STEP_EPSILON.expression * sp.Rational(3, 4)),
    },
)
def check_split(each):
    """Basic or advanced composition suffices for every T at the limit of the domain, and for no T = 37 at epsilon = 15, delta = 0.02."""
    T = np.arange(1.0, 20_001)
    for delta in (0.4, 0.1, 0.02, 1e-3, 1e-5, 1e-8, 1e-12, 1e-20):
        for share in (0.01, 0.3, 1.0):
            epsilon = share * 8 * math.log(1.5) * math.log(2 / delta)
            assert proved(epsilon, delta, T, each(epsilon=epsilon, delta=delta, T=T)).all()
    assert not proved(15.0, 0.02, 37.0, each(epsilon=15.0, delta=0.02, T=37.0))


test_split = check_split


# The algorithms ----------------------------------------------------------------------------------------------------------------


class NotClipped(ShuffleGradientDescent):
    def run(self, gradient, R, noise):
        return dataclasses.replace(self, L=1e9).started(gradient, R, noise, self.eta)

    def started(self, gradient, R, noise, eta):
        theta, total = np.zeros((R, self.gradients.size)), 0.0
        for _ in range(self.rounds):
            total = total + theta
            theta = into_ball((theta - eta * gradient(theta).sum(axis=1)) / (1 + eta * self.ridge), self.S)
        return total / self.rounds


@claim(
    "shuffled-descent",
    subject=ShuffleGradientDescent,
    mutants={"explicit ridge": ExplicitRidge, "averages later iterates": AveragesLater, "not clipped": NotClipped},
)
def check_descent(kind):
    exact = Exact(4, 2)
    targets = np.random.default_rng(10).standard_normal((5, 4, 2)) * 3
    for ridge in (0.0, 50.0):
        optimiser, theta, seen = kind(exact, 6, 1.5, 1.0, ridge), np.zeros((5, 2)), []
        for _ in range(6):
            seen.append(theta)
            g = np.zeros((5, 2))
            for i in range(4):
                pull = theta - targets[:, i]
                g += pull / np.maximum(1.0, np.linalg.norm(pull, axis=1, keepdims=True))
            free = (theta - optimiser.eta * g) / (1 + optimiser.eta * ridge)
            theta = free / np.maximum(1.0, np.linalg.norm(free, axis=1, keepdims=True) / 1.5)
        got = optimiser.run(lambda theta: theta[:, None] - targets, 5, np.random.default_rng(0))
        np.testing.assert_allclose(got, np.mean(seen, axis=0), atol=1e-12)


test_descent = check_descent
