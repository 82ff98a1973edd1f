"""Sphinx extension: the students' edition, from the same sources but without the solutions (``make student``).

It is built when the environment variable BOOK_EDITION is ``student``. Sources are not offered for download then, because they
hold the solutions.
"""

from __future__ import annotations

import os
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx_exercise.nodes import solution_node


def without_downloads(app: Sphinx, config: Any) -> None:
    config.html_copy_source = False
    config.html_show_sourcelink = False
    config.html_theme_options["use_download_button"] = False
    config.html_theme_options["launch_buttons"] = {}


def without_solutions(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    for node in list(doctree.findall(solution_node)):
        node.parent.remove(node)


def setup(app: Sphinx) -> dict[str, Any]:
    if os.environ.get("BOOK_EDITION") == "student":
        app.connect("config-inited", without_downloads)
        app.connect("doctree-resolved", without_solutions)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
