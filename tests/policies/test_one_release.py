"""One release: sensitivity by search, a dense reference run, zero noise, no bias of the default, bias of the surrogate, privacy audits."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import norm

from privbandit.accounting import gaussian_epsilon
from privbandit.audit.replay import Neighbours, Users, replay
from privbandit.environments.glm import GLMEnvironment
from privbandit.formulas.glm import JOINT_LEAF, TAU
from privbandit.linalg import outer
from privbandit.links import Linear, Logistic, Poisson, Probit, TruncatedPoisson
from privbandit.mechanisms import PREFIX_SUMS, SquareRoot, SquareRootFFT, TreeMechanism
from privbandit.policies.one_release import OneRelease, QuadraticSurrogate, Statistical, Tangent
from privbandit.simulate import simulate

LINKS = [Probit(), Logistic(), TruncatedPoisson(3), Linear(noise=0.5)]
LINEARISATIONS = [Statistical(), Tangent(), QuadraticSurrogate()]


def policy(**changes) -> OneRelease:
    return replace(OneRelease(Probit(), d=3, S=2.0, horizon=50, epsilon=1.0, delta=1e-5), **changes)


def unit_leaf(v: np.ndarray, d: int, tau: float) -> np.ndarray:
    """A leaf in the units of Lemma 1 from unconstrained parameters."""
    x = v[:d] / max(1.0, np.linalg.norm(v[:d]))
    w, y = (1 + np.sin(v[d])) / 2, np.sin(v[d + 1])
    return np.concatenate([w * outer(x), math.sqrt(tau) * y * x])


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("tau", [0.1, TAU, 1.17, 2.0, 3.0])
def test_joint_leaf_sensitivity_is_never_passed_and_attained(d, tau):
    rng = np.random.default_rng(0)
    n = d + 2
    best = 0.0
    for _ in range(8):
        found = minimize(
            lambda v: -np.sum((unit_leaf(v[:n], d, tau) - unit_leaf(v[n:], d, tau)) ** 2), 3 * rng.standard_normal(2 * n), method="BFGS"
        )
        best = max(best, -found.fun)
    D = JOINT_LEAF(a=1.0, b=tau)
    assert best <= D * (1 + 1e-9)
    if d > 1:
        assert best >= D * (1 - 1e-5)


def test_joint_leaf_branches_meet_at_tau():
    assert JOINT_LEAF(a=1.0, b=TAU) == pytest.approx(9 - 4 * math.sqrt(2), rel=1e-14)
    assert JOINT_LEAF(a=1.0, b=TAU) == pytest.approx(2 + 2 * TAU + TAU**2 / 2, rel=1e-14)
    np.testing.assert_allclose(JOINT_LEAF(a=2.0, b=np.array([0.2, 1.0, 8.0])), [4.41, 6.25, 34.0])


@pytest.mark.parametrize("link", LINKS, ids=lambda k: k.name)
@pytest.mark.parametrize("linearisation", LINEARISATIONS, ids=lambda k: type(k).__name__)
def test_leaves_stay_in_their_bounds_whatever_the_record(link, linearisation):
    S, rng = 2.5, np.random.default_rng(1)
    z, omega2 = rng.uniform(-S, S, 20000), rng.uniform(0, S**2, 20000)
    z[:100], omega2[:100] = S, 0.0
    reward = rng.choice(link.reward_range(S), size=z.size)
    W, Y = linearisation.bounds(link, S)
    w, y = linearisation.leaf(link, S, z, omega2, reward)
    assert np.all(w >= 0) and w.max() <= W * (1 + 1e-12)
    assert np.abs(y).max() <= Y * (1 + 1e-9)


def test_features_and_rewards_out_of_range_cannot_move_a_leaf_further():
    p = policy()
    released = p.init(2, np.random.default_rng(0)).released
    x = np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
    wild = p.leaf(released, 7 * x, np.array([9.0, -9.0]))
    np.testing.assert_allclose(wild, p.leaf(released, x, np.array([1.0, 0.0])))


def test_tangent_range_of_symmetric_links_is_below_one():
    for link in (Probit(), Logistic()):
        for S in (1.0, 2.0, 3.5):
            _, Y = Tangent().bounds(link, S)
            assert Y == pytest.approx(float(link.mu(S) - S * link.dmu(S)), rel=1e-9)
            assert Y <= 1
    assert Tangent().bounds(Logistic(), 2.0)[1] == pytest.approx(0.67, abs=0.005)


def test_probit_line_is_the_exact_gaussian_average():
    z, omega = 0.7, 1.3
    w, value = Statistical().line(Probit(), 2.0, np.array([z]), np.array([omega**2]))
    mean = quad(lambda g: norm.cdf(z + omega * g) * norm.pdf(g), -10, 10)[0]
    slope = quad(lambda g: norm.pdf(z + omega * g) * norm.pdf(g), -10, 10)[0]
    np.testing.assert_allclose([w[0], value[0]], [slope, mean], rtol=1e-9)


def test_logistic_line_is_close_to_the_gaussian_average():
    z, omega = 1.0, 1.0
    w, value = Statistical().line(Logistic(), 3.0, np.array([z]), np.array([omega**2]))
    mean = quad(lambda g: norm.pdf(g) / (1 + math.exp(-z - omega * g)), -10, 10)[0]
    assert value[0] == pytest.approx(mean, abs=0.005)
    assert w[0] == pytest.approx((quad(lambda g: g * norm.pdf(g) / (1 + math.exp(-z - omega * g)), -10, 10)[0]) / omega, abs=0.01)


def test_quadrature_line_is_exact_without_error_and_for_the_linear_link():
    link, z = TruncatedPoisson(4), np.linspace(-1, 1, 5)
    w, value = Statistical().line(link, 2.0, z, np.zeros(5))
    np.testing.assert_allclose(w, link.dmu(z), rtol=1e-12)
    np.testing.assert_allclose(value, link.mu(z), rtol=1e-12)
    w, _ = Statistical().line(Linear(), 2.0, z, np.ones(5))
    np.testing.assert_allclose(w, 1.0)


def test_surrogate_slope_is_the_least_squares_slope():
    S, link = 2.0, Probit()
    num = quad(lambda z: z * (norm.cdf(z) - 0.5), -S, S)[0]
    assert QuadraticSurrogate().bounds(link, S)[0] == pytest.approx(num / (2 * S**3 / 3), rel=1e-10)


def run(p: OneRelease, x: np.ndarray, reward: np.ndarray, seed: int = 3) -> list:
    """Feeds chosen features x (T, R, d) and rewards (T, R); the released estimates."""
    noise = np.random.default_rng(seed)
    state, seen = p.init(x.shape[1], noise), []
    for t in range(len(x)):
        state = p.update(state, x[t], reward[t], noise)
        seen.append(state.released)
    return seen


def records(T: int, R: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((T, R, d))
    x /= np.maximum(1, np.linalg.norm(x, axis=-1, keepdims=True))
    return x, (rng.random((T, R)) < 0.5).astype(float)


def test_noise_free_run_equals_a_plain_loop():
    """E* written out for one replication, scalars and dense matrices, from its description."""
    d, S, T = 2, 2.0, 40
    x, r = records(T, 1, d)
    seen = run(policy(d=d, epsilon=math.inf, ridge_min=0.5), x, r)
    A, b, theta, Hinv = np.zeros((d, d)), np.zeros(d), np.zeros(d), np.eye(d) / 0.5
    for t in range(T):
        v = x[t, 0]
        z = float(v @ theta)
        omega2 = min(float(v @ Hinv @ v), S**2 / d * float(v @ v))
        k = math.sqrt(1 + omega2)
        w = norm.pdf(z / k) / k
        y = min(0.5, max(-0.5, r[t, 0] - norm.cdf(z / k) + w * z))
        A, b = A + w * np.outer(v, v), b + y * v
        Hinv = np.linalg.inv(A + 0.5 * np.eye(d))
        theta = Hinv @ b
        theta = theta * min(1.0, S / np.linalg.norm(theta))
        np.testing.assert_allclose(seen[t].theta[0], theta, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(seen[t].Hinv[0], Hinv, rtol=1e-9)


@pytest.mark.parametrize("linearisation", LINEARISATIONS, ids=lambda k: type(k).__name__)
def test_zero_noise_goes_through_the_same_code_bit_for_bit(linearisation):
    x, r = records(30, 4, 3)
    free = policy(epsilon=math.inf, linearisation=linearisation)
    assert free.sums.sigma == 0 and math.isinf(free.guarantee(1e-5).epsilon)
    first, second = run(free, x, r, seed=1), run(free, x, r, seed=2)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.theta, b.theta)
        np.testing.assert_array_equal(a.Hinv, b.Hinv)


@pytest.mark.parametrize("mechanism", PREFIX_SUMS.values(), ids=PREFIX_SUMS)
def test_ledger_is_tight_for_every_mechanism(mechanism):
    for epsilon, delta in ((1.0, 1e-5), (8.0, 0.02)):
        p = policy(epsilon=epsilon, delta=delta, mechanism=mechanism)
        assert p.guarantee(delta).epsilon == pytest.approx(epsilon, rel=1e-8)
        assert (p.ledger.trust, p.ledger.neighbours) == ("joint", "replace")
        assert gaussian_epsilon(p.sums.mu, delta) == pytest.approx(epsilon, rel=1e-8)


def test_released_noise_has_the_stated_size():
    """n = 4000 replications, zero records; the vector's entry at t = 16 has std sums.std(16) Y / sqrt(tau): 5 sigma of a sample std."""
    p = policy(horizon=16, mechanism=SquareRootFFT)
    size, n = 6 + 3, 4000
    noise = np.random.default_rng(4)
    state = p.sums.init(n, size, noise)
    for _ in range(16):
        state, prefix = p.sums.release(state, np.zeros((n, size)), noise)
    raw = (prefix * p.scale)[:, -1]
    expected = float(p.sums.std(16)) * 0.5 / math.sqrt(p.tau)
    assert abs(raw.std() / expected - 1) < 5 / math.sqrt(2 * n)


