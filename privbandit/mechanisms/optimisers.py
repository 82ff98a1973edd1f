"""Private optimisers: mechanisms that release an estimate of a generalised linear model from n users' (x, r).

Each iteration releases a noisy sum over all users (full batch: subsampled batches would need an account of their own, and none is
offered here), so the cost is closed-form: n never enters the noise. Rows x = 0 contribute nothing and may be used as padding.
Neighbours replace one user's row; whether a row takes part may differ between neighbours (a row against x = 0 costs less).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privbandit import validate
from privbandit.estimators.ball import minimise_quadratic
from privbandit.formulas.glm import JOINT_LEAF, TAU
from privbandit.ledger import Entry, Gaussian
from privbandit.linalg import floor_eigenvalues, outer, polar, smat, svec_size
from privbandit.links import Link

Array = np.ndarray
Projection = Callable[[Array], Array]


def predictions(x: Array, theta: Array) -> Array:
    """<x_i, theta> for x (R, n, d), theta (R, d): (R, n)."""
    return (x @ theta[:, :, None])[..., 0]


@dataclass(frozen=True)
class NoisyGradientDescent:
    """`steps` gradient steps, each on the sum of the users' gradients clipped to norm `L`, with noise `sigma`.

    Guarantee: mu-GDP in one user's row with mu = 2 L sqrt(steps) / sigma (adaptive composition of Gaussian releases); every iterate
    may be published. Step sizes, projections and the number of steps must not depend on the rows.
    Bounded rewards in an interval of length 1 have |gradient| <= |x| <= 1: L = 1 clips nothing.
    """

    link: Link
    steps: int
    sigma: float
    L: float = 1.0

    def __post_init__(self) -> None:
        validate.instance("link", self.link, Link)
        validate.positive_int("steps", self.steps), validate.nonnegative("sigma", self.sigma), validate.positive("L", self.L)

    @classmethod
    def calibrated(cls, link: Link, steps: int, mu: float, L: float = 1.0) -> NoisyGradientDescent:
        """The least noise for mu-GDP of the whole run (mu = inf: none)."""
        mu, L = validate.positive("mu", mu, allow_inf=True), validate.positive("L", L)
        return cls(link, steps, 2 * L * math.sqrt(validate.positive_int("steps", steps)) / mu, L)

    @property
    def event(self) -> Gaussian:
        return Gaussian(2 * self.L, self.sigma)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (Entry("noisy gradient", self.event, self.steps),)

    @property
    def mu(self) -> float:
        return self.event.mu * math.sqrt(self.steps)

    def gradient(self, theta: Array, x: Array, r: Array, noise: np.random.Generator) -> Array:
        """The released sum of clipped gradients (mu(<x, theta>) - r) x, (R, d)."""
        residual = self.link.mu(predictions(x, theta)) - r
        bound = self.L / np.maximum(polar(x)[1], np.finfo(float).tiny)  # no length is lost to underflow: the clip is the sensitivity
        return self.event.release((np.clip(residual, -bound, bound)[:, None] @ x)[:, 0], noise)

    def descend(
        self,
        x: Array,
        r: Array,
        start: Array,
        rates: Array,
        noise: np.random.Generator,
        *,
        ridge: float = 0.0,
        project: Projection | None = None,
        average_from: int = 0,
    ) -> Array:
        """theta_{k+1} = project(theta_k - rates_k (noisy gradient + ridge theta_k)); the mean of iterates k > `average_from`.

        x (R, n, d), r (R, n), start (R, d) released; rates (steps,), (steps, R, 1) or (steps, R, d).
        """
        x, r = finite_rows(x, r)
        theta, total = start, np.zeros_like(start)
        for k in range(self.steps):
            theta = theta - rates[k] * (self.gradient(theta, x, r, noise) + ridge * theta)
            theta = theta if project is None else project(theta)
            total = total + theta * (k >= average_from)
        return total / (self.steps - average_from)


def finite_rows(x: Array, r: Array) -> tuple[Array, Array]:
    """The users' rows x (R, n, d) and r (R, n), found finite; there may be none of them."""
    shape = np.shape(x)
    x = validate.array("x", x, shape if len(shape) == 3 else (None, None, None))
    return x, validate.array("r", r, x.shape[:2])


