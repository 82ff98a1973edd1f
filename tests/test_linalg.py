"""Batched linear algebra against one matrix at a time."""

import numpy as np
import pytest
from scipy import stats

from privbandit import linalg

SHAPES = [(1, 1), (1, 3), (4, 2), (3, 5)]


def symmetric(R, d, seed=0):
    M = np.random.default_rng(seed).normal(size=(R, d, d))
    return M + np.swapaxes(M, 1, 2)


def positive(R, d, seed=0):
    M = np.random.default_rng(seed).normal(size=(R, d, d))
    return M @ np.swapaxes(M, 1, 2) + 0.1 * np.eye(d)


@pytest.mark.parametrize("R, d", SHAPES)
def test_svec_is_an_isometry_and_smat_its_inverse(R, d):
    A, B = symmetric(R, d), symmetric(R, d, seed=1)
    assert linalg.svec(A).shape == (R, linalg.svec_size(d))
    assert np.allclose(np.sum(linalg.svec(A) * linalg.svec(B), axis=1), np.trace(A @ B, axis1=1, axis2=2))
    assert np.allclose(linalg.smat(linalg.svec(A), d), A, rtol=1e-15)


@pytest.mark.parametrize("R, d", SHAPES)
def test_outer_is_the_svec_of_the_outer_product(R, d):
    x = np.random.default_rng(2).normal(size=(R, 4, d))
    assert np.allclose(linalg.outer(x), linalg.svec(x[..., :, None] * x[..., None, :]))


def test_noise_in_svec_coordinates_is_the_symmetrised_noise():
    """Variance 1 on the diagonal, 1/2 off it, as (Z + Z')/2 has. n = 40000: the limits are 5 standard errors (sqrt(2/n) = 0.7 %)."""
    z = np.random.default_rng(4).standard_normal((40_000, linalg.svec_size(3)))
    variance = linalg.smat(z, 3).var(axis=0)
    wanted = np.where(np.eye(3) == 1, 1.0, 0.5)
    assert np.all(np.abs(variance / wanted - 1) < 5 * np.sqrt(2 / 40_000))


@pytest.mark.parametrize("R, d", SHAPES)
def test_forms_and_solutions(R, d):
    M, rng = positive(R, d), np.random.default_rng(3)
    x, b = rng.normal(size=(R, 6, d)), rng.normal(size=(R, d))
    for r in range(R):
        assert np.allclose(linalg.quadratic(x, M)[r], [v @ M[r] @ v for v in x[r]])
        assert np.allclose(linalg.quadratic(b, M)[r], b[r] @ M[r] @ b[r])
        assert np.allclose(linalg.inverse_norm(x, M)[r], [np.sqrt(v @ np.linalg.solve(M[r], v)) for v in x[r]])
        assert np.allclose(M[r] @ linalg.solve(M, b)[r], b[r])


@pytest.mark.parametrize("R, d", SHAPES)
def test_floor_lifts_low_eigenvalues_only(R, d):
    M = symmetric(R, d)
    lifted = linalg.floor_eigenvalues(M, 0.5)
    for before, after in zip(M, lifted, strict=True):
        assert np.allclose(np.linalg.eigvalsh(after), np.maximum(np.linalg.eigvalsh(before), 0.5))
        assert np.allclose(after @ before, before @ after)  # same eigenvectors


def test_floor_leaves_good_matrices_to_the_bit():
    M = positive(5, 3)
    M[2] -= 10 * np.eye(3)
    lifted = linalg.floor_eigenvalues(M, np.full(5, 0.05))
    assert np.array_equal(np.delete(lifted, 2, 0), np.delete(M, 2, 0)) and not np.array_equal(lifted[2], M[2])
    assert linalg.floor_eigenvalues(M[:2], 0.05) is M[:2] or np.array_equal(linalg.floor_eigenvalues(M[:2], 0.05), M[:2])


def test_floor_may_differ_between_replications():
    M = np.zeros((3, 2, 2))
    lifted = linalg.floor_eigenvalues(M, np.array([0.5, 1.0, 2.0]))
    assert np.allclose(lifted, np.array([0.5, 1.0, 2.0])[:, None, None] * np.eye(2))


