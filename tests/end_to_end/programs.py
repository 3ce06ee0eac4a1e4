"""Programs as users write them, and the checks that every written file must pass."""

from __future__ import annotations

from pathlib import Path

import collc
from collc.application.compile.compile_report import SCHEDULE_CHECKS, ScheduleReport
from collc.msccl.check import check_file
from collc.msccl.running.run_file import run_file

HEAD = "import std.topologies\nimport std.collectives\nimport std.algorithms\nimport std.clusters\n"
LINK = "bandwidth: 50GiB/s, latency: 0.5us"
STEP = 20_031_250
"""Picoseconds that 1 MiB takes on such a link."""

SYNTHESIZERS = ("tacos(seed: 1, trials: 8)", "auto(seed: 1)")
"""The synthesizers that must reach the known optima."""

USUAL = f"synthesize {SYNTHESIZERS[-1]}"

FILE_CHECKS = ("contract", "result", "deadlock", "race")


def build(folder: Path, text: str, **settings: object) -> tuple[ScheduleReport, ...]:
    """Compile a program into `folder` and return its schedules, all of which must be complete."""
    path = folder / "program.coll"
    path.write_text(text)
    report = collc.compile(path, output=folder, **settings)
    for schedule in report.schedules:
        assert schedule.exit == 0, (schedule.name, [d.message for d in schedule.diagnostics])
    return report.schedules


def assert_all_checks_ok(schedule: ScheduleReport, *more: str) -> None:
    """Assert that the checks of the schedule are the structural ones and `more`, and that each was passed."""
    assert schedule.checks == dict.fromkeys((*SCHEDULE_CHECKS, *more), "ok"), schedule.name


def assert_file_ok(path: Path, collective: str, root: int | None = None) -> None:
    """Assert that a file passes its check and computes the same as NumPy, in each placement that it is for."""
    verdict = check_file(path, collective=collective, root=root)
    assert verdict.checks == dict.fromkeys(FILE_CHECKS, "ok"), (path.name, [d.message for d in verdict.diagnostics])
    text = path.read_text(encoding="ascii")
    claimed = [False] * ('outofplace="1"' in text) + [True] * ('inplace="1"' in text)
    reports = run_file(path, root=root)
    assert [report.inplace for report in reports] == claimed
    assert claimed
    for report in reports:
        assert report.ok, (path.name, report)
