"""Run notebooks again and store them byte for byte reproducibly.

    python tools/refresh.py                            every notebook of the book
    python tools/refresh.py book/part/chapter.ipynb    one or more
    python tools/refresh.py --check ...                change nothing, fail if a notebook would change
    python tools/refresh.py chapter.md=book/part/chapter.ipynb    convert MyST Markdown first (see the book's "Writing a chapter")

Each notebook gets a hidden first code cell that installs the package where it is missing (Colab).

What is stored depends on nothing but the source and the pinned versions: no times, no random cell ids, adjoining pieces of
printed text joined, metadata cut down to what the book uses. The facts a figure cell prints (`privbandit.plotting.facts`) become
the figure's alternative text.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book"
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
KEPT_METADATA = ("tags", "mystnb")
FACTS = "Figure facts:"
TIMEOUT = 120  # seconds per cell, as in `make test`
MOST_IMAGE_BYTES = 200_000
SETUP_TAGS = ["remove-cell", "setup"]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run notebooks again and store them reproducibly.")
    parser.add_argument("paths", nargs="*", help="notebooks, or source.md=notebook.ipynb; default: all of the book")
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a notebook would change")
    options = parser.parse_args(arguments)
    settle_environment()
    changed = [path for source, path in map(parse_path, options.paths or all_notebooks()) if refresh(source, path, options.check)]
    print(f"{len(changed)} changed" + ("" if options.check else " and stored"))
    return 1 if options.check and changed else 0


def settle_environment() -> None:
    """Kernels draw without a screen, with one thread for linear algebra, and with a fixed hash seed."""
    settings = {"MPLBACKEND": "module://matplotlib_inline.backend_inline", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    os.environ.update(settings | {"PYTHONHASHSEED": "0", "PYDEVD_DISABLE_FILE_VALIDATION": "1"})


def all_notebooks() -> list[str]:
    return [str(path) for path in sorted(BOOK.rglob("*.ipynb")) if "_build" not in path.parts and ".ipynb_checkpoints" not in path.parts]


def parse_path(argument: str) -> tuple[Path, Path]:
    """The source to read and the notebook to write."""
    source, _, target = argument.partition("=")
    path = Path(target or source)
    if path.suffix != ".ipynb" or not Path(source).is_file():
        raise SystemExit(f"paths must be existing notebooks or source.md=notebook.ipynb, got {argument!r}")
    return Path(source), path


def refresh(source: Path, path: Path, check: bool = False) -> bool:
    """Execute one notebook; returns whether its stored form changes (and stores it unless `check`)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text("utf-8") if path.exists() else ""
    after = dumps(execute(read(source), path))
    print(f"{'=' if before == after else 'changed'}  {path}", flush=True)
    if before != after and not check:
        path.write_text(after, "utf-8")
    return before != after


def read(source: Path) -> nbformat.NotebookNode:
    if source.suffix == ".md":
        import jupytext  # only for authors who write in Markdown

        return jupytext.reads(source.read_text("utf-8"), fmt="md:myst")
    return nbformat.read(source, as_version=4)


def setup_source(path: Path) -> str:
    """The source of the hidden cell that makes the notebook at `path` run where the package is not installed, such as Colab.

    The whole repository is fetched, because chapters read stored runs by paths relative to their own folder.
    """
    url = re.search(r"^repository:\n\s+url: (\S+)$", (ROOT / "_config.yml").read_text("utf-8"), re.MULTILINE)[1]
    lines = ("try:", "    import privbandit", "except ModuleNotFoundError:")
    steps = (f"!git clone -q --depth 1 {url} privbandit-book", "%pip install -q ./privbandit-book", f"%cd -q privbandit-book/book/{path.parent.name}")
    return "\n".join([*lines, *(f"    {step}" for step in steps)])


def place_setup(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Put the setup cell after the title, once."""
    cells = [cell for cell in notebook.cells if "setup" not in cell.metadata.get("tags", [])]
    cell = nbformat.v4.new_code_cell(setup_source(path), metadata={"tags": SETUP_TAGS})
    notebook.cells = [*cells[:1], cell, *cells[1:]]


def execute(notebook: nbformat.NotebookNode, path: Path) -> nbformat.NotebookNode:
    """Run the notebook in its own folder in a fresh kernel of this Python, then reduce it to what is stored."""
    place_setup(notebook, path)
    normalise(notebook)
    client = NotebookClient(
        notebook, timeout=TIMEOUT, kernel_name="python3", record_timing=False, coalesce_streams=True, resources={"metadata": {"path": str(path.parent)}}
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise SystemExit(f"{path}: a cell raised an error\n{error}") from error
    normalise(notebook)
    for cell in notebook.cells:
        describe_figure(cell)
    return notebook


def normalise(notebook: nbformat.NotebookNode) -> None:
    """Fixed cell ids, only the metadata the book uses, outputs without metadata."""
    notebook.metadata = nbformat.from_dict(KERNEL)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:03d}"
        cell.metadata = nbformat.from_dict({key: cell.metadata[key] for key in KEPT_METADATA if key in cell.metadata})
        for output in cell.get("outputs", []):
            if "metadata" in output:
                output.metadata = nbformat.from_dict({})


def describe_figure(cell: nbformat.NotebookNode) -> None:
    """Copy the facts a figure cell printed into the alternative text of its image."""
    printed = "".join(output.text for output in cell.get("outputs", []) if output.get("name") == "stdout")
    if facts := figure_facts(printed):
        mystnb = dict(cell.metadata.get("mystnb", {}))
        mystnb["image"] = {**mystnb.get("image", {}), "alt": facts}
        cell.metadata["mystnb"] = nbformat.from_dict(mystnb)


def figure_facts(printed: str) -> str:
    """The facts in a cell's printed text (the indented lines after the heading) as one sentence, or an empty text."""
    _, heading, rest = printed.partition(FACTS + "\n")
    lines = itertools.takewhile(lambda line: line.startswith("  "), rest.splitlines())
    return "; ".join(line.strip() for line in lines) if heading else ""


def dumps(notebook: nbformat.NotebookNode) -> str:
    nbformat.validate(notebook)
    return nbformat.writes(notebook) + "\n"


if __name__ == "__main__":
    sys.exit(main())
