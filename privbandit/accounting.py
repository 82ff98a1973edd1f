"""Exact conversions for Gaussian differential privacy and its classical cousins.

mu-GDP (Dong, Roth and Su): as hard to tell apart as N(0, 1) and N(mu, 1). One Gaussian release with sensitivity Delta and
noise sigma is exactly (Delta/sigma)-GDP; adaptive compositions add mu in quadrature; rho-zCDP of a Gaussian is mu^2 / 2.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, erfinv, log_ndtr, ndtr, ndtri_exp

from privbandit import validate
from privbandit.formulas.privacy import CLASSICAL_SIGMA, ZCDP_EPSILON, ZCDP_RHO

LARGE = 100.0
"""From here on epsilon and mu take formulas that keep their digits; stored runs below it were made with the others, digit by digit."""


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The smallest delta for which mu-GDP implies (epsilon, delta)-DP.

    mu >= 0 (inf allowed), epsilon >= 0. Exact: Balle and Wang (2018, Theorem 8); evaluated in the log domain.

    >>> round(gaussian_delta(1.0, 1.0), 12)
    0.126936737507
    """
    mu = validate.nonnegative("mu", mu, allow_inf=True)
    epsilon = validate.nonnegative("epsilon", epsilon, allow_inf=True)
    if mu == 0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(mu):
        return 1.0
    if mu > LARGE:
        upper = float((Fraction(mu) ** 2 / 2 - Fraction(epsilon)) / Fraction(mu))  # exact: the two parts cancel
        return math.exp(_log_delta(mu, upper)) if upper > -39 else 0.0
    upper, lower = -epsilon / mu + mu / 2, -epsilon / mu - mu / 2
    if upper < -39:  # less than the smallest positive float
        return 0.0
    if mu < 1:
        return _small_mu_delta(mu, upper)
    if upper > 0:
        return float(max(0.0, ndtr(upper) - math.exp(min(700.0, epsilon + log_ndtr(lower)))))
    log_first, log_second = log_ndtr(upper), epsilon + log_ndtr(lower)
    return float(math.exp(log_first) * -math.expm1(min(0.0, log_second - log_first)))


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)  # on intervals shorter than 1: exact to rounding


def _small_mu_delta(mu: float, upper: float) -> float:
    """`gaussian_delta` without its cancellation for small mu.

    With m the Mills ratio, delta = phi(upper) (m(-upper) - m(mu - upper)), since e^epsilon phi(lower) = phi(upper); and
    m'(s) = s m(s) - 1, so the difference is an integral of the positive 1 - s m(s) over an interval of length mu.
    """
    s = mu * (1 + _NODES) / 2 - upper
    slope = 1 - s * math.sqrt(math.pi / 2) * erfcx(s / math.sqrt(2))
    return float(math.exp(-upper * upper / 2) / math.sqrt(2 * math.pi) * mu / 2 * (_WEIGHTS @ slope))


def _log_delta(mu: float, upper: float) -> float:
    """log of `gaussian_delta` at upper = mu/2 - epsilon/mu, for mu >= 1: e^epsilon Phi(lower) = phi(upper) m(-lower) is never formed."""
    log_density = -upper * upper / 2 - math.log(2 * math.pi) / 2
    tail = _mills(mu - upper)
    if upper > 0:
        return math.log(ndtr(upper) - math.exp(log_density) * tail)
    return log_density + math.log(_mills(-upper) - tail)


def _mills(s: float) -> float:
    return math.sqrt(math.pi / 2) * erfcx(s / math.sqrt(2))


