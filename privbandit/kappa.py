"""The constants kappa, kappa* and kappa-hat: how flat the link is where it matters.

kappa = 1 / min mu', kappa* = 1 / max mu' over |z| <= S are public: they need the bound S only. The instance constants, which need
the unknown parameter, serve analysis and oracle baselines and must not enter a private policy. Always kappa* <= kappa-hat <= kappa.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from privbandit.links import Link
from privbandit.validate import array, instance, positive, positive_int


def kappa(link: Link, S: float) -> float:
    """1 / min of mu' over |z| <= S. Raises ValueError where that exceeds the largest float (S > 709 logistic, S > 37 probit)."""
    least = instance("link", link, Link).c_mu(S)
    if least < 1 / np.finfo(float).max:
        raise ValueError(f"S must be at most {_largest(link, S):.4g} for kappa of the {link.name} link to be a float, got {S!r}")
    return 1 / least


def kappa_star(link: Link, S: float) -> float:
    """1 / max of mu' over |z| <= S."""
    return 1 / instance("link", link, Link).L_mu(S)


def _largest(link: Link, S: float) -> float:
    """The largest S whose kappa is a float, to four digits (rounded down), by bisection below one that is too large."""
    low, high = 0.0, min(S, 1024.0)  # no link of this package stays a float longer and then ceases to be one
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if link.c_mu(middle) >= 1 / np.finfo(float).max else (low, middle)
    return low * (1 - 1e-4)


def kappa_hat(link: Link, S: float, d: int, K: int, panels: int = 20) -> float:
    """1 / E mu'(<x*, theta*>) for K arms uniform in the unit ball and |theta*| = S, by quadrature to a relative 1e-10.

    <x, theta*> = S u with u the first coordinate of a uniform point of the ball: (1 + u) / 2 is Beta((d+1)/2, (d+1)/2), and the best of
    K arms has distribution function F(u)^K. With u = sin(phi) the density K F^{K-1} f du is smooth: Gauss-Legendre on `panels` equal
    parts, doubled until nothing changes. Raises ValueError where S, d or K is so large that this fails.
    """
    instance("link", link, Link), positive("S", S), positive_int("d", d), positive_int("K", K)
    before = _kappa_hat(link, S, d, K, positive_int("panels", panels))
    while panels < 1 << 14:
        panels *= 2
        now = _kappa_hat(link, S, d, K, panels)
        if abs(now - before) <= 1e-10 * now < np.inf:
            return now
        before = now
    raise ValueError(f"S, d and K must be smaller for the quadrature to converge, got S = {S!r}, d = {d!r}, K = {K!r}")


def _kappa_hat(link: Link, S: float, d: int, K: int, panels: int) -> float:
    node, weight = np.polynomial.legendre.leggauss(20)
    phi = (((np.arange(panels)[:, None] + (1 + node) / 2) / panels - 0.5) * np.pi).ravel()
    u = np.sin(phi)
    a = (d + 1) / 2
    mass = np.tile(weight, panels) * np.cos(phi) ** d * betainc(a, a, (1 + u) / 2) ** (K - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(mass.sum() / (mass @ link.dmu(S * u)))


class Estimate(NamedTuple):
    value: float
    standard_error: float


def kappa_hat_simulated(link: Link, theta: NDArray[np.float64], contexts: NDArray[np.float64]) -> Estimate:
    """kappa-hat of `theta` (d,) from drawn context sets (n, K, d), with its standard error (delta method)."""
    instance("link", link, Link)
    theta = array("theta", theta, (None,))
    contexts = array("contexts", contexts, (None, None, theta.size))
    slopes = link.dmu((contexts @ theta).max(axis=1))
    value = 1 / slopes.mean()
    error = slopes.std(ddof=1) / np.sqrt(len(slopes)) if len(slopes) > 1 else np.inf
    return Estimate(float(value), float(value**2 * error))
