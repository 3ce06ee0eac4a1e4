"""Time limits and Ctrl-C hold in every phase, whatever runs: it is asked to stop, then ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from collc.application.compile import compilation, planning
from collc.application.compile.compilation import compile_program
from collc.application.compile.compile_report import ScheduleReport
from collc.application.settings import Callbacks, Settings
from collc.base import interrupts
from collc.base.diagnostics import SourceFile
from collc.base.interrupts import OutOfTime, ended_after, stopping_at_signals
from collc.passes.synthesizers import SYNTHESIZERS, auto, searching_synthesizers
from collc.synthesis import shortest_paths
from collc.synthesis.auto.record import PhasePlanner
from collc.synthesis.auto.synthesizer import Turns
from collc.synthesis.shortest_paths import along_shortest_paths
from collc.synthesis.task import Effort, Task, WorkMeter
from collc.ten.module import Module
from collc.ten.schedule import Schedule
from collc.verification import verify_schedule
from tests.support import all_reduce, grid

HEAD = "import std.topologies import std.collectives topology t = "
RING = HEAD + "ring(6, bandwidth: 1GB/s, latency: 1us) schedule s on t { run RUN(t.npus, size: 6MB) emit ten }"


def stuck(*_arguments: object, **_named: object) -> Any:
    """Runs forever and asks nobody whether to stop."""
    while True:
        sum(range(1000))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graces are short, so that the tests are."""
    monkeypatch.setattr(interrupts, "GRACE", 0.05)
    monkeypatch.setattr(interrupts.ended_after.__wrapped__, "__defaults__", (0.05,))


def replace_tacos(monkeypatch: pytest.MonkeyPatch, plan: Any) -> None:
    """Lets `tacos` run a function of tasks in place of its search."""
    record = replace(SYNTHESIZERS["tacos"], load=lambda: PhasePlanner(plan))
    monkeypatch.setitem(SYNTHESIZERS, "tacos", record)


def compiled(text: str, folder: Path, limit: float | None = 0.05, **more: Any) -> ScheduleReport:
    (report,) = compile_program(SourceFile("p.coll", text), Settings(output=folder, time_limit=limit, **more)).schedules
    return report


ONLY_SUMS = ("overlapped", "exchange", "one_shot")
SERVED = [(name, run) for name in searching_synthesizers() for run in ("all_gather", "all_reduce")]
SERVED = [(name, run) for name, run in SERVED if run == "all_reduce" or name not in ONLY_SUMS]


@pytest.mark.parametrize(("synthesizer", "run"), SERVED)
def test_every_synthesizer_leaves_a_schedule(synthesizer: str, run: str, tmp_path: Path) -> None:
    """With a limit that is over at once, each has its best schedule so far, or one along shortest paths."""
    product = RING.replace("ring(6, bandwidth: 1GB/s, latency: 1us)", "ring(3, KIND) * ring(2, KIND)")
    text = product.replace("KIND", "bandwidth: 1GB/s, latency: 1us").replace("RUN", run)
    report = compiled(text, tmp_path, 1e-9, synthesizer=synthesizer)
    assert report.exit == 0, report.diagnostics
    assert set(report.checks.values()) == {"ok"}
    assert report.files


def test_a_synthesizer_that_asks_nobody_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_tacos(monkeypatch, stuck)
    report = compiled(RING.replace("RUN", "all_reduce"), tmp_path, synthesizer="tacos")
    assert (report.exit, report.synthesizer) == (0, "shortest paths")
    assert "no schedule was found until then: all chunks take shortest paths" in report.notes
    assert any("stopped at the time limit of 0.05 s" in note for note in report.notes)


def test_a_schedule_along_shortest_paths_keeps_limits_of_npus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_tacos(monkeypatch, stuck)
    text = RING.replace(
        "ring(6, bandwidth: 1GB/s, latency: 1us)", "limited(ring(6, bandwidth: 1GB/s, latency: 1us), LIMIT)"
    )
    text = text.replace("LIMIT", "inject: 1GB/s").replace("RUN", "all_to_all")
    report = compiled(text, tmp_path, synthesizer="tacos")
    assert (report.exit, report.synthesizer) == (0, "shortest paths")
    assert report.checks["endpoints"] == "ok"