def _delta(delta: float) -> float:
    """A delta whose tail probabilities are floats with all their digits."""
    if validate.probability("delta", delta) < 1e-300:
        raise ValueError(f"delta must be in [1e-300, 1), got {delta!r}")
    return float(delta)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which mu-GDP implies (epsilon, delta)-DP; infinite for epsilon = inf.

    epsilon > 0, 1e-300 <= delta < 1. Relative error below 1e-12 (1e-11 for epsilon below 1e-40).

    >>> round(1 / gaussian_mu(1.0, 1e-5), 9)
    3.730631635
    """
    epsilon, delta = validate.positive("epsilon", epsilon, allow_inf=True), _delta(delta)
    if math.isinf(epsilon):
        return math.inf
    if epsilon > LARGE:
        return _large_mu(epsilon, math.log(delta))

    def excess(log_mu: float) -> float:
        value = gaussian_delta(math.exp(log_mu), epsilon)
        return (math.log(value) if value > 0 else -1e6) - math.log(delta)

    low, high = math.log(epsilon) - 20.0, math.log(math.sqrt(2 * epsilon) + 60.0)
    return math.exp(brentq(excess, low, high, xtol=1e-14, rtol=1e-14, maxiter=500))


def _large_mu(epsilon: float, log_delta: float) -> float:
    """`gaussian_mu` where log mu has too few digits: in w = log(mu / sqrt(2 epsilon)) upper is sqrt(2 epsilon) sinh(w)."""
    root = math.sqrt(2) * math.sqrt(epsilon)
    reach = math.asinh(40 / root)  # |upper| <= 40 covers every delta
    excess = lambda w: _log_delta(root * math.exp(w), root * math.sinh(w)) - log_delta  # noqa: E731
    return root * math.exp(brentq(excess, -reach, reach, xtol=1e-300, rtol=1e-15, maxiter=2000))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon >= 0 for which mu-GDP implies (epsilon, delta)-DP; infinite for mu = inf.

    mu >= 0, 1e-300 <= delta < 1. Also infinite where it exceeds the largest float (mu > 1.89e154).

    >>> round(gaussian_epsilon(1 / 3.73063163481594, 1e-5), 9)
    1.0
    """
    mu, delta = validate.nonnegative("mu", mu, allow_inf=True), _delta(delta)
    if mu == 0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if mu > 1e18:  # the rest is below the last digit
        return mu / 2 * mu
    if mu > LARGE:
        # in the ratio epsilon / mu
        excess = lambda ratio: _log_delta(mu, mu / 2 - ratio) - math.log(delta)  # noqa: E731
        return mu * float(brentq(excess, 0.0, mu / 2 + 40, xtol=1e-300, rtol=1e-15, maxiter=2000))
    high = mu**2 / 2 + mu * math.sqrt(-2 * math.log(delta)) + 1e-9  # the zCDP conversion is an upper bound
    return float(brentq(lambda e: gaussian_delta(mu, e) - delta, 0.0, high, xtol=1e-300, rtol=1e-13, maxiter=2000))


def gaussian_sigma(epsilon: float, delta: float, Delta: float = 1.0) -> float:
    """The smallest noise standard deviation that makes one Gaussian release of L2 sensitivity Delta (epsilon, delta)-DP."""
    return validate.positive("Delta", Delta) / gaussian_mu(epsilon, delta)


def classical_sigma(epsilon: float, delta: float, Delta: float = 1.0) -> float:
    """The textbook calibration Delta sqrt(2 ln(1.25/delta)) / epsilon, proved for epsilon < 1 only: refused elsewhere.

    For large epsilon it under-noises (epsilon = 10, delta = 1e-6: 0.530 where 0.541 is needed).
    """
    epsilon = validate.positive("epsilon", epsilon)
    if epsilon >= 1:
        raise ValueError(f"epsilon must be < 1 for the classical Gaussian calibration, got {epsilon!r}; use gaussian_sigma")
    return float(CLASSICAL_SIGMA(epsilon=epsilon, delta=validate.probability("delta", delta), Delta=validate.positive("Delta", Delta)))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """epsilon of the simple conversion from rho-zCDP (Bun and Steinke 2016): an upper bound, never used for calibration here."""
    return float(ZCDP_EPSILON(rho=validate.positive("rho", rho), delta=validate.probability("delta", delta)))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The rho whose simple conversion gives (epsilon, delta)."""
    return float(ZCDP_RHO(epsilon=validate.positive("epsilon", epsilon), delta=validate.probability("delta", delta)))


def pure_to_mu(epsilon: float) -> float:
    """The smallest mu for which every epsilon-DP mechanism is mu-GDP: -2 Phi^{-1}(1/(1+e^epsilon)).

    epsilon-DP is dominated by randomised response; its trade-off function lies above that of N(0,1) against N(mu,1)
    exactly when the symmetric point (1/(1+e^epsilon), 1/(1+e^epsilon)) does.
    """
    epsilon = validate.positive("epsilon", epsilon)
    if epsilon < 1:  # the same, without cancellation
        return float(2 * math.sqrt(2) * erfinv(math.tanh(epsilon / 2)))
    return float(-2 * ndtri_exp(-np.logaddexp(0.0, epsilon)))


def compose_mu(*mus: float) -> float:
    """The GDP parameter of an adaptive composition: the root of the sum of squares."""
    return math.hypot(*(validate.nonnegative("mu", m, allow_inf=True) for m in mus)) if mus else 0.0