@pytest.mark.parametrize("mechanism", [SquareRoot, TreeMechanism])
@pytest.mark.parametrize(
    ("linearisation", "reached"), [(QuadraticSurrogate(), 0.97), (Tangent(), 0.8), (Statistical(), 0.8)], ids=["surrogate", "tangent", "statistical"]
)
def test_replay_never_passes_the_ledger_and_comes_close(linearisation, reached, mechanism):
    """The first of 16 users is replaced, in 200 replications at once: unit features at every angle, both rewards."""
    T, R, rng = 16, 200, np.random.default_rng(6)
    x, r = records(T, R, 2)
    users = Users(x[:, :, None], r[:, :, None])
    first, second = (unit_circle(rng.uniform(0, 2 * math.pi, R)) for _ in range(2))
    at, draw = np.zeros(R, dtype=int), lambda: rng.integers(0, 2, (R, 1)).astype(float)
    pair = Neighbours(users.replace(at, first, draw()), users.replace(at, second, draw()), at)
    p = policy(d=2, horizon=T, linearisation=linearisation, mechanism=mechanism)
    worst = replay(p, pair).mu.max()
    assert reached * p.ledger.mu <= worst <= p.ledger.mu * (1 + 1e-9)


def unit_circle(angle: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)[:, None]


@pytest.mark.parametrize(("linearisation", "low", "high"), [(Statistical(), 0, 30), (QuadraticSurrogate(), 40, 1e4)])
def test_bias_of_the_surrogate_on_mix_contexts(linearisation, low, high):
    """Probit, S = 3, T = 6000, epsilon = 8, delta = .02, n = 16, seed 11. Seen: 8 (standard deviation 2) and 118 (60)."""
    p = policy(S=3.0, horizon=6000, epsilon=8.0, delta=0.02, linearisation=linearisation)
    environment = GLMEnvironment(Probit(), d=3, K=20, S=3.0, contexts_kind="mix")
    mean = simulate(p, environment, horizon=6000, replications=16, seed=11).final.mean()
    assert low <= mean <= high


