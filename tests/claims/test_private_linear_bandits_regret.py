"""Private LinUCB: the width, regret from above and from below, and the stored study."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sympy as sp
from scipy.stats import binom

from privbandit.environments.linear import LinearBandit
from privbandit.formulas.linear import LARGEST_WIDTH, LINEAR_REGRET, POTENTIAL, RADIUS
from privbandit.linalg import svec
from privbandit.policies.linucb import LinUCB
from privbandit.policies.private_linucb import PrivateLinUCB
from privbandit.simulate import simulate

from .altered import scaled as times
from .claim import claim

STUDY = Path(__file__).parents[2] / "book" / "data" / "linear"


# Width and regret --------------------------------------------------------------------------------------------------------------


class NoVectorTerm(PrivateLinUCB):
    def width(self, state):
        return super().width(state) - self.bounds.vector / (self.weight * self.ridge**0.5)


class SmallestRegulariser(PrivateLinUCB):
    def width(self, state):
        return super().width(state) - self.S * ((self.added + self.bounds.high) ** 0.5 - self.ridge**0.5)


@claim(
    "private-width",
    subject=(PrivateLinUCB, RADIUS),
    mutants={"no term for the vector": (NoVectorTerm, RADIUS), "lambda_min for lambda_max": (SmallestRegulariser, RADIUS)},
)
def check_width(case):
    """Deterministic: rewards without noise, mechanism noise at the edge of the good event (and 200 random ones inside it), put into the policy's own
    estimate. The largest of |<x, error>| / |x| over x is compared with the width."""
    kind, rng = case[0], np.random.default_rng(7)
    for d in (1, 2, 4):
        policy = kind.calibrated(1.0, 1e-3, d=d, horizon=32, S=0.9, sigma_r=1e-9)
        b = policy.bounds
        edges = [(b.low, 1.0), (b.high, 1.0), (b.high, 0.0), (b.low, 0.0)] + [(None, u) for u in rng.random(200)]
        for n in (0, 31):
            for value, size in edges:
                Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
                H = Q @ np.diag(rng.uniform(b.low, b.high, d) if value is None else np.full(d, value)) @ Q.T
                theta = rng.standard_normal(d)
                theta *= policy.S / np.linalg.norm(theta)
                h = -size * b.vector * theta / policy.S
                x = rng.standard_normal((n, d))
                x /= np.linalg.norm(x, axis=1, keepdims=True)
                prefix = np.concatenate([svec(x.T @ x + H), policy.weight * (x.T @ x @ theta) + h])
                state = policy._estimate(None, prefix[None])
                error = state.theta[0] - theta
                worst = np.sqrt(error @ np.linalg.inv(state.inverse[0, 0]) @ error)
                assert worst <= policy.width(state)[0] * (1 + 1e-9)


test_width = check_width


@claim(
    "potential-any-ridge",
    subject=POTENTIAL,
    mutants={
        "constant 1": times(POTENTIAL, sp.Symbol("lambda_min", positive=True) * sp.log(1 + 1 / sp.Symbol("lambda_min", positive=True))),
        "half": times(POTENTIAL, sp.Rational(1, 2)),
    },
)
def check_potential(bound):
    """Greedy sequences (always the least explored direction) and random ones; equality at d = T = 1."""
    rng = np.random.default_rng(8)
    for d in (1, 2, 5):
        for ridge in (0.05, 0.5, 1.0, 10.0, 300.0):
            for greedy in (True, False):
                V, total = ridge * np.eye(d), 0.0
                for t in range(1, 201):
                    x = np.linalg.eigh(V)[1][:, 0] if greedy else rng.standard_normal(d)
                    x = x / np.linalg.norm(x)
                    total, V = total + x @ np.linalg.solve(V, x), V + np.outer(x, x)
                    assert total <= float(bound(d=float(d), T=float(t), lambda_min=ridge)) * (1 + 1e-9)
                    if d == t == 1:
                        assert total == pytest.approx(float(bound(d=1.0, T=1.0, lambda_min=ridge)))


test_potential = check_potential


@claim(
    "private-linucb-regret",
    subject=(LINEAR_REGRET, LARGEST_WIDTH),
    mutants={"factor 1 for 2": (times(LINEAR_REGRET, sp.Rational(1, 2)), LARGEST_WIDTH), "half the width": (LINEAR_REGRET, times(LARGEST_WIDTH, sp.Rational(1, 2)))},
)
def check_regret(formulas):
    """Runs of 150 rounds, seed 9, one arm a round in turn along the axes (the widest case): the sum of twice the policy's own width times the arm's norm,
    which bounds the regret, stays below the formula, and above 60% of it without noise."""
    regret, width = formulas
    for d in (1, 3):
        for epsilon in (1.0, 8.0, np.inf):
            T, R, noise = 150, 5, np.random.default_rng(9)
            p = PrivateLinUCB.calibrated(epsilon, 1e-5, d=d, horizon=T, S=0.5, sigma_r=0.5)
            state, total = p.init(R, noise), np.zeros(R)
            for t in range(T):
                x = np.tile(np.eye(d)[t % d], (R, 1))
                total += 2 * p.width(state) * p.norm(state, x[:, None])[:, 0]
                state = p.update(state, x, np.zeros(R), noise)
            b = p.bounds
            largest = width(
                sigma_r=p.sigma_r, zeta=p.zeta / 2, d=float(d), T=float(T), lambda_min=p.ridge, lambda_max=p.added + b.high, S=p.S,
                kappa=b.vector / (p.weight * p.ridge**0.5),
            )  # fmt: skip
            proved = float(regret(beta=largest, T=float(T), d=float(d), lambda_min=p.ridge))
            assert np.all(total <= proved)
            if np.isinf(epsilon):
                assert np.all(total > 0.6 * proved)


test_regret = check_regret


def from_below(epsilon):
    return 1 / epsilon


@claim("private-lower-bound", subject=from_below, mutants={"twice as much": lambda e: 2 / e, "nothing": lambda e: 1 / e**2 + 3})
def check_lower(bound):
    """The exact sum over one coordinate, a sum_{m<n} (1 - E tanh(epsilon H_m / 2)), n = floor(2 / (epsilon a)), on a grid; and the step from group privacy
    to tanh: the largest p - q on a grid of probabilities that respect the ratio in both directions."""
    for epsilon in (0.02, 0.05, 0.1, 0.3, 0.6, 1.0):
        for a in (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 0.95, 1.0, min(1.0, 1 / epsilon)):
            n = int(np.floor(2 / (epsilon * a) + 1e-12))
            m = np.arange(n)
            H = np.arange(n + 1)
            mean = binom.pmf(H[None], m[:, None], a) @ np.tanh(epsilon * H / 2)
            assert a * np.sum(1 - mean) >= bound(epsilon) * (1 - 1e-9)
    q, p = np.meshgrid(np.linspace(0, 1, 401), np.linspace(0, 1, 401))
    for h in (0.1, 1.0, 3.0):
        allowed = (p <= np.exp(h) * q) & (1 - q <= np.exp(h) * (1 - p))
        assert 0 <= np.tanh(h / 2) - np.max((p - q)[allowed]) < 0.01


test_lower = check_lower


# The study -----------------------------------------------------------------------------------------------------------------------


def stored():
    return pd.read_csv(STUDY / "linear.csv"), pd.read_csv(STUDY / "linear-curves.csv")


def swapped():
    table, curves = stored()
    names = {"private LinUCB, tree": "private LinUCB, square root", "private LinUCB, square root": "private LinUCB, tree"}
    return table.replace({"policy": names}), curves


def budgets_exchanged():
    table, curves = stored()
    return table.replace({"epsilon": {1.0: 10.0, 10.0: 1.0}}), curves


def moved():
    table, curves = stored()
    return table, curves.assign(mean=curves["mean"] * 1.01)


@claim("linear-experiment", subject=stored, mutants={"tree and square root exchanged": swapped, "budgets exchanged": budgets_exchanged, "curves off by one percent": moved})
def check_study(read):
    """50 replications, seed 1. Orders hold with disjoint 95% intervals; LinUCB is played again for 250 rounds and must agree to rounding."""
    table, curves = read()
    rows = table.dropna(subset=["epsilon"]).set_index(["policy", "epsilon"])
    for epsilon, share in ((1.0, 0.547), (4.0, 0.355), (10.0, 0.284)):
        small, root, tree, old = (rows.loc[(f"private LinUCB, {n}", epsilon)] for n in ("small width", "square root", "tree", "published constants"))
        assert small["mean"] / root["mean"] == pytest.approx(share, abs=0.0006)
        assert small["ci_high"] < root["ci_low"] and root["ci_high"] < tree["ci_low"] and tree["ci_high"] < old["ci_low"]
    curve = curves[curves["policy"] == "LinUCB"].set_index("round")["mean"]
    at, world = [int(t) for t in curve.index if t <= 250], LinearBandit(K=10, d=5)
    policy = LinUCB(d=5, S=world.S, sigma_r=world.sigma_r, Y=world.reward_bound)
    again = simulate(policy, world, horizon=at[-1], replications=50, seed=1, rounds=at)
    np.testing.assert_allclose(again.interval().mean, curve[at], rtol=1e-6)


test_study = check_study
