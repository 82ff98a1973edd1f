"""The realised privacy loss of one changed user, from a replay.

One run is recorded. Then one user's contexts and reward function are replaced and the run is played again, except that every
noised statistic is answered as it was released before. All actions but the changed user's must coincide (that one too under
central privacy, where everything that happens is to be private), and what the statistics moved, in units of their noise, must cost at most what the ledger claims. The proof that this bounds the
privacy loss on every transcript is in the book; a replay looks at the transcripts and the neighbours it is given.

Out of reach: noise drawn before the data are seen (`SquareRootFFT`: use `covariance`), noise whose cost is not in proportion to a
shift (Wishart), and privacy that comes from the shuffle itself (`ShuffledReports`): a replay would price the reports alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit.audit.base import Finding
from privbandit.audit.recorder import Leak, Recorder, Replayer
from privbandit.ledger import ApproximateDP, Entry, GaussianDP, Ledger
from privbandit.mechanisms.base import PrefixSums
from privbandit.policies.base import Policy, choose

Array = NDArray[np.float64]


class Users(NamedTuple):
    """T users in each of R replications: contexts (T, R, K, d), and the reward (T, R, K) that each arm would give."""

    contexts: Array
    rewards: Array

    def replace(self, at: NDArray[np.intp], contexts: Array, rewards: Array) -> Users:
        """The neighbour in which user at[r] of replication r has contexts (R, K, d) and rewards (R, K) instead."""
        new, every = Users(self.contexts.copy(), self.rewards.copy()), np.arange(len(at))
        new.contexts[at, every], new.rewards[at, every] = contexts, rewards
        return new


class Neighbours(NamedTuple):
    """Two inputs that differ in user at[r] of replication r."""

    users: Users
    other: Users
    at: NDArray[np.intp]

    def apart(self) -> list[Neighbours]:
        """The replications one by one, for policies that release for all replications when one of them is due."""
        return [
            Neighbours(*(Users(*(a[:, [r]] for a in users)) for users in (self.users, self.other)), self.at[[r]])
            for r in range(len(self.at))
        ]


def play(policy: Policy, users: Users, noise: Recorder | Replayer, seed: int) -> NDArray[np.intp]:
    """The actions (T, R); the policy's own randomness is fixed by `seed`."""
    rng, R = np.random.default_rng(seed), users.contexts.shape[1]
    state, actions = policy.init(R, noise), []
    for contexts, rewards in zip(*users, strict=True):
        state, action = policy.act(state, contexts, rng)
        state = policy.update(state, choose(contexts, action), rewards[np.arange(R), action], noise)
        actions.append(action)
    return np.array(actions)


def replay(policy: Policy, pair: Neighbours, seed: int = 0) -> Replayer:
    """The realised cost of every replication; raises `Leak` if another user's action or the schedule of releases changed."""
    recorder = Recorder(len(pair.at), seed)
    before = play(policy, pair.users, recorder, seed)
    replayer = Replayer(recorder)
    after = play(policy, pair.other, replayer, seed)
    replayer.finish()
    own = (np.arange(len(before))[:, None] == pair.at) & (policy.ledger.trust != "central")
    if np.any((before != after) & ~own):
        t, r = np.argwhere((before != after) & ~own)[0]
        raise Leak(f"the action of round {t} depends on the raw data of user {pair.at[r]}")
    return replayer


def replay_sums(mechanism: PrefixSums, increments: Array, other: Array, seed: int = 0) -> Replayer:
    """The same for prefix sums of two sequences of increments (T, R, size)."""
    recorder = Recorder(increments.shape[1], seed)
    before = prefixes(mechanism, increments, recorder)
    replayer = Replayer(recorder)
    after = prefixes(mechanism, other, replayer)
    replayer.finish()
    if not np.allclose(before, after, rtol=1e-9, atol=1e-9 * mechanism.Delta):
        raise Leak("a published prefix depends on raw data")
    return replayer


def prefixes(mechanism: PrefixSums, increments: Array, noise: Recorder | Replayer) -> Array:
    state, out = mechanism.init(*increments.shape[1:], noise), []
    for increment in increments:
        state, prefix = mechanism.release(state, increment, noise)
        out.append(prefix)
    return np.array(out)


def realised_epsilon(cost: Replayer, claim: Ledger, delta: float) -> float:
    """epsilon at `delta` of the dearest replication, converted as the claim itself is (same uncovered mass, same spent delta)."""
    spent = sum(e.count * e.event.delta for e in claim.entries)
    ledgers = (
        Ledger(claim.unit, claim.trust, (Entry("Gaussian", GaussianDP(mu, claim.tau)), Entry("pure", ApproximateDP(epsilon, spent))))
        for mu, epsilon in zip(cost.mu, cost.epsilon, strict=True)
    )
    return max(one.epsilon(delta) for one in ledgers)


def judge(claim: Ledger, delta: float, run) -> Finding:
    """The finding of a replay `run()`."""
    try:
        lower, note = realised_epsilon(run(), claim, delta), ""
    except Leak as leak:
        lower, note = np.inf, str(leak)
    return Finding(claim.epsilon(delta), delta, lower, note=note)
