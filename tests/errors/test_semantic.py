"""Programs that parse but have errors: golden messages, as in test_messages.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collc.base.diagnostics import CollcError, render
from collc.codes import catalogue
from collc.source.elaboration.elaborate import load_program

HERE = Path(__file__).parent / "semantic"
PROGRAMS = sorted(HERE.glob("*.coll"))


def messages(program: Path, monkeypatch: pytest.MonkeyPatch) -> CollcError:
    monkeypatch.chdir(HERE)
    with pytest.raises(CollcError) as caught:
        load_program(Path(program.name))
    return caught.value


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_semantic(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = messages(program, monkeypatch)
    text = render(error.diagnostics) + "\n"
    golden = program.with_suffix(".txt")
    if os.environ.get("COLLC_REGENERATE"):
        golden.write_bytes(text.encode())
    assert golden.read_bytes().decode() == text
    assert {d.code for d in error.diagnostics} <= set(catalogue())


def test_there_are_at_least_80_programs() -> None:
    assert len(PROGRAMS) >= 80
