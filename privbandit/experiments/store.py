"""Finished runs on disk, each under a key that names all that its numbers depend on: parameters, seed, and the code."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
ABOVE = ("audit", "catalogue.py", "claims", "cli", "experiments", "plotting.py", "slider.py", "__main__.py")  # no run depends on these


@lru_cache(maxsize=1)
def sources() -> str:
    """A digest of the package's sources that a run may use."""
    files = sorted(path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in ABOVE)
    return _digest(f"{path.relative_to(ROOT).as_posix()}\n{path.read_text('utf-8')}" for path in files)


@lru_cache
def code(kind: type) -> str:
    """A digest of all code behind the results of a kind of run: the sources below, and the modules of the class and its bases."""
    names = sorted({cls.__module__ for cls in kind.__mro__ if cls.__module__.startswith("privbandit.")})
    own = ((ROOT / Path(*name.split(".")[1:]).with_suffix(".py")).read_text("utf-8") for name in names)
    return _digest((sources(), *own))


def location(store: Path, run: object, replications: int, seed: int) -> Path:
    """Where the result of this run stands, or will stand."""
    return store / f"{_digest((code(type(run)), repr(run), str(replications), str(seed)))[:20]}.npz"


def read(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as data:
        return dict(data)


def write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Whole or not at all: a run killed while writing leaves no half file behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(f".{os.getpid()}.part")
    with scratch.open("wb") as file:
        np.savez_compressed(file, **arrays)
    scratch.replace(path)


def _digest(texts) -> str:
    """Of texts in order; line endings do not count."""
    return hashlib.sha256("\0".join("\n".join(text.splitlines()) for text in texts).encode()).hexdigest()
