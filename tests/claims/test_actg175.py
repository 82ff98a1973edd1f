"""Checks of the claims in the chapter *A first real study: an HIV trial*."""

import itertools
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from privbandit.accounting import gaussian_epsilon, gaussian_mu
from privbandit.environments.actg175 import COVARIATES, actg175, covariate_matrix
from privbandit.environments.logged import LoggedBandit, Replay, doubly_robust
from privbandit.policies.linucb import LinUCB
from privbandit.policies.ucb import UCB
from privbandit.simulate import simulate, student_interval

from .claim import claim

STUDY = Path(__file__).parents[2] / "book" / "data" / "actg175"
LEARNER = {"d": 4, "Y": 0.5, "centre": 0.5, "alpha": 0.3, "blocks": 4}

# Exact enumeration on four patients, two arms ----------------------------------------------------------------------------------

N, K = 4, 2
POTENTIAL = np.array([[0.125, 0.875], [0.75, 0.25], [0.375, 0.625], [0.625, 0.25]])
ORDERS = np.array(list(itertools.permutations(range(N))))
POLICIES = (UCB(K), LinUCB(d=K, Y=0.5, centre=0.5, alpha=0.3))
TABLES = [np.array(bits) for bits in itertools.product((0, 1), repeat=N)]


def play(world, policy, coins=None):
    """All orders at once. With `coins` (n,) round t is observed if coins[t] is 1 and pays the potential outcome: the experiment of the theorem."""
    every, rng = np.arange(len(ORDERS)), np.random.default_rng(0)
    state, replayed, story, regret = policy.init(len(ORDERS), None), Replay(ORDERS, ORDERS[:, 0]), [], np.zeros(len(ORDERS))
    for t in range(N):
        replayed, x = world.contexts(replayed, t, rng)
        action = policy.act(state, x, rng)[1]
        if coins is None:
            feedback = world.step(replayed, x, action, rng)
            seen, reward = feedback.observed, feedback.reward
            regret += feedback.regret
        else:
            seen = np.full(len(every), bool(coins[t]))
            reward = POTENTIAL[ORDERS[:, t], action] * seen
        state = policy.update(state, x[every, action] * seen[:, None], reward, None)
        story.append(np.column_stack([action, seen, reward]))
    return np.stack(story, axis=1), regret


def logged(A, score=POTENTIAL):
    return LoggedBandit(np.broadcast_to(np.eye(K), (N, K, K)), A, POTENTIAL[np.arange(N), A], score)


class Peeks(LoggedBandit):
    """Also shows unmatched outcomes of arm 0: what the log holds for another arm is taken for the chosen one."""

    def step(self, state, contexts, action, rng):
        feedback = super().step(state, contexts, action, rng)
        seen = feedback.observed | (action == 0)
        return feedback._replace(observed=seen, reward=self.reward[state.row] * seen)


def uniform(A):
    return 0.5**N


def confounded(A):
    """The better arm with probability 0.9."""
    return np.prod(np.where(A == POTENTIAL.argmax(axis=1), 0.9, 0.1))


@claim("replay-exact", subject=(LoggedBandit, uniform), mutants={"assignment knows the outcome": (LoggedBandit, confounded), "unmatched outcomes shown": (Peeks, uniform)})
def check_replay(case):
    """The joint law of order, actions, what was seen and the outcomes: summed over all assignments it is that over all coins, exactly."""
    kind, chance = case
    for policy in POLICIES:
        here, there = Counter(), Counter()
        for bits in TABLES:
            world = kind(np.broadcast_to(np.eye(K), (N, K, K)), bits, POTENTIAL[np.arange(N), bits], POTENTIAL)
            for law, stories, weight in ((here, play(world, policy)[0], chance(bits)), (there, play(world, policy, bits)[0], 0.5**N)):
                for r, story in enumerate(stories):
                    law[r, story.tobytes()] += weight
        assert here.keys() == there.keys()
        assert all(here[k] == pytest.approx(there[k], abs=1e-12) for k in here)


test_replay = check_replay


def uses_own_outcome(x, A, r, K, p):
    """Predictions from the same patients."""
    X = np.column_stack([np.ones(len(r)), x])
    score = np.empty((len(r), K))
    for a in range(K):
        use = A == a
        score[:, a] = X @ np.linalg.solve(X[use].T @ X[use] + np.eye(X.shape[1]), X[use].T @ r[use])
    return score + (A[:, None] == np.arange(K)) * (r[:, None] - score) / p


