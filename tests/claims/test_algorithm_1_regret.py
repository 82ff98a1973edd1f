"""Algorithm 1: elimination keeps the best arm, the weights, and the regret that follows."""

from __future__ import annotations

import functools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp
from scipy.stats import binom

from privbandit.environments.glm import GLMEnvironment, uniform_ball
from privbandit.formulas import shuffle
from privbandit.formulas.batched_regret import LATER_BATCH, LATER_BATCH_CURVATURE, ROUND_REGRET, SECOND_BATCH
from privbandit.kappa import kappa_hat
from privbandit.links import Logistic, Probit
from privbandit.policies.b_glincb import BGLinCB
from privbandit.policies.base import choose
from privbandit.policies.batched import Models, growth, schedule, survivors, useful_from
from privbandit.policies.shuffle_glm import ShuffleGLM
from privbandit.policies.shuffle_one_sum import ShuffleOneSum
from privbandit.simulate import simulate

from .altered import formula, symbol
from .claim import claim
from .small_problem import SMALL

# Elimination and weights -------------------------------------------------------------------------------------------------------


def instance(R, J, K, d, seed, link=None, S=2.0):
    """theta* and J models whose confidence ellipsoids contain it (border included half of the time), with arms in the ball."""
    rng = np.random.default_rng(seed)
    theta = uniform_ball(rng, (R,), d) * S
    root = rng.standard_normal((R, J, d, d)) * rng.choice([2.0, 5.0, 12.0], (R, 1, 1, 1))
    H = root @ root.swapaxes(2, 3) + 0.5 * np.eye(d)
    offset = rng.standard_normal((R, J, d))
    offset /= np.sqrt(np.einsum("rjd,rjde,rje->rj", offset, H, offset))[..., None]
    offset *= np.where(rng.random((R, J, 1)) < 0.5, 1.0, rng.random((R, J, 1)))
    width = np.concatenate([[1.5], np.full(J - 1, 0.7)])
    models = Models(theta[:, None] + width[:, None] * offset, np.linalg.inv(H), width)
    X = uniform_ball(rng, (R, K), d)
    inside = np.linalg.norm(models.theta[:, 0], axis=1) <= S  # the first estimate lies in the ball
    return SimpleNamespace(theta=theta[inside], models=Models(*(v[inside] for v in models[:2]), width), X=X[inside])


def by_means_only(models, X):
    mean, _ = models.bounds(X)
    return mean[:, 0] >= mean[:, 0].max(axis=1, keepdims=True) - 0.2


@claim(
    "elimination-keeps-best",
    subject=survivors,
    mutants={
        "a third of the width": lambda m, X: survivors(m._replace(width=m.width / 3), X),
        "by means": by_means_only,
        "keeps all": lambda m, X: np.ones(X.shape[:2], bool),
    },
)
def check_elimination(keep):
    """The best arm stays; every survivor is within 2 w(x) + 2 w(x*) under every model."""
    c = instance(2500, 3, 8, 3, 2)
    alive, z = keep(c.models, c.X), np.einsum("rkd,rd->rk", c.X, c.theta)
    rows, best = np.arange(len(z)), z.argmax(axis=1)
    assert len(rows) > 1500 and alive[rows, best].all()
    _, half = c.models.bounds(c.X)
    gap = z[rows, best][:, None] - z
    for j in range(3):
        limit = 2 * half[:, j] + 2 * half[rows, j, best][:, None]
        assert np.all((gap <= limit + 1e-9) | ~alive)


test_elimination = check_elimination


class NoBeta(BGLinCB):
    def scales(self, models, contexts):
        mean, _ = models.bounds(contexts)
        return self.link.dmu(mean[:, 0])


class SquaredBeta(BGLinCB):
    def scales(self, models, contexts):
        return super().scales(models, contexts) ** 2 / NoBeta.scales(self, models, contexts) * 0.5


