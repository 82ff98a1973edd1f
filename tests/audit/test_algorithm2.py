"""A published guarantee that a replay refutes: when Algorithm 2 fits anew is decided by the contexts of the user being served."""

import numpy as np
import pytest

from privbandit.audit import Leak, replay
from privbandit.audit.policies import shrunk
from privbandit.links import Logistic
from privbandit.policies.algorithm2_published import Algorithm2


@pytest.mark.parametrize("seed", range(3))
def test_a_user_with_long_contexts_causes_a_release_and_one_with_short_ones_does_not(seed):
    """Contexts a thousandth as long stay below the threshold, so a fit that was released is missing, for every changed user."""
    policy = Algorithm2.printed(Logistic(), 2, 2.0, 8, 1.0, 1e-6)
    for pair in shrunk(8, 2)(np.random.default_rng(seed)).apart():
        with pytest.raises(Leak, match="the schedule of releases depends on raw data"):
            replay(policy, pair, seed)
