"""The Gaussian-process experiments: pairing, bounds, and the response surface."""

from __future__ import annotations

import numpy as np
import pytest

from privbandit.environments.surface import NORM, REWARD_BOUND, SUBGAUSSIAN, response_surface
from privbandit.experiments.gp import EXPERIMENTS, LongRun, bounded, powers, rates, surface, tradeoff

NAMES = {experiment.name for experiment in EXPERIMENTS}


def test_horizons_are_powers_of_four_up_to_the_asked_one():
    assert powers(None, 2**16) == [2**10, 2**12, 2**14, 2**16]
    assert powers(2**20, 2**16)[-1] == 2**20
    assert powers(100, 2**16) == [100]


def test_regret_is_below_the_width_sum_in_every_replication():
    """Not statistical: if the band held at every refresh (misses 0) the theorem's step holds at every round."""
    for run in rates(256):
        found = run.record(3, 1)
        assert found["regret"].shape == (3, 1)
        held = found["misses"] == 0
        assert held.any()
        assert np.all(found["excess"][held] <= 1e-9)
        assert np.all(found["regret"][held, 0] <= found["width_sum"][held] + 1e-9)
        assert np.all(found["bound"] <= 2 * run.policy.calibration.B * 256 + 1e-9)


def test_rows_carry_the_bound(tmp_path):
    (experiment,) = [e for e in EXPERIMENTS if e.name == "gp-rates"]
    rows = [r.row() for r in experiment.run(replications=2, horizon=64, store=tmp_path)]
    again = [r.row() for r in experiment.run(replications=2, horizon=64, store=tmp_path)]
    assert rows == again
    assert {"mean", "width_sum", "bound", "misses"} <= set(rows[0])
    assert {row["setting"] for row in rows} == {"se-d1", "bump T^(-1/2)", "bump T^(-1/4)"}


def test_tradeoff_covers_kernels_dimensions_and_every_mechanism():
    runs = list(tradeoff(128))
    assert {run.setting for run in runs} == {"se-d1", "matern-d1", "se-d2", "matern-d2"}
    assert {run.policy.ledger.trust for run in runs if run.epsilon} == {"joint", "local"}
    for run in runs:
        if run.epsilon is not None:
            assert run.policy.ledger.epsilon(run.delta) <= run.epsilon * (1 + 1e-6)


def test_functions_are_scaled_to_the_norm_bound_only_where_needed():
    run = next(iter(rates(64)))
    functions = run.environment.functions(50, np.random.default_rng(3))
    scaled = bounded(functions, 0.7)
    assert scaled.norm.max() <= 0.7 + 1e-12
    small = functions.norm <= 0.7
    assert small.any()
    assert np.array_equal(scaled.values[small], functions.values[small])


def test_response_surface_respects_its_public_constants():
    world = response_surface()
    functions = world.functions(2, np.random.default_rng(0))
    noise = world.reward_noise(np.linspace(0, 1, 5000, endpoint=False))
    assert functions.norm[0] <= NORM
    assert np.abs(noise).max() <= SUBGAUSSIAN
    assert np.abs(functions.values).max() + np.abs(noise).max() <= REWARD_BOUND
    assert abs(world.patients.residuals.mean()) < 1e-12
    offered = world.decision_sets(3, 7, np.random.default_rng(0))
    assert offered.shape == (3, 7, 20)


def test_surface_is_its_own_kernel_expansion():
    p = response_surface().patients
    assert np.allclose(response_surface().kernel(p.cells, p.cells) @ p.weights, p.surface, atol=1e-10)


def test_the_long_run_of_patients_plays():
    run = next(r for r in surface(200) if isinstance(r, LongRun) and r.epsilon)
    assert np.all(run.record(2, 1)["regret"] >= 0)


@pytest.mark.parametrize("name", sorted(NAMES))
def test_experiments_refuse_bad_horizons(name):
    (experiment,) = [e for e in EXPERIMENTS if e.name == name]
    with pytest.raises(ValueError, match="horizon"):
        experiment.run(horizon=0)
