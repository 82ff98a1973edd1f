"""The lists of versions agree with each other and with what is installed."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def pins(path: Path) -> dict[str, str]:
    """Name -> version; every line must be an exact pin, a comment or an option."""
    lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    wanted = [line for line in lines if line and not line.startswith(("#", "-"))]
    found = {m[1]: m[2] for line in wanted if (m := re.fullmatch(r"([\w.-]+)==([\w.]+)", line))}
    assert len(found) == len(wanted), f"{path.name} must hold exact pins only, each once"
    return found


PINS = pins(ROOT / "requirements.txt")


def test_binder_has_a_part_of_the_pins_and_all_the_package_needs():
    binder = pins(ROOT / "binder" / "requirements.txt")
    assert binder.items() <= PINS.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {re.split(r"[<>=]", need)[0] for need in project["dependencies"]} <= set(binder)
    assert {re.split(r"[<>=]", need)[0] for need in project["optional-dependencies"]["test"]} <= set(PINS)


@pytest.mark.parametrize("name", sorted(PINS))
def test_the_environment_is_the_pinned_one(name):
    assert version(name) == PINS[name], "run `make test`, which keeps .venv in step with requirements.txt"
