"""What privacy costs a linear bandit, on drawn instances and on the patients of a trial."""

from __future__ import annotations

from collections.abc import Iterator

from privbandit.environments.actg175 import COVARIATES, PATIENTS, actg175
from privbandit.environments.linear import LinearBandit
from privbandit.experiments.base import Experiment, Run
from privbandit.mechanisms import SquareRoot, TreeMechanism
from privbandit.policies.linucb import LinUCB
from privbandit.policies.private_linucb import PrivateLinUCB
from privbandit.policies.uniform import Uniform

EPSILONS = (1.0, 4.0, 10.0)
DELTA = 1e-5
CELLS = "a change by 400 CD4 cells per mm^3 in one patient"


def linear(horizon: int | None) -> Iterator[Run]:
    """d = 5, K = 10, |theta*| = 1/2: theory widths with square root, tree and the published constants, and the practical form."""
    T = 10_000 if horizon is None else horizon
    world = LinearBandit(K=10, d=5)
    facts = {"d": world.d, "S": world.S, "sigma_r": world.sigma_r, "Y": world.reward_bound}
    yield Run("linear-d5", "honest", Uniform(), world, T)
    yield Run("linear-d5", "honest", LinUCB(**facts), world, T)
    for epsilon in EPSILONS:
        for name, policy in {
            "private LinUCB, square root": PrivateLinUCB.calibrated(epsilon, DELTA, horizon=T, **facts),
            "private LinUCB, tree": PrivateLinUCB.calibrated(epsilon, DELTA, horizon=T, mechanism=TreeMechanism, **facts),
            "private LinUCB, published constants": PrivateLinUCB.published(epsilon, DELTA, horizon=T, **facts),
            "private LinUCB, small width": PrivateLinUCB.practical(epsilon, DELTA, d=5, horizon=T, Y=world.reward_bound),
        }.items():
            yield Run("linear-d5", "honest", policy, world, T, epsilon, DELTA, name)


def trial(horizon: int | None) -> Iterator[Run]:
    """ACTG 175: every patient once, in an order redrawn in each replication, with no covariate and with the treatment history."""
    T = PATIENTS if horizon is None else horizon
    for setting, covariates in (("actg175-no-covariates", ()), ("actg175-history", ("history",))):
        world = actg175(covariates)
        facts = {"d": world.d, "Y": 0.5, "centre": 0.5, "alpha": 0.3, "blocks": 4}
        yield Run(setting, "replay", Uniform(), world, T)
        yield Run(setting, "replay", LinUCB(**facts), world, T)
        for epsilon in EPSILONS:
            for mechanism, word in ((SquareRoot, "square root"), (TreeMechanism, "tree")):
                policy = PrivateLinUCB.practical(epsilon, DELTA, horizon=T, mechanism=mechanism, **facts)
                yield Run(setting, "replay", policy, world, T, epsilon, DELTA, f"private LinUCB, {word}")


def choices(horizon: int | None) -> Iterator[Run]:
    """What else could have been chosen on ACTG 175: the fixed width, all covariates, the other outcome. Square root only."""
    T = PATIENTS if horizon is None else horizon
    plain = {"Y": 0.5, "centre": 0.5, "blocks": 4}
    cases = [(f"width {alpha:g}", (), "cd4 change", alpha) for alpha in (0.03, 0.1, 0.3, 1.0)]
    cases += [("all covariates", tuple(COVARIATES), "cd4 change", 0.3), ("event-free", (), "event-free", 0.3)]
    for setting, covariates, outcome, alpha in cases:
        world = actg175(covariates, outcome)
        facts = plain | {"d": world.d, "alpha": alpha}
        yield Run(setting, "replay", Uniform(), world, T)
        yield Run(setting, "replay", LinUCB(**facts), world, T)
        for epsilon in EPSILONS:
            yield Run(setting, "replay", PrivateLinUCB.practical(epsilon, DELTA, horizon=T, **facts), world, T, epsilon, DELTA, "private LinUCB")


EXPERIMENTS = (
    Experiment("linear", "regret of private LinUCB against epsilon: square root, tree, published constants", linear, replications=50),
    Experiment(
        "actg175",
        "an HIV trial replayed: what privacy costs in CD4 cells, by matched actions",
        trial,
        replications=100,
        longest=PATIENTS,
        unit=CELLS,
    ),
    Experiment(
        "actg175-choices",
        "the same trial with other widths, all covariates, another outcome",
        choices,
        replications=100,
        longest=PATIENTS,
        unit=f"{CELLS}; setting event-free: one patient with an event",
    ),
)
