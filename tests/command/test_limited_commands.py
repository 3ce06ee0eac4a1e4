"""`--time-limit` of commands that have no best answer so far: they end, and say so."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pytest

from collc.base import interrupts
from collc.base.diagnostics import Exit
from collc.command.cli import main
from collc.command.options import COMMANDS

PROGRAM = """import std.topologies
import std.collectives
topology t = ring(4, bandwidth: 50GB/s, latency: 1us)
schedule s on t { run all_gather(t.npus, size: 4MB) }
"""


def stuck(_chosen: argparse.Namespace) -> Exit:
    """Never ends."""
    while True:
        sum(range(1000))


ENDED = sorted(name for name, command in COMMANDS.items() if command.ends)


@pytest.mark.parametrize("command", ENDED)
def test_a_command_ends(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts.ended_after.__wrapped__, "__defaults__", (0.01,))
    monkeypatch.setitem(COMMANDS, command, replace(COMMANDS[command], run=stuck))
    more = ["--sizes", "1KiB..4KiB", "-o", "out"] if command == "tune" else []
    more += [] if command == "doctor" else ["p.coll"]
    assert main([command, "--time-limit", "0.01", *more]) == 3
    assert capsys.readouterr().err == (
        "error[S0207]: stopped at the time limit of 0.01 s: there is no answer yet\n"
        "help: give it more time with --time-limit, or use a smaller file\n"
    )


def test_other_commands_have_a_limit_of_the_search_or_take_no_time() -> None:
    others = {"compile", "sweep", "fmt", "std", "explain", "new", "completion", "lsp", "serve"}
    assert set(COMMANDS) - set(ENDED) == others


def test_a_limit_that_is_not_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.coll"
    path.write_text(PROGRAM)
    assert main(["simulate", str(path), "--time-limit", "1000", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["time_ps"] == 42_000_000  # two steps of 1 MB
