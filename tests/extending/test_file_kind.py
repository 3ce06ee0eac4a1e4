"""The recipe "A file kind" of docs/extending.md, followed; and what derives from the records of file kinds."""

from __future__ import annotations

import gzip
import re
import sys
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType

import pytest

import collc
from collc.application.file_kinds import FILE_KINDS, FileKind, titles
from collc.command.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
PROGRAM = """
import std.topologies
import std.collectives
topology t = ring(3, bandwidth: 1GB/s, latency: 1us)
schedule s on t { run broadcast(t.npus, size: 1kB) emit ten }
"""


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The example, registered, and a file of its kind."""
    section = PAGE.read_text().partition("## A file kind")[2].partition("\n## ")[0]
    functions, record = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    module = ModuleType("collc.application.gzip_files")
    exec(compile(functions, "gzip_files.py", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(FILE_KINDS, "gzip", eval(record, {"FileKind": FileKind}))
    collc.compile(PROGRAM, output=tmp_path)
    path = tmp_path / "s.ten.gz"
    path.write_bytes(gzip.compress((tmp_path / "s.ten").read_bytes()))
    return path


def test_the_commands_take_the_example(packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = collc.verify(packed)
    assert report.ok
    assert report.file == packed
    assert main(["simulate", str(packed)]) == 0
    assert "2us" in capsys.readouterr().out
    assert "a .ten.gz file" in titles("verify")
    assert main(["show", str(packed)]) == 2
    assert "'gunzip' unpacks it" in capsys.readouterr().err
    packed.write_bytes(packed.read_bytes()[:-20])
    assert main(["verify", str(packed)]) == 1
    assert "is damaged" in capsys.readouterr().err


@pytest.mark.parametrize("kind", FILE_KINDS.values(), ids=lambda kind: kind.name)
def test_the_functions_of_the_records_exist(kind: FileKind) -> None:
    for command in ("verify", "simulate", "run", "inspect", "show"):
        if function := getattr(kind, command):
            assert callable(resolve_name(function))
