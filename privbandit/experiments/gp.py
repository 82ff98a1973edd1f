"""What privacy costs a Gaussian-process bandit: against the horizon, against epsilon, and on patients."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from privbandit.environments.gp import Functions, GaussianProcessBandit, unit_grid
from privbandit.environments.surface import NORM, REWARD_BOUND, SUBGAUSSIAN, response_surface
from privbandit.experiments.base import Experiment, Run
from privbandit.features import FourierFeatures, Kernel, Matern, SquaredExponential, choose_features, features_for_horizon, make_kernel
from privbandit.features.information_gain import relaxed_gain
from privbandit.gp import fast
from privbandit.gp.peeling import local_regret_bound
from privbandit.gp.published import published_calibration
from privbandit.gp.width import regret_bound
from privbandit.gp.wishart import wishart_calibration
from privbandit.policies.noisy_gp_ucb import NoisyGPUCB, joint_gp_ucb, local_gp_ucb
from privbandit.policies.uniform import Uniform

DELTA = 1e-5
EPSILONS = (1.0, 3.0, 10.0, 30.0)
COARSE = 1.1  # refresh ratio where matrices are large
DESIGNS = {
    "tree": {"mechanism": "tree", "gram": "symmetric"},
    "square root": {"gram": "symmetric"},
    "square root, shaped": {"gram": "shaped"},
    "square root, moments": {"gram": "moment"},
    "square root, moments, blocks of 64": {"gram": "moment", "block": 64},
}


@dataclass(frozen=True)
class LongRun(Run):
    """A run on the fast path, against functions of norm at most B. Functions, decision sets and reward noise depend on the seed only."""

    policy: NoisyGPUCB
    environment: GaussianProcessBandit
    ratio: float = 1.02  # of the geometric grid of refreshes

    def record(self, replications: int, seed: int) -> dict[str, np.ndarray]:
        """Besides the regret: the realised width sum and its theorem's bound, misses of the band, the largest width."""
        functions = bounded(self.environment.functions(replications, np.random.default_rng(seed)), self.policy.calibration.B)
        run = fast.play(self.policy, self.environment, functions, self.horizon, seed, self.ratio)
        numbers = {"width_sum": run.width_sum, "bound": bound(run, self.environment), "misses": run.misses, "excess": run.excess}
        return {"rounds": np.array([self.horizon]), "regret": run.regret[:, None]} | numbers | {"max_beta": run.max_beta}


def bounded(functions: Functions, B: float) -> Functions:
    """The functions, scaled down where |f|_k > B: the norm bound is an assumption of every policy."""
    scale = np.minimum(1.0, B / functions.norm)
    return Functions(functions.values * scale[:, None], functions.norm * scale, functions.coefficients * scale[:, None], functions.centres)


def bound(run: fast.Run, environment: GaussianProcessBandit) -> np.ndarray:
    """U(T) of every replication (R,): of the regret theorem with the realised largest width, or of the local theorem.

    Both are for a refresh after every block; the geometric grid of long runs is checked against them, not covered by them.
    """
    policy, T = run.policy, run.horizon
    calibration, phi = policy.calibration, policy.features(environment.grid)
    if policy.width.varying:
        return np.full(len(run.regret), local_regret_bound(policy.width, phi, T)["bound"])
    lambda_min, features = calibration.spectrum.lambda_min, calibration.features
    gain = relaxed_gain(phi, T, lambda_min, iterations=200)[0]
    facts = {"lambda_min": lambda_min, "m": features.m, "error": features.uniform_error, "B": calibration.B, "block": calibration.block}
    return np.array([regret_bound(T, beta, gain, **facts)["bound"] for beta in run.max_beta])


def powers(horizon: int | None, default: int) -> list[int]:
    """2^10, 2^12, ... up to the horizon; at least the horizon itself."""
    top = default if horizon is None else horizon
    return [4**j for j in range(5, 32) if 4**j <= top] or [top]


def rates(horizon: int | None) -> Iterator[Run]:
    """Every policy at epsilon = 10, designed anew for each horizon; then one-bump functions that shrink with the horizon."""
    kernel, epsilon = SquaredExponential(0.2), 10.0
    grid = unit_grid(100)
    world = GaussianProcessBandit(kernel, grid, 20)
    for T in powers(horizon, 2**16):
        features = features_for_horizon(kernel, T)
        plain = joint_gp_ucb(features, T, math.inf, DELTA, gram="symmetric")
        yield LongRun("se-d1", "honest", plain, world, T, name="not private")
        for name, policy in rate_policies(features, T, epsilon).items():
            yield LongRun("se-d1", "honest", policy, world, T, epsilon, DELTA, name)
        best, local = joint_gp_ucb(features, T, epsilon, DELTA, block=64), local_gp_ucb(features, T, epsilon, DELTA)
        hard = GaussianProcessBandit(kernel, grid, 20, bump=5 * T**-0.5)
        yield LongRun("bump T^(-1/2)", "honest", plain, hard, T, name="not private")
        yield LongRun("bump T^(-1/2)", "honest", best, hard, T, epsilon, DELTA, "square root, moments, blocks of 64")
        hard = GaussianProcessBandit(kernel, grid, 20, bump=2.5 * T**-0.25)
        yield LongRun("bump T^(-1/4)", "honest", local, hard, T, epsilon, DELTA, "local")


