"""Remarks on files that take longer than their schedules, by the numbers of the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from collc.application.compile.output_files import write_files
from collc.application.emit import file_times
from collc.application.emit.file_times import Runtime, plan_speed_notes, simulated_file, switched_notes, write_file
from collc.base.atomic_files import open_draft
from collc.base.units import format_time
from collc.msccl.options import MscclOptions, Protocol
from collc.source.elaboration.elaborate import load_program
from collc.ten.demand import Demand
from collc.ten.module import Module
from collc.ten.transform import unwound
from tests import support
from tests.msccl.lowering import COLLECTIVES, scheduled

MORE = MscclOptions(gpus_per_node=2)


def planned(size: int = 4) -> Module:
    """A ring of nodes of two GPUs, and an All-Reduce on it."""
    links = [(a, (a + step) % size, support.DEFAULT) for a in range(size) for step in (1, size - 1)]
    return scheduled(support.network(size, links), support.all_reduce(list(range(size))))


def notes_of(module: Module, path: Path, options: MscclOptions = MORE) -> tuple[str, ...]:
    write_file(module, options, "mscclpp", path)
    return plan_speed_notes(path, module, options)


def constant(value: int) -> Callable[[Module], int]:
    def same(_module: Module) -> int:
        return value

    return same


def test_a_plan_as_fast_as_its_schedule_has_no_advice(tmp_path: Path) -> None:
    (told,) = notes_of(planned(), tmp_path / "p.json")
    assert told.startswith("MSCCL++: simulated ")
    assert told.endswith("us)")


def test_a_slow_plan_says_why_and_what_to_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits, one that loads a link, and one of packets."""
    module, path = planned(), tmp_path / "p.json"
    taken = module.collective_time()
    monkeypatch.setattr(Module, "collective_time", constant(taken * 10 // 11))
    monkeypatch.setattr(file_times, "TOLERATED_SLOWDOWN", 1.09)
    (_, waits) = notes_of(module, path)
    assert "longer than its schedule: its threadblocks do one operation after another" in waits
    assert "try 'instances: 2', other 'chunks', or 'emit msccl'" in waits
    monkeypatch.setattr(Module, "collective_time", constant(taken // 10))
    (_, loads) = notes_of(module, path)
    assert "what it sends over npu[0] -> npu[1] takes " in loads
    (_, packets) = notes_of(module, path, replace(MORE, protocol=Protocol.LL))
    assert "packets have 8 bytes of flag for 8 bytes of data" in packets
    monkeypatch.setattr(file_times, "MOST_SIMULATED", 3)
    assert notes_of(module, path) == ("MSCCL++: the plan was not simulated: the schedule has over 3 transfers",)


@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda one: one.__name__)
def test_the_buffer_is_that_of_the_schedule(tmp_path: Path, collective: Callable[[list[int]], Demand]) -> None:
    """Also of gathers and scatters, whose runtimes count one rank's part: links carry what they carry in it."""
    links = [(a, b, support.DEFAULT) for a in range(4) for b in range(4) if a != b]
    module = scheduled(support.network(4, links), collective(list(range(4))))
    assert module.schedule is not None
    sent = module.demand.chunks.size[module.schedule.transfers.chunk].sum()
    cases: tuple[tuple[Runtime, int], ...] = (("msccl", 1), ("msccl", 2), ("mscclpp", 1), ("mscclpp", 2))
    for kind, instances in cases:
        options = MscclOptions(instances=instances)
        write_file(module, options, kind, tmp_path / "f")
        assert simulated_file(tmp_path / "f", kind, module.network, module.demand, options).sent_bytes.sum() == sent


PROGRAM = """
import std.collectives
topology pod {
    npu gpu[2, 2]
    switch hub[2]
    switch rail[2]
    for n in 0..2, i in 0..2 {
        link gpu[n, i] <-> hub[n] (bandwidth: 450GB/s, latency: 0.35us)
        link gpu[n, i] <-> rail[i] (bandwidth: 50GB/s, latency: 2us)
    }
}
schedule s on pod { run all_gather(pod.npus, size: 64MiB) emit msccl("s.xml") emit mscclpp("s.json", gpus_per_node: 2) }
"""


def test_files_of_unwound_switches_are_simulated_over_them(tmp_path: Path) -> None:
    """Among the remarks of the report. A switch takes a message whole before it passes it on."""
    (tmp_path / "p.coll").write_text(PROGRAM)
    request = load_program(tmp_path / "p.coll", {}, None).schedules[0]
    network = request.network
    module = scheduled(unwound(network, joined=True), request.demand)
    with open_draft() as draft:
        target = (tmp_path, draft)
        notes = write_files(module, network, request.emits, target, lambda _share, _phase: None, lambda _: "").notes
        draft.publish()
    kinds: tuple[tuple[str, Runtime, str], ...] = (("MSCCL", "msccl", "s.xml"), ("MSCCL++", "mscclpp", "s.json"))
    for name, kind, file in kinds:
        simulated = simulated_file(tmp_path / file, kind, network, module.demand, MscclOptions())
        assert simulated.time_ps > 1.5 * module.collective_time()
        (told,) = [note for note in notes if note.startswith(f"{name}: the schedule has direct links")]
        assert f"the file takes {format_time(simulated.time_ps)}, " in told
        assert f" longer than the schedule ({format_time(module.collective_time())})" in told
        assert switched_notes([tmp_path / file], kind, module, module.network, MscclOptions()) == ()
