"""The timing leak of Algorithm 2 as printed: accomplices tell from their own recommendations whether another user explored.

The exploration estimate changes after a round exactly if that round explored. Accomplices before and after it show the same arms: they
are recommended the same one if the estimate stayed, and another one if it was computed anew. What they see is actions of users other
than the one attacked, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privbandit.estimators.history import History
from privbandit.formulas import algorithm2 as theory
from privbandit.links import Link
from privbandit.mechanisms.optimisers import Array, NoisyGradientDescent, predictions
from privbandit.mechanisms.published_descent import PrintedDescent, Region
from privbandit.mechanisms.tree import Node, TreeMechanism, TreeState
from privbandit.policies.algorithm2_published import Algorithm2, State, generalised_growth
from privbandit.policies.base import Policy, choose

SHORT = 0.9
"""Length of the attacked user's arm when it does not explore; the arms of the accomplices are at most this long."""
WIDTH = math.sqrt(2 / (1 + SHORT**2))
"""gamma sqrt(kappa) |x|_{V^-1} of a unit arm after the warm-up: 1 is where exploration starts."""


def arcs(theta: Array, spread: float, K: int = 400) -> tuple[Array, Array]:
    """Two sets of K arms (K, 2) for the accomplices: which arms survive elimination depends on the estimate's length and direction.

    One arm points along `theta` (2,), the estimate that the accomplices expect. The others lie on an arc of half-width `spread` around the
    angle where elimination begins, slightly longer with the angle: of the survivors the last one is played. The second set is the mirror
    image of the first.
    """
    size, direction = float(np.linalg.norm(theta)), math.atan2(theta[1], theta[0])
    cosine = (0.85 * (size - WIDTH) / 0.89 - WIDTH) / size
    off = np.concatenate([[0.0], math.acos(np.clip(cosine, -1, 1)) + np.linspace(-spread, spread, K - 1)])
    length = np.concatenate([[0.85], np.linspace(0.88, SHORT, K - 1)])
    first, second = (length[:, None] * np.stack([np.cos(a), np.sin(a)], axis=1) for a in (direction + off, direction - off))
    return first, second


def spirals(K: int = 400) -> tuple[Array, Array]:
    """K arms (K, 2) all around the origin, slightly longer with the angle, and their negatives: for estimates whose direction is open."""
    angle = 2 * np.pi * np.arange(K) / K
    first = np.linspace(0.85, SHORT, K)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return first, -first


def watch(policy: Policy, state: NamedTuple, own: float, shown: tuple[Array, Array], noise: np.random.Generator) -> NDArray[np.intp]:
    """What four accomplices are recommended (4, R), two before and two after a user whose only arm is own e_1.

    The accomplices show the first and the second set of arms, twice; every reward is 0.
    """
    R, e1 = len(state.exploring), np.array([[1.0, 0.0]])
    seen = []
    for contexts in (*shown, own * e1, *shown):
        contexts = np.broadcast_to(contexts, (R, *contexts.shape))
        state, action = policy.act(state, contexts, noise)
        state = policy.update(state, choose(contexts, action), np.zeros(R), noise)
        seen.append(action)
    return np.array(seen)[[0, 1, 3, 4]]


def repeats(seen: NDArray[np.intp], within: int = 2) -> NDArray[np.bool_]:
    """The event (R,): both arms shown again were recommended again, up to `within` neighbours."""
    return np.all(np.abs(seen[:2] - seen[2:]) <= within, axis=0)


@dataclass(frozen=True)
class Counted(NoisyGradientDescent):
    """The same optimiser when the first two rows stand for `many` equal users each, and their rewards for the mean reward."""

    many: int = 1

    def gradient(self, theta: Array, x: Array, r: Array, noise: np.random.Generator) -> Array:
        weight = np.where(np.arange(x.shape[1]) < 2, float(self.many), 1.0)
        residual = weight * (self.link.mu(predictions(x, theta)) - r)  # |x| <= 1: there is nothing to clip at L = 1
        return self.event.release((residual[:, None] @ x)[:, 0], noise)


class Cold(PrintedDescent):
    """Starts from 0, so that a fit depends on no fit before it. (Print leaves the start open.)"""

    def fit(self, x: Array, r: Array, n: Array, start: Array, region: Region, noise: np.random.Generator) -> Array:
        return super().fit(x, r, n, np.zeros_like(start), region, noise)