def test_regret_of_the_default():
    """Probit, S = 3, T = 5000, epsilon = 4, delta = .02, n = 20, seed 12. Over 100 runs the mean is 21.6, the standard deviation 9: 5 sigma."""
    p = policy(S=3.0, horizon=5000, epsilon=4.0, delta=0.02)
    environment = GLMEnvironment(Probit(), d=3, K=20, S=3.0)
    assert simulate(p, environment, horizon=5000, replications=20, seed=12).final.mean() <= 32


def test_ridge_comes_from_the_theoretical_noise():
    """The same exact sums with other noise give the same regularisation: H is the released matrix plus a public multiple of I."""
    p = policy(epsilon=8.0)
    prefix = np.zeros((1, 9))
    released = p.estimate(prefix, float(p.std[9]))
    expected = max(1.0, 1.5 * float(p.std[9]) * p.scale[0] * math.sqrt(6))
    np.testing.assert_allclose(released.Hinv[0], np.eye(3) / expected)


@pytest.mark.parametrize("size", [(1, 1, 1), (2, 1, 1)])
def test_smallest_sizes_work(size):
    d, R, K = size
    p = policy(d=d, horizon=1)
    noise = np.random.default_rng(0)
    state, action = p.act(p.init(R, noise), np.ones((R, K, d)) / d, noise)
    state = p.update(state, np.ones((R, d)) / d, np.ones(R), noise)
    assert action.shape == (R,) and np.isfinite(state.released.theta).all()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"d": 0}, "d must"),
        ({"horizon": 0}, "horizon"),
        ({"S": -1.0}, "S must"),
        ({"bonus": math.inf}, "bonus"),
        ({"tau": 0.0}, "tau"),
        ({"link": Poisson()}, "link must have bounded rewards"),
    ],
)
def test_bad_parameters_are_refused(change, word):
    with pytest.raises((ValueError, TypeError), match=word):
        policy(**change)
