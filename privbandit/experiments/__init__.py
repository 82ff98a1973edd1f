"""A study as data: settings, protocols, policies, seeds. `EXPERIMENTS` finds every module of this folder that defines one."""

from __future__ import annotations

import importlib
import pkgutil

from privbandit.experiments.base import Experiment, Run

__all__ = ["Experiment", "Run", "experiments"]


def experiments() -> dict[str, Experiment]:
    """All experiments by name."""
    found = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for experiment in getattr(module, "EXPERIMENTS", ()):
            found[experiment.name] = experiment
    return dict(sorted(found.items()))