@claim("weights-below-slope", subject=BGLinCB, mutants={"beta left out": NoBeta, "beta squared and halved": SquaredBeta})
def check_weights(kind):
    """Both sides, for logistic and probit; the sum of weighted outer products is below the one with true slopes."""
    for link, seed in ((Logistic(), 3), (Probit(), 4)):
        policy = kind(link=link, d=2, S=2.0, horizon=50)
        c = instance(2000, 1, 12, 2, seed)
        s = policy.scales(c.models, c.X)
        slope = link.dmu(np.einsum("rkd,rd->rk", c.X, c.theta))
        _, half = c.models.bounds(c.X)
        beta = np.exp(policy.self_concordance * np.minimum(4.0, half[:, 0]))
        assert np.all(s <= slope * (1 + 1e-9)) and np.all(s * beta**2 >= slope * (1 - 1e-9))
        difference = np.einsum("rk,rkd,rke->rde", slope - s, c.X, c.X)
        assert np.linalg.eigvalsh(difference).min() >= -1e-9


test_weights = check_weights


def failure(d, ridge, W):
    return d * math.exp(-ridge / (8 * W))


class AnEighth(ShuffleGLM):
    def _least(self, W):
        return super()._least(W) / 8


class ForgetsWeight(ShuffleGLM):
    def _least(self, W):
        return super()._least(0.1)


@claim("half-the-information", subject=ShuffleGLM, mutants={"an eighth": AnEighth, "weight forgotten": ForgetsWeight})
def check_half(kind):
    """W Bernoulli(q) leaves on d axes: P(some axis has ridge + sum < (ridge + mean) / 2), exact binomial tails; the policy's ridge keeps
    the failures of all batches below 1 / T^2."""
    for d in (1, 3):
        for W in (1.0, 0.25):
            for ridge in (0.5, 2.0, 8.0, 40.0):
                for n in (20, 200, 2000):
                    for q in (0.01, 0.04, 0.1, 0.5):
                        axis = binom.cdf(math.ceil((n * q - ridge) / 2) - 1, n, q)
                        assert 1 - (1 - axis) ** d <= failure(d, ridge * W, W)
    for T in (2, 1000, 10**6):
        policy = kind(**SMALL, horizon=T, epsilon=1.0, delta=0.1)
        for W in (1.0, 0.25):
            assert policy.most_batches * failure(2, policy._least(W), W) <= 1.001 / T**2


test_half = check_half


names = {s.name: s for s in ROUND_REGRET.symbols}
FLAT = ROUND_REGRET.expression.subs(names["crude"], 0)
GROWTH = sp.simplify(ROUND_REGRET.expression / FLAT) - 1  # the term with the curvature
EXPONENT = {names["M"]: names["M"] * sp.Rational(3, 5)}  # 3 M S for 5 M S


def played(policy, models, X, theta):
    """What the lemma speaks of, on instances (R, K, d): survivors, gaps, regrets, crude widths, scaled norms, slope at the best arm."""
    z = np.einsum("rkd,rd->rk", X, theta)
    alive, (_, half), best = survivors(models, X), models.bounds(X), z.max(axis=1)
    scaled = half[:, 1] / models.width[1] * np.sqrt(policy.scales(models, X))
    regret = policy.link.mu(best)[:, None] - policy.link.mu(z)
    return SimpleNamespace(
        alive=alive,
        gap=best[:, None] - z,
        regret=regret,
        beta=np.exp(policy.self_concordance * np.minimum(2 * policy.S, half[:, 0])),
        crude=(half[:, 0] * alive).max(axis=1),
        scaled=(scaled * alive).max(axis=1),
        slope=policy.link.dmu(best),
    )


def limit_of(bound, policy, models, p):
    values = {"gamma": float(models.width[1]), "slope": p.slope, "scaled": p.scaled, "crude": p.crude}
    return np.asarray(bound(M=policy.self_concordance, S=policy.S, **values))


