"""The refresh tool: what it stores depends on the source alone."""

from __future__ import annotations

import nbformat
import pytest

from tools import refresh

SOURCE = """---
kernelspec:
  display_name: Python 3
  name: python3
---
# Title

```{code-cell}
:tags: [hide-input]
import sys
print("Figure facts:\\n  one: 1\\n  two: 2")
sys.stdout.flush()
print("end")
```

```{code-cell}
21 * 2
```
"""


@pytest.fixture
def draft(tmp_path):
    path = tmp_path / "draft.md"
    path.write_text(SOURCE)
    return path, tmp_path / "part" / "chapter.ipynb"


def test_a_chapter_is_converted_run_and_stable(draft):
    source, path = draft
    assert refresh.refresh(source, path)
    stored = path.read_bytes()
    assert not refresh.refresh(source, path)
    assert not refresh.refresh(path, path, check=True)  # the notebook is its own source from now on
    assert path.read_bytes() == stored
    title, setup, figure, number = nbformat.read(path, as_version=4).cells
    assert title.source == "# Title" and setup.source == refresh.setup_source(path)
    assert figure.outputs[0].text == "Figure facts:\n  one: 1\n  two: 2\nend\n"
    assert figure.metadata == {"tags": ["hide-input"], "mystnb": {"image": {"alt": "one: 1; two: 2"}}}
    assert number.outputs[0].data["text/plain"] == "42" and number.execution_count == 3


def test_check_reports_a_change_and_stores_nothing(draft):
    source, path = draft
    assert refresh.refresh(source, path, check=True)
    assert not path.exists()


def test_an_error_in_a_cell_stops_with_the_place(draft):
    source, path = draft
    source.write_text(SOURCE.replace("21 * 2", "1 / 0"))
    with pytest.raises(SystemExit, match="ZeroDivisionError"):
        refresh.refresh(source, path)


@pytest.mark.parametrize("argument", ["missing.ipynb", "README.md", "missing.md=x.ipynb", "README.md=x.txt"])
def test_wrong_paths_are_refused(argument):
    with pytest.raises(SystemExit, match="paths must be existing notebooks"):
        refresh.parse_path(argument)


@pytest.mark.parametrize(
    ("printed", "facts"),
    [("Figure facts:\n  a: 1\n  b: 2\nrest", "a: 1; b: 2"), ("before\nFigure facts:\n  a: 1", "a: 1"), ("a: 1", ""), ("", "")],
)
def test_facts_are_read_from_what_was_printed(printed, facts):
    assert refresh.figure_facts(printed) == facts
