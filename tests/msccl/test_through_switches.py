"""Programs over switches take no longer than their schedules: sends share links in the order of the schedule."""

from __future__ import annotations

from pathlib import Path

import pytest

from collc.application.file_runs import run_program
from collc.base.diagnostics import SourceFile
from collc.msccl.lowering import lower as lowering
from collc.msccl.lowering.lower import lower
from collc.msccl.lowering.quality import TOLERATED_SLOWDOWN, quality, slowdown_note
from collc.passes.context import PassContext
from collc.passes.registry import Invert
from collc.passes.synthesize import Synthesize
from collc.source.elaboration.elaborate import load_program
from collc.ten.module import Module
from tests.end_to_end.programs import build


def synthesized(topology: str, collective: str, synthesizer: str = "symmetric") -> Module:
    text = (
        f"import std.clusters\nimport std.topologies\nimport std.collectives\ntopology t = {topology}\n"
        f"schedule s on t {{ run {collective}(t.npus, size: 64MiB) }}\n"
    )
    (request,) = load_program(SourceFile("p.coll", text), {}, None).schedules
    module = Module("s", request.network, request.demand, relays=True)
    context = PassContext()
    return Invert().run(Synthesize(synthesizer).run(module, context), context)


def assert_as_fast_as_its_schedule(module: Module) -> None:
    measured = quality(lower(module), module)
    assert measured.replay <= TOLERATED_SLOWDOWN * measured.schedule


@pytest.mark.parametrize("collective", ["all_gather", "all_reduce", "all_to_all"])
def test_two_nodes(collective: str) -> None:
    assert_as_fast_as_its_schedule(synthesized("dgx_h100(2)", collective))


def test_large_programs_are_made_with_sends_in_turn_first(monkeypatch: pytest.MonkeyPatch) -> None:
    module = synthesized("dgx_h100(2)", "all_reduce")
    announced: list[str] = []
    monkeypatch.setattr(lowering, "_LARGE_PROGRAM", 0)
    program = lower(module, announce=announced.append)
    assert not any(stage.startswith("attempt 3") for stage in announced)
    stages = [stage for stage in announced if stage.endswith("simulation")]
    assert len(stages) <= 2
    sends: dict[int, list[int]] = {}
    for gpu in program.gpus:
        for tb in gpu.threadblocks:
            for step in tb.steps:
                if step.send >= 0:
                    sends.setdefault(program.messages[step.send].path[0], []).append(step.send)
    assert any(len(numbers) > 1 for numbers in sends.values())


def test_ties_at_switches_are_named() -> None:
    """Three GPUs of other nodes send to a GPU at once; the schedule needs the last of them first."""
    module = synthesized("dgx_h100(4)", "gather", "pccl")
    program = lower(module)
    measured = quality(program, module)
    assert measured.as_scheduled is not None
    assert measured.as_scheduled <= TOLERATED_SLOWDOWN * measured.schedule < measured.replay
    note = slowdown_note(program, measured)
    assert "messages of several GPUs reach a switch together, and a file cannot say which of them goes on first" in note


@pytest.mark.slow
@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce", "all_to_all"])
@pytest.mark.parametrize("nodes", [4, 8, 16])
def test_many_nodes(nodes: int, collective: str) -> None:
    assert_as_fast_as_its_schedule(synthesized(f"dgx_h100({nodes})", collective))


def test_a_program_with_plan_and_file_has_both_where_switches_could_add(tmp_path: Path) -> None:
    """The schedule is made for switches that only pass on, also where two partials of a chunk meet in one."""
    text = """
import std.collectives
topology box {
    npu gpu[4]
    switch nv (multicast: true, reduce: true)
    for i in 0..4 { link gpu[i] <-> nv (bandwidth: 450GB/s, latency: 0.35us) }
}
schedule s on box {
    run all_reduce(box.npus, size: 256KiB) using pairwise
    emit mscclpp("s.json")
    emit msccl("s.xml")
}
"""
    (report,) = build(tmp_path, text.replace("import std.c", "import std.algorithms\nimport std.c", 1))
    assert set(report.checks.values()) == {"ok"}
    assert all(run.ok for name in ("s.xml", "s.json") for run in run_program(tmp_path / name).runs)
