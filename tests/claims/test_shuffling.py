"""Checks of the claims in the chapter on the shuffle model and amplification."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp
from scipy.special import ndtr
from scipy.stats import binom

from privbandit.accounting import gaussian_delta
from privbandit.formulas.shuffle import AMPLIFICATION, AMPLIFICATION_CODE
from privbandit.mechanisms.shuffle import amplification as amp
from privbandit.mechanisms.shuffle.hockey_stick import bit_sum_delta, divergence
from privbandit.mechanisms.shuffle.messages import Messages, shuffle

from .claim import claim


def delta_of(P, Q, epsilon):
    """Exact delta, the larger of both directions, of two laws given as dictionaries."""
    outcomes = sorted({*P, *Q})
    p, q = (np.array([law.get(o, 0.0) for o in outcomes]) for law in (P, Q))
    return max(divergence(p, q, epsilon), divergence(q, p, epsilon))


# The view ----------------------------------------------------------------------------------------------------------------------


def rotate(messages, rng):
    """One of the rotations instead of one of all orders."""
    k = rng.permutation(messages.bit.size)[0]
    return Messages(np.roll(messages.tag.ravel(), k), np.roll(messages.bit.ravel(), k))


def within_users(messages, rng):
    """Each user's messages are mixed, the users stay in place."""
    order = rng.permutation(messages.bit.size)
    rows = [row[np.argsort(order[: len(row)])] for row in messages.bit]
    return Messages(messages.tag.ravel(), np.concatenate(rows))


def bits_only(messages, rng):
    """The tags stay behind."""
    return Messages(messages.tag.ravel(), messages.bit.ravel()[rng.permutation(messages.bit.size)])


def ones_of(tag, bit):
    return tuple(int(bit[tag == j].sum()) for j in (0, 1))


@claim(
    "shuffled-view",
    subject=shuffle,
    mutants={"rotations only": rotate, "within each user": within_users, "tags left in place": bits_only},
)
def check_view(mix):
    """All permutations of four messages of two users: the law of the view is uniform over arrangements, keeps and depends on the counts only."""
    for tags in ([0, 0], [0, 1]):
        views = {}
        for bits in itertools.product((0, 1), repeat=4):
            sent = Messages(np.array([tags, tags]), np.array(bits).reshape(2, 2))
            law = {}
            for order in itertools.permutations(range(4)):
                got = mix(sent, SimpleNamespace(permutation=lambda n, order=order: np.array(order)))
                key = (*map(int, got.tag), *map(int, got.bit))
                law[key] = law.get(key, 0) + 1
                assert ones_of(got.tag, got.bit) == ones_of(np.array(tags * 2), np.array(bits))
            assert len(set(law.values())) == 1
            counts = ones_of(np.array(tags * 2), np.array(bits))
            assert views.setdefault(counts, law) == law


test_view = check_view


# Clones ------------------------------------------------------------------------------------------------------------------------


def two_laws(P0, P1, e):
    """A and B of the lemma, e = exp(epsilon_0)."""
    return (e * P0 - P1) / (e - 1), (e * P1 - P0) / (e - 1)


@claim("two-laws", subject=two_laws, mutants={"halves": lambda P0, P1, e: ((P0 + P1) / 2, (P0 + P1) / 2), "swapped": lambda P0, P1, e: two_laws(P1, P0, e)})
def check_two_laws(laws):
    P0, P1, e = sp.symbols("P0 P1 e", positive=True)
    A, B = laws(P0, P1, e)
    assert sp.simplify((e * A + B) / (1 + e) - P0) == 0 and sp.simplify((A + e * B) / (1 + e) - P1) == 0
    rng = np.random.default_rng(1)
    for _ in range(500):
        p, q = rng.dirichlet(np.ones(4), 2)
        factor = max((p / q).max(), (q / p).max()) * 1.0000001
        a, b = laws(p, q, factor)
        assert a.min() >= -1e-12 and b.min() >= -1e-12 and a.sum() == pytest.approx(1) and b.sum() == pytest.approx(1)


test_two_laws = check_two_laws


def cells(epsilon, epsilon_0, users):
    """The pair of the theorem, cell by cell."""
    own, total = 1 / (1 + math.exp(-epsilon_0)), 0.0
    for c in range(users):
        A = binom.pmf(np.arange(-1, c + 2), c, 0.5)
        P, Q = own * A[:-1] + (1 - own) * A[1:], (1 - own) * A[:-1] + own * A[1:]
        total += binom.pmf(c, users - 1, math.exp(-epsilon_0)) * divergence(P, Q, epsilon)
    return total


def shuffled_law(laws):
    """Exact law of the histogram of one message from each law over three values."""
    total = {(0, 0, 0): 1.0}
    for law in laws:
        after = {}
        for counts, weight in total.items():
            for value in range(3):
                key = tuple(c + (v == value) for v, c in enumerate(counts))
                after[key] = after.get(key, 0.0) + weight * law[value]
        total = after
    return total


