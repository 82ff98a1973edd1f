"""Batched elimination: schedule, elimination, B-GLinCB, Algorithm 1 printed and corrected, and its one-sum form."""

import math

import numpy as np
import pytest
import sympy as sp

from privbandit.audit.replay import replay
from privbandit.audit.users import linear
from privbandit.environments.glm import GLMEnvironment
from privbandit.formulas.shuffle import BATCH, BATCH_COUNT, GAMMA, REGRET_MATRIX, REGRET_OPTIMISER, REGRET_OPTIMISER_PRINTED
from privbandit.links import Logistic, Poisson, Probit
from privbandit.policies.b_glincb import BGLinCB
from privbandit.policies.base import choose
from privbandit.policies.batched import Models, geometric, growth, schedule, survivors, useful_from
from privbandit.policies.shuffle_glm import ShuffleGLM
from privbandit.policies.shuffle_one_sum import ShuffleOneSum
from privbandit.simulate import simulate

LINK = Probit()
SMALL = {"link": LINK, "d": 2, "S": 2.0, "horizon": 60, "first_batch": 8}


def run(policy, R, seed, kind="ball"):
    """Final state after the horizon, with the hidden theta."""
    environment = GLMEnvironment(policy.link, policy.d, 6, policy.S, contexts_kind=kind)
    rng = np.random.default_rng(seed)
    world, state = environment.init(R, rng), policy.init(R, rng)
    for t in range(policy.horizon):
        world, contexts = environment.contexts(world, t, rng)
        state, action = policy.act(state, contexts, rng)
        state = policy.update(state, choose(contexts, action), environment.step(world, contexts, action, rng).reward, rng)
    return state, world.theta


class TestSchedule:
    @pytest.mark.parametrize("T", [2, 10, 1000, 15_000, 10**6, 10**9])
    def test_lengths_follow_the_closed_form_and_are_loglog_many(self, T):
        alpha = growth(T)
        ends = schedule(T, 1, alpha)
        lengths = np.diff(ends)
        for k, length in enumerate(lengths[:-1], start=2):
            assert length == math.ceil(float(BATCH(alpha=alpha, K=k)) - 1e-9)
        needed = math.ceil(float(BATCH_COUNT(T=T)) - 1e-12)
        assert float(BATCH(alpha=alpha, K=needed)) >= T * (1 - 1e-12) > (float(BATCH(alpha=alpha, K=needed - 1)) if needed > 2 else 0)
        assert len(ends) <= needed + 1
        assert ends[-1] == T

    def test_a_cap_on_the_batches_makes_the_last_one_reach_the_horizon(self):
        T, M = 10**6, 4
        alpha = growth(T, M)
        assert float(BATCH(alpha=alpha, K=M)) == pytest.approx(T, rel=1e-9)
        assert growth(T, 20) == 2 * math.sqrt(T)

    def test_geometric_batches_double(self):
        assert geometric(100, 10) == (10, 30, 70, 100) and geometric(5, 10) == (5,) and geometric(1, 1) == (1,)

    def test_first_batch_of_the_theory_exceeds_any_simulated_horizon(self):
        fields = {"link": LINK, "d": 3, "S": 2.0, "horizon": 5000}
        for policy in (BGLinCB(**fields), ShuffleGLM(**fields, epsilon=4.0, delta=0.01)):
            assert policy.ends == (5000,)


