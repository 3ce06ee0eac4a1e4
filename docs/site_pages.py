"""Builds the site: `python docs/site_pages.py DIR` writes it as HTML to DIR. Every warning is an error.

Needs collc and its packages, and those of the extra collc[site].
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from reference import PAGES

DOCS = Path(__file__).parent
ROOT = DOCS.parent


def stage(folder: Path) -> None:
    """Put all pages of the site into a folder: documents, pages of the project's root, generated pages, grammars.

    What the documents call `../NAME` is beside them there, and what the pages of the root call `docs/NAME` too.
    """
    for page in DOCS.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        _write(folder / page.relative_to(DOCS), text.replace("](../", "](") if page.parent == DOCS else text)
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        _write(folder / name, (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "]("))
    for grammar in (ROOT / "grammar").glob("*.lark"):
        _write(folder / "grammar" / grammar.name, grammar.read_text(encoding="utf-8"))
    decisions = folder / "decisions" / "README.md"
    _write(decisions, decisions.read_text(encoding="utf-8") + "\n```{toctree}\n:hidden:\n:glob:\n*\n```\n")
    for name, make in PAGES.items():
        _write(folder / "reference" / f"{name}.md", make())


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