@claim(
    "doubly-robust",
    subject=doubly_robust,
    mutants={"predictions use the own outcome": uses_own_outcome, "wrong probability": lambda x, A, r, K, p: doubly_robust(x, A, r, K, 1.1 * p)},
)
def check_score(score):
    """All assignments of six patients to two arms and of four to three, potential outcomes from seed 0."""
    for n, arms in ((6, 2), (4, 3)):
        rng = np.random.default_rng(0)
        x, potential = rng.normal(size=(n, 2)), rng.random((n, arms))
        tables = [np.array(A) for A in itertools.product(range(arms), repeat=n)]
        mean = np.mean([score(x, A, potential[np.arange(n), A], arms, 1 / arms) for A in tables], axis=0)
        np.testing.assert_allclose(mean, potential, atol=1e-12)


test_score = check_score


def direct(x, A, r, K, p):
    """The prediction alone, without the correction."""
    matched = A[:, None] == np.arange(K)
    return (doubly_robust(x, A, r, K, p) - matched * r[:, None] / p) / (1 - matched / p)


@claim("replay-regret", subject=doubly_robust, mutants={"predictions use the own outcome": uses_own_outcome, "prediction alone": direct})
def check_regret(score):
    """The mean replayed regret over all assignments and orders against the true regret of the actions taken, for both policies and both comparators."""
    x = np.array([[0.3], [-1.0], [0.8], [0.1]])
    for policy in POLICIES:
        for b in (0, 1):
            told, true = 0.0, 0.0
            for A in TABLES:
                s = score(x, A, POTENTIAL[np.arange(N), A], K, 0.5)
                story = play(logged(A), policy)[0]
                rows, action = ORDERS, story[:, :, 0].astype(int)
                told += np.mean(np.sum(s[rows, b] - s[rows, action], axis=1)) / 2**N
                true += np.mean(np.sum(POTENTIAL[rows, b] - POTENTIAL[rows, action], axis=1)) / 2**N
            assert told == pytest.approx(true, abs=1e-12)


test_regret = check_regret


# The trial ---------------------------------------------------------------------------------------------------------------------


@cache
def trial():
    return actg175(())


def ignores_rewards(**fields):
    return LinUCB(**fields | {"Y": 1e-12})


@claim("actg175-leaks", subject=LinUCB, mutants={"a policy that ignores outcomes": ignores_rewards})
def check_leak(kind):
    """50 orders, seed 2: no sampling, the same orders are played twice, once with the other outcome."""
    world = trial()
    row = int(np.flatnonzero(world.action == world.best)[0])
    reward = world.reward.copy()
    reward[row] = 1.0 if reward[row] < 0.5 else 0.0
    every = list(range(1, world.n + 1))
    runs = [simulate(kind(**LEARNER), w, horizon=world.n, rounds=every, replications=50, seed=2) for w in (world, replace(world, reward=reward))]
    seen = np.any(runs[0].reward != runs[1].reward, axis=1)
    moved = np.any(runs[0].regret != runs[1].regret, axis=1)
    assert (seen.sum(), moved.sum(), (moved & ~seen).sum()) == (33, 11, 0)


test_leak = check_leak


def stored():
    names = ("actg175", "actg175-final", "actg175-choices", "actg175-choices-final")
    return {n: pd.read_csv(STUDY / f"{n}.csv") for n in names}


def exchanged(a, b, column="policy"):
    def read():
        return {n: t.replace({column: {a: b, b: a}}) for n, t in stored().items()}

    return read


def cost(frame, setting, policy, epsilon):
    part = frame[frame["setting"] == setting]
    private = part[(part["policy"] == policy) & (part["epsilon"] == epsilon)]["regret"].to_numpy()
    return student_interval(private - part[part["policy"] == "LinUCB"]["regret"].to_numpy())


@claim(
    "actg175-cost",
    subject=stored,
    mutants={"tree for square root": exchanged("private LinUCB, tree", "private LinUCB, square root"), "other baseline": exchanged("LinUCB", "uniform")},
)
def check_cost(read):
    """100 orders, seed 1; paired Student intervals. LinUCB is played again in the first 50 orders."""
    tables = read()
    known = {1.0: (59, 46, 72), 4.0: (26, 14, 38), 10.0: (4, -7, 16)}
    for epsilon, figures in known.items():
        found = cost(tables["actg175-final"], "actg175-no-covariates", "private LinUCB, square root", epsilon)
        np.testing.assert_allclose(found, figures, atol=0.5)
        rows = tables["actg175"].set_index(["setting", "policy", "epsilon"])["mean"]
        for setting in ("actg175-no-covariates", "actg175-history"):
            assert rows[setting, "private LinUCB, square root", epsilon] < rows[setting, "private LinUCB, tree", epsilon]
    ends = tables["actg175-final"]
    ends = ends[(ends["setting"] == "actg175-no-covariates") & (ends["policy"] == "LinUCB")]["regret"].to_numpy()
    again = simulate(LinUCB(**LEARNER), trial(), horizon=2139, replications=50, seed=1)
    np.testing.assert_allclose(again.final, ends[:50], rtol=1e-6)


