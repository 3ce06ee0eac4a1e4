"""Builds the site: `python docs/site_pages.py DIR` writes it as HTML to DIR. Every warning is an error.

Needs collc and its packages, and those of the extra collc[site].
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from reference import PAGES, gallery

DOCS = Path(__file__).parent
ROOT = DOCS.parent


def stage(folder: Path) -> None:
    """Put all pages of the site into a folder: documents, pages of the project's root, and generated ones.

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
    pages |= {Path("gallery", name): text for name, text in gallery().items()}
    pages[Path("decisions", "README.md")] += "\n```{toctree}\n:hidden:\n:glob:\n*\n```\n"
    listed = {"index", *re.findall(r"^[\w/-]+$", pages[Path("index.md")], re.MULTILINE)}
    more = {path.stem for path in pages if path.parent == Path()} - listed
    if more:
        pages[Path("index.md")] += "\n".join(["\n```{toctree}", ":caption: More", *sorted(more), "```\n"])
    for path, text in pages.items():
        _write(folder / path, text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    """Build the site; the exit code of Sphinx."""
    from sphinx.cmd.build import main as build

    with tempfile.TemporaryDirectory() as folder:
        stage(Path(folder))
        return build(["-W", "--keep-going", "-q", "-c", str(DOCS), folder, sys.argv[1]])


if __name__ == "__main__":
    raise SystemExit(main())