def narrow(w):
    """One dimension, arms 1 and -1, both models off by their whole half-width w: the worse arm only just survives, with a gap of 4 w."""
    theta = np.full((1, 1), 2 * w * (1 - 1e-9))
    return Models(np.full((1, 2, 1), w), np.ones((1, 2, 1, 1)), np.array([w, w])), np.array([[[1.0], [-1.0]]]), theta


class HalfWeights(BGLinCB):
    def scales(self, models, contexts):
        return super().scales(models, contexts) / 2


@claim(
    "round-regret",
    subject=(ROUND_REGRET, BGLinCB),
    mutants={
        "2 for 4": (formula(ROUND_REGRET, ROUND_REGRET.expression / 2), BGLinCB),
        "3.9 for 4": (formula(ROUND_REGRET, ROUND_REGRET.expression * 0.975), BGLinCB),
        "5 for 4": (formula(ROUND_REGRET, ROUND_REGRET.expression * 1.25), BGLinCB),
        "6/5 for 7/5": (formula(ROUND_REGRET, FLAT * (1 + GROWTH * sp.Rational(6, 7))), BGLinCB),
        "a fiftieth of the curvature": (formula(ROUND_REGRET, FLAT * (1 + GROWTH / 50)), BGLinCB),
        "3 M S for 5 M S": (formula(ROUND_REGRET, ROUND_REGRET.expression.subs(EXPONENT)), BGLinCB),
        "half the weights": (ROUND_REGRET, HalfWeights),
    },
)
def check_round(pair):
    """Every surviving arm of random instances on the good event (the second model plays the part of batch k - 1), step by step; the factor 4
    on an instance that attains it as the width goes to 0; the bracket against the exponential that it bounds, which it meets at 7 w = 5 S."""
    bound, kind = pair
    for link, seed in ((Logistic(), 5), (Probit(), 6)):
        policy = kind(link=link, d=2, S=2.0, horizon=50)
        c = instance(3000, 2, 6, 2, seed)
        p, M = played(policy, c.models, c.X, c.theta), policy.self_concordance
        assert np.all((p.regret <= limit_of(bound, policy, c.models, p)[:, None]) | ~p.alive)
        exponent = 1.5 * M * p.gap + np.log((p.beta * p.alive).max(axis=1))[:, None]
        assert np.all((exponent <= M * np.minimum(7 * p.crude, 5 * policy.S)[:, None] + 1e-9) | ~p.alive)
        flat = 4 * c.models.width[1] * np.sqrt(p.slope) * p.scaled
        assert np.all((p.regret <= flat[:, None] * np.exp(exponent) * (1 + 1e-9)) | ~p.alive)

        policy = kind(link=link, d=1, S=1.0, horizon=50)
        tight = narrow(1e-5)
        p = played(policy, *tight)
        assert p.alive.all() and 0.99 < float(p.regret.max() / limit_of(bound, policy, tight[0], p)[0]) <= 1

    for M, S in ((1.0, 1.0), (1.0, 2.0), (2.0, 2.0), (0.3, 5.0)):
        w = np.linspace(0, 2 * S, 201)
        bracket = np.asarray(bound(gamma=1.0, slope=1.0, scaled=0.25, M=M, S=S, crude=w[1:]))
        assert np.all(bracket >= np.exp(M * np.minimum(7 * w[1:], 5 * S)) * (1 - 1e-12))
        assert float(bound(gamma=1.0, slope=1.0, scaled=0.25, M=M, S=S, crude=5 * S / 7)) == pytest.approx(math.exp(5 * M * S), rel=1e-12)


test_round = check_round


