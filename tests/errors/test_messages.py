"""Wrong programs and the messages for them: each `*.coll` in a folder here has its golden `*.txt` beside it.

`COLLC_REGENERATE=1 pytest tests/errors` rewrites the golden files; read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collc.base.diagnostics import CollcError, SourceFile, render
from collc.source.parsing.parse import parse

HERE = Path(__file__).parent
SYNTAX = sorted((HERE / "syntax").glob("*.coll"))


def compare(program: Path, messages: str) -> None:
    """Compare with the golden file of a program, or write it."""
    golden = program.with_suffix(".txt")
    if os.environ.get("COLLC_REGENERATE"):
        golden.write_bytes((messages + "\n").encode())
    assert golden.read_bytes().decode() == messages + "\n"


@pytest.mark.parametrize("program", SYNTAX, ids=lambda path: path.stem)
def test_syntax(program: Path) -> None:
    with pytest.raises(CollcError) as caught:
        parse(SourceFile(program.name, program.read_bytes().decode()))
    compare(program, render(caught.value.diagnostics))


def test_every_golden_file_has_its_program() -> None:
    assert [p for p in HERE.glob("*/*.txt") if not p.with_suffix(".coll").exists()] == []
    assert len(SYNTAX) >= 70
