"""The book's own Sphinx extensions, built on a two-page site with right and wrong input."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "book" / "_ext"))  # as Jupyter Book does for local extensions

import claim_pages as extension  # noqa: E402
import notation_page as notation  # noqa: E402

from privbandit.claims import Claim, Result, fingerprint  # noqa: E402

CHECKED = Result(fingerprint("about $x$"), "", {}, ("m",), ("m",), True)


def ledger(*ids: str) -> dict[str, Claim]:
    return {id: Claim(id, "lemma", "E", "about $x$", "this book", "chapter", test="t", result=CHECKED) for id in ids}


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Build a site of one page with the given text and ledger; returns its HTML, the index page's HTML and the warnings."""

    def run(text: str, claims: dict[str, Claim]) -> tuple[str, str, str]:
        monkeypatch.setattr(extension, "ledger", lambda: tuple(claims.values()))
        source = tmp_path / "source"
        source.mkdir(exist_ok=True)
        (source / "index.md").write_text("# Claims\n\n```{toctree}\npage\n```\n\n```{claims-index}\n```\n")
        (source / "page.md").write_text(f"# Page\n\n{text}\n")
        extensions = ["myst_parser", "sphinx_proof", "sphinx_exercise", "claim_pages", "notation_page", "student_edition"]
        config = {"extensions": extensions, "claims_index": "index", "myst_enable_extensions": ["dollarmath"]}
        with (tmp_path / "warnings.txt").open("w+") as warnings, docutils_namespace():
            folders = (str(tmp_path / "out"), str(tmp_path / "trees"))
            Sphinx(str(source), None, *folders, "html", confoverrides=config, status=None, warning=warnings).build()
            warnings.seek(0)
            return (tmp_path / "out/page.html").read_text(), (tmp_path / "out/index.html").read_text(), warnings.read()

    return run


BLOCK = "```{prf:lemma} Name\n:label: one\n\nText. {claim}`one`\n```\n"


def test_a_claim_gets_its_badge_and_both_directions_of_links(build):
    page, index, warnings = build(BLOCK, ledger("one"))
    assert warnings == ""
    assert 'href="index.html#claim-one"' in page and "E · checked" in page and 'id="claim-one"' in page
    assert 'href="page.html#claim-one"' in index and 'id="claim-one"' in index and "1 of 1" in index
    assert "math" in index  # the statement's mathematics is typeset


def test_the_index_names_and_links_chapters_as_their_pages_do(build):
    claims = {"one": Claim("one", "lemma", "E", "about $x$", "this book", "page", test="t", result=CHECKED)}
    _, index, warnings = build(BLOCK, claims)
    assert warnings == ""
    section = index[index.index('id="claims-page"') :]
    assert "<h2>Page<" in section and 'href="page.html"' in section and "To the chapter" in section


@pytest.mark.parametrize(
    ("text", "ids", "warning"),
    [
        ("{claim}`two`", (), "claim 'two' is not in the ledger"),
        (BLOCK.replace("{claim}`one`", ""), (), "block 'one' (page) has no claim in the ledger"),
        (BLOCK.replace("{claim}`one`", ""), ("one",), "block 'one' (page) has no {claim} badge"),
        (BLOCK, ("one", "two"), "claim 'two' of chapter.toml is used on no page"),
        ("```{claims-table} nowhere\n```", (), "no claims ledger for chapter 'nowhere'"),
    ],
)
def test_disagreement_of_book_and_ledger_is_a_warning(build, text, ids, warning):
    assert warning in build(text, ledger(*ids))[2]


def test_unlabelled_blocks_and_remarks_need_no_claim(build):
    text = "```{prf:lemma}\nText.\n```\n\n```{prf:remark}\n:label: aside\n\nText.\n```\n"
    assert build(text, {})[2] == ""


def test_a_second_build_after_an_edit_forgets_the_old_use(build):
    assert build(BLOCK, ledger("one"))[2] == ""
    assert "claim 'one' of chapter.toml is used on no page" in build("Nothing here.", ledger("one"))[2]


def test_notation_is_complete_and_unique(build):
    symbols = notation.read()
    names = [symbol["symbol"] for symbol in symbols]
    assert len(names) == len(set(names)) > 30
    page, _, warnings = build("```{notation}\n```", {})
    assert warnings == "" and page.count("<tr") == len(symbols) + len({symbol["group"] for symbol in symbols})


def test_a_symbol_with_a_missing_field_is_refused(monkeypatch):
    monkeypatch.setattr(notation.tomllib, "loads", lambda text: {"symbol": [{"symbol": "x", "code": "x"}]})
    with pytest.raises(ValueError, match="symbol 'x' must have exactly the fields"):
        notation.read()


EXERCISE = "```{exercise}\n:label: ex\n\nAsk.\n```\n\n````{solution} ex\n\nThe answer.\n````\n"


@pytest.mark.parametrize("edition", ["student", "teacher"])
def test_the_students_edition_has_the_exercises_but_neither_solutions_nor_sources(build, tmp_path, monkeypatch, edition):
    monkeypatch.setenv("BOOK_EDITION", edition)
    page = build(EXERCISE, {})[0]
    assert "Ask." in page
    assert ("The answer." in page) == (edition == "teacher")
    assert (tmp_path / "out" / "_sources").exists() == (edition == "teacher")
