"""The files of a schedule within the time limit: where it ends before all are made, the schedule itself is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from collc.application.compile.build_clock import BuildClock
from collc.application.compile.output_files import OutputFiles, main_file, write_ten
from collc.base.diagnostics import Diagnostic
from collc.base.interrupts import OutOfTime
from collc.base.wording import listed
from collc.source.program import EmitRequest
from collc.ten.module import Module

TEXT_TRANSFERS: Final = 500_000
"""Transfers up to which the schedule is written as text, which takes 1 us of processor time for each."""

_LEAST: Final = 0.2
"""Seconds that are kept at least for the schedule itself."""

_TEXT, _BINARY, _LINE = 1.5e-6, 0.2e-6, 2e-6
"""Seconds that are kept for a transfer as text and in the binary form, and in both for a chunk or link."""

_CHECK: Final = 0.15e-6
"""Seconds that the check of a transfer takes in compiled code."""

_LEAST_CHECK: Final = 0.5
"""Seconds that the check has at least, and twice its own on a slow machine."""


def kept_seconds(module: Module) -> float:
    """Seconds of processor time that the schedule itself takes to write."""
    transfers = 0 if module.schedule is None else len(module.schedule)
    lines = int(module.demand.first_chunk[-1]) + module.network.link_count
    return _LEAST + (_TEXT if transfers <= TEXT_TRANSFERS else _BINARY) * transfers + _LINE * lines


def check_seconds(module: Module) -> float:
    """Seconds of processor time that the check of the schedule takes, about."""
    return 0.0 if module.schedule is None else _CHECK * len(module.schedule)


def least_check_seconds(module: Module) -> float:
    """Seconds of processor time that the check of a schedule has in any case: without it nothing can be written."""
    return _LEAST_CHECK + 2 * check_seconds(module)


def found_file(folder: Path, schedule: str) -> Path:
    """The file of a schedule whose other files were not made in time."""
    return folder / f"{schedule}.found.ten"


def write_in_time(outputs: OutputFiles, emits: Sequence[EmitRequest], clock: BuildClock) -> Diagnostic | None:
    """Write all files; where their time ends, the schedule as `.ten` unless that is among those that are complete.

    Returns the message S0202 about files that were not made in time. Raises CollcError where one cannot be written.
    """
    if not emits:
        return None
    try:
        with clock.finishing(but=kept_seconds(outputs.module)):
            outputs.write(emits)
    except OutOfTime:
        return _schedule_alone(outputs, emits, clock)
    return None


def _schedule_alone(outputs: OutputFiles, emits: Sequence[EmitRequest], clock: BuildClock) -> Diagnostic:
    module = outputs.module
    late = outputs.missing(emits)
    found = [emit for emit in emits if emit.kind == "ten" and emit not in late]
    path = found_file(outputs.folder, module.name)
    if found:
        path = outputs.folder / main_file(found[0], module.name)
    else:
        _write_schedule(outputs, path, clock)
    names = listed([str(outputs.folder / main_file(emit, module.name)) for emit in late])
    what = "was" if len(late) == 1 else "were"
    return clock.over(f"{names} {what} written and checked", f"the schedule is in {path}")


def _write_schedule(outputs: OutputFiles, path: Path, clock: BuildClock) -> None:
    from collc.ten.binary import save_module
    from collc.ten.text.limits import too_large_for_text

    schedule = outputs.module.schedule
    assert schedule is not None
    as_text = len(schedule) <= TEXT_TRANSFERS and not too_large_for_text(schedule)
    with clock.keeping("the schedule was written", least=kept_seconds(outputs.module)):
        (write_ten if as_text else save_module)(outputs.module, outputs.draft.new(path))