class TestTheory:
    def test_the_theory_is_vacuous_for_every_horizon_that_can_be_simulated(self):
        """Logistic, d = 3, S = 1, epsilon = 4: the first batch leaves room from about 10^8 rounds on; probit needs far more."""

        def printed(T, link=Logistic(), S=1.0):
            return ShuffleGLM(link=link, d=3, S=S, horizon=T, epsilon=4.0, delta=0.02, form="printed")

        assert 10**7 < useful_from(printed) < 10**9
        assert useful_from(lambda T: printed(T, Probit(), 2.0)) > 10**12
        assert useful_from(lambda T: BGLinCB(link=LINK, d=1, S=1.0, horizon=T, first_batch=5)) == 16

    def test_exponents_of_the_appendix_contradict_the_theorem(self):
        """The optimiser enters gamma as sqrt(nu): d^(5/4), epsilon^(-1/2). The printed d^(9/8), epsilon^(-1/4) is its fourth root."""

        def exponent(formula, name):
            symbol = next(s for s in formula.symbols if s.name == name)
            return sp.simplify(symbol * sp.diff(sp.log(formula.expression), symbol))

        assert exponent(REGRET_OPTIMISER, "d") == exponent(REGRET_MATRIX, "d") == sp.Rational(5, 4)
        assert exponent(REGRET_OPTIMISER, "epsilon") == exponent(REGRET_MATRIX, "epsilon") == -sp.Rational(1, 2)
        assert exponent(REGRET_OPTIMISER_PRINTED, "d") == sp.Rational(9, 8)
        assert exponent(REGRET_OPTIMISER_PRINTED, "epsilon") == -sp.Rational(1, 4)

    def test_gamma_by_hand(self):
        value = float(GAMMA(R=1.0, S=2.0, T=100.0, d=3.0, lambda_min=4.0, lambda_max=9.0, nu=2.0))
        log = math.log(100)
        assert value == pytest.approx(48 * (math.sqrt(log + 3) + (log + 3) / 2) + 12 + 8)


class TestElimination:
    def test_against_a_loop(self):
        rng = np.random.default_rng(0)
        R, J, K, d = 30, 3, 5, 2
        root = rng.standard_normal((R, J, d, d))
        models = Models(rng.standard_normal((R, J, d)), root @ root.swapaxes(2, 3) + 0.1 * np.eye(d), np.array([0.3, 0.2, 0.1]))
        X = rng.standard_normal((R, K, d))
        alive = survivors(models, X)
        for r in range(R):
            kept = list(range(K))
            for j in range(J):
                width = {k: models.width[j] * math.sqrt(X[r, k] @ models.inverse[r, j] @ X[r, k]) for k in kept}
                mean = {k: X[r, k] @ models.theta[r, j] for k in kept}
                best = max(mean[k] - width[k] for k in kept)
                kept = [k for k in kept if mean[k] + width[k] >= best]
            assert alive[r].nonzero()[0].tolist() == kept
        assert 0 < alive.mean() < 1

    def test_the_best_arm_survives_whenever_the_confidence_sets_hold(self):
        """2000 instances with theta* inside every confidence set: the best arm is always kept; with half the widths it is often lost."""
        rng = np.random.default_rng(1)
        R, J, K, d = 2000, 3, 8, 3
        theta = rng.standard_normal((R, d))
        root = rng.standard_normal((R, J, d, d))
        M = root @ root.swapaxes(2, 3) + 0.2 * np.eye(d)
        offset = rng.standard_normal((R, J, d))
        offset /= np.sqrt(np.einsum("rjd,rjde,rje->rj", offset, M, offset))[..., None]
        width = np.array([0.5, 1.0, 0.2])
        models = Models(theta[:, None] + width[:, None] * offset, np.linalg.inv(M), width)
        X = rng.standard_normal((R, K, d))
        best = np.einsum("rkd,rd->rk", X, theta).argmax(axis=1)
        rows = np.arange(R)
        assert survivors(models, X)[rows, best].all()
        assert not survivors(models._replace(width=width / 4), X)[rows, best].all()

    def test_weights_stay_below_the_true_slope_when_the_first_model_is_right(self):
        """2000 instances with theta* on the border of the first confidence set: the design's weight never exceeds mu'(<x, theta*>)."""
        rng = np.random.default_rng(2)
        policy = BGLinCB(**SMALL)
        theta = rng.standard_normal((2000, 2))
        theta *= 2 / np.linalg.norm(theta, axis=1, keepdims=True) * rng.random((2000, 1))
        M = np.diag([30.0, 5.0])
        offset = rng.standard_normal((2000, 2))
        offset /= np.sqrt(np.einsum("rd,de,re->r", offset, M, offset))[:, None]
        first = theta + offset
        first /= np.maximum(1, np.linalg.norm(first, axis=1, keepdims=True) / 2)
        inverse = np.broadcast_to(np.linalg.inv(M), (2000, 1, 2, 2))
        X = rng.standard_normal((2000, 4, 2))
        X /= np.linalg.norm(X, axis=2, keepdims=True)
        weight = policy.scales(Models(first[:, None], inverse, np.array([1.0])), X)
        inside = np.einsum("rd,de,re->r", first - theta, M, first - theta) <= 1 + 1e-9
        slope = LINK.dmu(np.einsum("rkd,rd->rk", X, theta))
        assert inside.mean() > 0.5
        assert np.all(weight[inside] <= slope[inside] * (1 + 1e-9))


