"""Hygiene of the stored notebooks: what the comparison of outputs (nbval) does not see."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import nbformat
import pytest

from tools.refresh import FACTS, KEPT_METADATA, KERNEL, MOST_IMAGE_BYTES, figure_facts, setup_source

BOOK = Path(__file__).parent.parent / "book"
HERE = BOOK / "part" / "chapter.ipynb"
NOTEBOOKS = [p for p in sorted(BOOK.rglob("*.ipynb")) if not {"_build", ".ipynb_checkpoints"} & set(p.parts)]
MACHINE_PATH = re.compile(r"(?<![\w.])/(home|root|tmp|Users|work|usr)/\w")
ADDRESS = re.compile(r"\bat 0x[0-9a-f]{6,}")


def problems(notebook: nbformat.NotebookNode, path: Path) -> list[str]:
    """Everything wrong with a stored notebook, one line each."""
    found = [] if notebook.metadata == KERNEL else ["metadata must be the kernel alone: run `make notebooks`"]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if [cell.execution_count for cell in code] != list(range(1, len(code) + 1)):
        found.append("execution counts must be 1, 2, ...: the stored outputs are not of one run from the top")
    if [cell.id for cell in notebook.cells] != [f"cell-{n:03d}" for n in range(len(notebook.cells))]:
        found.append("cell ids must be cell-000, cell-001, ...: run `make notebooks`")
    if [cell.source for cell in code[:1]] != [setup_source(path)] or notebook.cells[0].cell_type != "markdown":
        found.append("the title must come first and the setup cell after it: run `make notebooks`")
    for number, cell in enumerate(code):
        found += [f"code cell {number}: {problem}" for problem in cell_problems(cell)]
    return found


def cell_problems(cell: nbformat.NotebookNode) -> list[str]:
    checks = {
        "is empty": not cell.source.strip(),
        "ends with a semicolon, which hides nothing here": cell.source.rstrip().endswith(";"),
        "keeps metadata the book does not use": bool(set(cell.metadata) - set(KEPT_METADATA)),
        "has a line over 88 characters": any(len(line) > 88 for line in cell.source.splitlines()),
        "sets a global seed": "np.random.seed" in cell.source,
    }
    return [problem for problem, wrong in checks.items() if wrong] + output_problems(cell)


def output_problems(cell: nbformat.NotebookNode) -> list[str]:
    printed = "".join(out.text for out in cell.outputs if out.get("name") == "stdout")
    shown = printed + "".join(str(text) for out in cell.outputs for kind, text in out.get("data", {}).items() if kind.startswith("text/"))
    images = [out.data["image/png"] for out in cell.outputs if "image/png" in out.get("data", {})]
    facts = figure_facts(printed)
    expects_error = "raises-exception" in cell.metadata.get("tags", [])
    checks = {
        "wrote to standard error": any(out.get("name") == "stderr" for out in cell.outputs),
        "has an error but no tag raises-exception": not expects_error and any(out.output_type == "error" for out in cell.outputs),
        "shows a path of one machine": bool(MACHINE_PATH.search(shown)),
        "shows a memory address": bool(ADDRESS.search(shown)),
        "has outputs with metadata": any(out.get("metadata") for out in cell.outputs),
        f"has a figure but no facts under it (a line {FACTS!r})": bool(images) and not facts,
        "has a figure whose alternative text is not its facts": bool(images) and cell.metadata.get("mystnb", {}).get("image", {}).get("alt") != facts,
        f"has an image over {MOST_IMAGE_BYTES} bytes": any(len(image) * 3 / 4 > MOST_IMAGE_BYTES for image in images),
    }
    return [problem for problem, wrong in checks.items() if wrong]


def seeds_used(source: str) -> set[int]:
    """Whole numbers that a cell hands to a generator: `default_rng(3)`, the first of `default_rng([8, d])`, `seed=2`."""
    found = set()
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        given = [keyword.value for keyword in call.keywords if keyword.arg == "seed"]
        if getattr(call.func, "attr", "") == "default_rng":
            given += [getattr(argument, "elts", [argument])[0] for argument in call.args]
        found |= {value.value for value in given if isinstance(value, ast.Constant)}
    return found


def seeds_named(title: str) -> set[int]:
    """The numbers of the line *Seeds* at a glance: "1 to 3, 7" is 1, 2, 3 and 7."""
    line = re.search(r"\*Seeds?\*: ([^*\n]*)", title)[1]
    ranges = (range(int(low), int(high) + 1) for low, high in re.findall(r"(\d+) to (\d+)", line))
    return {int(n) for n in re.findall(r"\d+", line)}.union(*ranges)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.relative_to(BOOK)))
def test_notebook_is_clean(path):
    assert problems(nbformat.read(path, as_version=4), path) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: str(path.relative_to(BOOK)))
def test_seeds_are_named_at_a_glance(path):
    cells = nbformat.read(path, as_version=4).cells
    code = [cell.source for cell in cells if cell.cell_type == "code" and "setup" not in cell.metadata.get("tags", [])]
    assert set().union(*map(seeds_used, code)) <= seeds_named(cells[0].source)


def test_seeds_are_found():
    assert seeds_used("a = np.random.default_rng([8, d])\nb = default(3)\nrun(seed=2), np.random.default_rng(seed)") == {2, 8}
    assert seeds_named("- *Seeds*: 1 (study), 3 to 5. *Run time*: 9 seconds.\n") == {1, 3, 4, 5}


def figure_cell(**changes):
    out = nbformat.v4.new_output("stream", name="stdout", text="Figure facts:\n  a: 1\n  b: 2\nafter\n")
    image = nbformat.v4.new_output("display_data", data={"image/png": "aGk=", "text/plain": "<Figure>"})
    cell = nbformat.v4.new_code_cell("plt.show()", outputs=[image, out], execution_count=2, metadata={"mystnb": {"image": {"alt": "a: 1; b: 2"}}})
    cell.update(changes)
    return cell


def clean(cell):
    """A notebook with a title, the setup cell and `cell`."""
    setup = nbformat.v4.new_code_cell(setup_source(HERE), execution_count=1, metadata={"tags": ["remove-cell", "setup"]})
    notebook = nbformat.v4.new_notebook(metadata=KERNEL, cells=[nbformat.v4.new_markdown_cell("# Title"), setup, cell])
    for number, each in enumerate(notebook.cells):
        each.id = f"cell-{number:03d}"
    return notebook


def test_a_clean_notebook_has_no_problems():
    assert problems(clean(figure_cell()), HERE) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"execution_count": 3}, "execution counts"),
        ({"execution_count": None}, "execution counts"),
        ({"source": "ax.legend();"}, "semicolon"),
        ({"source": " "}, "empty"),
        ({"source": "x = '" + "a" * 99 + "'"}, "over 88"),
        ({"source": "np.random.seed(1)"}, "global seed"),
        ({"metadata": {}}, "alternative text"),
        ({"metadata": {"mystnb": {"image": {"alt": "a: 1"}}}}, "alternative text"),
        ({"metadata": {"mystnb": {"image": {"alt": "a: 1; b: 2"}}, "execution": {}}}, "metadata the book does not use"),
        ({"outputs": [nbformat.v4.new_output("stream", name="stderr", text="warning")]}, "standard error"),
        ({"outputs": [nbformat.v4.new_output("error", ename="E", evalue="", traceback=[])]}, "no tag"),
        ({"outputs": [nbformat.v4.new_output("stream", name="stdout", text="<object at 0x7f12ab34>")]}, "memory address"),
        ({"outputs": [nbformat.v4.new_output("stream", name="stdout", text="in /home/me/x.py")]}, "path of one machine"),
        ({"outputs": [nbformat.v4.new_output("display_data", data={"image/png": "aGk="})]}, "no facts"),
        ({"outputs": [nbformat.v4.new_output("display_data", data={"image/png": "a" * 400_000})]}, "image over"),
    ],
)
def test_each_problem_is_found(changes, problem):
    assert any(problem in line for line in problems(clean(figure_cell(**changes)), HERE))


def test_moved_cells_are_found():
    notebook = clean(figure_cell())
    notebook.cells[0].id = "cell-007"
    assert any("cell ids" in line for line in problems(notebook, HERE))


def test_a_missing_setup_cell_is_found():
    notebook = clean(figure_cell())
    del notebook.cells[1]
    assert any("setup cell" in line for line in problems(notebook, HERE))
