"""Sphinx extension: the claims ledger in the book.

Role ``{claim}`id` `` shows a badge (level and status) that links to the claims index; directive ``{claims-table} chapter``
lists one chapter's claims and ``{claims-index}`` all of them. A claim id unknown to the ledger, a labelled theorem-like
block without its claim, and a ledger id no page uses are warnings, hence errors in a build with -W.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from privbandit.claims import LEVELS, Claim, ledger

LOGGER = logging.getLogger(__name__)
CLAIMED_BLOCKS = {"algorithm", "corollary", "definition", "lemma", "proposition", "property", "theorem"}
HEADER = ("Claim", "Statement", "Check", "Source")
CITATION_KEY = re.compile(r"^([a-z]+\d{4}[a-z]*)\b")


class claim_link(nodes.Inline, nodes.TextElement):
    """A claim's id in a table; becomes a link to the page that states it once all pages are read."""


class ClaimRole(SphinxRole):
    """``{claim}`id` ``: a badge with the claim's level and status."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        id = self.text.strip()
        claim = self.env.app.claims.get(id)
        if claim is None:
            LOGGER.warning("claim %r is not in the ledger", id, location=self.get_location(), type="claims", subtype="unknown")
            return [nodes.literal(id, id)], []
        used = uses(self.env).setdefault(self.env.docname, [])
        anchor = [] if id in used else [f"claim-{id}"]
        used.append(id)
        index = self.env.app.builder.get_relative_uri(self.env.docname, self.config.claims_index)
        return [nodes.inline("", "", badge(claim, f"{index}#claim-{id}"), ids=anchor)], []


class ClaimsTable(SphinxDirective):
    """``{claims-table} chapter``: the claims of one chapter, folded, since the table is longer than what it stands above."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        title = "Claims of this chapter, and how each is checked"
        return [nodes.admonition("", nodes.title(title, title), self.table(self.arguments[0], anchors=False), classes=["dropdown"])]

    def table(self, chapter: str, anchors: bool) -> nodes.table:
        claims = [claim for claim in self.env.app.claims.values() if claim.chapter == chapter]
        if not claims:
            LOGGER.warning("no claims ledger for chapter %r", chapter, location=self.get_location(), type="claims", subtype="unknown")
        return table([self.cells(claim, anchors) for claim in claims])

    def cells(self, claim: Claim, anchors: bool) -> list[list[nodes.Node]]:
        row = claim.row()
        name = claim_link("", "", nodes.literal(claim.id, claim.id), claim=claim.id, ids=[f"claim-{claim.id}"] if anchors else [])
        check = [f"{claim.level} · {claim.status}"]
        if row["mutants"]:
            check.append(f"{row['mutants_killed']} of {row['mutants']} mutants")
        source = CITATION_KEY.sub(r"{cite:t}`\1`", claim.source)
        return [[nodes.paragraph("", "", name), *lines(claim.kind)], self.parse(claim.statement), lines(*check), self.parse(source)]

    def parse(self, text: str) -> list[nodes.Node]:
        """The nodes of a text in the page's own markup (mathematics, code, citations)."""
        holder = nodes.Element()
        self.state.nested_parse(StringList(text.splitlines(), "claims ledger"), 0, holder)
        return holder.children


class ClaimsIndex(ClaimsTable):
    """``{claims-index}``: the claims of all chapters, a section for each, in the order of the contents."""

    required_arguments = 0

    def run(self) -> list[nodes.Node]:
        pages = self.pages()
        chapters = {claim.chapter for claim in self.env.app.claims.values()}
        return [self.section(chapter, pages.get(chapter)) for chapter in sorted(chapters, key=lambda c: (c not in pages, [*pages, c].index(c)))]

    def pages(self) -> dict[str, str]:
        """The page of each chapter in the order of the contents; a chapter's ledger is named after its file."""
        contents = Path(self.env.srcdir) / "_toc.yml"
        names = re.findall(r"file: (\S+)", contents.read_text("utf-8")) if contents.exists() else sorted(self.env.found_docs)
        return {name.split("/")[-1].replace("-", "_"): name for name in names}

    def section(self, chapter: str, page: str | None) -> nodes.section:
        title = page_title(Path(self.env.doc2path(page))) if page else chapter.replace("_", " ").capitalize()
        link = self.parse(f"{{doc}}`To the chapter </{page}>`") if page else []
        anchor = {"ids": [f"claims-{chapter}"], "names": [f"claims-{chapter}"]}
        return nodes.section("", nodes.title(title, title), *link, self.table(chapter, anchors=True), **anchor)


