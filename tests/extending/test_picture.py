"""The recipe "A picture" of docs/extending.md, followed."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from collc.application.show.picture_kinds import PICTURE_KINDS, PictureKind
from collc.command.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PROGRAM = """
import std.topologies
import std.collectives
topology t = ring(3, bandwidth: 1GB/s, latency: 1us)
schedule s on t { run broadcast(t.npus, size: 1kB) run all_gather(t.npus, size: 6kB) }
"""


@pytest.fixture(autouse=True)
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example, registered, and a program."""
    monkeypatch.chdir(tmp_path)
    Path("p.coll").write_text(PROGRAM)
    section = (DOCS / "extending.md").read_text().partition("## A picture")[2].partition("\n## ")[0]
    example, record = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    module = ModuleType("collc.pictures.sizes")
    exec(compile(example, "sizes.py", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(PICTURE_KINDS, "sizes", eval(record, {"PictureKind": PictureKind}))


def test_the_picture_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "p.coll", "--svg", "p.svg", "--picture", "sizes", "--theme", "dark"]) == 0
    shown = Path("p.svg").read_text()
    assert "<title>1kB: 2</title>" in shown  # the broadcast
    assert "<title>2kB: 6</title>" in shown  # three blocks, each to two others
    with pytest.raises(SystemExit):
        main(["show", "--help"])
    assert ",sizes}" in capsys.readouterr().out.replace(" ", "").replace("\n", "")


@pytest.mark.parametrize("kind", PICTURE_KINDS.values(), ids=lambda kind: kind.name)
def test_the_records_name_functions(kind: PictureKind) -> None:
    assert callable(kind.function())
