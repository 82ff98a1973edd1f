"""The audits of policies. A new policy is one line: a name, how it is built, and the users it is played to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privbandit.audit import checks, users
from privbandit.audit.base import Audit
from privbandit.audit.replay import Neighbours, Users
from privbandit.audit.twins import Claiming, Peek, Quiet
from privbandit.features.kernels import SquaredExponential
from privbandit.features.quadrature import equispaced_features
from privbandit.ledger import ApproximateDP, Entry, Ledger
from privbandit.links import Logistic
from privbandit.mechanisms import TreeMechanism
from privbandit.policies.algorithm2 import RepairedAlgorithm2
from privbandit.policies.algorithm2_published import Algorithm2
from privbandit.policies.base import Policy
from privbandit.policies.best_of_both import BestOfBoth
from privbandit.policies.doubling import Doubling
from privbandit.policies.ldp_glm import LDPGLM
from privbandit.policies.ldp_linucb import LDPLinUCB
from privbandit.policies.linear_self_weighted import LinearSelfWeighted
from privbandit.policies.noisy_gp_ucb import joint_gp_ucb, local_gp_ucb
from privbandit.policies.one_release import OneRelease
from privbandit.policies.private_elimination import PrivateElimination
from privbandit.policies.private_linucb import PrivateLinUCB
from privbandit.policies.private_ucb import PrivateUCB
from privbandit.policies.self_weighted import SelfWeighted
from privbandit.policies.shuffle_glm import ShuffleGLM
from privbandit.policies.shuffle_linucb import ShuffleLinUCB
from privbandit.policies.shuffle_one_sum import ShuffleOneSum
from privbandit.policies.two_block import Scale, TwoBlock

Pair = Callable[[np.random.Generator], Neighbours]
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
FEATURES = equispaced_features(SquaredExponential(0.5), 3, 1)
GLM = {"link": Logistic(), "d": 2, "S": 2.0, **BUDGET}


def replayed(name: str, build: Callable[[], Policy], pair: Pair, apart: bool = False, twins: tuple[Callable[[], Policy], ...] = ()) -> Audit:
    """The replay of a policy on inputs from `pair`; its twins draw a third of the noise, or peek at one raw bit, unless given."""
    twins = twins or (lambda: Quiet(build()), lambda: Peek(build()))
    return Audit(f"{name}-replay", "replay", checks.policy_replay(pair, apart), build, twins)


def attacked(name: str, build: Callable[[], Policy], pair: Pair) -> Audit:
    """The attack on a policy's actions; its twin draws next to no noise."""
    return Audit(f"{name}-attack", "attack", checks.policy_attack(pair), build, (lambda: Quiet(build(), factor=1e6),))


def armed(T: int, K: int, R: int = 64) -> Pair:
    return lambda rng: users.armed(T, R, K, rng)


def loud(rng: np.random.Generator) -> Neighbours:
    """Eight users with the same two arms, e1 and e2, and reward 0 but for the first, who is paid -1 or 1: the index of e1 shows it."""
    same = users.armed(8, 1, 2, rng, -1.0, 1.0)
    quiet = Users(same.users.contexts, np.zeros_like(same.users.rewards))
    return Neighbours(*(quiet.replace(same.at, np.eye(2)[None], np.full((1, 2), y)) for y in (-1.0, 1.0)), same.at)


def linear(T: int, d: int, low: float = 0.0) -> Pair:
    return lambda rng: users.linear(T, 72, 3, d, rng, low)


def shrunk(T: int, d: int) -> Pair:
    """The changed user's contexts become a thousandth as long: what asks whether arms are well known now answers otherwise."""

    def pair(rng: np.random.Generator) -> Neighbours:
        drawn = users.linear(T, 12, 3, d, rng)
        own = drawn.at, np.arange(12)
        return Neighbours(drawn.users, drawn.users.replace(drawn.at, 1e-3 * drawn.users.contexts[own], drawn.users.rewards[own]), drawn.at)

    return pair


