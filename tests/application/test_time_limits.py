"""Time limits and Ctrl-C hold in every phase, whatever runs: it is asked to stop, then ended."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from collc.application.compile import (
    build_clock,
    compilation,
    files_in_time,
    output_files,
    reserved_time,
    schedule_build,
)
from collc.application.compile.compilation import compile_program
from collc.application.compile.compile_report import ScheduleReport
from collc.application.compile.synthesis_options import SearchLimit, SynthesisOptions
from collc.application.settings import Settings
from collc.application.verify.file_verification import Expectation, verify_file
from collc.base import interrupts
from collc.base.diagnostics import NoSchedule, SourceFile
from collc.base.interrupts import OutOfTime, ended_after, stopping_at_interrupt
from collc.passes import synthesize
from collc.passes.synthesize import SYNTHESIZERS
from collc.source.elaboration.elaborate import load_program
from collc.ten.module import Module
from collc.ten.schedule import LinkModel

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


def compiled(text: str, folder: Path, limit: float | None = 0.05, **more: Any) -> ScheduleReport:
    (report,) = compile_program(SourceFile("p.coll", text), Settings(output=folder, time_limit=limit, **more)).schedules
    return report


ONLY_SUMS = ("overlapped", "exchange")
SERVED = [(name, run) for name in SYNTHESIZERS for run in ("all_gather", "all_reduce")]
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
    monkeypatch.setitem(synthesize._SYNTHESIZERS, "tacos", stuck)
    report = compiled(RING.replace("RUN", "all_reduce"), tmp_path, synthesizer="tacos")
    assert (report.exit, report.synthesizer) == (0, "shortest paths")
    assert "no schedule was found until then: all chunks take shortest paths" in report.notes
    assert any("stopped at the time limit of 0.05 s" in note for note in report.notes)


def test_a_schedule_along_shortest_paths_keeps_limits_of_npus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(synthesize._SYNTHESIZERS, "tacos", stuck)
    text = RING.replace(
        "ring(6, bandwidth: 1GB/s, latency: 1us)", "limited(ring(6, bandwidth: 1GB/s, latency: 1us), LIMIT)"
    )
    text = text.replace("LIMIT", "inject: 1GB/s").replace("RUN", "all_to_all")
    report = compiled(text, tmp_path, synthesizer="tacos")
    assert (report.exit, report.synthesizer) == (0, "shortest paths")
    assert report.checks["endpoints"] == "ok"


def test_auto_keeps_what_it_has_when_it_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from collc.synthesis.auto.synthesizer import _Search

    monkeypatch.setattr(_Search, "longer_searches", stuck)
    text = RING.replace("RUN", "all_reduce").replace("ring(6", "line(6")
    report = compiled(text, tmp_path, 0.5)
    assert report.exit == 0
    assert report.synthesizer != "shortest paths"


def test_a_bound_that_takes_too_long_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from collc.synthesis import bounds

    monkeypatch.setattr(build_clock, "ALLOWANCE", 0.4)
    monkeypatch.setattr(bounds, "ideal_bound", stuck)
    report = compiled(RING.replace("RUN", "all_gather"), tmp_path)
    assert (report.exit, report.bound_ps, len(report.files)) == (0, None, 1)
    assert "the time limit ended before the lower bound was known" in report.notes


def test_a_schedule_that_is_not_checked_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_clock, "ALLOWANCE", 0.2)
    monkeypatch.setattr("collc.verification.verify_schedule", stuck)
    report = compiled(RING.replace("RUN", "all_gather"), tmp_path, synthesizer="tacos")
    (message,) = report.diagnostics
    assert (message.code, report.exit) == ("S0202", 3)
    assert message.message == "stopped at the time limit of 0.05 s while the schedule was checked: nothing was written"
    assert list(tmp_path.iterdir()) == []


def test_a_check_has_its_own_time_where_none_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine a schedule that was found is checked all the same, and so written."""
    from collc import verification

    original = verification.verify_schedule

    def slow(*arguments: Any, **options: Any) -> Any:
        began = time.process_time()
        while time.process_time() < began + 0.2:
            pass
        return original(*arguments, **options)

    monkeypatch.setattr(build_clock.BuildClock, "left", lambda _clock: 0.0)
    monkeypatch.setattr("collc.verification.verify_schedule", slow)
    report = compiled(RING.replace("RUN", "all_gather"), tmp_path, synthesizer="tacos")
    assert report.checks["delivered"] == "ok"
    monkeypatch.setattr(files_in_time, "_LEAST_CHECK", 0.0)
    report = compiled(RING.replace("RUN", "all_gather"), tmp_path, synthesizer="tacos")
    assert "while the schedule was checked" in report.diagnostics[0].message


