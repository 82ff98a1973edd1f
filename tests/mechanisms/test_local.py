"""Per-user noise: each report is private by itself, the server only adds."""

import numpy as np
import pytest

from privbandit.mechanisms import PerUser


def test_noise_grows_with_the_number_of_reports():
    mechanism = PerUser.calibrated(horizon=100, mu=0.5, Delta=2.0)
    assert mechanism.sigma == 4.0
    assert np.allclose(mechanism.std([1, 4, 100]), [4.0, 8.0, 40.0])
    assert mechanism.max_std == 40.0


def test_a_users_report_is_released_once_and_never_again():
    """The server's state is the sum of the reports it saw: nothing exact is kept."""
    mechanism, noise = PerUser(3, 1.0), np.random.default_rng(0)
    state, reports, last = mechanism.init(1, 2, noise), [], np.zeros((1, 2))
    for _ in range(3):
        state, prefix = mechanism.release(state, np.ones((1, 2)), noise)
        assert np.array_equal(state.total, prefix)
        reports.append(prefix - last)
        last = prefix
    assert np.allclose(np.sum(reports, axis=0), prefix)
    expected = 1.0 + np.random.default_rng(0).standard_normal((3, 1, 2))
    assert np.allclose(reports, expected)


def test_one_entry_whatever_the_horizon():
    (entry,) = PerUser(10_000, 2.0, 3.0).entries
    assert entry.count == 1 and entry.event.mu == PerUser(10_000, 2.0, 3.0).mu == pytest.approx(1.5)
