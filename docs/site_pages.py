"""Builds the site: `python docs/site_pages.py DIR` writes it as HTML to DIR. Every warning is an error.

Needs collc and its packages, and those of the extra collc[site].
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gallery import gallery, with_moving_pictures
from reference import PAGES

DOCS = Path(__file__).parent
ROOT = DOCS.parent


def stage(folder: Path, *, compiles: bool = True) -> None:
    """Put all pages of the site into a folder: documents, pages of the project's root, and generated ones.

    Pages of HTML with pictures that move go to `extra/moving`. compiles: whether programs are compiled for results and
    such pictures.

    A file that a document calls `../NAME` is beside it there, and so is a document that a page of the root calls
    `docs/NAME`. Documents that the index does not list are below "More".
    """
    pages = {page.relative_to(DOCS): page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")}
    for path, text in pages.items():
        if path.parent == Path():
            for name in re.findall(r"\]\(\.\./([^)#]+)", text):
                _write(folder / name, (ROOT / name).read_text(encoding="utf-8"))
            pages[path] = text.replace("](../", "](")
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        pages[Path(name)] = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
    pages |= {Path("reference", f"{name}.md"): make() for name, make in PAGES.items()}
    files, moving = gallery(compiles=compiles)
    pages |= {Path("gallery", name): text for name, text in files.items()}
    for path, text in pages.items() if compiles else ():
        pages[path], shown = with_moving_pictures(path, text)
        moving |= shown
    for name, text in moving.items():
        _write(folder / "extra" / "moving" / name, text)
    pages[Path("decisions", "README.md")] += "\n```{toctree}\n:hidden:\n:glob:\n*\n```\n"
    listed = {"index", *re.findall(r"^[\w/-]+$", pages[Path("index.md")], re.MULTILINE)}
    more = {path.stem for path in pages if path.parent == Path()} - listed
    if more:
        pages[Path("index.md")] += "\n".join(["\n```{toctree}", ":caption: More", *sorted(more), "```\n"])
    pages |= {path.relative_to(DOCS): path.read_text(encoding="utf-8") for path in DOCS.glob("pictures/*.svg")}
    for path, text in pages.items():
        _write(folder / path, text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


class _Anchors(HTMLParser):
    """The identifiers of a page, and the addresses that it links to or loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.idents = set[str]()
        self.addresses = set[str]()
        self.feed(text)

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.idents.add(value)
            elif name in ("href", "src") and value:
                self.addresses.add(value)


def dead_links(site: Path) -> list[str]:
    """The links of a built site to files or sections of it that are not there, as "PAGE: ADDRESS"."""
    pages = {path: _Anchors(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    dead = list[str]()
    for page, anchors in pages.items():
        for address in sorted(anchors.addresses):
            parts = urlsplit(address)
            target = Path(os.path.normpath(page.parent / unquote(parts.path))) if parts.path else page
            lost = parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].idents
            if not (parts.scheme or parts.netloc) and (lost or not target.exists()):
                dead.append(f"{page.relative_to(site)}: {address}")
    return dead


def main() -> int:
    """Build the site; 0 if Sphinx has no warning and all links within the site lead somewhere."""
    from sphinx.cmd.build import main as build

    site = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        stage(Path(folder))
        extra = f"html_extra_path={Path(folder, 'extra')}"
        code = build(["-W", "--keep-going", "-q", "-c", str(DOCS), "-D", extra, folder, str(site)])
    dead = dead_links(site)
    print("\n".join(dead), file=sys.stderr)
    return code or int(bool(dead))


if __name__ == "__main__":
    raise SystemExit(main())
