"""The main arrays of synthesizers are counted before they are made, so that what is too large is said at once."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from collc.application.compilation import compile_program
from collc.application.compile_report import ScheduleReport
from collc.application.settings import Settings
from collc.base import memory
from collc.base.diagnostics import SourceFile

HEAD = "import std.topologies import std.collectives topology t = "
LINK = "bandwidth: 1GB/s, latency: 1us"
UNEQUAL = f"ring(4, {LINK}) * ring(3, bandwidth: 3GB/s, latency: 2us)"
NEEDED = [
    (f"ring(40, {LINK})", "all_to_all(t.npus, size: 40MB)", "pccl", "distances of 40 devices from 40 NPUs", 25_600),
    (f"ring(40, {LINK})", "all_gather(t.npus, size: 40MB)", "tacos", "40 chunks on 40 devices", 40 * 40 * 2 + 400),
    (UNEQUAL, "all_gather(t.npus, size: 12MB)", "tacos", "12 chunks on 12 devices", 2 * 12 * 12),
]


def compiled(topology: str, run: str, synthesizer: str) -> ScheduleReport:
    text = f"{HEAD}{topology} schedule s on t {{ run {run} }}"
    settings = Settings(synthesizer=synthesizer, write=False)
    return compile_program(SourceFile("p.coll", text), settings).schedules[0]


@pytest.mark.parametrize(("topology", "run", "synthesizer", "what", "size"), NEEDED)
def test_arrays_are_counted(
    topology: str, run: str, synthesizer: str, what: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte less than is needed is refused."""
    limits = [size, size - 1]
    wanted, original = what, memory.require

    def require(needed: int, what: str, hint: str) -> None:
        """Only these arrays have a limit."""
        if what == wanted:
            with patch.multiple(memory, _SMALL=-1, _taken=lambda: 0, memory_limit=lambda: limits.pop(0)):
                original(needed, what, hint)

    monkeypatch.setattr(memory, "require", require)
    assert compiled(topology, run, synthesizer).exit == 0
    assert limits == [size - 1]
    report = compiled(topology, run, synthesizer)
    assert limits == []
    (message,) = report.diagnostics
    assert (message.code, report.exit) == ("U0109", 1)
    assert message.message == f"{what} need about 0 MiB of memory, more than is left of 0 MiB"
    assert message.hint == (
        "take fewer chunks, a smaller network or another synthesizer, or allow more with --memory-limit"
    )
