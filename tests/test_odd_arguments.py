"""Odd arguments of set-up code: the error names the argument, or the answer is right. One row: argument, call."""

import math

import numpy as np
import pytest

from privbandit import design, sensitivity, spectra
from privbandit.audit.attack import attack, clopper_pearson, epsilon_lower_bound
from privbandit.environments.gp import bump_functions, random_functions, unit_grid
from privbandit.estimators.ball import project
from privbandit.estimators.gp import KernelPosterior
from privbandit.features import certificate as grids
from privbandit.features import information_gain as gain
from privbandit.features.kernels import SquaredExponential
from privbandit.features.quadrature import choose_features, equispaced_features
from privbandit.gp import calibration, fast, report, wishart
from privbandit.gp.leaf import Shape
from privbandit.gp.width import regret_bound
from privbandit.kappa import kappa, kappa_hat, kappa_star
from privbandit.links import Linear, Logistic, Poisson, Probit, TruncatedPoisson
from privbandit.mechanisms import TreeMechanism
from privbandit.mechanisms import wishart as linear_wishart
from privbandit.mechanisms.optimisers import NoisyGradientDescent, theory_rate
from privbandit.mechanisms.shuffle import BitSum, ScalarSum, ShuffleGradientDescent, VectorSum, amplification, certificate, hockey_stick
from privbandit.mechanisms.shuffle.sums import PlainSum, grid_points, matrix_target, symmetric_range
from privbandit.policies.algorithm2 import RepairedAlgorithm2
from privbandit.policies.batched import geometric, growth, schedule
from privbandit.policies.gp_ucb import GPUCB
from privbandit.policies.ldp_glm import gradient_bound
from privbandit.policies.linucb import LinUCB
from privbandit.policies.private_linucb import PrivateLinUCB
from privbandit.policies.private_ucb import PrivateUCB
from privbandit.policies.shuffle_linucb import ShuffleLinUCB
from privbandit.releases.cloaking import Cloaking, d_optimal, function_mechanism_std
from privbandit.releases.reward_local import RewardLocalGPUCB

NAN, INF = math.nan, math.inf
arms, uniform = np.ones((2, 5, 3)), np.full((2, 5), 0.2)
tree = TreeMechanism(8, 1.0, 3.0)
practical = lambda **k: PrivateLinUCB.practical(1.0, 1e-5, **({"d": 2, "horizon": 8} | k))  # noqa: E731
published = lambda **k: PrivateLinUCB.published(**({"epsilon": 1.0, "delta": 1e-5, "d": 2, "horizon": 8} | k))  # noqa: E731
bits = lambda **k: BitSum.calibrated(**({"users": 20, "epsilon": 1.0, "delta": 1e-3} | k))  # noqa: E731
scalar = lambda **k: ScalarSum.calibrated(**({"users": 20, "grid": 2, "epsilon": 1.0, "delta": 1e-3} | k))  # noqa: E731
local = lambda **k: amplification.gaussian_local_sigma(**({"epsilon": 1.0, "delta": 1e-5, "users": 10} | k))  # noqa: E731
kernel, points, rng = SquaredExponential(0.3), np.linspace(0, 1, 5)[:, None], np.random.default_rng(0)
features, matrix = equispaced_features(kernel, 5), kernel(points, points)
shape = calibration.make_shape(features, "moment")
cloak = lambda **k: Cloaking(**({"kernel": kernel, "x": points, "x_star": points, "variance": 0.1, "change": 1.0, "epsilon": 1.0, "delta": 1e-3} | k))  # noqa: E731
baseline = lambda **k: function_mechanism_std(**({"kernel": kernel, "x": points, "variance": 0.1, "change": 1.0, "epsilon": 1.0, "delta": 1e-3} | k))  # noqa: E731
gp_design = lambda **k: calibration.design(**({"shape": shape, "std": 1.0, "releases": 8, "B": 1.0, "Y": 1.0, "zeta": 0.1} | k))  # noqa: E731
bound = lambda **k: regret_bound(**({"T": 9, "beta": 1.0, "gain": 1.0, "lambda_min": 1.0, "m": 3, "error": 0.0, "B": 1.0} | k))  # noqa: E731
sgd = NoisyGradientDescent(Logistic(), 3, 1.0)