def rate_policies(features: FourierFeatures, T: int, epsilon: float) -> dict[str, NoisyGPUCB]:
    """All private policies of the table; blocks no longer than the horizon allows."""
    found = {
        "published constants": NoisyGPUCB(published_calibration(features, T, epsilon, DELTA)),
        "tree, Wishart": NoisyGPUCB(wishart_calibration(features, T, epsilon, DELTA)),
    }
    found |= {name: joint_gp_ucb(features, T, epsilon, DELTA, **design) for name, design in DESIGNS.items()}
    for block in (512, 4096):
        if T >= 2 * block:
            found[f"square root, moments, blocks of {block}"] = joint_gp_ucb(features, T, epsilon, DELTA, block=block)
    return found | {"local": local_gp_ucb(features, T, epsilon, DELTA)}


def settings(T: int) -> Iterator[tuple[str, Kernel, int, FourierFeatures]]:
    """Kernel, points a side of the grid, and features: error 1/T, or 0.01 (81 features) for the product Matern in two dimensions."""
    for name, kernel in (("se-d1", SquaredExponential(0.2)), ("matern-d1", Matern(0.2, 2.5))):
        yield name, kernel, 100, features_for_horizon(kernel, T)
    yield "se-d2", SquaredExponential(0.5), 15, features_for_horizon(SquaredExponential(0.5), T, 2)
    rough = make_kernel("matern", 1.0, 2.5, 2)
    yield "matern-d2", rough, 15, choose_features(rough, 1e-2, 2)


def tradeoff(horizon: int | None) -> Iterator[Run]:
    """Regret against epsilon: squared exponential and Matern 5/2, one and two dimensions, every mechanism."""
    T = 2**14 if horizon is None else horizon
    for setting, kernel, points, features in settings(T):
        world = GaussianProcessBandit(kernel, unit_grid(points, features.d), 20)
        plain = joint_gp_ucb(features, T, math.inf, DELTA, gram="symmetric")
        yield LongRun(setting, "honest", plain, world, T, name="not private", ratio=COARSE)
        for epsilon in EPSILONS if features.d == 1 else (1.0, 10.0):
            for name, policy in tradeoff_policies(features, T, epsilon):
                yield LongRun(setting, "honest", policy, world, T, epsilon, DELTA, name, COARSE)


def tradeoff_policies(features: FourierFeatures, T: int, epsilon: float) -> Iterator[tuple[str, NoisyGPUCB]]:
    for name, design in DESIGNS.items():
        if design.get("block", 1) < T:
            yield name, joint_gp_ucb(features, T, epsilon, DELTA, **design)
    yield "local", local_gp_ucb(features, T, epsilon, DELTA)


def surface(horizon: int | None) -> Iterator[Run]:
    """Which of 20 waiting patients to help: the surface, covariates and residuals of ACTG 175."""
    T = 2**16 if horizon is None else horizon
    world = response_surface()
    features = features_for_horizon(world.kernel, T, world.d)
    facts = {"B": NORM, "Y": REWARD_BOUND, "subgaussian": SUBGAUSSIAN}
    yield Run("actg175-surface", "semi-synthetic", Uniform(), world, T)
    yield LongRun("actg175-surface", "semi-synthetic", joint_gp_ucb(features, T, math.inf, DELTA, gram="symmetric", **facts), world, T, name="not private")
    for epsilon in EPSILONS:
        for name in ("tree", "square root, moments, blocks of 64"):
            if DESIGNS[name].get("block", 1) < T:
                policy = joint_gp_ucb(features, T, epsilon, DELTA, **DESIGNS[name], **facts)
                yield LongRun("actg175-surface", "semi-synthetic", policy, world, T, epsilon, DELTA, name)
        local = local_gp_ucb(features, T, epsilon, DELTA, **facts)
        yield LongRun("actg175-surface", "semi-synthetic", local, world, T, epsilon, DELTA, "local")


EXPERIMENTS = (
    Experiment("gp-rates", "Gaussian-process bandits: regret, width sum and bound at T = 2^10, 2^12, ... (horizon: the largest)", rates, 12),
    Experiment("gp-tradeoff", "Gaussian-process bandits: regret against epsilon for every mechanism, d = 1 and 2, two kernels", tradeoff, 12),
    Experiment("gp-surface", "which patient to help: response surface and residuals of an HIV trial", surface, 12),
)
