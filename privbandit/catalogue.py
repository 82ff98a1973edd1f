"""What the package holds, found by walking its modules: nothing is registered by hand."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import privbandit
from privbandit.formula import Formula
from privbandit.mechanisms.base import PrefixSums
from privbandit.policies.base import Policy

Rows = list[dict[str, Any]]


def modules(package: ModuleType = privbandit) -> Iterator[ModuleType]:
    """Every module below `package`, itself first."""
    yield package
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def _subclasses(base: type) -> list[type]:
    """Concrete public classes; the broken twins of the audits are not for use and stay out."""
    found = {
        value
        for module in modules()
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, base) and value is not base and not inspect.isabstract(value)
    }
    usable = (c for c in found if not c.__name__.startswith("_") and not c.__module__.startswith("privbandit.audit"))
    return sorted(usable, key=lambda c: (c.__module__, c.__name__))


def _described(cls: type) -> dict[str, Any]:
    return {"name": cls.__name__, "module": cls.__module__, "summary": (inspect.getdoc(cls) or "").split("\n")[0]}


def policies() -> Rows:
    """With `trust`: where a guarantee holds, "none" without one."""
    return [_described(c) | {"trust": c.trust} for c in _subclasses(Policy)]


def mechanisms() -> Rows:
    """Everything that releases: prefix sums and whatever else the mechanisms package defines with a ledger of its own."""
    names = {c for c in _subclasses(object) if c.__module__.startswith("privbandit.mechanisms") and hasattr(c, "entries")}
    names |= set(_subclasses(PrefixSums))
    return [_described(c) for c in sorted(names, key=lambda c: (c.__module__, c.__name__)) if not inspect.isabstract(c)]


def formulas() -> Rows:
    found = {f.label: f for module in modules() for f in vars(module).values() if isinstance(f, Formula)}
    ordered = sorted(found.values(), key=lambda f: f.label)
    return [{"name": f.label, "formula": str(f.expression), "latex": f.latex, "source": str(f.source)} for f in ordered]


def claims() -> Rows:
    from privbandit.claims import load

    return load()


def experiments() -> Rows:
    from privbandit.experiments import experiments as known

    fields = ("name", "replications", "seed", "longest", "unit")
    return [{field: getattr(e, field) for field in fields} | {"summary": e.description} for e in known().values()]


KINDS: dict[str, Callable[[], Rows]] = {
    "policies": policies,
    "mechanisms": mechanisms,
    "formulas": formulas,
    "claims": claims,
    "experiments": experiments,
}
