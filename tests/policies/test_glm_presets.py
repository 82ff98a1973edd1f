"""The published presets reproduce the published regrets on a frozen instance of the published environment."""

import pytest

from privbandit.environments.glm import GLMEnvironment
from privbandit.links import Logistic, Probit
from privbandit.policies.ecolog import ECOLog
from privbandit.policies.glm_ucb import GLMUCB
from privbandit.policies.gloc import GLOC
from privbandit.simulate import simulate


def final(policy, environment, horizon):
    return simulate(policy, environment, horizon=horizon, replications=8, seed=3).final


@pytest.mark.parametrize(("S", "low", "high"), [(2.0, 360, 420), (3.0, 1270, 1430)])
def test_gloc_on_probit(S, low, high):
    """Printed 385 and 1347, the authors' code 386-401 and 1365 (d=3, K=20, T=5000, zeta=.02). 8 runs, standard error about 5."""
    env = GLMEnvironment(Probit(), d=3, K=20, S=S, theta="cube", instance_seed=11)
    kappa, _ = env.instance_kappas(5000)
    assert low < final(GLOC.published(Probit(), 3, S, 0.02, kappa), env, 5000).mean() < high


def test_glm_ucb_on_probit():
    """Printed 1400, the authors' code 1403 (S=2)."""
    env = GLMEnvironment(Probit(), d=3, K=20, S=2.0, theta="cube", instance_seed=11)
    kappa, _ = env.instance_kappas(5000)
    assert 1320 < final(GLMUCB.published(Probit(), 3, 2.0, 5000, 0.02, kappa), env, 5000).mean() < 1460


def test_published_constants_cost_ecolog_most_of_its_regret():
    """Logistic d=5, S=3.5, T=3000, honest: the proven radius at lambda = 3 against the code's constants (about 45 against 180; 8 paired runs)."""
    env = GLMEnvironment(Logistic(), d=5, K=20, S=3.5)
    proven, coded = final(ECOLog(5, 3.5, 0.02), env, 3000), final(ECOLog.published(5, 3.5, 0.02), env, 3000)
    assert (coded > 2 * proven).all()
