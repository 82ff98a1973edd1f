"""What the package holds, found by walking its modules: nothing is registered by hand."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import privbandit
from privbandit import validate
from privbandit.accounting import gaussian_mu
from privbandit.formula import Formula
from privbandit.ledger import Entry, Gaussian, Ledger
from privbandit.mechanisms import PREFIX_SUMS
from privbandit.mechanisms.base import PrefixSums
from privbandit.policies.base import Policy

Rows = list[dict[str, Any]]
CALIBRATIONS = ("gaussian", *PREFIX_SUMS, "gp", "shuffle-vector")


def modules(package: ModuleType = privbandit) -> Iterator[ModuleType]:
    """Every module below `package`, itself first."""
    yield package
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def _subclasses(base: type) -> list[type]:
    found = {
        value
        for module in modules()
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, base) and value is not base and not inspect.isabstract(value)
    }
    return sorted((c for c in found if not c.__name__.startswith("_")), key=lambda c: (c.__module__, c.__name__))


def _described(cls: type) -> dict[str, Any]:
    return {"name": cls.__name__, "module": cls.__module__, "summary": (inspect.getdoc(cls) or "").split("\n")[0]}


def policies() -> Rows:
    return [_described(c) for c in _subclasses(Policy)]


def mechanisms() -> Rows:
    """Everything that releases: prefix sums and whatever else the mechanisms package defines with a ledger of its own."""
    names = {c for c in _subclasses(object) if c.__module__.startswith("privbandit.mechanisms") and hasattr(c, "entries")}
    names |= set(_subclasses(PrefixSums))
    return [_described(c) for c in sorted(names, key=lambda c: (c.__module__, c.__name__)) if not inspect.isabstract(c)]


def formulas() -> Rows:
    found = {f.label: f for module in modules() for f in vars(module).values() if isinstance(f, Formula)}
    return [{"name": f.label, "formula": f.latex, "source": str(f.source)} for f in sorted(found.values(), key=lambda f: f.label)]


def claims() -> Rows:
    from privbandit.claims import load

    return load()


def experiments() -> Rows:
    from privbandit.experiments import experiments as known

    return [{"name": e.name, "replications": e.replications, "summary": e.description} for e in known().values()]


KINDS: dict[str, Callable[[], Rows]] = {
    "policies": policies,
    "mechanisms": mechanisms,
    "formulas": formulas,
    "claims": claims,
    "experiments": experiments,
}


def audits(name: str | None) -> Rows:
    """Run one audit, all audits of one subject, or all."""
    from privbandit.audit import matching, run

    return [vars(run(one)) for one in matching(name)]


def calibrate(
    mechanism: str,
    epsilon: float,
    delta: float,
    horizon: int,
    sensitivity: float,
    neighbours: str,
    kernel: str,
    lengthscale: float,
    users: int,
    dimension: int,
) -> dict[str, Any]:
    """The least noise of a mechanism that is (epsilon, delta)-DP, with the guarantee it buys.

    `sensitivity` is the L2 norm by which one user moves the sum under `neighbours`.
    """
    validate.positive("epsilon", epsilon)
    mu = gaussian_mu(epsilon, delta)
    if mechanism == "gp":
        from privbandit.gp.report import calibrate_gp

        asked = {"epsilon": epsilon, "delta": delta, "horizon": horizon, "kernel": kernel, "lengthscale": lengthscale}
        return asked | calibrate_gp(**asked)
    if mechanism == "shuffle-vector":
        from privbandit.mechanisms.shuffle.report import calibrate_vector

        return calibrate_vector(users=users, dimension=dimension, epsilon=epsilon, delta=delta)
    sensitivity = validate.positive("sensitivity", sensitivity)
    result = {"mechanism": mechanism, "epsilon": epsilon, "delta": delta, "horizon": validate.positive_int("horizon", horizon)}
    result |= {"sensitivity": sensitivity, "neighbours": neighbours, "mu": mu}
    trust = "local" if mechanism == "local" else "central"
    if trust == "local" and neighbours != "replace":
        raise ValueError(f"neighbours must be 'replace' in the local model, got {neighbours!r}")
    if mechanism == "gaussian":
        sigma = sensitivity / mu
        result |= {"sigma": sigma, "max_std": sigma, "mean_std": sigma}
        entries = (Entry("release", Gaussian(sensitivity, sigma)),)
    else:
        sums = PREFIX_SUMS[mechanism].calibrated(horizon, mu, sensitivity)
        result |= {"sigma": sums.sigma, "max_std": sums.max_std, "mean_std": sums.mean_std}
        entries = sums.entries
    guarantee = Ledger("one increment", trust, entries, neighbours).guarantee(delta)
    return result | {"guarantee": str(guarantee)}
