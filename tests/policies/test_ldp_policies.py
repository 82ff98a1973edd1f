"""Policies of the local model: LDP LinUCB and LDP GLM."""

import math

import numpy as np
import pytest

from privbandit.accounting import gaussian_mu
from privbandit.audit.replay import replay
from privbandit.audit.users import linear
from privbandit.environments.glm import GLMEnvironment
from privbandit.links import Linear, Logistic, Poisson
from privbandit.mechanisms import SquareRoot
from privbandit.policies.ldp_glm import LDPGLM, gradient_bound
from privbandit.policies.ldp_linucb import LDPLinUCB
from privbandit.sensitivity import joint_leaf
from privbandit.simulate import simulate


class TestLDPGLM:
    def policy(self, **change):
        return LDPGLM(**({"link": Logistic(), "d": 2, "S": 2.0, "epsilon": 1.0, "delta": 1e-5} | change))

    def test_gradients_never_exceed_the_bound_which_is_attained(self):
        rng = np.random.default_rng(0)
        for link in (Logistic(), Linear(0.5)):
            policy = self.policy(link=link)
            theta = rng.standard_normal((5000, 2))
            theta *= 2 / np.linalg.norm(theta, axis=1, keepdims=True)
            x, reward = 3 * rng.standard_normal((5000, 2)), 10 * rng.standard_normal(5000)  # longer and louder than allowed
            assert np.linalg.norm(policy.gradient(theta, x, reward), axis=1).max() <= policy.L * (1 + 1e-12)
            corner = policy.gradient(np.array([[-2.0, 0.0]]), np.array([[1.0, 0.0]]), np.array([1e9]))
            assert np.linalg.norm(corner) == pytest.approx(policy.L)
        assert gradient_bound(Logistic(), 2.0) == pytest.approx(1 / (1 + math.exp(-2.0)))

    def test_noise_is_exact_and_local(self):
        policy = self.policy()
        assert policy.report.sigma == pytest.approx(2 * policy.L / gaussian_mu(1.0, 1e-5))
        assert policy.ledger.trust == "local" and policy.ledger.epsilon(1e-5) == pytest.approx(1.0)
        pair = linear(10, 72, 3, 2, np.random.default_rng(1))
        mu = replay(policy, pair).mu
        assert 0.4 * policy.ledger.mu < mu.max() <= policy.ledger.mu * (1 + 1e-9)

    def test_step_and_projection_by_hand(self):
        policy = self.policy(epsilon=math.inf, eta=1.0)
        noise = np.random.default_rng(0)
        state = policy.init(1, noise)
        x = np.array([[1.0, 0.0]])
        state = policy.update(state, x, np.array([1.0]), noise)
        np.testing.assert_allclose(state.theta, [[0.5, 0.0]])  # theta = 0: gradient (1/2 - 1) x
        state = policy.update(state, x, np.array([1.0]), noise)
        np.testing.assert_allclose(state.theta, [[0.5 + 0.5 / (1 + math.exp(0.5)), 0.0]])
        far = self.policy(epsilon=math.inf, eta=100.0)
        assert np.linalg.norm(far.update(far.init(1, noise), x, np.array([1.0]), noise).theta) == pytest.approx(2.0)

    def test_warm_up_plays_uniformly_then_greedily(self):
        policy = self.policy(warm_up=2)
        X = np.tile(np.array([[[1.0, 0.0], [0.0, 1.0]]]), (2000, 1, 1))
        state, action = policy.act(policy.init(2000, np.random.default_rng(0)), X, np.random.default_rng(2))
        assert abs(action.mean() - 0.5) < 5 * 0.5 / math.sqrt(2000)
        greedy = state._replace(step=2, theta=np.tile([0.0, 1.0], (2000, 1)))
        assert np.all(policy.act(greedy, X, np.random.default_rng(2))[1] == 1)

    def test_learns(self):
        """T = 2000, epsilon = 8, R = 20, seed 3: less than half of uniform play's regret; without noise less still."""
        environment = GLMEnvironment(Logistic(), 2, 10, 2.0)
        private, exact = (
            simulate(self.policy(epsilon=e), environment, horizon=2000, replications=20, seed=3).final.mean() for e in (8.0, math.inf)
        )
        uniform = 2000 * 0.25
        assert exact < private < 0.5 * uniform

    def test_bad_input_is_named(self):
        bad = {"eta must be": {"eta": 0.0}, "link must have bounded": {"link": Poisson()}, "delta must be": {"delta": 0.0}}
        for message, change in bad.items():
            with pytest.raises(ValueError, match=message):
                self.policy(**change)


class TestLDPLinUCB:
    def test_reports_are_local_and_exactly_calibrated(self):
        policy = LDPLinUCB.practical(1.0, 1e-5, d=2, horizon=50)
        assert policy.ledger.trust == "local" and policy.ledger.epsilon(1e-5) == pytest.approx(1.0)
        assert policy.mechanism.sigma == pytest.approx(joint_leaf(1.0) / gaussian_mu(1.0, 1e-5))
        mu = replay(policy, linear(10, 72, 3, 2, np.random.default_rng(4), -1.0)).mu
        assert 0.6 * policy.ledger.mu < mu.max() <= policy.ledger.mu * (1 + 1e-9)

    def test_regulariser_grows_with_the_noise(self):
        """d = 2, R = 200, seed 5, null data: least eigenvalue after t reports is at least half a noise norm, sqrt(t) in size."""
        policy = LDPLinUCB.practical(1.0, 1e-3, d=2, horizon=400)
        noise = np.random.default_rng(5)
        state = policy.init(200, noise)
        least = {}
        for t in range(1, 401):
            state = policy.update(state, np.zeros((200, 2)), np.zeros(200), noise)
            if t in (100, 400):
                least[t] = 1 / np.linalg.eigvalsh(state.inverse)[:, -1]
        norm = policy.mechanism.sigma * math.sqrt(100 * 4)
        assert least[100].min() >= norm / 2 * (1 - 1e-9)
        assert np.mean(least[400]) / np.mean(least[100]) == pytest.approx(2.0, rel=0.1)

    def test_theory_form_keeps_the_proved_width(self):
        policy = LDPLinUCB.calibrated(1.0, 1e-3, d=2, horizon=50)
        assert policy.shift is None and policy.alpha is None and policy.name == "LDP LinUCB"

    def test_other_mechanisms_are_refused(self):
        with pytest.raises(ValueError, match="mechanism must be PerUser"):
            LDPLinUCB(d=2, mechanism=SquareRoot.calibrated(10, 1.0, joint_leaf(1.0)))
