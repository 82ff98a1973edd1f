"""Sphinx extension: directive ``{notation}`` shows privbandit/notation.toml, one table per group."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

FIELDS = {"group", "symbol", "code", "meaning"}


def read() -> list[dict[str, str]]:
    """The symbols, in the order of the file; every field must be present and nothing else."""
    symbols = tomllib.loads(resources.files("privbandit").joinpath("notation.toml").read_text("utf-8"))["symbol"]
    for symbol in symbols:
        if set(symbol) != FIELDS:
            raise ValueError(f"notation.toml: symbol {symbol.get('symbol')!r} must have exactly the fields {sorted(FIELDS)}, got {sorted(symbol)}")
    return symbols


def markdown(symbols: list[dict[str, str]]) -> list[str]:
    """A definition of each group as a heading-free table in Markdown."""
    lines: list[str] = []
    for group in dict.fromkeys(symbol["group"] for symbol in symbols):
        lines += [f"**{group}**", "", "| symbol | code | meaning |", "|---|---|---|"]
        lines += [row(symbol) for symbol in symbols if symbol["group"] == group]
        lines.append("")
    return lines


def row(symbol: dict[str, str]) -> str:
    code = ", ".join(name if "$" in name else f"`{name.strip()}`" for name in symbol["code"].split(", ") if name)
    return f"| ${symbol['symbol']}$ | {code} | {symbol['meaning']} |"


class Notation(SphinxDirective):
    """``{notation}``."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(resources.files("privbandit").joinpath("notation.toml")))
        holder = nodes.container()
        self.state.nested_parse(StringList(markdown(read()), "privbandit/notation.toml"), 0, holder)
        return holder.children


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("notation", Notation)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
