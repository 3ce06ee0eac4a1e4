"""The recipe "An emitter" of docs/extending.md, followed; and what derives from the records of emitters."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType

import pytest

import collc
from collc.api.compiling import CompileOptions
from collc.base.options import Option
from collc.command.cli import main
from collc.emit.kinds import EMIT_KINDS, EmitKind

DOCS = Path(__file__).parents[2] / "docs"
PROGRAM = """
import std.topologies
import std.collectives
topology t = ring(3, bandwidth: 1GB/s, latency: 1us)
schedule s on t { run broadcast(t.npus, size: 1kB) emit csv(OPTIONS) }
"""


def table_row(kind: EmitKind) -> str:
    """The row of a kind in the table of docs/language.md."""
    options = ", ".join(f"`{name}`" for name in kind.options)
    return " ".join(f"| `{kind.name}` | {kind.help} | {options} | {', '.join(kind.checks)} |".split())


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The example, registered. Returns its row of the table in the documents."""
    section = (DOCS / "extending.md").read_text().partition("## An emitter")[2].partition("\n## ")[0]
    writer, record = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    module = ModuleType("collc.emit.csv_table")
    exec(compile(writer, "csv_table.py", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(EMIT_KINDS, "csv", eval(record, {"EmitKind": EmitKind, "Option": Option}))
    return re.findall(r"```\n(\| .*?)\n```", section)


def test_the_example_writes_its_file(rows: list[str], tmp_path: Path) -> None:
    report = collc.compile(PROGRAM.replace("OPTIONS", '"a.csv"'), output=tmp_path)
    assert report["s"].files == (tmp_path / "a.csv",)
    assert "csv: 2 transfers" in report["s"].notes
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert lines[0] == "chunk,from,to,start (ps),arrival (ps)"
    assert sorted(lines[1:]) == ["0:x[0],npu[0],npu[1],0,2000000", "0:x[0],npu[0],npu[2],0,2000000"]
    collc.compile(PROGRAM.replace("OPTIONS", "header: false"), output=tmp_path)
    assert (tmp_path / "s.csv").read_text().splitlines() == lines[1:]


def test_the_language_checks_its_options_and_the_commands_know_it(
    rows: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(collc.SourceError, match="emit csv has no option 'headers'"):
        collc.compile(PROGRAM.replace("OPTIONS", "headers: false"), output=tmp_path)
    (tmp_path / "p.coll").write_text(PROGRAM.replace("emit csv(OPTIONS)", ""))
    assert main(["compile", str(tmp_path / "p.coll"), "-o", str(tmp_path), "--emit", "csv"]) == 0
    assert (tmp_path / "s.csv").exists()
    assert rows == [table_row(EMIT_KINDS["csv"])]


def test_the_documents_list_all_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    section = (DOCS / "language.md").read_text().partition("### Files")[2].partition("\n### ")[0]
    assert [line for line in section.splitlines() if line.startswith("| `")] == [*map(table_row, EMIT_KINDS.values())]
    assert all(f'"{kind}"' in (CompileOptions.__doc__ or "") for kind in EMIT_KINDS)
    with pytest.raises(SystemExit):
        main(["compile", "--help"])
    shown = capsys.readouterr().out
    assert all(kind in shown for kind in EMIT_KINDS)


@pytest.mark.parametrize("kind", EMIT_KINDS.values(), ids=lambda kind: kind.name)
def test_writers_are_what_the_records_promise(kind: EmitKind) -> None:
    signature = inspect.signature(resolve_name(kind.writer))
    assert [p.annotation for p in signature.parameters.values()] == ["Emission"]
    assert signature.return_annotation == "WrittenFile"
    if kind.precheck:
        names = [p.annotation for p in inspect.signature(resolve_name(kind.precheck)).parameters.values()]
        assert names == ["Network", "Demand", "Mapping[str, OptionValue]"]