def eager_algorithm2(T: int) -> Policy:
    """Tuned so that few rounds see both streams, and the estimates that the budget pays for."""
    return RepairedAlgorithm2(**GLM, horizon=T, caps=(1, 1), growth=1.05, reach=1e-3)


def printed_algorithm2() -> Policy:
    """The algorithm as published, with the guarantee that its paper states: it refits when the served user's contexts are long."""
    claim = Ledger("one round's user", "joint", (Entry("all releases", ApproximateDP(**BUDGET)),))
    return Claiming(Algorithm2.printed(**GLM, horizon=8), claim)


POLICIES = [
    replayed("private-ucb", lambda: PrivateUCB.calibrated(**BUDGET, K=3, horizon=16), armed(16, 3)),
    attacked("private-ucb", lambda: PrivateUCB.calibrated(8.0, 1e-6, K=2, horizon=8), armed(8, 2, R=1)),
    replayed("private-elimination", lambda: PrivateElimination.calibrated(4.0, K=2, zeta=0.9), armed(300, 2, R=6), apart=True),
    replayed("private-linucb", lambda: PrivateLinUCB.calibrated(**BUDGET, d=2, horizon=16), linear(16, 2, -1.0)),
    replayed(
        "private-linucb-tree", lambda: PrivateLinUCB.calibrated(**BUDGET, d=2, horizon=16, mechanism=TreeMechanism), linear(16, 2, -1.0)
    ),
    attacked("private-linucb", lambda: PrivateLinUCB.practical(8.0, 1e-6, d=2, horizon=8), loud),
    replayed("private-linucb-published", lambda: PrivateLinUCB.published(**BUDGET, d=2, horizon=16), linear(16, 2, -1.0)),
    replayed("local-linucb", lambda: LDPLinUCB.practical(**BUDGET, d=2, horizon=16), linear(16, 2, -1.0)),
    replayed("shuffle-linucb", lambda: ShuffleLinUCB.practical(**BUDGET, d=2, horizon=16, batch=4), linear(16, 2, -1.0)),
    replayed(
        "doubling", lambda: Doubling(lambda T: PrivateLinUCB.practical(**BUDGET, d=2, horizon=T), first=2, phases=4), linear(16, 2, -1.0)
    ),
    replayed("one-release", lambda: OneRelease(**GLM, horizon=16), linear(16, 2)),
    replayed("two-block-explore", lambda: TwoBlock(**GLM, horizon=16), linear(16, 2)),
    replayed("two-block-exploit", lambda: TwoBlock(**GLM, horizon=16, scale=Scale(gamma=1e-6)), linear(16, 2)),
    replayed("self-weighted", lambda: SelfWeighted(**GLM, horizon=16, scale=Scale(gamma=1e-6)), linear(16, 2)),
    replayed("best-of-both", lambda: BestOfBoth(**GLM, horizon=16, scale=Scale(gamma=1e-6)), linear(16, 2)),
    replayed("linear-self-weighted", lambda: LinearSelfWeighted(**BUDGET, d=2, S=1.0, horizon=16), linear(16, 2, -2.0)),
    replayed("shuffle-glm", lambda: ShuffleGLM(**GLM, horizon=16, first_batch=4, rounds=3), linear(16, 2)),
    replayed("shuffle-one-sum", lambda: ShuffleOneSum(**GLM, horizon=16), linear(16, 2)),
    replayed("local-glm", lambda: LDPGLM(**GLM), linear(16, 2)),
    replayed("algorithm2", lambda: eager_algorithm2(16), linear(16, 2), apart=True),
    replayed("algorithm2-refresh", lambda: eager_algorithm2(8), shrunk(8, 2), apart=True, twins=(printed_algorithm2,)),
    replayed("gp-joint", lambda: joint_gp_ucb(FEATURES, 16, **BUDGET), linear(16, 1, -1.0)),
    replayed("gp-local", lambda: local_gp_ucb(FEATURES, 16, **BUDGET), linear(16, 1, -1.0)),
]
