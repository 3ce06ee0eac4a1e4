"""The examples of the catalogue of messages, as far as they parse: the wrong ones are wrong, the right ones right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from collc.diagnostics import CollcError
from collc.source import load_program
from collc.source.codes import catalogue

SOURCES = Path(__file__).parents[2] / "collc" / "source"
SHOWN = [c for c, entry in catalogue().items() if entry.wrong and not c.startswith("E01")]


@pytest.mark.parametrize("code", SHOWN)
def test_examples(code: str, tmp_path: Path) -> None:
    entry = catalogue()[code]
    path = tmp_path / "example.coll"
    path.write_text(entry.wrong)
    with pytest.raises(CollcError) as caught:
        load_program(path)
    assert code in {d.code for d in caught.value.diagnostics}
    path.write_text(entry.right)
    load_program(path)


def test_every_code_that_can_be_raised_is_explained() -> None:
    used = {c for p in SOURCES.glob("*.py") for c in re.findall(r'"(E0[2-9]\d\d)"', p.read_text())}
    assert used - {"E0600"} <= set(catalogue())


def test_no_code_is_explained_that_nothing_raises() -> None:
    used = {c for p in SOURCES.rglob("*.py") for c in re.findall(r"E0[2-9]\d\d", p.read_text())}
    assert {c for c in catalogue() if not c.startswith("E01")} <= used
