"""The examples of the catalogue beyond syntax: the wrong programs yield the code, the right ones are elaborated."""

from __future__ import annotations

from pathlib import Path

import pytest

from collc.base.diagnostics import CollcError
from collc.codes import catalogue
from collc.source.elaboration.elaborate import load_program

SHOWN = [c for c, entry in catalogue().items() if entry.wrong and c.startswith("E") and not c.startswith("E01")]


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
