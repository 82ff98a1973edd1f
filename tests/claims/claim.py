"""The `claim` decorator: one check, run on its subject (must pass) and on wrong variants of it (must fail)."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from privbandit.claims import fingerprint, module_fingerprint


@dataclass(frozen=True)
class Check:
    """A claim's check as declared beside it; the plugin in conftest.py records its outcome."""

    id: str
    function: Callable[[Any], None]
    subject: Any
    mutants: Mapping[str, Any]

    @property
    def fingerprints(self) -> dict[str, Any]:
        """Fingerprints of the check's source and of every package module its subject lives in."""
        modules = sorted({name for part in _parts(self.subject) for name in _modules(part)})
        return {"check": fingerprint(inspect.getsource(self.function)), "subject": {m: module_fingerprint(m) for m in modules}}


def claim(id: str, *, subject: Any, mutants: Mapping[str, Any]) -> Callable[[Callable[[Any], None]], Callable]:
    """Turn a check into a pytest test with one case for the subject and one per mutant.

    The check takes one argument. It must pass on `subject` and raise AssertionError on every mutant: a wrong variant,
    named by what is wrong with it. `subject` may be a tuple when a claim is about several objects.
    """
    if not mutants:
        raise ValueError(f"mutants of claim {id!r} must name at least one wrong variant that the check rejects")

    def decorate(function: Callable[[Any], None]) -> Callable:
        check = Check(id, function, subject, mutants)

        @pytest.mark.parametrize("variant", [None, *mutants], ids=[id, *(f"{id}:{name}" for name in mutants)])
        def run(variant: str | None) -> None:
            if variant is None:
                return function(subject)
            with pytest.raises(AssertionError):
                function(mutants[variant])

        run.check = check
        run.__doc__ = function.__doc__
        return run

    return decorate


def _parts(subject: Any) -> tuple:
    return subject if type(subject) in (tuple, list) else (subject,)


def _modules(subject: Any) -> set[str]:
    """The modules of the package that define `subject`: a class or function, a partial, a module, or a module's constant."""
    if isinstance(subject, functools.partial):
        return _modules(subject.func)
    if inspect.ismodule(subject):
        return {subject.__name__}
    own = getattr(subject, "__module__", None) or type(subject).__module__
    if not (inspect.isroutine(subject) or inspect.isclass(subject)):
        own = next((name for name, module in sorted(sys.modules.items()) if name.startswith("privbandit.") and _assigns(module, subject)), own)
    return {own} if own.startswith("privbandit.") else set()


def _assigns(module: Any, subject: Any) -> bool:
    """Whether `subject` is a constant that this module defines, not one that it imports."""
    names = {name for name, value in list(vars(module).items()) if value is subject}
    return bool(names) and any(re.search(rf"^{name}\b.*=", inspect.getsource(module), re.MULTILINE) for name in names)
