"""The sessions of docs/python.md, run as they are written."""

from __future__ import annotations

import doctest
import shutil
from pathlib import Path

import pytest

from collc.api.compiling import CompileOptions

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "python.md"


def test_the_sessions_give_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "examples" / "quickstart.coll", tmp_path)
    monkeypatch.chdir(tmp_path)
    session = doctest.DocTestParser().get_doctest(PAGE.read_text("utf-8"), {}, PAGE.name, str(PAGE), 0)
    differences: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(session, out=differences.append)
    assert not differences, "".join(differences)
    assert runner.tries >= 30


def test_the_page_lists_every_keyword_of_compile() -> None:
    table = "".join(line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `"))
    for keyword in CompileOptions.__annotations__:
        assert f"`{keyword}`" in table, keyword
