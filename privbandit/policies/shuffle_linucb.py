"""LinUCB in the shuffle model (Chowdhury and Zhou 2022): batches of users, one shuffled sum a batch, a fixed policy within it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from privbandit import validate
from privbandit.ledger import Ledger
from privbandit.linalg import svec_size
from privbandit.mechanisms.shuffle.certificate import target
from privbandit.mechanisms.shuffle.reports import ShuffledReports
from privbandit.mechanisms.shuffle.sums import PlainSum, VectorSum, symmetric_range
from privbandit.policies.base import Array
from privbandit.policies.linucb import LinearState, LinUCB
from privbandit.sensitivity import joint_leaf
from privbandit.spectra import NoiseBounds, vector_norm

PROTOCOLS = ("vector", "amplified")


class BatchMemory(NamedTuple):
    step: int  # users served
    running: Array  # (R, size) summed encodings of the batch in play; never read before the shuffler has it all
    released: Array  # (R, size) noisy sum of all finished batches


@dataclass(frozen=True, kw_only=True)
class ShuffleLinUCB(LinUCB):
    """LinUCB whose leaves (x x', weight y x) reach the server as one shuffled sum per batch of `batch` users.

    `protocol`: a `VectorSum` of bits (P_Vec) or `ShuffledReports` of noisy vectors (P_Amp). With a fixed `alpha`, `shift` replaces the
    shift that keeps the matrix positive definite with high probability.

    *Guarantee.* (epsilon, delta)-shuffle DP of one user (features of all arms and rewards), neighbours by replacement, a trusted
    shuffler: each user is in one batch and one sum, and later batches post-process what was released; by the billboard lemma also joint
    DP. Unconditional: features are shrunk to the unit ball and rewards clipped. Coverage (theory width): as `LinUCB`, with noise bounds
    that use only the sub-Gaussian proxy of the sums. Differs from the paper: one joint sum where it spends epsilon/2 on each of x x' and
    y x, exact calibration, svec encoding, and a regulariser in [bound, 3 bound], where a shift by the bound alone leaves none.
    """

    protocol: VectorSum | ShuffledReports | PlainSum
    horizon: int
    shift: float | None = None
    trust = "shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.blocks != 1:
            raise ValueError(f"blocks must be 1 for shuffled sums, got {self.blocks}")
        validate.positive_int("horizon", self.horizon), validate.instance("protocol", self.protocol, VectorSum, ShuffledReports, PlainSum)
        needed = joint_leaf(self.weight * self.Y)
        if not isinstance(self.protocol, PlainSum) and self.protocol.Delta < needed * (1 - 1e-12):
            raise ValueError(f"protocol.Delta must be at least {needed:.6g}, the sensitivity of a leaf, got {self.protocol.Delta!r}")
        if self.shift is not None:
            validate.nonnegative("shift", self.shift)

    @classmethod
    def calibrated(
        cls,
        epsilon: float,
        delta: float,
        *,
        d: int,
        horizon: int,
        protocol: str = "vector",
        batch: int | None = None,
        Y: float = 1.0,
        zeta: float = 0.05,
        **fields: Any,
    ) -> ShuffleLinUCB:
        """The theory's widths; `batch` defaults to horizon^(3/5), rounded up."""
        batch = math.ceil(validate.positive_int("horizon", horizon) ** 0.6) if batch is None else validate.positive_int("batch", batch)
        weight = 1 / validate.positive("Y", Y)
        sums = make_protocol(protocol, batch, d, epsilon, delta)
        draft = cls(d=d, Y=Y, zeta=zeta, weight=weight, protocol=sums, horizon=horizon, **fields)
        return replace(draft, ridge=max(draft.ridge, draft.bounds.high))

    @classmethod
    def practical(cls, epsilon: float, delta: float, *, alpha: float = 0.1, ridge: float = 1.0, **fields: Any) -> ShuffleLinUCB:
        """Exactly as private, with a small fixed width and a shift of 1.5 typical noise norms: no coverage claimed."""
        draft = cls.calibrated(epsilon, delta, alpha=alpha, ridge=ridge, **fields)
        norm = draft.protocol.std * math.sqrt(draft.batches * 2 * draft.d)
        return replace(draft, ridge=max(ridge, norm / 2), shift=max(ridge, 1.5 * norm))

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"shuffle LinUCB ({'P_Amp' if isinstance(self.protocol, ShuffledReports) else 'P_Vec'})"

    @property
    def batch(self) -> int:
        return self.protocol.users

    @property
    def batches(self) -> int:
        """Sums that are released: the last, unfinished or unused one is not."""
        return max(1, (self.horizon - 1) // self.batch)

    @property
    def ledger(self) -> Ledger:
        if isinstance(self.protocol, PlainSum):
            return Ledger.nonprivate()
        return Ledger("one user (features of all arms, rewards)", "shuffle", self.protocol.entries)

    @cached_property
    def bounds(self) -> NoiseBounds:
        return subgaussian_bounds(self.protocol.proxy * math.sqrt(self.batches), self.d, self.zeta / (2 * self.batches))

    @property
    def added(self) -> float:
        return super().added if self.shift is None else self.shift

    def update(self, state: LinearState, x: Array, reward: Array, noise: np.random.Generator) -> LinearState:
        memory = state.memory
        step = memory.step + 1
        if step > self.batches * self.batch:
            return state  # nothing later would read it, so it is not released
        running = memory.running + self.protocol.encode(self.leaf(x, reward), noise)
        if step % self.batch:
            return state._replace(memory=BatchMemory(step, running, memory.released))
        released = memory.released + self.protocol.release(running, noise)
        return self._estimate(BatchMemory(step, np.zeros_like(running), released), released)

    def _open(self, R: int, noise: np.random.Generator) -> BatchMemory:
        zeros = np.zeros((R, self.size))
        counts = zeros.astype(np.int64) if isinstance(self.protocol, VectorSum) else zeros
        return BatchMemory(0, counts, zeros)


def make_protocol(
    protocol: str, users: int, d: int, epsilon: float, delta: float, tau: float = 1.0
) -> VectorSum | ShuffledReports | PlainSum:
    """The shuffled sum of leaves (svec(x x'), sqrt(tau) y x) with |x| <= 1 and |y| <= 1; a plain sum for epsilon = inf."""
    validate.one_of("protocol", protocol, PROTOCOLS)
    if math.isinf(validate.positive("epsilon", epsilon, allow_inf=True)):
        return PlainSum(users)
    Delta = joint_leaf(math.sqrt(tau))
    if protocol == "amplified":
        return ShuffledReports.calibrated(users, epsilon, delta, Delta)
    return leaf_sum(users, d, epsilon, delta, tau, Delta)


def leaf_sum(users: int, d: int, epsilon: float, delta: float, tau: float, Delta: float) -> VectorSum:
    """A vector sum for leaves (svec(w x x'), sqrt(tau) y x), w in [0, 1], |y| <= 1, that one replacement moves by at most `Delta`."""
    low, high, _ = symmetric_range(d)
    edge = np.full(d, math.sqrt(tau))
    mu, slack = target(epsilon, delta, svec_size(d) + d)
    return VectorSum.calibrated(users, np.append(low, -edge), np.append(high, edge), Delta, mu, slack)


def subgaussian_bounds(proxy: float, d: int, zeta: float) -> NoiseBounds:
    """Bounds for a matrix and a vector of independent coordinates with sub-Gaussian parameter `proxy`, zeta / 2 for each.

    The norm of n such coordinates is at most proxy (sqrt(n) + sqrt(2 log(1/zeta))) (Hsu, Kakade and Zhang 2012, Theorem 1); the operator
    norm of a matrix is at most the norm of its svec.
    """
    norm = vector_norm(svec_size(d), proxy, zeta / 2)
    return NoiseBounds(-norm, norm, vector_norm(d, proxy, zeta / 2))
