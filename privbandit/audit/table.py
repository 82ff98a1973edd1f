"""All audits by name: those of the mechanisms, one line each, and those of the policies."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from privbandit.accounting import gaussian_sigma
from privbandit.audit import checks
from privbandit.audit.base import Audit, AuditResult
from privbandit.audit.policies import POLICIES
from privbandit.audit.twins import OneLevelTooFew, OneRow, OneRowFFT, QuietSums, RootOnly, Undefined
from privbandit.ledger import ApproximateDP, Gaussian, Laplace
from privbandit.mechanisms import HonakerTree, PerUser, PrefixSums, SquareRoot, SquareRootFFT, TreeMechanism
from privbandit.mechanisms.shuffle.bits import BitSum
from privbandit.mechanisms.shuffle.sums import ScalarSum, VectorSum
from privbandit.mechanisms.wishart import WishartTree

MU = 0.5


def sums(
    name: str,
    cls: type[PrefixSums],
    *twins: type[PrefixSums],
    replay_only: tuple[type[PrefixSums], ...] = (),
    horizon: int = 16,
    replayed: bool = True,
) -> list[Audit]:
    """The three audits of a prefix-sum mechanism; twins are given as classes that claim to be calibrated."""
    built = partial(cls.calibrated, horizon, MU)
    broken = (lambda: QuietSums.of(built()), *(partial(twin.calibrated, horizon, MU) for twin in twins))
    nonlinear = tuple(partial(twin.calibrated, horizon, MU) for twin in replay_only)  # the other two methods take mechanisms as linear
    return [
        Audit(f"{name}-covariance", "covariance", checks.covariance, partial(cls.calibrated, 8 * horizon, MU), broken),
        *([Audit(f"{name}-replay", "replay", checks.sums_replay, built, broken + nonlinear)] if replayed else []),
        Audit(f"{name}-attack", "attack", checks.sums_attack, built, broken[:1]),
    ]


def half_flips() -> BitSum:
    right = BitSum.calibrated(40, 1.0, 1e-3)
    return replace(right, flip=right.flip / 2)


def grid_forgotten() -> ScalarSum:
    return replace(ScalarSum.calibrated(20, 4, 1.0, 1e-3), bits=ScalarSum.calibrated(20, 1, 1.0, 1e-3).bits)


def pairs_summed() -> VectorSum:
    return VectorSum.calibrated(8, (-1.0, -1.0), (1.0, 1.0), 2.0, 1.0, 1e-6)


def few_coins() -> VectorSum:
    """Claims what the certificate says of four times the noise bits."""
    right = pairs_summed()
    return replace(right, bits=right.bits // 4, claim=ApproximateDP(right.ledger.epsilon(1e-3), 1e-4))


def one_wishart() -> WishartTree:
    return WishartTree.calibrated(1, 1.0, 1e-2, d=2)


_MECHANISMS = [
    Audit(
        "gaussian-enumeration",
        "enumeration",
        checks.noise_at(10.0, 1e-6),
        lambda: Gaussian(1.0, gaussian_sigma(10.0, 1e-6)),
        (lambda: Gaussian(1.0, math.sqrt(2 * math.log(1.25e6)) / 10),),  # the classical formula outside its domain
    ),
    Audit(
        "laplace-enumeration",
        "enumeration",
        checks.noise_at(1.0, 1e-6),
        lambda: Laplace(1.0, 1.0),
        (lambda: Laplace(2.0, 1.0),),  # a sensitivity for add/remove used under replacement
    ),
    Audit("bit-sum-enumeration", "enumeration", checks.bit_sum, lambda: BitSum.calibrated(40, 1.0, 1e-3), (half_flips,)),
    Audit(
        "scalar-sum-enumeration", "enumeration", checks.scalar_sum, lambda: ScalarSum.calibrated(20, 4, 1.0, 1e-3), (grid_forgotten,)
    ),
    Audit("vector-sum-enumeration", "enumeration", checks.vector_sum, pairs_summed, (few_coins,)),
    Audit("wishart-attack", "attack", checks.wishart_attack(1.0, 1e-2), one_wishart, (lambda: replace(one_wishart(), degrees=4),)),
    *sums("tree", TreeMechanism, OneLevelTooFew, RootOnly),
    *sums("honaker", HonakerTree),
    *sums("square-root", SquareRoot, OneRow),
    *sums("square-root-fft", SquareRootFFT, OneRowFFT, replayed=False),  # draws its noise before it sees data: nothing to replay
    *sums("local", PerUser, replay_only=(Undefined,)),
]

AUDITS: dict[str, Audit] = {audit.name: audit for audit in (*_MECHANISMS, *POLICIES)}


def matching(name: str | None = None) -> list[str]:
    """Names of the audits called `name`, or `name` and a method ("tree" is tree-covariance, tree-replay, tree-attack); all for None."""
    found = [one for one in AUDITS if name is None or one == name or one == f"{name}-{AUDITS[one].method}"]
    if not found:
        raise ValueError(f"name must be one of {', '.join(AUDITS)}, got {name!r}")
    return found


def run(name: str, seed: int = 0) -> AuditResult:
    """Run one audit by its full name."""
    if name not in AUDITS:
        raise ValueError(f"name must be one of {', '.join(AUDITS)}, got {name!r}")
    return AUDITS[name](seed)