class TestBGLinCB:
    def test_models_are_the_fit_and_the_weighted_matrix_of_their_batch(self):
        policy = BGLinCB(link=Logistic(), d=2, S=2.0, horizon=400, first_batch=200, lambda_=1.0, width=0.01)
        state, theta = run(policy, 30, 3)
        assert len(state.models.width) == len(policy.ends) - 1
        assert state.models.width[0] == pytest.approx(0.01 * policy.gamma * math.sqrt(policy.kappa))
        error = np.linalg.norm(state.models.theta[:, 0] - theta, axis=1).mean()
        assert error < 1.0 < np.linalg.norm(theta, axis=1).mean()

    def test_distributional_design_also_learns(self):
        policy = BGLinCB(**SMALL | {"horizon": 300}, lambda_=1.0, width=1e-3, distributional=True)
        state, _ = run(policy, 4, 4)
        assert len(state.models.width) >= 2

    def test_theory_confidence_sets_cover_theta(self):
        """R = 200 runs, seed 5: every model covers theta* at the theory's width (failure probability below 1 / T)."""
        policy = BGLinCB(**SMALL | {"horizon": 500, "first_batch": 100})
        state, theta = run(policy, 200, 5)
        for j, width in enumerate(state.models.width):
            gap = state.models.theta[:, j] - theta
            M = np.linalg.inv(state.models.inverse[:, j])
            assert np.all(np.einsum("rd,rde,re->r", gap, M, gap) <= width**2)


class TestShuffleGLM:
    def policy(self, **change):
        return ShuffleGLM(**(SMALL | {"horizon": 300, "first_batch": 40, "epsilon": 2.0, "delta": 1e-3, "rounds": 6} | change))

    @pytest.mark.parametrize("form", ["printed", "corrected"])
    def test_every_user_is_within_budget_and_the_last_batch_sends_nothing(self, form):
        policy = self.policy(form=form)
        assert len(policy.protocols) == len(policy.ends) - 1
        assert policy.ledger.trust == "shuffle" and policy.ledger.epsilon(1e-3) <= 2.0 * (1 + 1e-9)
        if form == "corrected":
            assert policy.ledger.epsilon(1e-3) > 1.99
        state, _ = run(policy, 2, 6)

        class Silent:
            def __getattr__(self, name):
                raise AssertionError("noise was drawn in the last batch")

        policy.update(state, np.zeros((2, 2)), np.zeros(2), Silent())

    def test_corrected_scales_are_smaller_and_released_matrices_stay_above_the_floor(self):
        printed, corrected = (self.policy(form=f) for f in ("printed", "corrected"))
        for a, b in zip(printed.protocols, corrected.protocols, strict=True):
            assert a.matrix.sigma > 300 * b.matrix.sigma and a.ridge > 20 * b.ridge
            assert b.least < b.ridge < b.loss_ridge == b.optimiser.ridge
        assert printed.protocols[0].ridge == pytest.approx(printed.protocols[1].ridge)  # one scale for x x' and for w x x'
        assert corrected.protocols[0].least > corrected.protocols[1].least
        state, _ = run(corrected, 40, 7)
        for j, protocol in enumerate(corrected.protocols):
            assert np.linalg.eigvalsh(np.linalg.inv(state.models.inverse[:, j])).min() >= protocol.least * (1 - 1e-9)

    def test_corrected_confidence_sets_cover_theta(self):
        """R = 100 runs, seed 8, zeta = 0.05: every model covers theta*; at most 5 misses expected, none seen: the widths are loose."""
        policy = self.policy(rounds=None)
        state, theta = run(policy, 100, 8)
        for j, width in enumerate(state.models.width):
            gap = state.models.theta[:, j] - theta
            M = np.linalg.inv(state.models.inverse[:, j])
            assert np.mean(np.einsum("rd,rde,re->r", gap, M, gap) <= width**2) >= 0.95

    def test_without_noise_the_first_batch_is_b_glincb(self):
        """Same seeds, same ridge: the estimate of the warm-up is the exact fit."""
        exact = self.policy(epsilon=math.inf)
        plain = BGLinCB(**SMALL | {"horizon": 300, "first_batch": 40}, lambda_=exact.protocols[0].loss_ridge)
        (a, _), (b, _) = (run(p, 5, 9) for p in (exact, plain))
        np.testing.assert_allclose(a.models.theta[:, 0], b.models.theta[:, 0], atol=1e-9)
        np.testing.assert_allclose(a.models.inverse[:, 0], b.models.inverse[:, 0], atol=1e-9)

    def test_replay_costs_what_the_ledger_says(self):
        policy = self.policy(horizon=40, first_batch=10, width=1e-3)
        mu = replay(policy, linear(40, 12, 3, 2, np.random.default_rng(10))).mu
        assert 0.3 * policy.ledger.mu < mu.max() <= policy.ledger.mu * (1 + 1e-9)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"form": "fast"}, "form must be"),
            ({"epsilon": 0.0}, "epsilon must be"),
            ({"share": 1.0}, "share must be"),
            ({"rounds": 0}, "rounds must be"),
            ({"link": Poisson()}, "link must have bounded"),
            ({"horizon": 0}, "horizon must be"),
            ({"batch1_scale": -1.0}, "batch1_scale must be"),
        ],
    )
    def test_bad_input_is_named(self, change, message):
        with pytest.raises(ValueError, match=message):
            self.policy(**change)