test_cost = check_cost


@claim("actg175-tuning-price", subject=gaussian_epsilon, mutants={"epsilon adds up": lambda mu, delta: 2 * gaussian_epsilon(mu / 2, delta), "one candidate": lambda mu, delta: 1.0})
def check_price(epsilon):
    """Exact composition: mu doubles with four releases."""
    mu = gaussian_mu(1.0, 1e-5)
    assert epsilon(2 * mu, 1e-5) == pytest.approx(2.1547, abs=1e-4)
    assert epsilon(mu / 2, 1e-5) == pytest.approx(0.4687, abs=1e-4)


test_price = check_price


@claim(
    "actg175-width",
    subject=stored,
    mutants={"smallest and largest width exchanged": exchanged("width 0.03", "width 1", "setting"), "budgets exchanged": exchanged(1.0, 10.0, "epsilon")},
)
def check_width(read):
    """100 orders, paired 95% intervals."""
    tables = read()
    at = {a: cost(tables["actg175-choices-final"], f"width {a:g}", "private LinUCB", 10.0) for a in (0.03, 0.1, 1.0)}
    assert at[0.03].high < 0 and at[0.1].high < 0 < at[1.0].low
    rows = tables["actg175-choices"]
    rows = rows[(rows["policy"] == "LinUCB") & rows["setting"].str.startswith("width")].set_index("setting")["mean"]
    assert rows.idxmin() == "width 0.3"


test_width = check_width


def rule_gain(world, names, folds=5):
    """Reward gained by the cross-fitted linear rule against the best arm, with the half-width of a 95% interval."""
    X, fold, choice = np.column_stack([np.ones(world.n), covariate_matrix(names)]), np.arange(world.n) % folds, np.empty(world.n, int)
    for f in range(folds):
        fits = []
        for a in range(world.K):
            use = (fold != f) & (world.action == a)
            fits.append(np.linalg.solve(X[use].T @ X[use] + np.eye(X.shape[1]), X[use].T @ world.reward[use]))
        choice[fold == f] = np.argmax(X[fold == f] @ np.array(fits).T, axis=1)
    gain = world.score[np.arange(world.n), choice] - world.score[:, world.best]
    return gain.sum(), 1.96 * gain.std(ddof=1) * world.n**0.5


@claim(
    "actg175-covariates",
    subject=(stored, actg175),
    mutants={
        "history and none exchanged": (exchanged("actg175-history", "actg175-no-covariates", "setting"), actg175),
        "a world where a covariate decides": (stored, lambda names: decided()),
    },
)
def check_covariates(case):
    """100 orders, seed 1; means in order in all four columns. The rules: gain minus half-width is not above 0."""
    read, world = case
    tables = read()
    main, more = tables["actg175"], tables["actg175-choices"]
    for epsilon in (None, 1.0, 4.0, 10.0):
        means = []
        for table, setting in ((main, "actg175-no-covariates"), (main, "actg175-history"), (more, "all covariates")):
            part = table[(table["setting"] == setting) & table["policy"].isin(["LinUCB", "private LinUCB", "private LinUCB, square root"])]
            means.append(float(part[part["epsilon"].isna() if epsilon is None else part["epsilon"] == epsilon]["mean"].iloc[0]))
        assert means == sorted(means)
    for names in ((), ("history",), ("age",), tuple(COVARIATES)):
        gain, half = rule_gain(world(()), names)
        assert gain - half <= 0


def decided():
    """The trial with outcomes in which the history decides which of two arms is better."""
    world = trial()
    history = covariate_matrix(("history",))[:, 0] > 0
    good = np.where(history, 1, 2)
    reward = np.where(world.action == good, 0.9, 0.3)
    score = np.where(np.arange(4) == good[:, None], 0.9, 0.3)
    return LoggedBandit(world.features, world.action, reward, score)


test_covariates = check_covariates


@claim("actg175-event-free", subject=stored, mutants={"budgets exchanged": exchanged(1.0, 4.0, "epsilon"), "other setting": exchanged("event-free", "width 0.03", "setting")})
def check_event(read):
    """100 orders, paired 95% intervals."""
    ends = read()["actg175-choices-final"]
    at = {e: cost(ends, "event-free", "private LinUCB", e) for e in (1.0, 4.0, 10.0)}
    assert at[1.0].low > 0
    for e in (4.0, 10.0):
        assert at[e].low < 0 < at[e].high


test_event = check_event
