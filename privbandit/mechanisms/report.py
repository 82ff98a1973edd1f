"""What a noisy vector or its running sums need for a given guarantee."""

from __future__ import annotations

from typing import Any

from privbandit import validate
from privbandit.accounting import gaussian_mu
from privbandit.ledger import Entry, Gaussian, Ledger
from privbandit.mechanisms import PREFIX_SUMS


def calibrate_gaussian(
    epsilon: float, delta: float, releases: int = 1, sensitivity: float = 1.0, neighbours: str = "replace"
) -> dict[str, Any]:
    """The least Gaussian noise `sigma` with which `releases` adaptive releases together are (epsilon, delta)-DP.

    `sensitivity` is the largest L2 distance by which the change of one user, under `neighbours`, moves each of them.
    """
    asked = _asked(epsilon, delta, sensitivity, neighbours)
    sigma = sensitivity * validate.positive_int("releases", releases) ** 0.5 / asked["mu"]
    ledger = Ledger("one user", "central", (Entry("release", Gaussian(sensitivity, sigma), releases),), neighbours)
    head = {"mechanism": "gaussian", "releases": releases}
    return head | asked | {"sigma": sigma, "guarantee": str(ledger.guarantee(delta))}


def calibrate_sums(
    mechanism: str, epsilon: float, delta: float, horizon: int = 1, sensitivity: float = 1.0, neighbours: str = "replace"
) -> dict[str, Any]:
    """The least noise of running sums over `horizon` users, one release after each, all together (epsilon, delta)-DP.

    `mechanism` is a name in `PREFIX_SUMS`; `sensitivity` the largest L2 distance by which the change of one user, under `neighbours`,
    moves the sum. `sigma` is the noise of one released row, `max_std` and `mean_std` of a coordinate of the running sums.
    """
    kind = PREFIX_SUMS[validate.one_of("mechanism", mechanism, PREFIX_SUMS)]
    asked = _asked(epsilon, delta, sensitivity, neighbours)
    if mechanism == "local" and neighbours != "replace":
        raise ValueError(f"neighbours must be 'replace' in the local model, got {neighbours!r}")
    sums = kind.calibrated(validate.positive_int("horizon", horizon), asked["mu"], sensitivity)
    noise = {"sigma": sums.sigma, "max_std": sums.max_std, "mean_std": sums.mean_std}
    ledger = Ledger("one increment", "local" if mechanism == "local" else "central", sums.entries, neighbours)
    return {"mechanism": mechanism, "horizon": horizon} | asked | noise | {"guarantee": str(ledger.guarantee(delta))}


def _asked(epsilon: float, delta: float, sensitivity: float, neighbours: str) -> dict[str, Any]:
    validate.positive("epsilon", epsilon), validate.positive("sensitivity", sensitivity)
    mu = gaussian_mu(epsilon, delta)
    return {"epsilon": epsilon, "delta": delta, "sensitivity": sensitivity, "neighbours": neighbours, "mu": mu}
