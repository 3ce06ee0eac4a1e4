"""The progress bar: when it is shown, and the phases that a compilation reports."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

import pytest

from collc.application.compile.compilation import compile_program
from collc.application.settings import Callbacks, Settings
from collc.command import terminal
from collc.command.terminal import progress_bar
from collc.msccl.lowering import lower


class Terminal(io.StringIO):
    """A stream that looks like a terminal."""

    def isatty(self) -> bool:
        return True


def terminal_stream(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """The stream that stderr is from now on. Not a fixture: pytest sets stderr again after those."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    return found


def wait_for(stream: Terminal, text: str) -> None:
    """Wait until the text is shown, for at most a minute."""
    end = time.monotonic() + 60
    while text not in stream.getvalue() and time.monotonic() < end:
        time.sleep(0.01)
    assert text in stream.getvalue()


def test_the_bar_appears_during_a_phase_that_reports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = terminal_stream(monkeypatch)
    monkeypatch.setattr(terminal, "PROGRESS_DELAY", 0.05)
    with progress_bar(quiet=False) as progress:
        progress(None, "lowering to MSCCL")
        wait_for(stream, "lowering to MSCCL")
        progress(0.5, "proving causality")
        wait_for(stream, "50%")
        progress(1.0, "proving causality")
        progress(None, "simulating")
        wait_for(stream, "simulating")


def test_a_short_compilation_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 <= terminal.PROGRESS_DELAY <= 3
    monkeypatch.setattr(terminal, "PROGRESS_DELAY", 60.0)
    stream = terminal_stream(monkeypatch)
    with progress_bar(quiet=False) as progress:
        progress(0.5, "tacos")
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("quiet", "terminal_there"), [(True, True), (False, False)])
def test_nothing_is_shown_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch, quiet: bool, terminal_there: bool
) -> None:
    monkeypatch.setattr(terminal, "PROGRESS_DELAY", 0.0)
    stream = Terminal() if terminal_there else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress_bar(quiet) as progress:
        progress(0.5, "tacos")
        time.sleep(0.05)
    assert stream.getvalue() == ""


PROGRAM = """
import std.topologies
import std.collectives
topology t = ring(4, bandwidth: 50GiB/s, latency: 0.5us)
schedule s on t { run all_gather(t.npus, size: 4MiB) synthesize pccl verify proved emit msccl emit mscclpp }
"""


def test_every_phase_of_a_compilation_is_reported(tmp_path: Path) -> None:
    (tmp_path / "p.coll").write_text(PROGRAM)
    phases: list[str] = []
    callbacks = Callbacks(progress=lambda _share, phase: phases.append(phase))
    report = compile_program(tmp_path / "p.coll", Settings(output=tmp_path), callbacks)
    assert report.ok
    in_order = [
        "s: running pccl",
        "s: running invert",
        "s: computing the lower bound",
        "s: verifying the schedule",
        "s: proving causality",
        "s: lowering to MSCCL",
        "s: lowering to MSCCL, select",
        "s: lowering to MSCCL, attempt 1: merge",
        "s: lowering to MSCCL, attempt 1: assign",
        "s: lowering to MSCCL, attempt 1: repeat",
        "s: lowering to MSCCL, attempt 1: depend",
        "s: lowering to MSCCL, attempt 1: simulation",
        "s: reading the MSCCL file back and checking it",
        "s: simulating the MSCCL file",
        "s: lowering to MSCCL++",
        "s: reading the MSCCL++ plan back and checking it",
    ]
    assert [phase for phase in dict.fromkeys(phases) if phase in in_order] == in_order


@pytest.mark.parametrize("stage", ["merge", "assign", "repeat", "depend"])
def test_a_stage_of_the_lowering_is_reported_before_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    (tmp_path / "p.coll").write_text(PROGRAM.replace("verify proved", ""))
    phases: list[str] = []
    at_the_stage: list[str] = []
    run_stage = getattr(lower, stage)

    def observed(*arguments: object, **keywords: object) -> object:
        at_the_stage.append(phases[-1])
        return run_stage(*arguments, **keywords)

    monkeypatch.setattr(lower, stage, observed)
    compile_program(
        tmp_path / "p.coll", Settings(output=tmp_path), Callbacks(lambda _share, phase: phases.append(phase))
    )
    before = "" if stage == "merge" else "attempt 1: "  # the first merge is made before all attempts, to check limits
    assert at_the_stage[0] == f"s: lowering to MSCCL, {before}{stage}"