def page_title(path: Path) -> str:
    """The first heading of a notebook or Markdown page."""
    text = path.read_text("utf-8")
    lines = json.loads(text)["cells"][0]["source"] if path.suffix == ".ipynb" else text.splitlines()
    return next(line for line in lines if line.startswith("# "))[2:].strip()


def lines(*texts: str) -> list[nodes.Node]:
    return [nodes.paragraph(text, text) for text in texts]


def badge(claim: Claim, target: str) -> nodes.reference:
    text = f"{claim.level} · {claim.status}"
    meaning = f"{claim.id}: {LEVELS[claim.level]}"
    return nodes.reference(text, text, refuri=target, internal=True, reftitle=meaning, classes=["claim-badge", f"claim-{claim.status}"])


def table(body: list[list[list[nodes.Node]]]) -> nodes.table:
    def row(cells: list[list[nodes.Node]]) -> nodes.row:
        return nodes.row("", *(nodes.entry("", *cell) for cell in cells))

    group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in HEADER), cols=len(HEADER))
    group += nodes.thead("", row([lines(name) for name in HEADER]))
    group += nodes.tbody("", *(row(cells) for cells in body))
    return nodes.table("", group, classes=["claims", "colwidths-auto"])


def uses(env: BuildEnvironment) -> dict[str, list[str]]:
    """Claim ids used, by page."""
    if not hasattr(env, "claims_used"):
        env.claims_used = {}
    return env.claims_used


def purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    uses(env).pop(docname, None)


def merge(app: Sphinx, env: BuildEnvironment, docnames: list[str], other: BuildEnvironment) -> None:
    uses(env).update({name: ids for name, ids in uses(other).items() if name in docnames})


def problems(claims: dict[str, Claim], used: set[str], labels: dict[str, str]) -> list[str]:
    """What is wrong between the ledger, the badges used and the labels of theorem-like blocks (label -> page)."""
    unclaimed = [f"block {label!r} ({page}) has no claim in the ledger" for label, page in sorted(labels.items()) if label not in claims]
    badgeless = [f"block {label!r} ({page}) has no {{claim}} badge" for label, page in sorted(labels.items()) if label in claims and label not in used]
    unused = [f"claim {id!r} of {claims[id].chapter}.toml is used on no page" for id in sorted(set(claims) - used - set(labels))]
    return unclaimed + badgeless + unused


def block_labels(blocks: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Author-given labels of theorem-like blocks, with their pages (sphinx-proof numbers unlabelled blocks itself)."""
    claimed = {label: block for label, block in blocks.items() if block["realtype"] in CLAIMED_BLOCKS}
    return {label: block["docname"] for label, block in claimed.items() if not re.fullmatch(rf"{block['realtype']}-\d+", label)}


def check(app: Sphinx, env: BuildEnvironment) -> None:
    used = {id for ids in uses(env).values() for id in ids}
    for problem in problems(app.claims, used, block_labels(getattr(env, "proof_list", {}))):
        LOGGER.warning("%s", problem, type="claims", subtype="consistency")


def link(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Link the ids in tables to the page that states the claim."""
    for node in list(doctree.findall(claim_link)):
        id = node["claim"]
        pages = [page for page, ids in sorted(uses(app.env).items()) if id in ids]
        uri = f"{app.builder.get_relative_uri(docname, pages[0])}#claim-{id}" if pages else ""
        content = nodes.reference("", "", *node.children, refuri=uri, internal=True) if uri else nodes.inline("", "", *node.children)
        node.replace_self(nodes.inline("", "", content, ids=node["ids"]))


def start(app: Sphinx, config: Any) -> None:
    """Read the ledger once per build; its content is a configuration value, so a change rebuilds the pages."""
    app.claims = {claim.id: claim for claim in ledger()}
    config.claims_digest = repr([(claim.row(), claim.statement) for claim in app.claims.values()])


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("claims_index", "claims", "env")
    app.add_config_value("claims_digest", "", "env")
    app.add_node(claim_link)
    app.add_role("claim", ClaimRole())
    app.add_directive("claims-table", ClaimsTable)
    app.add_directive("claims-index", ClaimsIndex)
    app.connect("config-inited", start)
    app.connect("env-purge-doc", purge)
    app.connect("env-merge-info", merge)
    app.connect("env-check-consistency", check)
    app.connect("doctree-resolved", link)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