@claim(
    "clones",
    subject=amp.shuffled_delta,
    mutants={
        "clones of half epsilon_0": lambda e, e0, n: amp.shuffled_delta(e, e0 / 2, n),
        "one user more": lambda e, e0, n: amp.shuffled_delta(e, e0, n + 1),
        "everybody a clone": lambda e, e0, n: bit_sum_delta(n, 2 / (1 + math.exp(e0)), e) / 2,
    },
)
def check_clones(delta):
    """The code against the cells of the pair; the theorem against the exact shuffled laws of random three-message randomisers."""
    for users in (1, 2, 7, 40):
        for epsilon_0 in (0.3, 1.0, 4.0):
            for epsilon in (0.0, 0.1, 0.25, 0.9):
                assert delta(epsilon, epsilon_0, users) == pytest.approx(cells(epsilon, epsilon_0, users), abs=1e-12)
    rng = np.random.default_rng(2)
    for users in (2, 3, 5):
        for _ in range(15):
            R = rng.dirichlet(np.ones(3) * 2, 3)
            epsilon_0 = float(np.log(R[:, None] / R[None]).max())
            for data in itertools.combinations_with_replacement(range(3), users - 1):
                P, Q = (shuffled_law([R[own], *R[list(data)]]) for own in (0, 1))
                for epsilon in (0.1 * epsilon_0, 0.5 * epsilon_0):
                    assert delta_of(P, Q, epsilon) <= delta(epsilon, epsilon_0, users) + 1e-12


test_clones = check_clones


@claim(
    "clones-hold",
    subject=amp.shuffled_epsilon,
    mutants={"twice the users": lambda e0, n, d: amp.shuffled_epsilon(e0, 2 * n, d), "closed form": lambda e0, n, d: float(AMPLIFICATION(epsilon_0=e0, n=n, delta=d))},
)
def check_tight(bound):
    """bit_sum_delta over every number of ones at the two ends of the factor."""
    for n in (100, 215, 464, 1000):
        epsilon = bound(1.0, n, 1e-6)
        flip = 2 / (1 + math.e)
        assert bit_sum_delta(n, flip, epsilon / 1.3) <= 1e-6 < bit_sum_delta(n, flip, epsilon / 1.45)


POINTS = ((1_000, 0.5, 0.0737839), (10_000, 1.0, 0.0549682), (100_000, 1.0, 0.0155089), (100_000, 4.0, 0.1724341))

test_tight = check_tight


