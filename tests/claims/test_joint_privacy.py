"""Checks of the claims in the chapter on joint privacy of Gaussian-process bandits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.stats import chi2, kstest, wishart

from privbandit.accounting import gaussian_mu
from privbandit.audit.replay import Neighbours, Users, replay
from privbandit.features import SquaredExponential, equispaced_features, features_for_horizon
from privbandit.formulas.gp import JOINT_SENSITIVITY
from privbandit.gp.calibration import Calibration, NoiseBounds, calibrate, make_shape
from privbandit.gp.gram import FullGram, MomentGram
from privbandit.gp.leaf import Shape
from privbandit.gp.prefix_noise import prefix_noise
from privbandit.gp.published import published_calibration
from privbandit.gp.report import calibrate_gp
from privbandit.gp.wishart import WishartNoise
from privbandit.linalg import smat
from privbandit.mechanisms import SquareRoot
from privbandit.policies.noisy_gp_ucb import NoisyGPUCB, joint_gp_ucb

from .claim import claim

SE = SquaredExponential(0.2)
FEATURES = features_for_horizon(SE, 2**10)


@claim(
    "gp-leaf-sensitivity",
    subject=JOINT_SENSITIVITY,
    mutants={
        "composition of separate releases": lambda b: 2 + 4 * np.asarray(b),
        "matrix alone": lambda b: 2 + 0 * np.asarray(b),
        "orthogonal points": lambda b: 2 + 2 * np.asarray(b),
    },
)
def check_leaf(formula):
    """The supremum over the angle between two unit vectors in the plane (grid of 200,001) and the corner rewards: above no pair, and
    attained to 1e-8."""
    angle = np.linspace(0, np.pi, 200_001)
    c = np.cos(angle)
    for b in (0.01, 0.3, 1.0, 1.99, 2.0, 2.5, 5.0):
        pairs = [(1, 1), (1, -1), (1, 0), (0.4, -1)]
        worst = max(float(np.max(2 * (1 - c**2) + b * (y**2 + z**2 - 2 * y * z * c))) for y, z in pairs)
        assert abs(float(formula(b=b)) - worst) < 1e-8


test_gp_leaf_sensitivity = check_leaf


def neighbours(T, R, K, seed):
    rng = np.random.default_rng(seed)
    users = Users(rng.random((T, R, K, 1)), rng.choice([-1.0, 1.0], (T, R, K)))
    at = rng.integers(0, T, R)
    return Neighbours(users, users.replace(at, rng.random((R, K, 1)), -users.rewards[at, np.arange(R)]), at)


def quieter(features, T, epsilon, delta, **options):
    """Charges for Delta and adds noise for Delta/2."""
    policy = joint_gp_ucb(features, T, epsilon, delta, **options)
    c = policy.calibration
    return replace(policy, calibration=Calibration(c.leaf, replace(c.mechanism, sigma=c.mechanism.sigma / 2), c.ratio, c.zeta, c.B, c.block))


@claim("gp-joint-dp", subject=joint_gp_ucb, mutants={"half the noise": quieter})
def check_joint(make):
    """On 36 neighbouring streams a mechanism the running code is replayed: everything the other users see coincides on the path, and
    the squared shifts over squared noises add up to at most mu^2 of the calibration asked for (to 1e-9)."""
    T, mu = 16, gaussian_mu(1.0, 1e-5)
    for options in ({"mechanism": "tree", "gram": "symmetric"}, {}, {"block": 4}):
        policy = make(features_for_horizon(SE, T), T, 1.0, 1e-5, **options)
        for seed in range(3):
            assert np.all(replay(policy, neighbours(T, 12, 5, seed), seed).mu <= mu * (1 + 1e-9))


test_gp_joint_dp = check_joint


class WrongSign(MomentGram):
    """Sine-sine products with a plus sign."""

    def decode(self, coordinates, count):
        return super().decode(np.abs(coordinates), count)


class NoConstant(MomentGram):
    """Forgets the moment of frequency zero."""

    def decode(self, coordinates, count):
        return super().decode(coordinates, 0)


@claim("moment-identity", subject=MomentGram, mutants={"signs lost": WrongSign, "constant part lost": NoConstant})
def check_moments(kind):
    """phi phi^T rebuilt from the moments at 50 points, to 1e-11; number of moments 2(m - 1) in one dimension."""
    rng = np.random.default_rng(0)
    for n, d in ((5, 1), (13, 1), (19, 1), (5, 2)):
        features = equispaced_features(SquaredExponential(0.5), n, d)
        gram, x = kind(features), rng.random((50, d))
        phi = features(x)
        assert np.max(np.abs(gram.decode(gram.encode(x), 1) - phi[:, :, None] * phi[:, None, :])) < 1e-11
        assert d > 1 or gram.size == 2 * (features.m - 1)


test_moment_identity = check_moments


def moment_sensitivity(gram):
    shape = Shape(gram)
    return math.sqrt(float(np.max(shape.profile.gram) + shape.profile.slack[0]))


def nearby_only(gram):
    return math.sqrt(float(np.max(gram.distance(np.linspace(0, 0.1, 500)[:, None]))))


@claim(
    "moment-sensitivity",
    subject=moment_sensitivity,
    mutants={"close pairs only": nearby_only, "add/remove": lambda gram: math.sqrt(float(np.sum(gram.tau**-2.0)))},
)
def check_moment_sensitivity(sensitivity):
    """Above the distance of 40,000 random pairs, and within 1% of the largest."""
    gram, rng = MomentGram(equispaced_features(SE, 13)), np.random.default_rng(1)
    x = rng.random((40_000, 2, 1))
    largest = float(np.max(np.linalg.norm(gram.encode(x[:, 0]) - gram.encode(x[:, 1]), axis=1)))
    assert largest <= sensitivity(gram) <= 1.01 * largest


test_moment_sensitivity = check_moment_sensitivity


@claim("gram-noise-norm", subject=FullGram.norm, mutants={"mean only": lambda gram, eta: gram.mean_norm, "half": lambda gram, eta: 0.5 * gram.mean_norm})
def check_norm(bound):
    """n = 4,000 draws at eta = 0.01; a true rate of 2% would be rejected at more than five sigma of the 1% null. The mean of lambda_max
    is compared with its bound as well."""
    rng, n, eta = np.random.default_rng(2), 4000, 0.01
    for shape in (0.0, 0.2):
        gram = FullGram(equispaced_features(SE, 13), shape)
        values = np.linalg.eigvalsh(gram.decode(rng.standard_normal((n, gram.size)), 0))
        assert values[:, -1].mean() <= gram.mean_norm
        assert np.mean(np.abs(values).max(axis=1) > bound(gram, eta)) <= eta + 5 * math.sqrt(eta / n)
    gram = MomentGram(equispaced_features(SE, 13))
    norms = np.linalg.norm(gram.decode(rng.standard_normal((n, gram.size)), 0), 2, axis=(1, 2))
    assert np.mean(norms > gram.norm(eta)) <= eta + 5 * math.sqrt(eta / n)


test_gram_noise_norm = check_norm


def trace_bound(s, H, c, low):
    return s.sum() / c - np.sum(s * np.diag(H)) / c**2 + np.sum((H * np.sqrt(s)) ** 2) / (c**2 * low)


@claim(
    "kappa-bound",
    subject=trace_bound,
    mutants={
        "first order only": lambda s, H, c, low: s.sum() / c - np.sum(s * np.diag(H)) / c**2,
        "remainder over c": lambda s, H, c, low: s.sum() / c - np.sum(s * np.diag(H)) / c**2 + np.sum((H * np.sqrt(s)) ** 2) / c**3,
    },
)
def check_kappa(bound):
    """500 random matrices, the shift only just enough, so that the remainder matters."""
    rng = np.random.default_rng(3)
    for _ in range(500):
        m = int(rng.integers(2, 13))
        G = rng.standard_normal((m, m))
        H, s = (G + G.T) / 2, rng.random(m)
        low = rng.uniform(0.05, 1.0)
        c = low - np.linalg.eigvalsh(H)[0]
        assert np.trace(np.diag(s) @ np.linalg.inv(c * np.eye(m) + H)) <= bound(s, H, c, low) + 1e-9


test_kappa_bound = check_kappa


def narrow(features, T, epsilon, delta, **options):
    """Bounds for noise of half the size that is added."""
    c = calibrate(features, T, epsilon, delta, **options)
    object.__setattr__(c, "spectrum", c.at(0.4 * c.mechanism.max_std))
    return c


@claim("gp-spectral-bounds", subject=calibrate, mutants={"bounds for 0.4 of the noise": narrow})
def check_spectrum(make):
    """60 paths of all 256 prefixes; zeta = 0.05 allows 3 failing paths on average, 13 would be five sigma."""
    T, R = 256, 60
    for options in ({"mechanism": "tree", "gram": "symmetric"}, {"gram": "moment"}, {"gram": "shaped"}):
        c = make(FEATURES, T, 1.0, 1e-5, **options)
        assert outside(c, T, R).sum() <= 12


test_gp_spectral_bounds = check_spectrum


def outside(c: Calibration, T: int, R: int):
    """Paths (R,) on which some prefix leaves the bounds."""
    failed, s = np.zeros(R, dtype=bool), c.spectrum
    for z in prefix_noise(c.mechanism, np.arange(1, T + 1), R, c.leaf.size, np.random.default_rng(3)):
        H, h = c.leaf.decode(z, 0)
        values, vectors = np.linalg.eigh(H + s.shift * np.eye(H.shape[-1]))
        rotated = np.einsum("rij,ri->rj", vectors, h)
        norm = np.sqrt(np.sum(rotated**2 / np.maximum(values, 1e-9), axis=1))
        failed |= (values[:, 0] < s.lambda_min) | (values[:, -1] > s.lambda_max) | (norm > s.kappa)
    return failed


def even_split(features, T, epsilon, delta, **options):
    c = calibrate(features, T, epsilon, delta, **options)
    return replace(c, leaf=replace(c.leaf, scale=1.0), mechanism=SquareRoot.calibrated(T, c.mechanism.mu, c.leaf.shape.sensitivity(1.0, 1.0)), ratio=1.0)


@claim("gp-design-optimal", subject=calibrate, mutants={"equal scales and the literature's ratio": even_split})
def check_design(make):
    """No pair of a 60 x 60 grid beats the chosen one by more than 0.1%."""
    for epsilon in (1.0, 10.0):
        for gram in ("symmetric", "moment"):
            c = make(FEATURES, 2**10, epsilon, 1e-5, gram=gram, exponents=(0.0,))
            shape = make_shape(FEATURES, gram)
            bounds = NoiseBounds.of(shape, 0.05 / (4 * 2**10))
            std = SquareRoot.calibrated(2**10, gaussian_mu(epsilon, 1e-5)).max_std
            widths = [
                bounds.spectrum(std * shape.sensitivity(1.0, scale), scale, ratio).width(1.0)
                for scale in np.geomspace(0.2, 4, 60)
                for ratio in np.geomspace(0.1, 20, 60)
            ]
            assert c.private_width <= 1.001 * min(widths)


test_gp_design_optimal = check_design


@claim(
    "gp-private-width",
    subject=calibrate_gp,
    mutants={"fresh ledger for every level": lambda: calibrate_gp(epsilon=0.25), "no vector noise": lambda: calibrate_gp() | {"private_width": calibrate_gp()["kappa"]}},
)
def check_width(report):
    """The printed numbers, and that the width is B sqrt(lambda_max) + kappa."""
    r = report()
    assert abs(r["private_width"] - math.sqrt(r["lambda_max"]) - r["kappa"]) < 1e-9
    assert 42 < r["private_width"] < 44
    assert abs(r["exact_tree_private_width"] - 85.4) < 0.05
    assert round(r["published_private_width_same_features"]) == 491
    assert round(r["published_private_width"]) == 527
    assert r["published_private_width_same_features"] > 10 * r["private_width"]


test_gp_private_width = check_width


def true_epsilon(epsilon, delta):
    c = published_calibration(FEATURES, 2**13, epsilon, delta)
    return NoisyGPUCB(c).guarantee(delta).epsilon


@claim("published-overshoot", subject=true_epsilon, mutants={"as claimed": lambda epsilon, delta: epsilon})
def check_overshoot(true):
    """Exact accounting of the tree with the printed noise."""
    assert 0 < true(1.0, 1e-5) < 0.06


test_published_overshoot = check_overshoot


def draw_wishart(p, k, n, rng):
    return smat(WishartNoise(p, k, 1.0).draw((n,), k, rng), p)


def scaled_wishart(p, k, n, rng):
    return 2 * draw_wishart(p, k, n, rng)


@claim("gp-wishart-loss", subject=(draw_wishart, WishartNoise), mutants={"covariance 2": (scaled_wishart, None), "one degree less": (lambda p, k, n, rng: draw_wishart(p, k - 1, n, rng), None)})
def check_wishart(subject):
    """Kolmogorov-Smirnov, n = 20,000, level 1e-6 (an error of one degree shifts the mean by 1/5: rejected surely); the log density ratio
    of W and W - v v^T as a function of v^T W^-1 v alone, to 1e-8."""
    draw, p, k = subject[0], 5, 9
    W = draw(p, k, 20_000, np.random.default_rng(4))
    v = np.ones(p) / math.sqrt(p)
    q = np.einsum("i,nij,j->n", v, np.linalg.inv(W), v)
    assert kstest(1 / q, chi2(k - p + 1).cdf).pvalue > 1e-6
    for X, s in zip(W[:200], q[:200], strict=True):
        Y = X + np.outer(v, v)
        ratio = wishart(k, np.eye(p)).logpdf(X) - wishart(k, np.eye(p)).logpdf(Y)
        assert abs(ratio - (0.5 - (k - p - 1) / 2 * math.log1p(s))) < 1e-8


test_gp_wishart_loss = check_wishart
