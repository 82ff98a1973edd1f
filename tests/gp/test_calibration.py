"""The private width: against an independent evaluation, the published one, and simulation of whole paths."""

import math

import numpy as np
import pytest

from privbandit.accounting import gaussian_epsilon, gaussian_mu
from privbandit.features import SquaredExponential, equispaced_features, features_for_horizon
from privbandit.gp.calibration import calibrate
from privbandit.gp.prefix_noise import prefix_noise
from privbandit.gp.published import published_calibration, published_spectrum
from privbandit.gp.report import calibrate_gp, private_width, published_private_width

KERNEL = SquaredExponential(0.2)
FEATURES = features_for_horizon(KERNEL, 2**14)


def test_private_width_is_at_most_a_tenth_of_the_published():
    ours, published = private_width(), published_private_width()
    assert 40 < ours < 48 and 520 < published < 535
    assert published / ours >= 10
    assert published_private_width(m=FEATURES.m) / ours >= 10  # also at equal numbers of features
    report = calibrate_gp()
    assert report["private_width"] == ours and report["published_private_width"] == published
    assert report["uniform_error"] <= 2.0**-14
    assert report["guarantee"].startswith("(1, 1e-05)-joint DP")


def test_plain_tree_width_against_a_direct_evaluation():
    """Written out from the formulas, without the refinement of kappa: the package's width must be below it, by less than 25%."""
    T, m, zeta = 2**14, FEATURES.m, 0.05
    mu, levels, log = gaussian_mu(1.0, 1e-5), 15, math.log(2 * T * 2 / zeta)
    best = math.inf
    for scale in np.geomspace(0.3, 3, 60):
        b = scale**2
        Delta = math.sqrt(2 + 2 * b + b**2 / 2)
        std = Delta * levels / mu
        upsilon = std / math.sqrt(2) * (2 * math.sqrt(m) + 2 * math.sqrt(log))
        h = std / scale * (math.sqrt(m) + math.sqrt(2 * log))
        for ratio in np.geomspace(0.2, 10, 60):
            best = min(best, math.sqrt(upsilon * (2 + ratio)) + h / math.sqrt(ratio * upsilon))
    ours = calibrate(FEATURES, T, 1.0, 1e-5, mechanism="tree", gram="symmetric", exponents=(0.0,)).private_width
    assert 0.75 * best < ours < best


@pytest.mark.parametrize("mechanism", ["tree", "square-root", "local"])
@pytest.mark.parametrize("gram", ["symmetric", "shaped", "moment"])
def test_calibration_spends_exactly_the_budget(mechanism, gram):
    c = calibrate(FEATURES, 200, 2.0, 1e-6, mechanism=mechanism, gram=gram)
    assert abs(gaussian_epsilon(c.mechanism.mu, 1e-6) - 2.0) < 1e-6
    assert c.mechanism.Delta == c.leaf.Delta


@pytest.mark.parametrize(("mechanism", "gram"), [("tree", "symmetric"), ("square-root", "moment"), ("square-root", "shaped")])
def test_bounds_hold_at_every_prefix_of_whole_paths(mechanism, gram):
    """60 paths, all 256 prefixes, zeta = 0.05: the bound allows 3 failing paths, 13 would be five sigma."""
    T, R = 256, 60
    c = calibrate(FEATURES, T, 1.0, 1e-5, mechanism=mechanism, gram=gram)
    path = prefix_noise(c.mechanism, np.arange(1, T + 1), R, c.leaf.size, np.random.default_rng(3))
    failed, largest = np.zeros(R, dtype=bool), 0.0
    for z in path:
        H, h = c.leaf.decode(z, 0)
        V = H + c.spectrum.shift * np.eye(FEATURES.m)
        values = np.linalg.eigvalsh(V)
        norm = np.sqrt(np.einsum("ri,ri->r", h, np.linalg.solve(V, h[..., None])[..., 0]))
        failed |= (values[:, 0] < c.spectrum.lambda_min) | (values[:, -1] > c.spectrum.lambda_max) | (norm > c.spectrum.kappa)
        largest = max(largest, float(np.abs(np.linalg.eigvalsh(H)).max()))
    assert failed.sum() <= 12
    assert largest > 0.3 * (c.spectrum.shift - c.spectrum.lambda_min)  # the bound is within a factor of what happens


def test_published_constants():
    """sigma = 16 levels (1 + Y^2)^2 ln(4/delta)^2 / epsilon^2 under the root, at T = 2^13: 1445 at the worst prefix."""
    sigma, spectrum = published_spectrum(19, 2**13, 1.0, 1e-5)
    assert abs(sigma - 4 * math.sqrt(14) * 2 * math.log(4e5)) < 1e-9
    assert abs(sigma * math.sqrt(14) - 1445) < 1
    assert spectrum.shift == 2 * spectrum.lambda_min and abs(spectrum.lambda_max - 3 * spectrum.lambda_min) < 1e-9


def test_published_noise_is_far_more_private_than_it_claims():
    c = published_calibration(FEATURES, 2**10, 1.0, 1e-5)
    assert gaussian_epsilon(c.mechanism.mu, 1e-5) < 0.2


def test_fewer_releases_need_less_noise():
    widths = [calibrate(FEATURES, 2**14, 1.0, 1e-5, block=b).private_width for b in (1, 16, 64)]
    assert widths[0] > widths[1] > widths[2]


def test_four_dimensions_have_the_closed_form_only():
    features = equispaced_features(SquaredExponential(1.5), 3, d=4)
    c = calibrate(features, 64, 1.0, 1e-5, gram="symmetric")
    assert features.m == 81 and c.leaf.shape.plain and c.private_width > 0
    with pytest.raises(ValueError, match="sides must have at most 3"):
        calibrate(features, 64, 1.0, 1e-5, gram="shaped")


def test_no_noise_and_bad_input():
    c = calibrate(FEATURES, 100, math.inf, 1e-5)
    assert not c.private and c.spectrum.kappa == 0 and c.private_width == 1.0
    for bad, name in (({"epsilon": 0.0}, "epsilon"), ({"delta": 1.0}, "delta"), ({"zeta": 0.0}, "zeta"), ({"B": -1.0}, "B"), ({"horizon": 0}, "horizon")):
        with pytest.raises(ValueError, match=name):
            calibrate_gp(**{"horizon": 64, **bad})
    with pytest.raises(ValueError, match="mechanism"):
        calibrate_gp(mechanism="magic")
    assert calibrate_gp(horizon=1)["private_width"] > 0
