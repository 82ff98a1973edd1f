"""Private bandits with K arms: upper confidence bounds and elimination."""

import numpy as np
import sympy as sp

from privbandit.audit.replay import realised_epsilon, replay
from privbandit.audit.users import armed
from privbandit.environments.bernoulli import BernoulliBandit
from privbandit.formulas.linear import ELIMINATION_REGRET, UCB_REGRET
from privbandit.ledger import Laplace
from privbandit.policies.private_elimination import PrivateElimination
from privbandit.policies.private_ucb import PrivateUCB
from privbandit.simulate import simulate

from .altered import scaled as times
from .claim import claim


class NoiseIgnored(PrivateUCB):
    def _error(self, step):
        return 0.0, 0.0


class ErrorQuartered(PrivateUCB):
    def _error(self, step):
        return tuple(e / 8 for e in super()._error(step))


@claim(
    "private-ucb",
    subject=(PrivateUCB, UCB_REGRET),
    mutants={
        "index ignores the noise": (NoiseIgnored, UCB_REGRET),
        "index allows an eighth of it": (ErrorQuartered, UCB_REGRET),
        "an eighth of the bound": (PrivateUCB, times(UCB_REGRET, sp.Rational(1, 8))),
        "6E dropped": (PrivateUCB, lambda T, gap, error: UCB_REGRET(T=T, gap=gap, error=0 * error)),
        "5E for 6E": (PrivateUCB, lambda T, gap, error: UCB_REGRET(T=T, gap=gap, error=5 / 6 * error)),
        "7 ln T for 8 ln T": (PrivateUCB, lambda T, gap, error: UCB_REGRET(T=T, gap=gap, error=error) - np.log(T) / gap),
        "3 gap for 4 gap": (PrivateUCB, lambda T, gap, error: UCB_REGRET(T=T, gap=gap, error=error) - gap),
    },
)
def check_ucb(case):
    """Plays, without sampling: the largest M with gap M <= sqrt(8 L M) + 3 E, and the rounds outside the good event, against the formula.
    Optimism: n = 400 runs of 200 rounds, seed 1, epsilon = 0.5; rounds from 20 on. The theorem allows sum 2 t^-3 + 6 t^-4 < .0035, 1.4 runs;
    limit 10, exceeded with probability below 1e-5; the mutants fail in more than 50 runs. Regret: 40 private runs of 4,000 rounds, seed 3,
    epsilon = 1, 5 standard errors below the bound with the noise that was drawn; it is above the bound without 6E."""
    kind, formula = case
    rng, noise = map(np.random.default_rng, (1, 2))
    L, E, gap = rng.uniform(0.1, 10, 4000), 10 ** rng.uniform(-3, 2, 4000), rng.uniform(0.01, 1, 4000)
    largest = ((np.sqrt(8 * L) + np.sqrt(8 * L + 12 * gap * E)) / (2 * gap)) ** 2
    assert np.all(gap * largest <= (formula(T=np.exp(L), gap=gap, error=E) - 4 * gap) * (1 + 1e-9))
    t = np.arange(2.0, 1e5)
    assert 1 + 2 + np.sum(2 * t**-3 + 6 * t**-4) <= formula(T=1.0, gap=1.0, error=0.0)
    R, T, mean = 400, 200, 0.6
    policy, arms = kind.calibrated(0.5, 1e-6, K=2, horizon=T), BernoulliBandit((mean, 0.3))
    state, failed = policy.init(R, noise), np.zeros(R, dtype=bool)
    for t in range(T):
        contexts = arms.contexts(R, t, rng)[1]
        if t >= 20:
            failed |= policy.index(state)[:, 0] < mean
        action = policy.act(state, contexts, rng)[1]
        reward = arms.step(R, contexts, action, rng).reward
        state = policy.update(state, contexts[np.arange(R), action], reward, noise)
    assert failed.sum() <= 10
    policy, T = kind.calibrated(1.0, 1e-6, K=4, horizon=4000), 4000.0
    final = simulate(policy, BernoulliBandit((0.8, 0.4, 0.4, 0.4)), horizon=4000, replications=40, seed=3, rounds=[4000]).final
    bound = 3 * formula(T=T, gap=0.4, error=policy.mechanism.max_std * np.sqrt(8 * np.log(T)))
    assert 3 * formula(T=T, gap=0.4, error=0.0) < final.mean() < bound - 5 * final.std() / 40**0.5


test_ucb = check_ucb


class NoiseNotPlanned(PrivateElimination):
    def _sum_error(self, epoch, size):
        return np.zeros(len(epoch))


class HalfNoise(PrivateElimination):
    def _release(self, sums, noise):
        return Laplace(1.0, self.scale / 2).release(sums, noise)


@claim(
    "private-elimination",
    subject=(PrivateElimination, ELIMINATION_REGRET),
    mutants={
        "epochs planned without the noise": (NoiseNotPlanned, ELIMINATION_REGRET),
        "half the noise": (HalfNoise, ELIMINATION_REGRET),
        "an eighth of the bound": (PrivateElimination, times(ELIMINATION_REGRET, sp.Rational(1, 8))),
    },
)
def check_elimination(case):
    """Exact: lengths, their sums against the bound, cost of six replacements. Statistical: n = 200 runs, seed 4, zeta = 0.05: at most 10 runs
    may lose the best arm in the mean, limit 25 (5 standard errors); seen: none."""
    kind, formula = case
    zeta = 0.05
    for epsilon in (0.05, 0.5, 4.0):
        for K in (2, 5):
            policy, e = kind.calibrated(epsilon, K=K, zeta=zeta), np.arange(1.0, 11.0)
            N = policy._length(e, np.ones((10, K), dtype=bool))

            def error(N):
                return np.sqrt(np.log(8 * K * e**2 / zeta) / (2 * N)) + np.log(4 * K * e**2 / zeta) / (epsilon * N)

            assert np.all(error(N) <= 2.0**-e / 4 * (1 + 1e-12)) and np.all(error(N - 1) > 2.0**-e / 4)
            for gap in (0.9, 0.5, 0.1, 0.01):
                last = 1 + int(np.floor(np.log2(1 / gap)))
                spent = gap * N[:last].sum()
                assert spent <= formula(K=float(K), t=float(last), zeta=zeta, gap=gap, scale=1 / epsilon)
    policy = kind.calibrated(4.0, K=2, zeta=0.9)
    for one in armed(300, 6, 2, np.random.default_rng(0)).apart():
        assert realised_epsilon(replay(policy, one), policy.ledger, 1e-6) <= 4.0 * (1 + 1e-7)
    run = simulate(kind.calibrated(4.0, K=3, zeta=zeta), BernoulliBandit((0.9, 0.3, 0.3)), horizon=2000, replications=200, seed=4, rounds=[1500, 2000])
    assert np.sum(run.regret[:, 1] > run.regret[:, 0]) <= 25  # regret at the end: the best arm is gone, or another one is still there


test_elimination = check_elimination
