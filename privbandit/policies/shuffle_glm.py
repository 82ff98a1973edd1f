"""Algorithm 1 of Sarmasarkar (2026): a shuffle-private generalised linear bandit for stochastic contexts, as printed and corrected."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from privbandit import validate
from privbandit.estimators.glm import fit_glm
from privbandit.estimators.history import History
from privbandit.formulas.shuffle import GAMMA, NORM_BOUND, PUBLISHED_NU
from privbandit.ledger import Ledger
from privbandit.linalg import floor_eigenvalues, into_ball, outer, smat, svec_size
from privbandit.mechanisms.shuffle.certificate import target
from privbandit.mechanisms.shuffle.gradient_descent import ShuffleGradientDescent, published_rounds
from privbandit.mechanisms.shuffle.sums import PlainSum, VectorSum, matrix_sum
from privbandit.policies.base import Array
from privbandit.policies.batched import BatchedElimination, BatchState, Models
from privbandit.policies.ldp_glm import gradient_bound
from privbandit.spectra import vector_norm

REFERENCE = 10_000  # users at which the width that sizes the first batch is computed: noise hardly depends on it beyond
UNIT = "one user (context set and reward function)"


class Protocol(NamedTuple):
    """What the users of one batch run, and the numbers that turn its output into a confidence set."""

    matrix: VectorSum | PlainSum
    optimiser: ShuffleGradientDescent | None  # None: an exact fit, where epsilon is infinite
    loss_ridge: float  # of the loss: lambda_max, or lambda in print
    ridge: float  # lambda, added to the released matrix
    least: float  # lambda_min, where eigenvalues are floored
    gamma: float  # width in the norm of the matrix


@dataclass(frozen=True, kw_only=True)
class ShuffleGLM(BatchedElimination):
    """Batched elimination with a shuffled matrix sum and a shuffle-private optimiser in each batch.

    `form` "printed" takes the scales of the paper: epsilon/2, delta/2 for each part, the vector-sum constants of Cheu et al. (2022),
    matrix noise and ridge scaled by 1/kappa* in every batch, the loss ridge lambda, gamma with the printed nu. `form` "corrected":
    one certified Gaussian account for both parts (`share` of mu^2 to the matrix); leaf x x^T of size 1 in the first batch and
    w x x^T, w <= sup mu', afterwards, each with its own ridge; the loss ridge lambda_max, which the confidence step needs; lambda_min
    from matrix Chernoff, 8 L log(d M T^2); nu that holds with high probability. `rounds` of the optimiser (default: the printed number,
    at most 200). `width` multiplies every gamma: 1 is the theory, which is vacuous below T of 10^7 to 10^20.

    *Guarantee.* (epsilon, delta)-shuffle DP of one user, neighbours by replacement, a trusted shuffler: a user is in one batch, in one
    matrix sum and in every round of one optimiser; what other batches do is post-processing. Elimination, design, draw and weight run on
    the user's device, from the broadcast models and the own record, so joint DP follows by the billboard lemma. Both forms keep it:
    "printed" by the published theorems and advanced composition (epsilon up to about 8), "corrected" by the certificate.
    """

    epsilon: float
    delta: float
    form: str = "corrected"
    zeta: float = 0.05
    width: float = 1.0
    share: float = 0.5
    rounds: int | None = None
    trust = "shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate.positive("epsilon", self.epsilon, allow_inf=True), validate.probability("delta", self.delta)
        validate.one_of("form", self.form, ("printed", "corrected"))
        for name in ("zeta", "share"):
            validate.probability(name, getattr(self, name))
        validate.nonnegative("width", self.width)
        if self.rounds is not None:
            validate.positive_int("rounds", self.rounds)

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"shuffle GLM ({self.form})"

    @cached_property
    def gamma(self) -> float:
        return self.protocol(min(self.horizon, REFERENCE), first=False).gamma

    @cached_property
    def most_batches(self) -> int:
        """A public bound on the number of batches, for union bounds."""
        return 2 + math.ceil(math.log2(2 + math.log2(max(self.horizon, 2))))

    @cached_property
    def protocols(self) -> tuple[Protocol, ...]:
        """One for every batch that is released (all but the last)."""
        return tuple(self.protocol(self.length(k), first=k == 0) for k in range(len(self.ends) - 1))

    def protocol(self, users: int, first: bool) -> Protocol:
        if math.isinf(self.epsilon):
            least = self._least(self.weight_bound(first))
            return Protocol(PlainSum(users), None, least, least, least, self._width(least, least, 1e-300))
        return self._printed(users, first) if self.form == "printed" else self._corrected(users, first)

    def weight_bound(self, first: bool) -> float:
        """Largest weight of a leaf: 1 in the first batch, the largest slope of the link in the others."""
        return 1.0 if first else self.link.L_mu(self.S)

    def _least(self, W: float) -> float:
        """lambda_min: what matrix Chernoff asks for when leaves weigh at most W."""
        return 8 * W * math.log(self.d * self.most_batches * max(self.horizon, 2) ** 2)

    def _rounds(self, users: int) -> int:
        return published_rounds(users, self.d, self.epsilon, self.delta, 200) if self.rounds is None else self.rounds

    def _printed(self, users: int, first: bool) -> Protocol:
        half, R, L_mu = (self.epsilon / 2, self.delta / 2), self.reward_bound, self.link.L_mu(self.S)
        D = svec_size(self.d)
        sums = VectorSum.published(users, D, *half, radius=self.weight_bound(first))
        sigma = VectorSum.published(users, D, *half, radius=L_mu).proxy
        bound = float(NORM_BOUND(sigma=sigma, d=self.d, M=self.most_batches, T=self.horizon, delta=self.delta))
        least = 20 * self.d * R * max(math.log(self.horizon), 1.0)
        ridge = least + bound
        L = R * (1 + self.S)
        optimiser = ShuffleGradientDescent.published(users, self.d, self.S, *half, L=L, ridge=ridge, most_rounds=self._rounds(users))
        nu = float(PUBLISHED_NU(R=R, S=self.S, d=self.d, T=self.horizon, delta=self.delta, epsilon=self.epsilon))
        return Protocol(sums, optimiser, ridge, ridge, least, self._width(least, ridge + bound, nu))

    def _corrected(self, users: int, first: bool) -> Protocol:
        rounds, d = self._rounds(users), self.d
        mu, slack = target(self.epsilon, self.delta, svec_size(d) + d * rounds)
        W = self.weight_bound(first)
        sums = matrix_sum(users, d, mu * math.sqrt(self.share), slack, W)
        failure = self.zeta / (2 * self.most_batches)
        bound = vector_norm(svec_size(d), sums.proxy, failure)
        least = self._least(W)
        most = least + 2 * bound
        L = gradient_bound(self.link, self.S)
        edge = np.full(d, L)
        gradients = VectorSum.calibrated(users, -edge, edge, 2 * L, mu * math.sqrt((1 - self.share) / rounds), slack)
        optimiser = ShuffleGradientDescent(gradients, rounds, self.S, L, ridge=most)
        return Protocol(sums, optimiser, most, least + bound, least, self._width(least, most, optimiser.excess(failure)))

    def _width(self, least: float, most: float, nu: float) -> float:
        R = max(self.reward_bound, self.self_concordance)
        return float(GAMMA(R=R, S=self.S, T=max(self.horizon, 2), d=self.d, lambda_min=least, lambda_max=most, nu=nu))

    @property
    def ledger(self) -> Ledger:
        """Of the batch that costs most at `delta`; a user is in one only."""
        if math.isinf(self.epsilon):
            return Ledger.nonprivate()
        protocols = self.protocols or (self.protocol(self.length(0), first=True),)
        ledgers = [Ledger(UNIT, "shuffle", (*p.matrix.entries, *p.optimiser.entries)) for p in protocols]
        return max(ledgers, key=lambda ledger: ledger.epsilon(self.delta))

    def design_ridge(self, batch: int) -> float:
        least = self.protocols[batch].least if batch < len(self.protocols) else self.protocols[-1].least if self.protocols else 1.0
        return least / self.length(batch)

    def open(self, R: int) -> History:
        return History.empty(R, self.d)

    def gather(self, state: BatchState, x: Array, reward: Array, noise: np.random.Generator) -> History:
        return state.gathered.append(into_ball(x, 1.0), np.clip(reward, *self.link.reward_range(self.S)))

    def close(self, state: BatchState, noise: np.random.Generator) -> tuple[Models, History]:
        x, r, protocol = state.gathered.x, state.gathered.r, self.protocols[state.batch]
        w = np.minimum(self.scales(state.models, x), self.link.L_mu(self.S)) if state.batch else np.ones(r.shape)
        released = protocol.matrix.sum(w[..., None] * outer(x), noise)
        H = floor_eigenvalues(smat(released, self.d) + protocol.ridge * np.eye(self.d), protocol.least)

        def gradient(theta: Array) -> Array:
            return (self.link.mu((x @ theta[:, :, None])[..., 0]) - r)[..., None] * x

        if protocol.optimiser is None:
            theta = fit_glm(self.link, x, r, protocol.loss_ridge, radius=self.S).theta
        else:
            theta = protocol.optimiser.run(gradient, len(x), noise)
        width = self.width * protocol.gamma * (1.0 if state.batch else math.sqrt(self.kappa))
        return state.models.append(theta, np.linalg.inv(H), width), self.open(len(x))