REFUSED = [
    *[("accuracy", lambda a=a: bits(accuracy=a)) for a in (0.0, -1.0, 1.0, NAN, "x", None)],
    *[("users", lambda u=u: bits(users=u)) for u in (0, -1, 2.5, "x", None)],
    *[("epsilon", lambda e=e: bits(epsilon=e)) for e in (0.0, -1.0, NAN, INF, 1e4, "x")],
    *[("users", lambda u=u: BitSum.published(u, 1.0, 1e-3)) for u in ("x", None, NAN)],
    *[("epsilon", lambda e=e: scalar(epsilon=e)) for e in (0.0, 1e4, INF)],
    *[("p", lambda p=p: scalar(p=p)) for p in (0.0, 1.0, NAN)],
    *[("users", lambda u=u: scalar(users=u)) for u in (0, NAN)],
    ("grid", lambda: scalar(grid=0)),
    ("p", lambda: ScalarSum.published(10, 3, 1.0, 1e-5, p=-1.0)),
    *[("epsilon", lambda e=e: VectorSum.published(10, 2, e, 1e-5)) for e in ("x", NAN, 16.0)],
    *[("epsilon", lambda e=e: VectorSum.ball(10, 2, e, 1e-5)) for e in (INF, NAN, 0.0)],
    *[("low", lambda v=v: VectorSum.calibrated(10, v, [1.0], 2.0, 1.0, 1e-9)) for v in ("x", None, [NAN], [[1.0]])],
    *[("users", lambda u=u: PlainSum(u)) for u in (-1, 0, NAN, "x")],
    *[("W", lambda w=w: symmetric_range(2, w)) for w in (NAN, INF, -1.0, 0.0, "x")],
    *[("users", lambda u=u: grid_points(u, 2)) for u in (NAN, -1, "x")],
    ("d", lambda: matrix_target(1.0, 1e-5, 0)),
    *[("mu", lambda m=m: certificate.least_bits(10, 3.0, 2, m, 1e-9)) for m in (0.0, -1.0, NAN, 1e-300)],
    *[("mu", lambda m=m: certificate.most_shift(100, 2, m, 1e-9)) for m in (0.0, -1.0, NAN, INF)],
    *[("shifts", lambda k=k: certificate.inflation(100, k, 1e-9)) for k in (0, -1, 2.5)],
    *[("epsilon", lambda e=e: hockey_stick.divergence(uniform, uniform, e)) for e in (NAN, -1.0, 1e4)],
    ("P", lambda: hockey_stick.divergence(uniform * NAN, uniform, 1.0)),
    *[("p", lambda p=p: hockey_stick.binomial_shift(10, 1, 1.0, p)) for p in (NAN, 0.0, 2.0)],
    ("shift", lambda: hockey_stick.binomial_shift_vector(10, [1.5], 1.0)),
    ("ones", lambda: hockey_stick.bit_sum_delta(10, 0.3, 1.0, [1.5])),
    *[("users", lambda u=u: local(users=u)) for u in (NAN, INF, 0, -1, "x")],
    *[("Delta", lambda D=D: local(Delta=D)) for D in (NAN, INF, 0.0, "x")],
    *[("epsilon", lambda e=e: local(epsilon=e)) for e in (NAN, INF, 0.0, 1e4)],
    *[("epsilon", lambda e=e: amplification.shuffled_delta(e, 1.0, 10)) for e in (NAN, -1.0, 1e4)],
    *[("epsilon_0", lambda e=e: amplification.shuffled_epsilon(e, 10, 1e-5)) for e in (NAN, 0.0, 1e4)],
    ("gradients", lambda: ShuffleGradientDescent(None, 2, 1.0)),
    ("L", lambda: ShuffleGradientDescent.calibrated(10, 2, 1.0, 1.0, 1e-5, L=0.0)),
    *[("users", lambda u=u: ShuffleGradientDescent.published(u, 2, 1.0, 0.5, 1e-5)) for u in (NAN, -1, "x")],
    *[("most_rounds", lambda m=m: ShuffleGradientDescent.published(100, 2, 1.0, 0.5, 1e-5, most_rounds=m)) for m in (0, 2.5, NAN)],
    *[("centre", lambda c=c: LinUCB(d=2, centre=c)) for c in (NAN, INF, None, "x", True)],
    *[("centre", lambda c=c: PrivateLinUCB(d=2, mechanism=tree, centre=c)) for c in (NAN, None)],
    ("mechanism", lambda: PrivateLinUCB(d=2, mechanism="tree")),
    *[("shift", lambda s=s: PrivateLinUCB(d=2, mechanism=tree, alpha=1.0, shift=s)) for s in (-1.0, NAN)],
    *[("ridge", lambda r=r: practical(ridge=r)) for r in (-1.0, 0.0, NAN)],
    *[("d", lambda d=d: practical(d=d)) for d in (0, -1, 2.5, "x")],
    *[("Y", lambda y=y: practical(Y=y)) for y in (0.0, -1.0, NAN)],
    *[("horizon", lambda h=h: published(horizon=h)) for h in (0, 2.5, "x")],
    *[("epsilon", lambda e=e: published(epsilon=e)) for e in (-1.0, NAN, "x")],
    *[("mu", lambda m=m: NoisyGradientDescent.calibrated(Logistic(), 3, m)) for m in (0.0, NAN)],
    *[("L", lambda v=v: NoisyGradientDescent.calibrated(Logistic(), 3, 1.0, L=v)) for v in (-1, 0.0, NAN)],
    *[("S", lambda s=s: gradient_bound(Logistic(), s)) for s in (-1, NAN, "x")],
    *[("link", lambda link=link: gradient_bound(link, 1.0)) for link in ("logistic", Logistic, None)],
    *[("horizon", lambda h=h: growth(h)) for h in (NAN, 0, "x")],
    ("batches", lambda: growth(100, NAN)),
    *[("alpha", lambda a=a: schedule(10, 1, a)) for a in (0.0, NAN)],
    ("first", lambda: geometric(10, 0)),
    *[("p", lambda p=p: wishart.GPWishartTree(8, 1.0, p=p)) for p in ("x", 0, NAN)],
    *[("k", lambda k=k: wishart.GPWishartTree(8, 1.0, p=3, k=k)) for k in (NAN, 2)],
    *[("epsilon", lambda e=e: wishart.replacement_target(e, 1e-5)) for e in (-1, NAN, 1e4)],
    *[("levels", lambda n=n: wishart.exact_degrees(3, n, 1.0, 1e-5)) for n in (0, 1.5)],
    *[("epsilon", lambda e=e: linear_wishart.WishartTree.calibrated(8, e, 1e-5, 2)) for e in (-1.0, 1e4)],
    *[("B", lambda b=b: report.published_private_width(B=b)) for b in (-1, NAN)],
    *[("zeta", lambda z=z: report.published_private_width(zeta=z)) for z in (NAN, 0.0)],
    ("nu", lambda: report.private_width(nu="x")),
    *[("hits", lambda h=h: clopper_pearson(h, 3, 0.05)) for h in (NAN, 4, -1, 1.5, "x")],
    ("delta", lambda: epsilon_lower_bound(3, 1, 5, NAN, 0.9)),
    ("score", lambda: attack(np.array([0.0, NAN]), np.zeros(2), 0.0, 0.9)),
    *[("link", lambda link=link: kappa(link, 1.0)) for link in ("logistic", Logistic, None)],
    *[("S", lambda s=s: kappa(Logistic(), s)) for s in (710.0, 800.0, 1e300)],
    ("S", lambda: kappa(Probit(), 38.0)),
    *[("S", lambda link=link, s=s: link.reward_range(s)) for link in (Logistic(), Probit(), Linear(), Poisson(), TruncatedPoisson())
      for s in (NAN, -1.0, "x")],
    *[("S", lambda s=s: kappa_hat(Logistic(), s, 3, 4)) for s in (1e6, 1e300)],
    *[("weight", lambda w=w: sensitivity.joint_leaf(w)) for w in (1e300, NAN)],
    ("Y", lambda: sensitivity.block_leaf(1e300)),
    *[("v", lambda v=v: sensitivity.outer_distance(v, np.ones(2))) for v in ([NAN, 1.0], "x", [1.0])],
    *[("blocks", lambda b=b: spectra.gaussian_bounds(tree, 4, 0.1, b)) for b in (0, 3, NAN, "x")],
    *[("sigma", lambda s=s: spectra.sample_eigenvalues(2, s, 3, np.random.default_rng(0))) for s in (NAN, -1.0)],
    ("rng", lambda: spectra.sample_eigenvalues(2, 1.0, 3, np.random)),
    ("x", lambda: spectra.semicircle([NAN], 2, 1.0)),
    ("p", lambda: design.information(arms, uniform[:1], 1.0)),
    ("max_iterations", lambda: design.g_optimal(arms, 1.0, max_iterations=-1)),
    *[("p", lambda p=p: design.draw(p, np.random.default_rng(0))) for p in (uniform * NAN, uniform * 0, uniform * INF, uniform[0])],
    *[("growth", lambda g=g: design.DistributionalDesign.learn(arms, 1.0, g)) for g in (1.0, 0.0, -1.0, NAN, "x")],
    *[("epsilon", lambda e=e: cloak(epsilon=e)) for e in (NAN, 0.0, -1.0, "x", None)],
    *[("delta", lambda d=d: cloak(delta=d)) for d in (NAN, 0.0, 1.0)],
    ("kernel", lambda: cloak(kernel="se")),
    ("x_star", lambda: cloak(x_star=np.ones((2, 2)))),
    *[("variance", lambda v=v: baseline(variance=v)) for v in (-1.0, NAN)],
    *[("change", lambda c=c: baseline(change=c)) for c in (-1.0, 0.0)],
    *[("iterations", lambda n=n: d_optimal(np.eye(2), iterations=n)) for n in (0, 2.5)],
    ("columns", lambda: d_optimal(np.full((2, 2), NAN))),
    *[("reward_subgaussian", lambda v=v: RewardLocalGPUCB(features, reward_subgaussian=v)) for v in (-1.0, 0.0, NAN)],
    ("features", lambda: RewardLocalGPUCB("se")),
    *[("K", lambda K=K: gain.greedy_gain(K, 3)) for K in (matrix * NAN, matrix[:, :2], "x")],
    ("K", lambda: gain.kernel_features(matrix[:2])),
    *[("lambda_", lambda v=v: gain.log_det_gain(np.eye(2), np.ones(2), v)) for v in (-1.0, 0.0, NAN)],
    *[("weights", lambda w=w: gain.log_det_gain(np.eye(2), w)) for w in ([-1.0, 1.0], [1.0], [NAN, 1.0])],
    *[("tolerance", lambda v=v: gain.information_gain(matrix, 3, tolerance=v)) for v in (-1.0, NAN)],
    *[("points", lambda n=n: grids.difference_grid((1.0,), n)) for n in (0, 1, 2.5)],
    *[("sides", lambda v=v: grids.difference_grid(v)) for v in ((NAN,), (-1.0,), ())],
    *[("radius", lambda v=v: project(np.ones((1, 2)), np.eye(2)[None], v)) for v in (-1.0, 0.0, NAN)],
    ("kernel", lambda: KernelPosterior("se")),
    *[("kernel", lambda k=k: choose_features(k, 0.1)) for k in ("se", SquaredExponential)],
    *[("period", lambda v=v: equispaced_features(kernel, 5, period=v)) for v in (0.0, NAN)],
    *[("exponent", lambda v=v: Shape(shape.gram, v)) for v in (-1.0, NAN, "x")],
    *[("std", lambda v=v: gp_design(std=v)) for v in (-1.0, 0.0, NAN)],
    *[("zeta", lambda v=v: gp_design(zeta=v)) for v in (0.0, NAN)],
    *[("Y", lambda v=v: gp_design(Y=v)) for v in (-1.0, NAN)],
    ("features", lambda: calibration.calibrate("se", 8, 1.0, 1e-5)),
    *[("T", lambda v=v: bound(T=v)) for v in (2.5, 0, "x")],
    *[("lambda_min", lambda v=v: bound(lambda_min=v)) for v in (0.0, NAN, "x")],
    *[("k", lambda k=k: wishart.wishart_delta(k, 3, 2, 1.0)) for k in (NAN, -1, 4)],
    *[("levels", lambda n=n: wishart.wishart_delta(20, 3, n, 1.0)) for n in (0, -1, 2.5)],
    *[("scale", lambda v=v: wishart.WishartNoise(3, 5, v)) for v in (-1.0, NAN, "x")],
    *[("ratio", lambda v=v: fast.refresh_rounds(9, 1, v)) for v in (INF, 0.5, NAN, "x")],
    *[("d", lambda d=d: unit_grid(3, d)) for d in (0, 2.5)],
    ("grid", lambda: random_functions(kernel, points * NAN, 2, rng)),
    ("terms", lambda: random_functions(kernel, points, 2, rng, terms=0)),
    ("R", lambda: bump_functions(kernel, points, -1, rng, height=0.3)),
    *[("diameter", lambda v=v: theory_rate(sgd, 5, 2, v)) for v in (-1.0, NAN)],
    *[("n", lambda n=n: theory_rate(sgd, n, 2, 1.0)) for n in (-1, NAN)],
    *[("horizon", lambda h=h: ShuffleLinUCB(d=2, protocol=PlainSum(3), horizon=h)) for h in (0, NAN, "x")],
    *[("shift", lambda v=v: ShuffleLinUCB(d=2, protocol=PlainSum(3), horizon=9, shift=v)) for v in (-1.0, NAN)],
    ("protocol", lambda: ShuffleLinUCB(d=2, protocol="vector", horizon=9)),
    ("protocol.Delta", lambda: ShuffleLinUCB(d=2, protocol=VectorSum.ball(3, 5, 1.0, 1e-5, radius=0.1), horizon=9)),
    *[("growth", lambda g=g: RepairedAlgorithm2(Logistic(), 2, 1.0, 9, 1.0, 1e-5, growth=g)) for g in (1.0, NAN, INF, "x")],
    *[("newton", lambda n=n: RepairedAlgorithm2(Logistic(), 2, 1.0, 9, 1.0, 1e-5, newton=n)) for n in (0, 2.5)],
    ("kernel", lambda: GPUCB("se", 1)),
    ("mechanism", lambda: PrivateUCB(K=2, mechanism="tree")),
]  # fmt: skip


