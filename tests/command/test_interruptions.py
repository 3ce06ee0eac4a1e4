"""Commands that end early, by an error or by Ctrl-C: the schedules built before are kept and reported."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from collc.application.compile import compilation
from collc.application.compile.planning import BuildInput
from collc.base.diagnostics import Diagnostic, UsageError
from collc.command.cli import main

HEAD = "import std.topologies\nimport std.collectives\nimport std.algorithms\n"
LOOP = HEAD + "topology loop = ring(4, bandwidth: 50GiB/s, latency: 0.5us)\n"
RUN = "run all_gather(loop.npus, size: 4MiB)"
TWO = LOOP + f"schedule a on loop {{ {RUN} emit ten }}\nschedule b on loop {{ {RUN} emit ten }}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.coll").write_text(TWO)


def fail_schedule(monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException) -> None:
    """The schedule with this name raises an unexpected error."""
    original = compilation.plan_schedule

    def planned(given: BuildInput) -> object:
        if given.request.name == name:
            raise error
        return original(given)

    monkeypatch.setattr(compilation, "plan_schedule", planned)


ERRORS = {
    "a bug": (ZeroDivisionError("division by zero"), 5, "U0116"),
    "memory": (MemoryError(), 1, "U0109"),
    "Ctrl-C": (KeyboardInterrupt(), 130, "U0115"),
    "usage": (UsageError(Diagnostic("U0104", "no")), 2, "U0104"),
}


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize(("name", "built"), [("a", []), ("b", ["a"])])
def test_schedules_built_before_an_error_are_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str, name: str, built: list[str]
) -> None:
    error, exit_code, code = ERRORS[kind]
    fail_schedule(monkeypatch, name, error)
    assert main(["compile", "p.coll", "--json"]) == exit_code
    output = json.loads(capsys.readouterr().out)
    assert [schedule["name"] for schedule in output["schedules"]] == built
    assert [schedule["files"] for schedule in output["schedules"]] == [[f"{one}.ten"] for one in built]
    assert [message["code"] for message in output["diagnostics"]] == [code]
    assert sorted(path.stem for path in Path().glob("*.ten")) == built


def test_schedules_built_before_an_error_are_kept_in_text_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_schedule(monkeypatch, "b", ZeroDivisionError("division by zero"))
    assert main(["compile", "p.coll"]) == 5
    output = capsys.readouterr()
    assert "a.ten" in output.out
    assert "error[U0116]: internal error: ZeroDivisionError: division by zero (test_interruptions.py:" in output.err
    assert "this is a bug in collc" in output.err
    fail_schedule(monkeypatch, "b", KeyboardInterrupt())
    assert main(["compile", "p.coll"]) == 130
    assert "interrupted: what was built before it was kept" in capsys.readouterr().err


def test_an_internal_error_is_reported_as_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from collc.command.options import COMMANDS

    def broken(_chosen: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setitem(COMMANDS, "verify", replace(COMMANDS["verify"], run=broken))
    assert main(["verify", "p.ten", "--json"]) == 5
    assert [m["code"] for m in json.loads(capsys.readouterr().out)["diagnostics"]] == ["U0116"]


# Ctrl-C in a proof

SLOW = """
import os, signal, sys, threading, time
from contextlib import nullcontext
from collc.base.interrupts import stopping_at_signals
from collc.smt.script import Script, any_of
from collc.smt.solver import Interrupted, SolverLimits, solve

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
holes = 13
script = Script("QF_UF")
pigeons = [[script.declare(f"p{i}_{j}") for j in range(holes)] for i in range(holes + 1)]
for row in pigeons:
    script.require(any_of(row))
for column in zip(*pigeons):
    script.at_most(1, column)
def names(frame):
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back

def interrupt_the_solver():
    def asked():
        frames = sys._current_frames().values()
        return any(name.startswith("Z3_solver_check") for frame in frames for name in names(frame))
    while not asked():
        time.sleep(0.01)
    time.sleep(1.0)  # Z3 begins soon after it is called
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt_the_solver, daemon=True).start()
try:
    with HANDLER:
        solve(script.text(), SolverLimits(50.0), FINITE)
except Interrupted as error:
    print(error)
except KeyboardInterrupt:
    print("KeyboardInterrupt")
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("finite", ["True", "False"])
@pytest.mark.parametrize(
    ("handler", "printed"),
    [("stopping_at_signals()", "the proof was interrupted by Ctrl-C"), ("nullcontext()", "KeyboardInterrupt")],
    ids=["command line", "Python API"],
)
def test_ctrl_c_in_a_proof_reaches_the_handler_of_python(finite: str, handler: str, printed: str) -> None:
    words = [sys.executable, "-c", SLOW.replace("FINITE", finite).replace("HANDLER", handler)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
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
    errors = capsys.readouterr().err
    assert len(asked) == 2
    assert "note: the proof was interrupted by Ctrl-C" in errors
    assert "switches: undecided. the proof was interrupted by Ctrl-C" in errors
    assert "within 60 s" not in errors
    assert "--time-limit" not in errors


IN_EXEC = """
import os, signal, sys
from collc.command import cli
sys.argv = ["collc", "explain", "U0115"]
def interrupted(words=None):
    try:
        exec("raise KeyboardInterrupt")  # as dataclass does with the text of __init__
    except KeyboardInterrupt:
        print("partial", end="")
    RAISE
    return cli.INTERRUPTED
cli.main = interrupted
from collc.__main__ import start
raise SystemExit(start())
"""


@pytest.mark.parametrize("then", ["pass", "raise KeyboardInterrupt", "os.kill(os.getpid(), signal.SIGTERM)"])
def test_an_interrupt_in_generated_code_ends_with_130(then: str) -> None:
    """Python itself ended the process by SIGINT, after the message."""
    Path("program.py").write_text(IN_EXEC.replace("RAISE", then))
    done = subprocess.run([sys.executable, "-m", "program"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "partial", "")