def warmed_up(policy: Algorithm2, R: int, noise: np.random.Generator, theta: Array) -> tuple[Algorithm2, State]:
    """The policy and its state after n users with the arm e_1 and n with e_2, which all explored.

    n is as large as leaves |x| = `SHORT` below the threshold of exploration and |x| = 1 above it. Exact in law: equal rows are counted
    rather than stored, each tree holds the nodes that are open after 2n rounds, and fits start from 0, so that the last one is enough.
    """
    n = math.floor((1 + SHORT**2) / 2 / policy.threshold - policy.lambda_)
    if not 1 <= n or 2 * n + 5 > policy.horizon or 2 * n >= policy.caps[0]:
        raise ValueError(f"policy must allow 2 n + 5 rounds of which 2 n explore, n = {n}, horizon = {policy.horizon}, cap = {policy.caps[0]}")
    rewards = noise.binomial(n, policy.link.mu(theta), size=(R, 2)) / n
    printed = policy.fits[0]
    fit = Cold(Counted(**vars(printed.optimiser), many=n), printed.lambda_)
    policy, empty = replace(policy, fits=(fit, policy.fits[1])), History.empty(R, 2)
    state = policy.init(R, noise)
    history = empty.append(np.tile([1.0, 0.0], (R, 1)), rewards[:, 0]).append(np.tile([0.0, 1.0], (R, 1)), rewards[:, 1])
    leaf = np.array([1.0, 0.0, 1.0]) / 2  # of an average round: e_1 and e_2 alternate
    trees = tuple(advanced(tree, R, 2 * n, share * leaf, noise) for tree, share in zip(policy.trees, (1.0, 0.0), strict=True))
    V, H = (policy.regularised(np.asarray(t.open[-1].prefix)) for t in trees)
    state = state._replace(trees=trees, V=V, H=H, history=(history, empty), rows=np.array([np.full(R, 2.0 * n), np.zeros(R)]))
    every = np.arange(R)
    theta_o = policy.refit(0, every, state, noise)
    due = generalised_growth(H, state.H_tau) > policy.growth  # by the tree's noise alone
    state = state._replace(theta_o=theta_o, calls=np.array([np.full(R, 2 * n), np.zeros(R, dtype=int)]), due=due)
    return policy, policy.prepared(state, noise)


def advanced(tree: TreeMechanism, R: int, steps: int, leaf: Array, noise: np.random.Generator) -> TreeState:
    """The tree after `steps` equal increments `leaf`: one fresh noise for each subtree that is open."""
    nodes: tuple[Node, ...] = ()
    prefix = np.zeros((R, leaf.size))
    for level in reversed([k for k in range(steps.bit_length()) if steps >> k & 1]):
        exact = np.tile(2.0**level * leaf, (R, 1))
        estimate = tree.node.release(exact, noise)
        prefix = prefix + estimate
        nodes = (*nodes, Node(level, exact, estimate, prefix))
    return TreeState(steps, (R, leaf.size), nodes)


def with_room(link: Link, S: float, epsilon: float, delta: float, steps: int) -> Algorithm2:
    """Algorithm 2 in the plane with its theoretical constants (zeta = delta), and with about the least horizon that leaves room for the warm-up."""
    horizon = 1000
    while True:
        policy = Algorithm2.printed(link, 2, S, horizon, epsilon, delta, delta, steps)
        needed = math.ceil(2 / (SHORT**2 * policy.threshold))  # 2 n + 5 < 2 / (.9 threshold)
        if needed <= horizon:
            return policy
        horizon = math.ceil(1.02 * needed)


def tuned(policy: Algorithm2, lambda_: float, gamma: float) -> Algorithm2:
    """The same with ridge and width as hyper-parameters; caps, budget a call and threshold follow from gamma as printed."""
    fit = policy.fits[0]
    cap = math.floor(theory.COUNT1(d=policy.d, R=1.0, kappa=policy.kappa, gamma=gamma, T=policy.horizon))
    rho = theory.CALL_RHO(epsilon=policy.epsilon, delta=policy.delta, count=cap)
    fits = PrintedDescent.of(policy.link, rho, lambda_, fit.optimiser.steps), policy.fits[1]
    threshold = theory.THRESHOLD(gamma=gamma, kappa=policy.kappa, R=1.0)
    return replace(policy, lambda_=lambda_, gamma=gamma, threshold=threshold, caps=(cap, policy.caps[1]), fits=fits)


def hits(policy: Algorithm2, own: float, shown: Callable[[Array], tuple[Array, Array]], runs: int, seed: int) -> int:
    """How often, in `runs` runs, both arms are recommended again if the user in the middle has the arm own e_1.

    `shown` gives the accomplices' two sets of arms from the estimate that they expect.
    """
    noise = np.random.default_rng(seed)
    policy, state = warmed_up(policy, runs, noise, np.array([0.0, policy.S]))
    return int(repeats(watch(policy, state, own, shown(np.median(state.theta_o, axis=0)), noise)).sum())
