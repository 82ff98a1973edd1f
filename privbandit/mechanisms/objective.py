"""Objective perturbation: release the exact minimiser of a randomly tilted penalised likelihood."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from privbandit import validate
from privbandit.ledger import ApproximateDP, Entry, Gaussian
from privbandit.links import Link, Logistic, Probit
from privbandit.mechanisms.optimisers import finite_rows, predictions

Array = np.ndarray


@dataclass(frozen=True)
class ObjectivePerturbation:
    """argmin of sum_i loss_i(theta) + lambda/2 |theta|^2 + <b, theta> with b ~ N(0, sigma^2 I); rewards in [0, 1], |x_i| <= 1.

    Guarantee: (epsilon, delta)-DP of one user's row under replacement, for the exact minimiser in exact arithmetic, with
    delta = 2 Q(a/2), a = sigma (epsilon - log(1 + L/lambda)) - 2/sigma >= sqrt(12), L = sup mu' on the line.

    Proof. theta -> b(theta) = -grad is a diffeomorphism, so the density at theta is N(b(theta); 0, sigma^2) det H(theta). Replacing a row
    multiplies det H by at most 1 + L/lambda (matrix determinant lemma, rank one up, rank one down) and moves b(theta) by
    v = c x - c' x' with |c|, |c'| <= 1, so the log-ratio is at most log(1 + L/lambda) + (|<b, x>| + |<b, x'>|)/sigma^2 + 2/sigma^2.
    |<b, x>| + |<b, x'>| is the larger of |<b, x + x'>| and |<b, x - x'>|, two Gaussians whose variances add up to at most 4 sigma^2; the
    chance that one of them passes a sigma is largest when one variance is 0, by convexity of v -> Q(a / sqrt(v)) on [0, a^2/3]. QED
    The coefficient c depends on theta, hence on b: the Gaussian mechanism's account would be wrong here (Redberg et al. 2023).
    """

    link: Link
    epsilon: float
    delta: float
    lambda_: float

    def __post_init__(self) -> None:
        if not isinstance(self.link, Logistic | Probit):
            raise ValueError(f"link must be logistic or probit (mu in (0, 1), mu' bounded), got {self.link!r}")
        validate.positive("epsilon", self.epsilon), validate.positive("lambda_", self.lambda_)
        if not 0 < validate.probability("delta", self.delta) <= 0.08:
            raise ValueError(f"delta must be at most 0.08, got {self.delta!r}")
        if self.slack <= 0:
            raise ValueError(f"lambda_ must exceed {self.link.L_mu(1.0) / math.expm1(self.epsilon):.6g} for epsilon = {self.epsilon}, got {self.lambda_!r}")

    @property
    def slack(self) -> float:
        """epsilon that the determinant leaves."""
        return self.epsilon - math.log1p(self.link.L_mu(1.0) / self.lambda_)

    @property
    def sigma(self) -> float:
        """The root of sigma slack - 2/sigma = a."""
        a = -2 * ndtri(self.delta / 2)
        return (a + math.sqrt(a**2 + 8 * self.slack)) / (2 * self.slack)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (Entry("objective perturbation", ApproximateDP(self.epsilon, self.delta)),)

    def fit(self, x: Array, r: Array, noise: np.random.Generator) -> Array:
        """The released minimiser (R, d) for x (R, n, d), r (R, n)."""
        x, r = finite_rows(x, r)
        tilt = Gaussian(2.0, self.sigma).release(np.zeros((len(x), x.shape[-1])), noise)
        return tilted_minimiser(self.link, x, r, self.lambda_, tilt)


def tilted_minimiser(link: Link, x: Array, r: Array, lambda_: float, tilt: Array, tolerance: float = 1e-12) -> Array:
    """argmin of sum_i loss_i + lambda/2 |theta|^2 + <tilt, theta> for tilt (R, d), by Newton steps halved until the objective falls."""

    def objective(theta: Array) -> Array:
        return link.loss(predictions(x, theta), r).sum(axis=1) + np.einsum("rd,rd->r", tilt + lambda_ / 2 * theta, theta)

    theta, value = np.zeros_like(tilt), objective(np.zeros_like(tilt))
    for _ in range(200):
        z = predictions(x, theta)
        gradient = ((link.mu(z) - r)[:, None] @ x)[:, 0] + lambda_ * theta + tilt
        hessian = (x * link.dmu(z)[..., None]).swapaxes(1, 2) @ x + lambda_ * np.eye(x.shape[-1])
        step = -np.linalg.solve(hessian, gradient[..., None])[..., 0]
        if np.all(np.abs(step) <= tolerance * (1 + np.abs(theta))):
            return theta + step
        size = np.ones((len(theta), 1))
        for _ in range(60):
            new = objective(theta + size * step)
            worse = new > value + 1e-12 * (1 + np.abs(value))
            if not worse.any():
                break
            size[worse] /= 2
        theta, value = theta + size * step, new
    raise RuntimeError("the tilted objective was not minimised in 200 Newton steps")