@pytest.mark.parametrize("name, call", REFUSED)
def test_the_argument_is_named(name, call):
    with pytest.raises((ValueError, TypeError), match=rf"\b{name}\b.* (must|, got)") as caught:
        call()
    assert name in str(caught.value).split(" must ")[0]


def test_large_budgets_of_shuffled_sums():
    """Past log((2 - q) / q) each bit is protected by itself; bounds never rise with epsilon."""
    assert hockey_stick.bit_sum_delta(50, 0.1, 700.0) == 0.0
    assert BitSum.calibrated(50, 700.0, 1e-5).delta(700.0) <= 1e-5
    assert ScalarSum.calibrated(50, 4, 700.0, 1e-5).delta(700.0) <= 1e-5
    assert VectorSum.ball(50, 3, 1e6, 1e-5).ledger.epsilon(1e-5) <= 1e6
    assert local(epsilon=700.0) <= 0.0300
    assert amplification.shuffled_delta(700.0, 50.0, 10) <= amplification.shuffled_delta(1.0, 50.0, 10)


def test_kappa_over_large_ranges():
    """For large S the best of K arms meets mu' in a window of width 1/S: E mu' ~ f(0) / S, f(0) = K F(0)^(K-1) 3/4 for d = 3... = 3/8 here."""
    assert kappa_hat(Logistic(), 800.0, 3, 4) == pytest.approx(800 / (3 / 8), rel=1e-3)
    assert kappa(Logistic(), 700.0) == pytest.approx(math.exp(700.0), rel=1e-12)
    assert kappa_star(TruncatedPoisson(), 1e300) == pytest.approx(kappa_star(TruncatedPoisson(), 20.0), rel=1e-9)
    assert TruncatedPoisson().self_concordance(1e4) == pytest.approx(TruncatedPoisson().self_concordance(30.0), rel=1e-6)
