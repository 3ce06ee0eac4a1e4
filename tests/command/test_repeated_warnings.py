"""Repeated warnings: those that differ only in numbers are reported once, with a count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collc.base.diagnostics import Diagnostic, Note
from collc.base.rendering import folded
from collc.command.cli import main

PROGRAM = """
import std.topologies
import std.collectives
import std.algorithms
topology loop = ring(4, bandwidth: 50GiB/s, latency: 0.5us)
schedule a on loop { run all_gather(loop.npus, size: 4MiB) using direct allow congestion }
"""


def warning(message: str, *notes: str, code: str = "C0101", warning: bool = True) -> Diagnostic:
    return Diagnostic(code, message, notes=tuple(map(Note, notes)), warning=warning)


def test_similar_warnings_are_reported_once() -> None:
    messages = [warning(f"gpu {k}: o_chunks is {k}") for k in range(5)]
    (one,) = folded(messages)
    assert (one.message, [note.message for note in one.notes]) == ("gpu 0: o_chunks is 0", ["and 4 more like this"])
    assert folded(messages[:1]) == messages[:1]


def test_errors_and_different_warnings_are_all_reported() -> None:
    messages = [
        warning("a is 1"),
        warning("b is 1"),
        warning("a is 2", code="C0102"),
        warning("a is 3", warning=False),
        warning("a is 4", warning=False),
    ]
    assert folded(messages) == messages


def test_faults_that_a_check_left_out_are_counted() -> None:
    (one,) = folded([warning("link 1"), warning("link 2"), warning("link 3", "and 7 more of this check")])
    assert one.notes[-1].message == "and 9 more like this"


def test_allowed_congestion_is_reported_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.coll").write_text(PROGRAM)
    assert main(["compile", "p.coll"]) == 0
    messages = capsys.readouterr().err
    assert messages.count("V0201") == 1
    assert "more like this" in messages
    main(["compile", "p.coll", "--json"])
    assert len(json.loads(capsys.readouterr().out)["diagnostics"]) > 1
