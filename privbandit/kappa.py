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
from privbandit.validate import array, positive, positive_int


def kappa(link: Link, S: float) -> float:
    """1 / min of mu' over |z| <= S."""
    return 1 / link.c_mu(S)


def kappa_star(link: Link, S: float) -> float:
    """1 / max of mu' over |z| <= S."""
    return 1 / link.L_mu(S)


def kappa_hat(link: Link, S: float, d: int, K: int, nodes: int = 400) -> float:
    """1 / E mu'(<x*, theta*>) for K arms uniform in the unit ball and |theta*| = S, by quadrature.

    <x, theta*> = S u with u the first coordinate of a uniform point of the ball: (1 + u) / 2 is Beta((d+1)/2, (d+1)/2), and the best of
    K arms has distribution function F(u)^K. With u = sin(phi) the density K F^{K-1} f du is smooth, so Gauss-Legendre converges fast.
    """
    positive("S", S), positive_int("d", d), positive_int("K", K)
    node, weight = np.polynomial.legendre.leggauss(nodes)
    phi = node * np.pi / 2
    u = np.sin(phi)
    density = np.cos(phi) ** d
    a = (d + 1) / 2
    mass = weight * density * betainc(a, a, (1 + u) / 2) ** (K - 1)
    return float(mass.sum() / (mass @ link.dmu(S * u)))


class Estimate(NamedTuple):
    value: float
    standard_error: float


def kappa_hat_simulated(link: Link, theta: NDArray[np.float64], contexts: NDArray[np.float64]) -> Estimate:
    """kappa-hat of `theta` (d,) from drawn context sets (n, K, d), with its standard error (delta method)."""
    theta = array("theta", theta, (None,))
    contexts = array("contexts", contexts, (None, None, theta.size))
    slopes = link.dmu((contexts @ theta).max(axis=1))
    value = 1 / slopes.mean()
    error = slopes.std(ddof=1) / np.sqrt(len(slopes)) if len(slopes) > 1 else np.inf
    return Estimate(float(value), float(value**2 * error))