def test_time_that_is_over_between_two_phases_is_no_error_of_collc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal can come while Python leaves the `with` of a phase, where nothing of it catches OutOfTime."""

    def late(_clock: object) -> None:
        raise OutOfTime

    monkeypatch.setattr(build_clock.BuildClock, "end_search", late)
    report = compiled(RING.replace("RUN", "all_gather"), tmp_path)
    (message,) = report.diagnostics
    assert (message.code, report.exit) == ("S0202", 3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("emit", "written", "late"),
    [
        ('emit msccl("a.xml")', ["s.found.ten"], ["a.xml"]),
        ("emit msccl emit ten", ["s.ten"], ["s.msccl"]),
        ("emit trace emit mscclpp emit msccl", ["s.found.ten", "s.trace"], ["s.mscclpp", "s.msccl"]),
    ],
)
@pytest.mark.parametrize("as_text", [True, False])
def test_a_schedule_is_written_where_its_files_take_too_long(
    emit: str, written: list[str], late: list[str], as_text: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is complete is there, the schedule as `.ten` too; the error names what is missing."""
    monkeypatch.setattr(build_clock, "ALLOWANCE", 0.4)
    monkeypatch.setattr(files_in_time, "TEXT_TRANSFERS", 1000 if as_text else 0)
    for kind in ("msccl", "mscclpp"):
        monkeypatch.setitem(output_files.WRITERS, kind, half_written)
    text = RING.replace("RUN", "all_gather").replace("emit ten", emit)
    report = compiled(text, tmp_path, synthesizer="tacos")
    (message,) = report.diagnostics
    assert (message.code, report.exit) == ("S0202", 3)
    names = " and ".join(str(tmp_path / name) for name in late)
    what = "was" if len(late) == 1 else "were"
    assert message.message == (
        f"stopped at the time limit of 0.05 s while {names} {what} written and checked: "
        f"the schedule is in {tmp_path / written[0]}"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == written
    assert {path.name for path in report.files} == set(written)
    assert verify_file(tmp_path / written[0], Expectation()).ok


def half_written(_module: object, _emit: object, destination: output_files.Destination, _progress: object) -> Any:
    destination.new().write_text("half")
    stuck()


def test_a_draft_is_removed_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not even the schedule can be written."""
    monkeypatch.setattr(build_clock, "ALLOWANCE", 0.2)
    monkeypatch.setattr(files_in_time, "write_ten", lambda _module, path: stuck(path.write_text("half")))
    monkeypatch.setitem(output_files.WRITERS, "ten", half_written)
    report = compiled(RING.replace("RUN", "all_gather"), tmp_path, synthesizer="tacos")
    assert report.exit == 3
    assert report.diagnostics[0].message == (
        "stopped at the time limit of 0.05 s while the schedule was written: nothing was written"
    )
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_a_synthesizer_that_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        stuck()

    monkeypatch.setitem(synthesize._SYNTHESIZERS, "tacos", interrupted)
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
    with pytest.raises(OutOfTime), stopping_at_interrupt(), ended_after(0.0, 0.01):
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
    monkeypatch.setitem(synthesize._SYNTHESIZERS, "tacos", late)
    with pytest.raises(OutOfTime):
        compile_program(program, Settings(synthesizer="tacos", write=False))


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


IRREGULAR = "leaf_spine(8, 8, 2, bandwidth: 25GB/s, uplink: 90GB/s, latency: 1us) without { npu npu[3, 4] }"


def test_time_for_shortest_paths_is_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that finds nothing ends before the limit, by as much as shortest paths take longer than allowed."""
    monkeypatch.setitem(synthesize._SYNTHESIZERS, "pccl", stuck)
    monkeypatch.setattr(reserved_time, "FEW", 1000)
    monkeypatch.setattr(reserved_time, "COMPILING", 0.0)
    monkeypatch.setattr(reserved_time, "EACH", (2 + 0.1 + 0.5) / (63 * 62 * 3.7))
    text = RING.replace("ring(6, bandwidth: 1GB/s, latency: 1us)", IRREGULAR).replace("6MB", "63MB")
    report = compiled(text.replace("RUN", "all_to_all"), tmp_path, 1.0, synthesizer="pccl")
    assert (report.exit, report.synthesizer) == (0, "shortest paths")
    (note,) = (note for note in report.notes if "before the time limit of 1 s" in note)
    assert 0.4 < float(note.split()[1]) < 0.6


@pytest.mark.parametrize(
    ("network", "run", "limit", "few"),
    [
        (IRREGULAR, "all_to_all", 6.0, 200_000),  # shortest paths take no time
        (IRREGULAR, "all_gather", 6.0, 0),  # another collective
        (IRREGULAR, "all_to_all", 1.0, 0),  # not within the limit either
        (IRREGULAR, "all_to_all", None, 0),
        ("torus2d(9, 7, bandwidth: 1GB/s, latency: 1us)", "all_to_all", 6.0, 0),  # planned for one NPU
    ],
)
def test_nothing_is_reserved_in_vain(
    network: str, run: str, limit: float | None, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserved_time, "FEW", few)
    monkeypatch.setattr(reserved_time, "COMPILING", 0.0)
    monkeypatch.setattr(reserved_time, "EACH", (2 + 0.6 + 3) / (63 * 62 * 3.7))
    text = RING.replace("ring(6, bandwidth: 1GB/s, latency: 1us)", network).replace("6MB", "63MB").replace("RUN", run)
    (request,) = load_program(SourceFile("p.coll", text)).schedules
    assert reserved_time.reserved_seconds(SynthesisOptions(request, Settings(time_limit=limit))) == 0


def test_a_bound_leaves_the_time_of_the_check_and_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = build_clock.BuildClock(1e-9)
    clock.end_search()
    with pytest.raises(OutOfTime), clock.sparing(but=build_clock.ALLOWANCE):
        stuck()
    assert clock.left() > build_clock.ALLOWANCE / 2


def test_chunks_count_in_the_time_that_a_file_takes() -> None:
    """Each is a line of the binary form, too: 400,000 took longer than what was kept for their transfers."""
    text = RING.replace("RUN", "all_to_all").replace("ring(6", "ring(60")
    (request,) = load_program(SourceFile("p.coll", text.replace("6MB", "60MB"))).schedules
    many = Module(request.name, request.network, request.demand, LinkModel.PIPELINED)
    assert files_in_time.kept_seconds(many) > 0.2 + 60 * 59 * 1e-6


def test_what_is_reserved_is_there_on_a_busy_machine() -> None:
    """A search that others keep from the processor ends late on the wall clock, and has used little of what is left."""
    clock = build_clock.BuildClock(10.0, reserved=8.0)
    clock._began -= 9.0
    clock.end_search()
    assert 10.9 < clock.left() <= 8 + 2 + 1


def test_elaboration_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """5 million chunks in a loop with a limit of 5 s took 12.5 s."""
    monkeypatch.setattr(compilation, "ALLOWANCE", 0.05)
    monkeypatch.setattr(compilation, "load_program", stuck)
    with pytest.raises(NoSchedule) as raised:
        compiled(RING, tmp_path)
    (message,) = raised.value.diagnostics
    assert (message.code, raised.value.exit) == ("S0202", 3)
    assert message.message == (
        "stopped at the time limit of 0.05 s while the program was elaborated: nothing was planned or written"
    )


def test_what_comes_before_the_search_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_build, "check_durations", stuck)
    report = compiled(RING.replace("RUN", "all_gather"), tmp_path)
    (message,) = report.diagnostics
    assert (message.code, report.exit) == ("S0202", 3)
    assert message.message == "stopped at the time limit of 0.05 s while the demand was looked at: nothing was written"


def test_long_elaboration_counts_in_the_limit_of_the_first_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if 40 s of it were counted of 100: the search has 60, and all that comes after it no more."""
    limits: list[tuple[float, float]] = []

    def seen(build: schedule_build.ScheduleBuild, limit: SearchLimit, emits: Any) -> Any:
        limits.append((build.used, limit._deadline - time.monotonic()))
        return planned(build, limit, emits)

    planned = schedule_build.ScheduleBuild._planned
    monkeypatch.setattr(schedule_build.ScheduleBuild, "_planned", seen)
    monkeypatch.setattr(compilation, "UNCOUNTED", -40.0)
    schedule = RING[RING.index("schedule") :].replace("schedule s", "schedule second")
    text = (RING + schedule).replace("RUN", "all_gather")
    first, second = compile_program(
        SourceFile("p.coll", text), Settings(output=tmp_path, time_limit=100.0, synthesizer="tacos")
    ).schedules
    assert (first.exit, second.exit) == (0, 0)
    (used, left), (none, whole) = limits
    assert used >= 40
    assert left <= 60
    assert none == 0
    assert 60 < whole <= 100
    clock = build_clock.BuildClock(100.0, used=40.0)
    clock.end_search()
    assert clock.left() <= 60 + 2 + 10