def test_auto_keeps_what_it_has_when_it_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the turn after the first one that finds a schedule."""
    found: list[Turns] = []
    take = Turns.take

    def take_until_found(turns: Turns, meter: WorkMeter) -> None:
        if found:
            raise OutOfTime
        take(turns, meter)
        found.append(turns)

    monkeypatch.setattr(Turns, "take", take_until_found)
    result = auto(Module("m", grid(3, 3), all_reduce(list(range(9)), chunks=4)), Effort())
    assert result.algorithm == found[0].candidate.name
    assert verify_schedule(result).ok


def test_ctrl_c_ends_a_synthesizer_that_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        stuck()

    replace_tacos(monkeypatch, interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        report = compiled(RING.replace("RUN", "all_gather"), tmp_path, None, synthesizer="tacos", keep_best=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (report.exit, report.synthesizer) == (0, "shortest paths")
    assert "stopped by Ctrl-C: this is the best schedule found until then" in report.notes


def test_durations_that_are_too_long_are_refused_before_synthesis(tmp_path: Path) -> None:
    """The latency from which a path could take 2^60 ps, and one that is just shorter."""
    text = HEAD + "torus2d(3, 1, bandwidth: 1GB/s, latency: LATENCYs) schedule s on t { run all_reduce(t.npus, 3MB) }"
    report = compiled(text.replace("LATENCY", "400000"), tmp_path, None, synthesizer="pccl")
    assert [message.code for message in report.diagnostics] == ["C0204"]
    assert report.diagnostics[0].message == (
        "a chunk takes 400000.001s on a link of 't': paths over its 3 devices may take longer than 13 days"
    )
    report = compiled(text.replace("LATENCY", "380000"), tmp_path, None, synthesizer="pccl")
    assert report.exit == 0


def test_the_clock_leaves_that_of_the_caller_alone() -> None:
    signal.setitimer(signal.ITIMER_REAL, 100)
    try:
        with ended_after(0.0, 0.0):
            sum(range(100_000))
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    with pytest.raises(OutOfTime), stopping_at_signals(), ended_after(0.0, 0.01):
        stuck()
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_a_signal_that_comes_late_does_not_set_the_clock_again() -> None:
    """The handler runs between two instructions, perhaps only when what it waits for is over."""
    with ended_after(100.0):
        clock = signal.getsignal(signal.SIGALRM)
    assert callable(clock)
    clock(signal.SIGALRM, None)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_the_clock_waits_for_a_callback_of_compiled_code() -> None:
    """An exception there is printed as a traceback and lost; the clock tries again when it is over."""
    seen: list[float] = []

    def _raw_object_cache_notify() -> None:
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            sum(range(99))
        seen.append(time.monotonic())

    def run() -> None:
        _raw_object_cache_notify()
        stuck()

    with pytest.raises(OutOfTime), ended_after(0.0, 0.01):
        run()
    assert len(seen) == 1


def test_the_end_of_the_time_is_not_lost_in_a_finalizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python prints what a finalizer raises and goes on."""
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)

    class Slow:
        def __del__(self) -> None:
            stuck()

    def run() -> None:
        Slow()
        stuck()

    with pytest.raises(OutOfTime), ended_after(0.0, 0.01):
        run()
    assert lost == []

    class Wrong:
        def __del__(self) -> None:
            raise ValueError

    with ended_after(100.0):
        Wrong()
    assert len(lost) == 1


def test_the_end_of_the_time_of_a_command_is_not_that_of_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """`collc show --time-limit` ends all that it does: nothing is planned along shortest paths after it."""

    def late(*_arguments: object, **_named: object) -> None:
        raise OutOfTime

    program = SourceFile("p.coll", RING.replace("RUN", "all_gather"))
    replace_tacos(monkeypatch, late)
    with pytest.raises(OutOfTime):
        compile_program(program, Settings(synthesizer="tacos", write=False))


def test_the_clock_waits_for_the_end_of_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an import has made by half can fail in the next one: so did `yaml`, which Numba imports."""
    spin = "began = time.process_time()\nwhile time.process_time() < began + 0.3:\n    pass\n"
    (tmp_path / "slow_module.py").write_text(f"import time\n{spin}is_whole = True\n")
    monkeypatch.syspath_prepend(tmp_path)

    def run() -> None:
        import_module("slow_module")
        stuck()

    with pytest.raises(OutOfTime), ended_after(0.0, 0.05):
        run()
    assert sys.modules.pop("slow_module").is_whole


def test_the_clock_waits_for_llvmlite() -> None:
    """An object that OutOfTime leaves half made printed a traceback when Python deleted it."""
    program = (
        "def made():\n    end = time.monotonic() + 0.3\n    while time.monotonic() < end: pass\n    seen.append(1)"
    )
    seen: list[int] = []
    known: dict[str, Any] = {"__name__": "llvmlite.binding.newpassmanagers", "time": time, "seen": seen}
    exec(program, known)

    def run() -> None:
        known["made"]()
        stuck()

    with pytest.raises(OutOfTime), ended_after(0.0, 0.01):
        run()
    assert seen == [1]


def test_an_error_that_c_code_makes_of_it_is_out_of_time() -> None:
    """NumPy compares structured arrays with the help of Python code, and says of any exception there: a TypeError."""

    def replaced() -> None:
        try:
            stuck()
        except OutOfTime:
            raise TypeError("Cannot compare structured arrays") from None

    with pytest.raises(OutOfTime), ended_after(0.0, 0.01):
        replaced()
    with pytest.raises(TypeError), ended_after(100.0):
        raise TypeError("of its own")


def test_what_follows_the_search_has_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedule is bounded, checked and written in full, with a note that says how long that took."""
    original = compilation.plan_schedule

    def planned(given: planning.BuildInput) -> planning.Plan:
        plan = original(given)
        time.sleep(0.2)  # the limit is over before the next step
        return plan

    replace_tacos(monkeypatch, stuck)
    monkeypatch.setattr(compilation, "plan_schedule", planned)
    text = RING.replace("RUN", "all_gather").replace("emit ten", "emit msccl emit ten emit report emit trace")
    report = compiled(text, tmp_path, synthesizer="tacos")
    assert (report.exit, set(report.checks.values())) == (0, {"ok"})
    assert [path.name for path in report.files] == ["s.msccl", "s.ten", "s.trace", "s.html"]
    assert report.bound_ps
    assert sum("checks and files took" in note for note in report.notes) == 1


