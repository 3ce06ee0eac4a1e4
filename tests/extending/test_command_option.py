"""The recipe "A command option" of docs/extending.md, followed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from collc.command.cli import main
from collc.command.options import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(autouse=True)
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example, registered, and a program."""
    monkeypatch.chdir(tmp_path)
    Path("p.coll").write_text("import std.clusters\ntopology pod = dgx_h100(2)\n")
    section = (DOCS / "extending.md").read_text().partition("## A command option")[2].partition("\n## ")[0]
    (example,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    exec(compile(example, "switches.py", "exec"), {"__name__": "switches"})
    yield
    del COMMANDS["switches"]


def test_the_command_prints_its_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["switches", "p.coll"]) == 0
    table = capsys.readouterr().out
    assert re.search(r"nvswitch\[0\] +8\b", table)
    assert re.search(r"leaf\[0\] +3\b", table)
    assert main(["switches", "p.coll:pod", "--ports", "8", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {row["name"] for row in answer["switches"]} == {"nvswitch[0]", "nvswitch[1]", "spine"}
    assert answer["diagnostics"] == []


def test_its_option_has_help_and_refuses_wrong_values(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["switches", "--help"])
    assert "--ports N" in capsys.readouterr().out
    assert main(["switches", "p.coll", "--ports", "0"]) == 2
    assert "a whole number of at least 1 and below 2**63 is expected, not '0'" in capsys.readouterr().err
    assert main(["switches", "p.coll", "--prots", "8"]) == 2
    assert "did you mean '--ports'?" in capsys.readouterr().err