def assembled(round_regret, later, curvature, second):
    """The terms of the theorem from the round's bound: expectations of m~ and w by d sqrt(2 / B), lengths B_k = alpha sqrt(B_{k-1})."""
    at = {s.name: s for f in (later, curvature, second) for s in f.symbols}
    B = sp.Symbol("B", positive=True)
    m, w = sp.sqrt(2) * at["d"] / sp.sqrt(B), at["gamma"] * sp.sqrt(at["kappa"]) * sp.sqrt(2) * at["d"] / sp.sqrt(at["B_1"])
    r = {s.name: s for s in round_regret.symbols}
    users = at["alpha"] * sp.sqrt(B)
    flat = round_regret.expression.subs(r["crude"], 0)
    curved = round_regret.expression - flat
    return (
        users * flat.subs({r["slope"]: 1 / at["kappa_hat"], r["scaled"]: m}) - later.expression,
        users * curved.subs({r["slope"]: at["L_mu"], r["scaled"]: m, r["crude"]: w}) - curvature.expression,
        at["alpha"] * 4 * at["L_mu"] * w - second.expression,
    )


TERMS = (ROUND_REGRET, LATER_BATCH, LATER_BATCH_CURVATURE, SECOND_BATCH)


def in_tens(horizon, first, alpha):
    """Ends rounded up to tens."""
    return tuple(min(horizon, 10 * math.ceil(end / 10)) for end in schedule(horizon, first, alpha))


@claim(
    "batched-regret",
    subject=(schedule, *TERMS),
    mutants={
        "one factor d less": (schedule, ROUND_REGRET, formula(LATER_BATCH, LATER_BATCH.expression / symbol(LATER_BATCH, "d")), *TERMS[2:]),
        "gamma once": (schedule, *TERMS[:2], formula(TERMS[2], TERMS[2].expression / symbol(TERMS[2], "gamma")), TERMS[3]),
        "kappa for its root": (schedule, *TERMS[:3], formula(TERMS[3], TERMS[3].expression * sp.sqrt(symbol(TERMS[3], "kappa")))),
        "lengths rounded up to tens": (in_tens, *TERMS),
    },
)
def check_terms(parts):
    """The terms symbolically. Lengths: a batch after the first has at most one user more than alpha, or than alpha sqrt(B) after B users."""
    lengths, *terms = parts
    assert all(sp.simplify(difference) == 0 for difference in assembled(*terms))
    for T in (*range(2, 400), 10**4, 12_345, 10**6):
        for first in (1, 7, math.isqrt(T)):
            sizes = np.diff((0, *lengths(T, first, growth(T))))
            assert sizes[0] == min(first, T) and sizes.sum() == T
            allowed = growth(T) * np.sqrt(np.r_[1, sizes[1:-1]])
            assert np.all(sizes[1:] <= allowed[: len(sizes) - 1] + 1)


test_terms = check_terms


def batch_costs(policy, R, seed):
    """Final state and theta*, and the mean regret of each batch."""
    world = GLMEnvironment(policy.link, policy.d, 20, policy.S)
    rng = np.random.default_rng(seed)
    hidden, state = world.init(R, rng), policy.init(R, rng)
    costs = np.zeros(len(policy.ends))
    for t in range(policy.horizon):
        hidden, X = world.contexts(hidden, t, rng)
        batch = state.batch
        state, action = policy.act(state, X, rng)
        feedback = world.step(hidden, X, action, rng)
        costs[batch] += feedback.regret.mean()
        state = policy.update(state, choose(X, action), feedback.reward, rng)
    return state, hidden.theta, costs


def covers(state, theta):
    gap = state.models.theta - theta[:, None]
    M = np.linalg.inv(state.models.inverse)
    return np.sqrt(np.einsum("rjd,rjde,rje->rj", gap, M, gap)) <= state.models.width


@claim(
    "batched-regret-holds",
    subject=(LATER_BATCH, BGLinCB),
    mutants={
        "a thirtieth": (formula(LATER_BATCH, LATER_BATCH.expression / 30), BGLinCB),
        "widths a tenth": (LATER_BATCH, functools.partial(BGLinCB, lambda_=1.0)),
    },
)
def check_holds(pair):
    """R = 10, seed 5. Not a test of a mean difference: an upper bound must hold, with room to spare (factor 5 and more)."""
    bound, kind = pair
    width = 1.5e-3 if kind is BGLinCB else 1e-4
    policy = kind(link=Probit(), d=3, S=2.0, horizon=1200, first_batch=150, lambda_=1.0, width=width)
    state, theta, costs = batch_costs(policy, 10, 5)
    assert covers(state, theta).all()
    limit = float(bound(gamma=policy.width * policy.gamma, d=3.0, alpha=growth(1200), kappa_hat=kappa_hat(Probit(), 2.0, 3, 20)))
    assert len(costs) > 2 and np.all(costs[2:] <= limit / 5)
    assert np.all(costs[2:] >= limit / 100)