def test_too_many_paths_end_it_without_a_schedule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To plan them takes minutes on thousands of NPUs."""
    replace_tacos(monkeypatch, stuck)
    monkeypatch.setattr(shortest_paths, "MOST_HOPS", 29)
    report = compiled(RING.replace("RUN", "all_gather"), tmp_path, synthesizer="tacos")
    assert (report.exit, [message.code for message in report.diagnostics]) == (3, ["S0207"])
    assert report.files == ()


@pytest.mark.parametrize("stopped", [True, False])
def test_files_after_a_stopped_search_are_not_made_again_to_be_faster(
    stopped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second attempt for these paths is faster than the first one, which serves as well."""

    def plan(task: Task, _effort: Effort) -> Schedule:
        return stuck() if stopped else along_shortest_paths(task)

    replace_tacos(monkeypatch, plan)
    mesh = RING.replace("ring(6, bandwidth", "mesh2d(4, 4, bandwidth").replace("6MB", "9MB")
    phases: list[str] = []
    settings = Settings(output=tmp_path, time_limit=0.05 if stopped else None, synthesizer="tacos", emit=("msccl",))
    callbacks = Callbacks(progress=lambda _share, phase: phases.append(phase))
    (report,) = compile_program(SourceFile("p.coll", mesh.replace("RUN", "all_to_all")), settings, callbacks).schedules
    assert (report.exit, {*report.checks.values()}) == (0, {"ok"})
    assert any("attempt 1" in phase for phase in phases)
    assert any("attempt 2" in phase for phase in phases) is not stopped


def test_without_a_stopped_search_no_note_says_how_long_the_rest_took(tmp_path: Path) -> None:
    report = compiled(RING.replace("RUN", "all_gather"), tmp_path, 100.0, synthesizer="tacos")
    assert report.exit == 0
    assert not any("took" in note for note in report.notes)


TWO = RING.replace("RUN", "all_gather") + RING[RING.index("schedule") :].replace("schedule s", "schedule z")

SIGNALLED = """
import os, signal, sys
from collc.emit import ten
from dataclasses import replace
from collc.passes.synthesizers import SYNTHESIZERS
from collc.synthesis import shortest_paths
from collc.synthesis.auto.record import PhasePlanner
from collc.command.cli import main
def stuck(*_arguments):
    os.kill(os.getpid(), signal.SIGTERM)
    while True: sum(range(1000))
def half_written(emission):
    emission.destination.new().write_text("half")
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    while True: sum(range(1000))
if "search" in sys.argv: SYNTHESIZERS["tacos"] = replace(SYNTHESIZERS["tacos"], load=lambda: PhasePlanner(stuck))
else: ten.emit_ten = half_written
signal.signal(signal.SIGTERM, signal.SIG_DFL)
raise SystemExit(main(["compile", "p.coll", "--synthesizer", "tacos"]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize(
    ("phase", "code", "files", "message"),
    [
        ("search", 130, ["p.coll", "s.ten"], "interrupted: what was built before it was kept"),
        ("write", 130, ["p.coll"], "interrupted: nothing was written"),
    ],
)
def test_sigterm(phase: str, code: int, files: list[str], message: str, tmp_path: Path) -> None:
    """The first one ends the search, the second one everything; nothing is half written, nothing more is begun."""
    (tmp_path / "p.coll").write_text(TWO.replace("RUN", "all_reduce"))
    words = [sys.executable, "-c", SIGNALLED, phase]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == files
