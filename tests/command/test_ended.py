"""Commands that end early: what was built before is told, and what is alike is told once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from collc.application.schedule_build import ScheduleBuild
from collc.base.diagnostics import Diagnostic, Note, UsageError
from collc.base.rendering import folded
from collc.command.cli import main

HEAD = "import std.topologies\nimport std.collectives\nimport std.algorithms\n"
LOOP = HEAD + "topology loop = ring(4, bandwidth: 50GiB/s, latency: 0.5us)\n"
RUN = "run all_gather(loop.npus, size: 4MiB)"
TWO = LOOP + f"schedule a on loop {{ {RUN} emit ten }}\nschedule b on loop {{ {RUN} emit ten }}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.coll").write_text(TWO)


def failing(monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException) -> None:
    """The schedule of that name meets an error that nothing foresees."""
    original = ScheduleBuild._scheduled

    def scheduled(self: ScheduleBuild, emits: object) -> object:
        if self.request.name == name:
            raise error
        return original(self, emits)

    monkeypatch.setattr(ScheduleBuild, "_scheduled", scheduled)


ENDS = {
    "a bug": (ZeroDivisionError("division by zero"), 5, "U0116"),
    "memory": (MemoryError(), 1, "U0109"),
    "Ctrl-C": (KeyboardInterrupt(), 130, "U0115"),
    "usage": (UsageError(Diagnostic("U0104", "no")), 2, "U0104"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(("name", "built"), [("a", []), ("b", ["a"])])
def test_what_was_built_before_is_not_lost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, end: str, name: str, built: list[str]
) -> None:
    error, exit_code, code = ENDS[end]
    failing(monkeypatch, name, error)
    assert main(["compile", "p.coll", "--json"]) == exit_code
    said = json.loads(capsys.readouterr().out)
    assert [schedule["name"] for schedule in said["schedules"]] == built
    assert [schedule["files"] for schedule in said["schedules"]] == [[f"{one}.ten"] for one in built]
    assert [message["code"] for message in said["diagnostics"]] == [code]
    assert sorted(path.stem for path in Path().glob("*.ten")) == built


def test_in_text_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, "b", ZeroDivisionError("division by zero"))
    assert main(["compile", "p.coll"]) == 5
    said = capsys.readouterr()
    assert "a.ten" in said.out
    assert "error[U0116]: internal error: ZeroDivisionError: division by zero (test_ended.py:" in said.err
    assert "this is a bug in collc" in said.err
    failing(monkeypatch, "b", KeyboardInterrupt())
    assert main(["compile", "p.coll"]) == 130
    assert "interrupted: what was built before it was kept" in capsys.readouterr().err


def test_every_command_answers_in_json_where_collc_is_at_fault(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from collc.command import commands

    def broken(_chosen: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setitem(commands.COMMANDS, "verify", broken)
    assert main(["verify", "p.ten", "--json"]) == 5
    assert [m["code"] for m in json.loads(capsys.readouterr().out)["diagnostics"]] == ["U0116"]


# Ctrl-C in a proof

SLOW = """
import threading, os, signal
from contextlib import nullcontext
from collc.base.interrupts import stopping_at_interrupt
from collc.smt.script import Script, any_of
from collc.smt.solver import Interrupted, SolverLimits, solve

holes = 13
script = Script("QF_UF")
pigeons = [[script.declare(f"p{i}_{j}") for j in range(holes)] for i in range(holes + 1)]
for row in pigeons:
    script.require(any_of(row))
for column in zip(*pigeons):
    script.at_most(1, column)
threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    with HANDLER:
        solve(script.text(), SolverLimits(50.0), FINITE)
except Interrupted as why:
    print(why)
except KeyboardInterrupt:
    print("KeyboardInterrupt")
"""


@pytest.mark.parametrize("finite", ["True", "False"])
@pytest.mark.parametrize(
    ("handler", "printed"),
    [("stopping_at_interrupt()", "the proof was interrupted by Ctrl-C"), ("nullcontext()", "KeyboardInterrupt")],
    ids=["command line", "Python API"],
)
def test_ctrl_c_in_a_proof_goes_to_the_handler_of_python(finite: str, handler: str, printed: str) -> None:
    words = [sys.executable, "-c", SLOW.replace("FINITE", finite).replace("HANDLER", handler)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == f"{printed}\n", done.stderr


def test_an_interrupted_proof_leaves_the_rest_undecided(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from collc.smt.solver import Interrupted
    from collc.verification import optimal, prove

    asked: list[str] = []

    def interrupted(text: str, *_more: object, **_named: object) -> None:
        asked.append(text)
        raise Interrupted

    monkeypatch.setattr(prove, "solve", interrupted)
    monkeypatch.setattr(optimal, "solve", interrupted)
    Path("p.coll").write_text(LOOP + f"schedule a on loop {{ {RUN} using ring verify proved, optimal }}")
    assert main(["compile", "p.coll"]) == 4
    told = capsys.readouterr().err
    assert len(asked) == 2
    assert "note: the proof was interrupted by Ctrl-C" in told
    assert "switches: undecided. the proof was interrupted by Ctrl-C" in told
    assert "within 60 s" not in told
    assert "--time-limit" not in told


# What is alike


def warning(message: str, *notes: str, code: str = "C0101", warning: bool = True) -> Diagnostic:
    return Diagnostic(code, message, notes=tuple(map(Note, notes)), warning=warning)


def test_warnings_that_are_alike_are_told_once() -> None:
    told = [warning(f"gpu {k}: o_chunks is {k}") for k in range(5)]
    (one,) = folded(told)
    assert (one.message, [note.message for note in one.notes]) == ("gpu 0: o_chunks is 0", ["and 4 more like this"])
    assert folded(told[:1]) == told[:1]


def test_errors_and_what_differs_are_told_all() -> None:
    told = [
        warning("a is 1"),
        warning("b is 1"),
        warning("a is 2", code="C0102"),
        warning("a is 3", warning=False),
        warning("a is 4", warning=False),
    ]
    assert folded(told) == told


def test_what_a_check_left_out_is_counted() -> None:
    (one,) = folded([warning("link 1"), warning("link 2"), warning("link 3", "and 7 more of this check")])
    assert one.notes[-1].message == "and 9 more like this"


def test_congestion_that_is_allowed_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = LOOP + f"schedule a on loop {{ {RUN} using direct allow congestion }}"
    Path("p.coll").write_text(text)
    assert main(["compile", "p.coll"]) == 0
    told = capsys.readouterr().err
    assert told.count("V0201") == 1
    assert "more like this" in told
    main(["compile", "p.coll", "--json"])
    assert len(json.loads(capsys.readouterr().out)["diagnostics"]) > 1
