"""The checks that the table of audits applies: each takes a subject and a seed and returns a Finding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import stats

from privbandit.accounting import gaussian_epsilon
from privbandit.audit.attack import attack
from privbandit.audit.base import Finding
from privbandit.audit.covariance import data_matrix, exact_mu, noise_matrix
from privbandit.audit.enumeration import bernoulli_sum, exact_epsilon, rounded
from privbandit.audit.replay import Neighbours, Users, judge, play, prefixes, replay, replay_sums
from privbandit.ledger import Gaussian, Laplace, Ledger
from privbandit.linalg import outer, smat, svec_size
from privbandit.mechanisms import PrefixSums
from privbandit.mechanisms.shuffle.bits import BitSum
from privbandit.mechanisms.shuffle.sums import ScalarSum, VectorSum
from privbandit.mechanisms.wishart import WishartTree
from privbandit.policies.base import Policy

DELTA = 1e-6
ATTACK_DELTA = 1e-2  # an attack sees nothing rarer than its number of runs allows
RUNS = 100_000
CONFIDENCE = 0.9999


def claim_of(mechanism: PrefixSums) -> Ledger:
    return Ledger("one increment", "central", mechanism.entries)


def covariance(mechanism: PrefixSums, seed: int) -> Finding:
    """What the published prefixes cost, against what the ledger says. No sampling."""
    return Finding(claim_of(mechanism).epsilon(DELTA), DELTA, gaussian_epsilon(exact_mu(mechanism), DELTA))


def sums_replay(mechanism: PrefixSums, seed: int) -> Finding:
    """Every user in turn replaced, by increments opposite on the sphere of diameter Delta in two dimensions."""
    T, rng = mechanism.horizon, np.random.default_rng(seed)
    base = rng.uniform(-0.3, 0.3, size=(T, T, 2)) * mechanism.Delta
    ends = np.array([0.3, 0.4]) * mechanism.Delta  # of norm Delta / 2
    one, other, every = base.copy(), base.copy(), np.arange(T)
    one[every, every], other[every, every] = ends, -ends
    return judge(claim_of(mechanism), DELTA, lambda: replay_sums(mechanism, one, other, seed))


def sums_attack(mechanism: PrefixSums, seed: int) -> Finding:
    """Is the first increment 0 or Delta? The score is the likelihood ratio of the measured linear mechanism."""
    T, N = mechanism.horizon, noise_matrix(mechanism)
    direction = np.linalg.lstsq(N @ N.T, data_matrix(mechanism)[:, 0], rcond=None)[0]
    scores = []
    for first, child in zip((mechanism.Delta, 0.0), np.random.SeedSequence(seed).spawn(2), strict=True):
        increments = np.zeros((T, RUNS, 1))
        increments[0] = first
        scores.append(direction @ prefixes(mechanism, increments, np.random.default_rng(child))[..., 0])
    bound = attack(*scores, ATTACK_DELTA, CONFIDENCE)
    return Finding(claim_of(mechanism).epsilon(ATTACK_DELTA), ATTACK_DELTA, bound, CONFIDENCE)


def policy_replay(pair: Callable[[np.random.Generator], Neighbours], apart: bool = False) -> Callable[[Policy, int], Finding]:
    """The check of a policy on the pairs of inputs that `pair` draws, all replications at once or each by itself."""

    def check(policy: Policy, seed: int) -> Finding:
        neighbours = pair(np.random.default_rng(seed))
        runs = neighbours.apart() if apart else [neighbours]
        found = [judge(policy.ledger, DELTA, lambda: replay(policy, run, seed)) for run in runs]
        return max(found, key=lambda one: one.lower_bound)

    return check


def policy_attack(pair: Callable[[np.random.Generator], Neighbours], runs: int = 20_000) -> Callable[[Policy, int], Finding]:
    """The check of a policy by its actions alone: which of two inputs (replication 0 of `pair`, user 0 changed) was played?

    The score of a sequence of the other users' actions is its log-frequency ratio on the even runs; the limit is from the odd ones.
    """

    def check(policy: Policy, seed: int) -> Finding:
        drawn = pair(np.random.default_rng(seed)).apart()[0]
        seeds = np.random.SeedSequence(seed).generate_state(2).tolist()
        one, other = (
            play(policy, Users(*(np.repeat(a, runs, axis=1) for a in users)), np.random.default_rng(s), s)
            for users, s in zip((drawn.users, drawn.other), seeds, strict=True)
        )
        K = drawn.users.rewards.shape[2]
        codes = [K ** np.arange(len(actions) - 1) @ actions[1:] for actions in (one, other)]  # a number for each sequence
        seen = [np.bincount(c[::2], minlength=K ** (len(one) - 1)) + 1.0 for c in codes]
        score = np.log(seen[1] / seen[0])
        bound = attack(score[codes[1]], score[codes[0]], ATTACK_DELTA, CONFIDENCE)
        return Finding(policy.ledger.epsilon(ATTACK_DELTA), ATTACK_DELTA, bound, CONFIDENCE)

    return check


def rounded_noise(event: Gaussian | Laplace, claimed: float, delta: float) -> Finding:
    """A noised number against the same number moved by Delta: exact laws after rounding to a grid of a hundredth of the noise."""
    law = stats.norm(scale=event.sigma) if isinstance(event, Gaussian) else stats.laplace(scale=event.scale)
    step, reach = law.std() / 100, 12 * law.std() + event.Delta
    P, Q = rounded(law.cdf, 0.0, step, reach), rounded(law.cdf, event.Delta, step, reach)
    return Finding(claimed, delta, exact_epsilon(P, Q, delta))


def wishart_attack(claimed: float, delta: float) -> Callable[[WishartTree, int], Finding]:
    """Is the first leaf e1 e1' or e2 e2'? In X = W + v v' the density depends on v through det(X - v v') = det X (1 - v' X^-1 v) alone."""

    def check(mechanism: WishartTree, seed: int) -> Finding:
        d, scores = mechanism.d, []
        for arm, child in zip((0, 1), np.random.SeedSequence(seed).spawn(2), strict=True):
            noise, leaf = np.random.default_rng(child), np.concatenate([outer(np.eye(d)[arm]), np.zeros(d)])
            state = mechanism.init(RUNS, len(leaf), noise)
            _, prefix = mechanism.release(state, np.tile(leaf, (RUNS, 1)), noise)
            inverse = np.linalg.inv(smat(prefix[:, : svec_size(d)], d))
            first, second = (np.log(np.maximum(1 - inverse[:, i, i], 1e-300)) for i in (0, 1))
            scores.append(first - second)
        return Finding(claimed, delta, attack(*scores, delta, CONFIDENCE), CONFIDENCE)

    return check


def noise_at(claimed: float, delta: float) -> Callable[[Gaussian | Laplace, int], Finding]:
    return lambda event, seed: rounded_noise(event, claimed, delta)


def bit_sum(mechanism: BitSum, seed: int) -> Finding:
    """The claim (1, 1e-3) for every number of ones among the others, from laws multiplied out bit by bit."""
    low, high = mechanism.flip / 2, 1 - mechanism.flip / 2
    worst = 0.0
    for ones in range(mechanism.users):
        others = [high] * ones + [low] * (mechanism.users - 1 - ones)
        P, Q = (bernoulli_sum(np.array([*others, own])) for own in (low, high))
        worst = max(worst, exact_epsilon(P, Q, 1e-3))
    return Finding(1.0, 1e-3, worst)


def scalar_sum(mechanism: ScalarSum, seed: int) -> Finding:
    """The claim (1, 1e-3) for the largest move of one user, 0 against L."""
    P = bernoulli_sum(np.full(mechanism.users * mechanism.bits, mechanism.p))
    empty = np.zeros(mechanism.grid)
    return Finding(1.0, 1e-3, exact_epsilon(np.concatenate([P, empty]), np.concatenate([empty, P]), 1e-3))


def vector_sum(mechanism: VectorSum, seed: int) -> Finding:
    """The certificate of a sum of pairs, for every vector of integers by which one user may move the two counts."""
    P, reach = bernoulli_sum(np.full(mechanism.noise_event.trials, mechanism.p)), int(mechanism.shift)
    padded = np.pad(P, (0, reach))
    moves = [(a, b) for a in range(reach + 1) for b in range(a + 1) if 0 < a * a + b * b <= mechanism.shift**2]
    laws = [(np.outer(padded, padded).ravel(), np.outer(np.roll(padded, a), np.roll(padded, b)).ravel()) for a, b in moves]
    worst = max(exact_epsilon(one, other, 1e-3) for one, other in laws)
    return Finding(mechanism.ledger.epsilon(1e-3), 1e-3, worst)