test_holds = check_holds


# Regret terms ------------------------------------------------------------------------------------------------------------------


def exponent(expression, name):
    s = next(v for v in expression.free_symbols if v.name == name)
    return sp.simplify(s * sp.diff(sp.log(expression), s))


EXPONENTS = (shuffle.REGRET_MATRIX, shuffle.REGRET_OPTIMISER, shuffle.REGRET_OPTIMISER_PRINTED)


@claim(
    "appendix-exponents",
    subject=EXPONENTS,
    mutants={"printed twice": (EXPONENTS[0], EXPONENTS[2], EXPONENTS[2]), "never the fourth root": (*EXPONENTS[:2], EXPONENTS[1])},
)
def check_exponents(formulas):
    matrix, optimiser, printed = (f.expression for f in formulas)
    for name, power in (("d", sp.Rational(5, 4)), ("epsilon", -sp.Rational(1, 2))):
        assert exponent(matrix, name) == exponent(optimiser, name) == power
    assert exponent(printed, "d") == sp.Rational(9, 8) and exponent(printed, "epsilon") == -sp.Rational(1, 4)
    d, e, nu = sp.symbols("d epsilon nu", positive=True)
    for power, (in_d, in_e) in {sp.Rational(1, 2): (sp.Rational(5, 3), -sp.Rational(2, 3)), sp.Rational(1, 4): (sp.Rational(3, 2), -sp.Rational(1, 3))}.items():
        first = ((d**2 * (nu**power) ** 2) ** sp.Rational(2, 3)).subs(nu, sp.sqrt(d) / e)
        assert exponent(first, "d") == in_d and exponent(first, "epsilon") == in_e


test_exponents = check_exponents


class SmallerConstant(ShuffleGLM):
    def _width(self, least, most, nu):
        return super()._width(least, most, nu) / 24


class LargerConstant(ShuffleGLM):
    def _width(self, least, most, nu):
        return super()._width(least, most, nu) * 24


@claim("first-batch-vacuous", subject=(ShuffleGLM, useful_from), mutants={"gamma / 24": (SmallerConstant, useful_from), "gamma 24": (LargerConstant, useful_from)})
def check_vacuous(pair):
    kind, first = pair
    fields = {"link": Logistic(), "d": 3, "S": 1.0, "delta": 0.02}
    assert first(lambda T: kind(**fields, horizon=T, epsilon=4.0, form="printed")) == 2**27
    assert first(lambda T: kind(**fields, horizon=T, epsilon=math.inf)) == 2**24
    assert first(lambda T: kind(**fields | {"link": Probit(), "S": 3.0}, horizon=T, epsilon=4.0, form="printed")) == 2**71


test_vacuous = check_vacuous


@claim("one-sum-close", subject=ShuffleOneSum, mutants={"noise of epsilon / 8": lambda epsilon, **f: ShuffleOneSum(epsilon=epsilon / 8, **f)})
def check_close(kind):
    """R = 50 each on the same contexts, seed 21; expected ratio about 1.15, standard error about 0.06: the limit is 2.5 of them away."""
    world, fields = GLMEnvironment(Probit(), 3, 20, 2.0), {"link": Probit(), "d": 3, "S": 2.0, "horizon": 5000, "delta": 0.01}
    runs = [simulate(kind(**fields, epsilon=e), world, horizon=5000, replications=50, seed=21) for e in (4.0, math.inf)]
    assert 1.0 < runs[0].final.mean() / runs[1].final.mean() <= 1.3


test_close = check_close
