"""The measured matrices and costs against hand-made mechanisms."""

import numpy as np
import pytest

from privbandit.audit.covariance import Impulses, data_matrix, exact_mu, noise_matrix
from privbandit.audit.twins import OneLevelTooFew, OneRow, OneRowFFT, QuietSums, RootOnly
from privbandit.mechanisms import PerUser, SquareRoot, TreeMechanism


def test_impulses_count_every_draw():
    noise = Impulses(4)
    assert np.array_equal(noise.standard_normal((4, 1))[:, 0], [1, 0, 0, 0])
    path = noise.standard_normal((2, 4, 1))[..., 0]
    assert np.array_equal(path, [[0, 1, 0, 0], [0, 0, 1, 0]])
    with pytest.raises(RuntimeError, match="more than 4 draws"):
        noise.standard_normal((2, 4, 1))


def test_local_noise_by_hand():
    assert np.array_equal(noise_matrix(PerUser(3, 2.0)), 2 * np.tril(np.ones((3, 3))))
    assert np.array_equal(data_matrix(PerUser(3, 2.0)), np.tril(np.ones((3, 3))))
    assert exact_mu(PerUser(3, 2.0, Delta=5.0)) == pytest.approx(2.5)


def test_a_tree_of_four_by_hand():
    """Nodes {1}, {2}, {1,2}, {3}, {4}, {3,4}, {1..4}: prefix 3 is node {1,2} plus node {3}."""
    N = noise_matrix(TreeMechanism(4, 1.0))
    assert N.shape == (4, 7) and np.array_equal(np.sum(N**2, axis=1), [1, 1, 2, 1])
    assert N[1] @ N[2] == 1.0 and N[0] @ N[1] == 0.0


@pytest.mark.parametrize("twin", [OneLevelTooFew, RootOnly, OneRow, OneRowFFT])
@pytest.mark.parametrize("T", [2, 16])
def test_every_false_claim_is_exceeded(twin, T):
    mechanism = twin.calibrated(T, 0.5)
    assert exact_mu(mechanism) > 0.5 * 1.02


@pytest.mark.parametrize("cls", [TreeMechanism, SquareRoot])
def test_missing_noise_is_measured(cls):
    assert exact_mu(QuietSums.of(cls.calibrated(16, 0.5))) == pytest.approx(1.5, rel=1e-6)
