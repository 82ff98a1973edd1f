"""The check that a site loads nothing from outside finds what a browser would fetch, and only that."""

import pytest

from tools.check_site import problems


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js from outside"),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', "loads //cdn.example/x.css from outside"),
        ('<link rel="preconnect" href="https://fonts.example">', "from outside"),
        ('<img src="http://example.org/a.png">', "from outside"),
        ('<div style="background: url(https://example.org/a.png)">', "loads https://example.org/a.png from outside"),
        ('<img src="nothing%20here.png">', "nothing%20here.png is missing"),
    ],
)
def test_what_a_browser_would_fetch_is_found(tmp_path, page, fault):
    (tmp_path / "index.html").write_text(page)
    assert [fault in line for line in problems(tmp_path)] == [True]


def test_styles_are_read_too(tmp_path):
    (tmp_path / "a.css").write_text('@import "https://fonts.example/f.css"; p { background: url(local.png) }')
    assert problems(tmp_path) == ["a.css: loads https://fonts.example/f.css from outside"]


def test_links_to_follow_and_local_files_are_fine(tmp_path):
    (tmp_path / "a.js").write_text("")
    page = '<a href="https://example.org">x</a><script src="a.js?v=1"></script><link rel="canonical" href="https://example.org"><img src="data:image/png;base64,AA">'
    (tmp_path / "index.html").write_text(page)
    assert problems(tmp_path) == []
