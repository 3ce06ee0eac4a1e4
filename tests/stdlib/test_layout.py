"""The library and the examples are laid out as `collc fmt` does."""

from pathlib import Path

import pytest

from collc.base.diagnostics import SourceFile
from collc.source.formatting.format import format_source

ROOT = Path(__file__).parent.parent.parent
FILES = sorted([*ROOT.glob("stdlib/*.coll"), *ROOT.glob("examples/**/*.coll")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_layout_is_canonical(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert format_source(SourceFile(path.name, text)) == text