class TestOneSum:
    def policy(self, **change):
        return ShuffleOneSum(**({"link": LINK, "d": 3, "S": 2.0, "horizon": 5000, "epsilon": 4.0, "delta": 0.01} | change))

    def test_close_to_its_own_non_private_version(self):
        """T = 5000, d = 3, epsilon = 4, R = 50, seed 11: regret at most 1.3 times that without noise (measured on other seeds: 1.15)."""
        environment = GLMEnvironment(LINK, 3, 20, 2.0)
        private, exact = (
            simulate(self.policy(epsilon=e), environment, horizon=5000, replications=50, seed=11).final.mean() for e in (4.0, math.inf)
        )
        assert exact < private <= 1.3 * exact
        assert private < 60  # uniform play: about 2150

    @pytest.mark.parametrize("epsilon", [0.5, 4.0])
    def test_budget_is_used_up_and_not_exceeded(self, epsilon):
        ledger = self.policy(epsilon=epsilon).ledger
        assert 0.999 * epsilon < ledger.epsilon(0.01) <= epsilon and ledger.trust == "shuffle"

    def test_replay_costs_what_the_ledger_says(self):
        """Every changed user's shift of the counts is within the certificate, some use most of it; nobody else's action changes."""
        policy = self.policy(d=2, horizon=24, first_batch=4, epsilon=1.0)
        pair = linear(24, 72, 3, 2, np.random.default_rng(12))
        mu = replay(policy, pair).mu
        assert mu.max() <= policy.ledger.mu * (1 + 1e-9) and mu.max() > 0.6 * policy.ledger.mu

    def test_running_counts_are_not_read_before_the_batch_is_complete(self):
        """Two users of one batch with different rewards: the policy acts the same until the batch ends."""
        policy = self.policy(d=2, horizon=40, first_batch=5)
        rng = np.random.default_rng(13)
        state, X = policy.init(1, rng), rng.standard_normal((1, 4, 2)) / 3
        after = [policy.update(state, X[:, 0], np.array([r]), np.random.default_rng(14)) for r in (0.0, 1.0)]
        probabilities = [policy.probabilities(s, X) for s in after]
        np.testing.assert_array_equal(*probabilities)
        assert not np.array_equal(after[0].gathered.running, after[1].gathered.running)

    def test_estimate_recovers_theta(self):
        """Without noise, from 2000 users: the direction of theta* within 0.2 radians on average (R = 20, seed 15)."""
        state, theta = run(self.policy(d=2, horizon=2000, epsilon=math.inf, first_batch=1000), 20, 15)
        estimate = state.models.theta[:, -1]
        cosine = np.einsum("rd,rd->r", estimate, theta) / np.linalg.norm(estimate, axis=1) / np.linalg.norm(theta, axis=1)
        assert np.arccos(np.clip(cosine, -1, 1)).mean() < 0.2
