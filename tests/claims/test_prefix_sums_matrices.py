"""Private prefix sums of symmetric matrices: coordinates, sensitivity and the norm of the noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

from privbandit.formulas.linear import MATRIX_NORM
from privbandit.linalg import outer, smat, svec
from privbandit.sensitivity import OUTER, outer_distance
from privbandit.spectra import sample_eigenvalues

from .claim import claim


def upper(M):
    """The upper triangle without its weights."""
    return M[..., *np.triu_indices(M.shape[-1])]


@claim("svec-isometry", subject=svec, mutants={"no root of two": upper, "all entries twice": lambda M: np.sqrt(2) * upper(M)})
def check_svec(svec):
    """sympy for d = 3 (the squared norms agree as polynomials), and d = 1 to 6 numerically with the inverse."""
    a = sp.symbols("a0:6")
    M = sp.Matrix([[a[0], a[1], a[2]], [a[1], a[3], a[4]], [a[2], a[4], a[5]]])
    scale = svec(np.ones((3, 3)))
    squares = sum(sp.nsimplify(round(w**2, 9)) * x**2 for w, x in zip(scale, a, strict=True))
    assert sp.expand(squares - sum(x**2 for x in M)) == 0
    for d in range(1, 7):
        G = np.random.default_rng(d).standard_normal((5, d, d))
        G = G + np.swapaxes(G, 1, 2)
        assert np.allclose(np.linalg.norm(svec(G), axis=-1), np.linalg.norm(G, axis=(1, 2)))
        assert np.allclose(smat(svec(G), d), G)


test_svec = check_svec


def spread(divisor):
    """svec-covariance of (Z + Z^T)/divisor for independent standard normal entries Z, d = 3, from the definition."""
    def covariance(d):
        columns = [svec((E + E.T) / divisor) for E in np.eye(d * d).reshape(-1, d, d)]
        return np.array(columns).T @ np.array(columns)

    return covariance


@claim("symmetrised-noise", subject=spread(2.0), mutants={"divided by the root of two": spread(math.sqrt(2)), "not divided": spread(1.0)})
def check_symmetrised(covariance):
    """Exact covariance in svec coordinates for d = 1 to 5, hence mu = |D|_F / s; the divergence of two such laws symbolically for d = 2."""
    for d in range(1, 6):
        assert np.allclose(covariance(d), np.eye(d * (d + 1) // 2))
    s = sp.Symbol("s", positive=True)
    p, q, r = sp.symbols("p q r", real=True)
    law = sp.diag(s**2, s**2 / 2, s**2)  # (Z + Z^T)/2: diagonal, off-diagonal, diagonal
    D = sp.Matrix([p, q, r])
    frobenius = p**2 + 2 * q**2 + r**2
    assert sp.simplify((D.T * law.inv() * D)[0] - frobenius / s**2) == 0


test_symmetrised = check_symmetrised


def scaled(name, factor):
    return {**OUTER, name: replace(OUTER[name], expression=factor * OUTER[name].expression)}


@claim(
    "frobenius-sensitivity",
    subject=OUTER,
    mutants={"operator norm": scaled("replace", 1 / sp.sqrt(2)), "triangle inequality": scaled("replace", sp.sqrt(2)), "one relation": {**OUTER, "add-remove": OUTER["replace"]}},
)
def check_frobenius(formulas):
    """All pairs from a grid of lengths and 64 directions in the plane (the worst pair spans a plane), and random pairs in five dimensions."""
    angle = np.arange(64) * np.pi / 32
    x = np.concatenate([r * np.stack([np.cos(angle), np.sin(angle)], -1) for r in (0.0, 0.3, 0.7, 1.0)])
    distance = outer_distance(x[:, None], x[None, :])
    assert np.allclose(distance, np.linalg.norm(outer(x)[:, None] - outer(x)[None, :], axis=-1), atol=1e-7)
    assert distance.max() == pytest.approx(float(formulas["replace"]()), rel=1e-9)
    assert np.linalg.norm(outer(x), axis=-1).max() == pytest.approx(float(formulas["add-remove"]()), rel=1e-9)
    y = np.random.default_rng(4).standard_normal((2, 2000, 5))
    y /= np.linalg.norm(y, axis=-1, keepdims=True)
    weight = np.random.default_rng(5).random((2, 2000, 1))
    assert np.all(np.linalg.norm(weight[0] * outer(y[0]) - weight[1] * outer(y[1]), axis=-1) <= float(formulas["replace"]()))


test_frobenius = check_frobenius


@claim(
    "matrix-noise-norm",
    subject=MATRIX_NORM,
    mutants={
        "no tail": lambda d, sigma, zeta: sigma * math.sqrt(2 * d),
        "half": lambda d, sigma, zeta: MATRIX_NORM(d=d, sigma=sigma, zeta=zeta) / 2,
        "quarter of the dimension": lambda d, sigma, zeta: MATRIX_NORM(d=d / 4, sigma=sigma, zeta=zeta),
    },
)
def check_norm(bound):
    """n = 5,000 matrices for each d in 1, 3, 10, 20; seed 6; zeta = 0.05. Passes while the failure rate is below zeta: the true rates are
    below .01, so a false alarm is more than 20 standard errors away; the mutants' rates at one d at least are above .1, 10 standard errors
    on the other side. Mean: E lambda_max <= sqrt(2 d) within 5 standard errors."""
    n, zeta = 5_000, 0.05
    for d in (1, 3, 10, 20):
        eigenvalues = sample_eigenvalues(d, 1.0, n, np.random.default_rng(6))
        rate = np.mean(np.abs(eigenvalues).max(1) > float(bound(d=d, sigma=1.0, zeta=zeta)))
        assert rate <= zeta
        top = eigenvalues[:, -1]
        assert top.mean() <= math.sqrt(2 * d) + 5 * top.std() / math.sqrt(n)


test_norm = check_norm
