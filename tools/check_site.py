"""Check that a built site reads with no network: nothing is loaded from outside, and every local file it loads is there.

    python tools/check_site.py book/_build/html
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "embed": "src", "object": "data"}
LOADING_LINKS = {"stylesheet", "icon", "shortcut icon", "preload", "modulepreload", "preconnect", "dns-prefetch", "manifest"}
IN_STYLE = re.compile(r"""(?:@import\s+|url\()\s*["']?((?:https?:)?//[^"')\s]+)""")


class Loads(HTMLParser):
    """The addresses a page loads by itself (links to follow do not count)."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "link" and attributes.get("rel", "").lower() in LOADING_LINKS:
            self.found.append(attributes.get("href", ""))
        elif address := attributes.get(LOADING.get(tag, ""), ""):
            self.found.append(address)
        self.found += IN_STYLE.findall(attributes.get("style", ""))


def problems(site: Path) -> list[str]:
    """One line per page and address that is loaded from outside or missing."""
    found = []
    pages = [page for page in sorted(site.rglob("*.html")) if "_static" not in page.parts]  # there, the theme's templates
    for page in pages:
        found += [f"{page.relative_to(site)}: {fault}" for address in Loads(page.read_text("utf-8")).found if (fault := judge(page.parent, address))]
    for style in sorted(site.rglob("*.css")):
        found += [f"{style.relative_to(site)}: loads {address} from outside" for address in IN_STYLE.findall(style.read_text("utf-8"))]
    return found


def judge(folder: Path, address: str) -> str:
    """What is wrong with loading `address` from a page in `folder`; an empty text if nothing is."""
    parts = urlsplit(address)
    if parts.scheme == "data":
        return ""
    if parts.scheme or parts.netloc:
        return f"loads {address} from outside"
    return "" if (folder / unquote(parts.path)).exists() else f"{address} is missing"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        raise SystemExit(f"give the folder of the built site, got {arguments}")
    found = problems(Path(arguments[0]))
    print("\n".join(found) if found else "The site loads nothing from outside.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