def test_svec_noise_is_normal_in_every_direction():
    """<A, smat(z)> ~ N(0, |A|_F^2) for a fixed symmetric A: n = 20000, Kolmogorov-Smirnov at level 1e-6."""
    A = symmetric(1, 3, seed=5)[0]
    z = np.random.default_rng(6).standard_normal((20_000, linalg.svec_size(3)))
    inner = np.einsum("rij,ij->r", linalg.smat(z, 3), A)
    assert stats.kstest(inner / np.linalg.norm(A), "norm").pvalue > 1e-6


@pytest.mark.parametrize("name, call", [
    ("v", lambda: linalg.smat(np.arange(6.0), 2)),
    ("v", lambda: linalg.smat(np.arange(3.0), 3)),
    ("M", lambda: linalg.svec(np.ones((2, 3)))),
    ("M", lambda: linalg.svec(np.ones(3))),
    ("d", lambda: linalg.svec_size(-1)),
    ("floor", lambda: linalg.floor_eigenvalues(np.eye(2)[None], -1.0)),
    ("floor", lambda: linalg.floor_eigenvalues(np.eye(2)[None], np.nan)),
    ("M", lambda: linalg.floor_eigenvalues(np.full((1, 2, 2), np.nan), 1.0)),
    ("M", lambda: linalg.floor_eigenvalues(np.full((1, 2, 2), np.inf), 1.0)),
])  # fmt: skip
def test_odd_arguments_are_named(name, call):
    with pytest.raises(ValueError, match=f"^{name} must "):
        call()


@pytest.mark.parametrize("d", [1, 2, 30])
def test_polar_keeps_its_length_where_squares_do_not(d):
    """Lengths from the smallest float to the largest: a direction of length 1, and the vector is direction times length."""
    direction = np.full(d, 0.9999)
    direction[0] = 1.01
    v = np.concatenate([np.geomspace(1e-163, 1e-160, 300), [1e-300, 1e-20, 1.0, 1e160, 1e300]])[:, None] * direction
    unit, length = linalg.polar(v)
    assert np.allclose(np.linalg.norm(unit, axis=1), 1, rtol=1e-15)
    assert np.allclose(length[:, None] * unit, v, rtol=1e-14, atol=0)
    with np.errstate(over="ignore"):
        naive = np.linalg.norm(v, axis=1)
    assert np.abs(naive[:300] / length[:300] - 1).max() > 0.1 and np.isinf(naive[-1])  # why it is not v / |v|


def test_polar_of_zero_and_of_the_smallest_float():
    unit, length = linalg.polar(np.array([[0.0, 0.0], [5e-324, 0.0], [5e-324, 5e-324], [-5e-324, 0.0]]))
    assert np.array_equal(unit[[0, 1, 3]], [[0, 0], [1, 0], [-1, 0]]) and np.allclose(unit[2], 2**-0.5)
    assert length[0] == 0 and np.all(length[1:] >= 5e-324)


def test_spectrum_has_every_power_and_holds_its_eigenvalues():
    M = positive(4, 3)
    spectrum = linalg.Spectrum.clipped(M, 1e-9)
    assert np.allclose(spectrum.power(1), M) and np.allclose(spectrum.power(-1) @ M, np.eye(3))
    assert np.allclose(spectrum.power(0.5) @ spectrum.power(0.5), M) and np.allclose(spectrum.power(0.5) @ spectrum.power(-0.5), np.eye(3))
    held = np.linalg.eigvalsh(linalg.Spectrum.clipped(symmetric(4, 3), 0.5, 2.0).power(1))
    assert held.min() >= 0.5 - 1e-12 and held.max() <= 2 + 1e-12
    singular = linalg.Spectrum.clipped(np.diag([1e20, 1e-20])[None], 1e-8)
    assert np.allclose(singular.power(-1)[0], np.diag([1e-20, 1e8]))


def test_into_ball_keeps_what_is_inside_and_bounds_every_length():
    v = np.array([[0.6, 0.0], [3.0, 4.0], [1e200, 1e200], [5e-324, 0.0], [0.0, 0.0]])
    with np.errstate(over="ignore"):
        got = linalg.into_ball(v)
    np.testing.assert_array_equal(got, [[0.6, 0.0], [0.6000000000000001, 0.8], [0.0, 0.0], [5e-324, 0.0], [0.0, 0.0]])
    assert np.linalg.norm(linalg.into_ball(np.random.default_rng(0).standard_normal((1000, 4)), 0.5), axis=1).max() <= 0.5 * (1 + 1e-15)
