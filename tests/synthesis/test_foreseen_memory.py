"""The main arrays of synthesizers are counted before they are made, so that what is too large is said at once."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from collc.application.compile.compilation import compile_program
from collc.application.compile.compile_report import ScheduleReport
from collc.application.settings import Settings
from collc.base import memory
from collc.base.diagnostics import Diagnostic, SourceError, SourceFile

HEAD = "import std.topologies import std.collectives topology t = "
LINK = "bandwidth: 1GB/s, latency: 1us"
UNEQUAL = f"ring(4, {LINK}) * ring(3, bandwidth: 3GB/s, latency: 2us)"
BROADCAST = "broadcast(t.npus, size: 24MB, root: 0, chunks: 24)"
NEEDED = [
    (f"ring(8, {LINK})", "all_to_all(t.npus, size: 8MB)", "pccl", "distances of 8 devices from 8 NPUs", 1_024),
    (f"ring(129, {LINK})", "all_gather(t.npus, size: 129MB)", "tacos", "129 chunks on 129 devices", 129 * 129 * 9 // 4),
    (f"ring(40, {LINK})", "all_gather(t.npus, size: 40MB)", "tacos", "40 chunks on 40 devices", 2 * 40 * 40),
    (f"ring(40, {LINK})", "all_gather(t.npus, size: 40MB)", "symmetric", "20 steps on 80 links", 20 * 80 * 2),
    (UNEQUAL, "all_gather(t.npus, size: 12MB)", "symmetric", "132 transfers", 132 * 34),
    (UNEQUAL, "all_gather(t.npus, size: 12MB)", "tacos", "12 chunks on 12 devices", 2 * 12 * 12),
    (f"ring(8, {LINK})", BROADCAST, "swarm", "24 chunks on 8 devices", 40 * 8 * 24),
    (f"ring(8, {LINK})", BROADCAST, "swarm", "168 copies of chunks", 300 * 7 * 24),
    (f"ring(8, {LINK})", "all_reduce(t.npus, size: 8MB)", "exchange", "112 messages", 80 * 2 * 8 * 7),
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
    limit, calls = size, 0
    wanted, original = what, memory.require

    def require(needed: int, what: str, hint: str, *, always: bool = False) -> None:
        """Only these arrays have a limit."""
        nonlocal calls
        if what == wanted:
            calls += 1
            with patch.multiple(memory, SMALL=-1, _taken_bytes=lambda: 0, memory_limit=lambda: limit):
                original(needed, what, hint)

    monkeypatch.setattr(memory, "require", require)
    assert compiled(topology, run, synthesizer).exit == 0
    limit, known = size - 1, calls
    assert known > 0
    report = compiled(topology, run, synthesizer)
    assert calls > known
    (message,) = report.diagnostics
    assert (message.code, report.exit) == ("U0109", 1)
    assert message.message == f"{what} need about 0 MiB of memory, more than is left of 0 MiB"
    assert message.hint == (
        "use fewer chunks, a smaller network or another synthesizer, or allow more with --memory-limit"
    )


SEVERAL = {"paths of 3 trees to 12 NPUs": 3 * 48 * 8, "paths of 12 trees to 12 NPUs": 12 * 48 * 8}


@pytest.mark.parametrize(
    ("topology", "refused", "wanted"),
    [
        (
            f"ring(40, {LINK})",
            ("paths",),
            {"paths of 1 tree to 40 NPUs": 1_280, "paths of 40 trees to 40 NPUs": 51_200},
        ),
        (f"mesh2d(3, 2, {LINK}) * switched(2, {LINK})", ("paths",), SEVERAL),
    ],
)
def test_forest_is_refused_where_no_kind_of_tree_fits(
    topology: str, refused: tuple[str, ...], wanted: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind of trees is refused for its arrays, and the next one is tried."""
    found: dict[str, int] = {}

    def require(needed: int, what: str, hint: str, *, always: bool = False) -> None:
        if what.startswith("paths "):
            found[what] = needed
        if what.startswith(refused):
            raise SourceError(Diagnostic("U0109", what, None, hint=hint))

    monkeypatch.setattr(memory, "require", require)
    report = compiled(topology, "all_gather(t.npus, size: 120MB)", "forest")
    assert (report.exit, report.diagnostics[0].code) == (1, "U0109")
    assert found == wanted
