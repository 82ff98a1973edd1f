"""The direction of imports: formula <- formulas <- accounting <- ledger <- mechanisms <- policies <- simulate, environments beside."""

import ast
from functools import cache
from pathlib import Path

import pytest

import privbandit

ROOT = Path(privbandit.__file__).parent
RANK = {"validate": 0, "formula": 1, "formulas": 2, "accounting": 3, "ledger": 4, "mechanisms": 5, "policies": 6, "simulate": 7}
ABOVE = {"audit", "experiments", "catalogue", "claims", "cli", "plotting", "slider", "__main__"}  # what uses the library; nothing below may use it
BESIDE = ("formula", "formulas", "accounting", "ledger", "mechanisms", "policies", "simulate")  # what an environment must not know


def module_name(path: Path) -> str:
    return ".".join(("privbandit", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


PATHS = {module_name(path): path for path in ROOT.rglob("*.py")}


def unit(module: str) -> str:
    """The file or folder directly under the package that a module belongs to."""
    return module.split(".")[1] if "." in module else ""


def named(node: ast.AST, module: str) -> list[str]:
    """The modules that an import statement names; a package whose submodule is imported from it does not count itself."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    package = module if PATHS[module].name == "__init__.py" else module.rpartition(".")[0]
    base = ".".join(package.split(".")[: 1 - node.level or None]) if node.level else ""
    source = ".".join(filter(None, (base, node.module)))
    return [full if (full := f"{source}.{alias.name}") in PATHS else source for alias in node.names]


@cache
def imports(module: str) -> frozenset[str]:
    """Modules of the package that `module` names in an import anywhere in its file (the package's own root aside)."""
    names = {name for node in ast.walk(ast.parse(PATHS[module].read_text("utf-8"))) for name in named(node, module)}
    return frozenset(name for name in names if name in PATHS and name not in ("privbandit", module))


def reached(module: str) -> set[str]:
    """Everything that importing `module` imports."""
    found, todo = set(), [module]
    while todo:
        new = imports(todo.pop()) - found
        found |= new
        todo.extend(new)
    return found


def test_the_walk_sees_the_package():
    """A walk that finds nothing would prove nothing: edges that are known to exist."""
    assert {"privbandit.accounting", "privbandit.validate"} <= imports("privbandit.ledger")
    assert "privbandit.formula" in reached("privbandit.policies.base")
    assert unit("privbandit.mechanisms.tree") == "mechanisms" and set(RANK) <= set(map(unit, PATHS))


@pytest.mark.parametrize("layer", RANK)
def test_layers_import_downwards_only(layer):
    for module in (m for m in PATHS if unit(m) == layer):
        wrong = {name for name in reached(module) if RANK.get(unit(name), 0) > RANK[layer]}
        if layer == "simulate":
            wrong |= {n for n in imports(module) if unit(n) in ("mechanisms", "ledger", "accounting")}  # it knows protocols only
        assert not wrong, f"{module} reaches {sorted(wrong)}"


@pytest.mark.parametrize("module", [m for m in PATHS if unit(m) == "environments"])
def test_environments_know_nothing_of_privacy_or_policies(module):
    wrong = {name for name in reached(module) if unit(name) in BESIDE}
    assert not wrong, f"{module} reaches {sorted(wrong)}"


@pytest.mark.parametrize("module", [m for m in PATHS if unit(m) not in ABOVE | {""}])
def test_the_library_does_not_import_what_uses_it(module):
    wrong = {name for name in imports(module) if unit(name) in ABOVE}
    assert not wrong, f"{module} imports {sorted(wrong)}"


@pytest.mark.parametrize("module", PATHS)
def test_no_module_imports_itself_the_tests_or_the_book(module):
    assert module not in reached(module)
    tree = ast.walk(ast.parse(PATHS[module].read_text("utf-8")))
    assert not [name for node in tree for name in named(node, module) if name.split(".")[0] in ("tests", "book")]
