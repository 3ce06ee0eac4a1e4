"""The library and the examples are laid out as `collc fmt` does; names and types of the library are right."""

from pathlib import Path

import pytest

from collc.base.diagnostics import SourceFile
from collc.source.elaboration.elaborate import load_program
from collc.source.formatting.format import format_source
from collc.source.imports import standard_library

ROOT = Path(__file__).parent.parent.parent
FILES = sorted([*ROOT.glob("stdlib/*.coll"), *ROOT.glob("examples/**/*.coll")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_layout_is_canonical(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert format_source(SourceFile(path.name, text)) == text


@pytest.mark.parametrize("module", standard_library())
def test_names_and_types_of_the_library_are_right(module: str) -> None:
    """Programs that import a module do not check it again."""
    assert not load_program(standard_library()[module]).schedules