def _public(n: int, d: int, diameter: float) -> None:
    validate.positive_int("n", n), validate.positive_int("d", d), validate.positive("diameter", diameter)


def excess_loss_bound(optimiser: NoisyGradientDescent, n: int, d: int, diameter: float) -> float:
    """Bound on the expected excess (summed, unpenalised) loss of the averaged projected iterate with `theory_rate`."""
    _public(n, d, diameter)
    step_norm = math.sqrt(n**2 * optimiser.L**2 + d * optimiser.sigma**2)
    return diameter * step_norm / math.sqrt(optimiser.steps)


def theory_rate(optimiser: NoisyGradientDescent, n: int, d: int, diameter: float) -> float:
    """The constant step size of that bound; `n` must be a public bound on the number of users."""
    _public(n, d, diameter)
    return diameter / math.sqrt(optimiser.steps * (n**2 * optimiser.L**2 + d * optimiser.sigma**2))


@dataclass(frozen=True)
class NoisyNewton:
    """`steps` Newton steps on released statistics of the (quasi-)likelihood, |theta| <= S.

    A user's leaf in one step is (mu'(z) x x^T, (r - mu(z) + mu'(z) z) x), z = <x, theta>: Hessian, and Hessian times theta minus gradient.
    The response has a smaller range than the residual, and the two are released in one piece at the joint sensitivity `JOINT_LEAF`.

    Guarantee: mu-GDP in one user's row with mu = sqrt(D(1, tau) steps) / sigma, for |x| <= 1 and rewards in the link's
    (bounded) range: the caller shrinks and clips.
    """

    link: Link
    S: float
    steps: int
    sigma: float
    tau: float = TAU

    def __post_init__(self) -> None:
        validate.instance("link", self.link, Link), validate.positive("S", self.S)
        validate.positive_int("steps", self.steps), validate.nonnegative("sigma", self.sigma)
        if not np.isfinite(self.units).all():
            raise ValueError(f"link must have bounded rewards, got {self.link!r}")

    @classmethod
    def calibrated(cls, link: Link, S: float, steps: int, mu: float, tau: float = TAU) -> NoisyNewton:
        mu = validate.positive("mu", mu, allow_inf=True)
        Delta = math.sqrt(JOINT_LEAF(a=1.0, b=validate.positive("tau", tau)))
        return cls(link, S, steps, Delta * math.sqrt(validate.positive_int("steps", steps)) / mu, tau)

    @property
    def event(self) -> Gaussian:
        return Gaussian(math.sqrt(JOINT_LEAF(a=1.0, b=self.tau)), self.sigma)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (Entry("noisy Newton statistics", self.event, self.steps),)

    @property
    def mu(self) -> float:
        return self.event.mu * math.sqrt(self.steps)

    @cached_property
    def units(self) -> tuple[float, float]:
        """Bound of the Hessian's weight, and of the response over sqrt(tau)."""
        return self.link.L_mu(self.S), self.link.leaf_range(self.S) / math.sqrt(self.tau)

    def statistics(self, theta: Array, x: Array, r: Array, noise: np.random.Generator) -> tuple[Array, Array]:
        """Released Hessian (R, d, d) and response (R, d) at theta."""
        d, z, (W, Y) = x.shape[-1], np.clip(predictions(x, theta), -self.S, self.S), self.units
        w = self.link.dmu(z)
        hessian = (w[:, None] @ outer(x))[:, 0] / W
        response = ((r - self.link.mu(z) + w * z)[:, None] @ x)[:, 0] / Y
        released = self.event.release(np.concatenate([hessian, response], axis=1), noise)
        m = svec_size(d)
        return W * smat(released[:, :m], d), Y * released[:, m:]

    def fit(self, x: Array, r: Array, start: Array, noise: np.random.Generator, *, ridge: float) -> Array:
        """Minimiser over |theta| <= S of the last quadratic model; `ridge` > 0 should exceed the Hessian's noise."""
        x, r = finite_rows(x, r)
        theta = start
        for _ in range(self.steps):
            hessian, response = self.statistics(theta, x, r, noise)
            theta = minimise_quadratic(floor_eigenvalues(hessian + ridge * np.eye(x.shape[-1]), ridge / 3), response, self.S)
        return theta
