"""Closed forms of the sensitivities against optimisation over all records, by two independent routes."""

import numpy as np
import pytest
from scipy.optimize import minimize

from privbandit.sensitivity import ARMS, JOINT, OUTER, WEIGHTED, block_leaf, joint_leaf, outer_distance


def ball(p, radius=1.0):
    """A smooth map of R^n onto the closed ball."""
    length = np.linalg.norm(p)
    return radius * p * (np.sin(length) / length if length > 1e-12 else 1.0)


def supremum(distance, size, rng, starts=12):
    return max(np.sqrt(-minimize(lambda p: -distance(p) ** 2, rng.normal(size=size) * 2, method="BFGS").fun) for _ in range(starts))


def literal_joint(p, tau, d=3, fixed=True):
    """The leaf written out as matrices, for two records of dimension d."""
    leaves = []
    for q in (p[: d + 2], p[d + 2 :]):
        x, y, w = ball(q[:d]), np.sin(q[d]), 1.0 if fixed else np.sin(q[d + 1]) ** 2
        leaves.append(np.concatenate([(w * np.outer(x, x)).ravel(), np.sqrt(tau) * y * x]))
    return np.linalg.norm(leaves[0] - leaves[1])


@pytest.mark.parametrize("tau", [0.1, 0.5, 1.0, 1.17, 2.0, 3.0])
@pytest.mark.parametrize(("table", "fixed"), [(JOINT, True), (WEIGHTED, False)], ids=["joint", "weighted"])
def test_joint_leaf_is_the_supremum(tau, table, fixed):
    best = supremum(lambda p: literal_joint(p, tau, fixed=fixed), 10, np.random.default_rng(1))
    assert best == pytest.approx(float(table["replace"](tau=tau)), rel=1e-5)


def test_joint_leaf_random_search_never_exceeds():
    rng = np.random.default_rng(2)
    for tau in (0.3, 1.0, 2.5):
        found = max(literal_joint(3 * rng.normal(size=10), tau) for _ in range(4000))
        assert found <= joint_leaf(np.sqrt(tau)) * (1 + 1e-12)


def test_dropping_the_corner_and_releasing_jointly_saves():
    # at Y = 1 the block with its corner costs 2 sqrt 2; the joint leaf with tau = 2 the same, with tau = 1 less
    assert joint_leaf(np.sqrt(2)) == pytest.approx(block_leaf(1.0))
    assert joint_leaf(1.0) == pytest.approx(3 / np.sqrt(2))
    assert joint_leaf(1.0) ** 2 < 2 + 4  # separate releases: x x' moves by sqrt 2, y x by 2


@pytest.mark.parametrize("Y", [0.3, 1.0, 1.7, 2.3, 2.36, 3.0, 5.0])
def test_block_is_the_supremum(Y):
    def distance(p):
        v, w = (np.append(q[:2] / np.linalg.norm(q[:2]), Y * np.sin(q[2])) for q in (p[:3], p[3:]))
        return np.linalg.norm(np.outer(v, v) - np.outer(w, w))

    assert supremum(distance, 6, np.random.default_rng(3)) == pytest.approx(block_leaf(Y), rel=1e-5)


def test_outer_products():
    rng = np.random.default_rng(4)
    assert supremum(lambda p: np.linalg.norm(np.subtract(*(np.outer(x, x) for x in map(ball, (p[:3], p[3:]))))), 6, rng) == pytest.approx(
        float(OUTER["replace"]()), rel=1e-6
    )
    v, w = rng.normal(size=(2, 7, 4))
    literal = [np.linalg.norm(np.outer(a, a) - np.outer(b, b)) for a, b in zip(v, w, strict=True)]
    np.testing.assert_allclose(outer_distance(v, w), literal, rtol=1e-12)


def test_add_remove_is_the_largest_leaf():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(500, 3)), rng.uniform(-1, 1, 500)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y[0] = 1.0
    sizes = np.sqrt(1 + 0.7 * y**2)
    assert joint_leaf(np.sqrt(0.7), "add-remove") == pytest.approx(sizes.max())


@pytest.mark.parametrize("tau", [0.25, 1.0, 1.5])
def test_arms_by_enumeration(tau):
    leaves = [np.concatenate([e, np.sqrt(tau) * y * e]) for e in np.eye(3) for y in np.linspace(-1, 1, 9)]
    largest = max(np.linalg.norm(a - b) for a in leaves for b in leaves)
    assert float(ARMS["replace"](tau=tau)) == pytest.approx(largest)
    assert float(ARMS["add-remove"](tau=tau)) == pytest.approx(max(np.linalg.norm(a) for a in leaves))


def test_arguments():
    with pytest.raises(ValueError, match="neighbours must be one of"):
        joint_leaf(1.0, "swap")
    with pytest.raises(ValueError, match="weight must be a finite number > 0, got 0"):
        joint_leaf(0)