@claim(
    "amplification-known",
    subject=(amp.shuffled_epsilon, AMPLIFICATION_CODE),
    mutants={
        "one clone in two lost": (lambda e0, n, d: amp.shuffled_epsilon(e0, n // 2, d), AMPLIFICATION_CODE),
        "Theorem 3.1 for the code's form": (amp.shuffled_epsilon, AMPLIFICATION),
    },
)
def check_known(pair):
    numerical, form = pair
    for (n, epsilon_0, theirs), closed in zip(POINTS, (0.3348365, 0.2332656, 0.0752901, 0.5378040), strict=True):
        assert 0.95 * theirs < numerical(epsilon_0, n, 1e-6) < 0.99 * theirs
        assert float(form(epsilon_0=epsilon_0, n=n, delta=1e-6)) == pytest.approx(closed, abs=1e-7)


test_known = check_known


@claim(
    "amplification-closed-form",
    subject=amp.closed_form_epsilon,
    mutants={"a quarter": lambda *a: amp.closed_form_epsilon(*a) / 4, "the code's form": lambda e0, n, d: float(AMPLIFICATION_CODE(epsilon_0=e0, n=n, delta=d))},
)
def check_closed(closed):
    """Also refused beyond its domain."""
    ratios = [closed(e0, n, 1e-6) / amp.shuffled_epsilon(e0, n, 1e-6) for n, e0, _ in POINTS]
    assert min(ratios) == pytest.approx(3.15, abs=0.02) and max(ratios) == pytest.approx(4.75, abs=0.02)
    for n in (1_000, 3_000, 10_000, 30_000, 100_000):
        for epsilon_0 in (0.2, 0.5, 1.0):
            for delta in (1e-4, 1e-6):
                assert amp.shuffled_epsilon(epsilon_0, n, delta) <= closed(epsilon_0, n, delta)
    with pytest.raises(ValueError, match="epsilon_0"):
        amp.closed_form_epsilon(8.0, 1000, 1e-6)


test_closed = check_closed


def without_variation(epsilon, sigma, users, Delta=1.0):
    return min(amp.shuffled_delta(epsilon, float(e), users) for e in np.linspace(0.05, 8, 60))


def fewer_others(epsilon, sigma, users, Delta=1.0):
    """The other users' laws are not changed."""
    local = np.linspace(0.05, 8, 60)
    own = [gaussian_delta(Delta / sigma, float(e)) / (1 + math.exp(e)) for e in local]
    return min((1 + math.exp(epsilon)) * d + amp.shuffled_delta(epsilon, float(e), users) for e, d in zip(local, own, strict=True))


@claim(
    "amplification-approximate",
    subject=amp.gaussian_shuffled_delta,
    mutants={"no variation": without_variation, "half the noise claimed": lambda e, s, n, D=1.0: amp.gaussian_shuffled_delta(e, 2 * s, n, D), "others unchanged": fewer_others},
)
def check_approximate(delta):
    """Thresholding each message at the midpoint gives randomised response, whose exact delta is no larger; and the formula itself."""
    for sigma in (0.5, 0.8, 2.0):
        for users in (20, 60):
            flip = 2 * float(ndtr(-0.5 / sigma))
            for epsilon in (0.3, 0.6):
                assert bit_sum_delta(users, flip, epsilon) <= delta(epsilon, sigma, users)
    epsilon, sigma, n = 0.5, 1.0, 2000
    values = []
    for e0 in np.linspace(0.05, min(2 * math.log(n + 1.0) + 1, 30.0), 60):
        d0 = gaussian_delta(1 / sigma, float(e0))
        d1 = d0 / (1 + math.exp(e0))
        values.append(amp.shuffled_delta(epsilon, float(e0), n) + (1 + math.exp(epsilon)) * (d1 + (n - 1) * math.exp(-e0) * (d0 + d1)))
    assert delta(epsilon, sigma, n) == pytest.approx(min(1.0, *values), rel=1e-9)


test_approximate = check_approximate


# Trust -------------------------------------------------------------------------------------------------------------------------


@claim(
    "coalition",
    subject=bit_sum_delta,
    mutants={"all users still hide": lambda n, q, e: bit_sum_delta(n + 1, q, e), "nobody hides": lambda n, q, e: bit_sum_delta(1, q, e)},
)
def check_coalition(delta):
    """The exact joint law of the coalition's messages and the histogram of all, the worst data of the others."""
    q, epsilon = 0.5, 0.4
    for users, m in ((4, 1), (6, 2)):
        worst = 0.0
        for others in itertools.product((0, 1), repeat=users - 1):
            laws = []
            for own in (0, 1):
                p = [q / 2 + (1 - q) * b for b in (own, *others)]
                law = {}
                for sent in itertools.product((0, 1), repeat=users):
                    key = (sum(sent), sent[users - m :])
                    law[key] = law.get(key, 0.0) + math.prod(r if s else 1 - r for s, r in zip(sent, p, strict=True))
                laws.append(law)
            worst = max(worst, delta_of(*laws, epsilon))
        assert worst == pytest.approx(delta(users - m, q, epsilon), rel=1e-9)


test_coalition = check_coalition


def play(rule, bits, q, shared=False):
    """Exact law of both counts and all actions but user 0's: two batches of two users; the second batch acts on the first count (a
    broadcast). `shared`: user 1's action shows the noisy bit that user 1 sends."""
    law = {}
    keep = [q / 2 + (1 - q) * b for b in bits]
    for sent in itertools.product((0, 1), repeat=4):
        weight = math.prod(r if s else 1 - r for s, r in zip(sent, keep, strict=True))
        first, both = sum(sent[:2]), (sum(sent[:2]), sum(sent[2:]))
        own = sent[1] if shared else bits[1]
        seen = (*both, rule[1][0, 0, own], *(rule[j][first, 0, bits[j]] for j in (2, 3)))
        law[seen] = law.get(seen, 0.0) + weight
    return law


def honest(bits, q, rng):
    return play(rng.integers(0, 3, (4, 3, 3, 2)), bits, q)


def schedule_speaks(bits, q, rng):
    """User 0's raw bit decides who comes second."""
    order = (bits[0], bits[1], *(bits[2:] if bits[0] else bits[:1:-1]))
    return play(np.broadcast_to(np.arange(2), (4, 3, 3, 2)), order, q)


def one_coin_for_both(bits, q, rng):
    """User 1's action and message share their coin."""
    return play(rng.integers(0, 3, (4, 3, 3, 2)), bits, q, shared=True)


def refresh_on_raw_data(bits, q, rng):
    """The broadcast changes exactly if user 0's raw bit is 1."""
    return {(*key, bits[0]): weight for key, weight in honest(bits, q, rng).items()}


@claim("shuffle-implies-joint", subject=honest, mutants={"schedule from raw data": schedule_speaks, "refresh on raw data": refresh_on_raw_data, "one coin for action and message": one_coin_for_both})
def check_joint(actions):
    """200 random rules, actions and counts jointly; user 0 sits in one batch of two, so the sequence of views has the delta of that batch."""
    q, rng = 0.6, np.random.default_rng(3)
    for seed in range(200):
        others = tuple(rng.integers(0, 2, 3))
        for epsilon in (0.0, 0.3, 0.8):
            P, Q = (actions((own, *others), q, np.random.default_rng(seed)) for own in (0, 1))
            assert delta_of(P, Q, epsilon) <= bit_sum_delta(2, q, epsilon) + 1e-12


test_joint = check_joint
