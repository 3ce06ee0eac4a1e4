"""Programs over switches take no longer than their schedules: sends share links in the order of the schedule."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from collc.application.run.file_runs import run_program
from collc.base.diagnostics import SourceFile
from collc.msccl.lowering import dependencies
from collc.msccl.lowering import lower as lowering
from collc.msccl.lowering.assign import assign
from collc.msccl.lowering.dependencies import depend
from collc.msccl.lowering.exchange import exchange_alike_gpus
from collc.msccl.lowering.execution import replay_time
from collc.msccl.lowering.flows import Flow, flows_of, spread_flows
from collc.msccl.lowering.lower import lower
from collc.msccl.lowering.quality import TOLERATED_SLOWDOWN, quality, slowdown_note
from collc.msccl.lowering.repeat import repeat
from collc.msccl.lowering.select import first_program
from collc.msccl.options import MscclOptions
from collc.msccl.program import Message, Program
from collc.passes.registry import Invert, PassContext, Synthesize
from collc.source.elaboration.elaborate import load_program
from collc.ten.module import Module
from collc.ten.schedule import LinkModel
from tests.end_to_end.programs import build
from tests.msccl.lowering import assert_right

LEAF_SPINE = "leaf_spine(4, 4, 4, 50GB/s, 50GB/s, 1us)"


def synthesized(topology: str, collective: str, synthesizer: str = "symmetric", chunks: int = 1) -> Module:
    text = (
        f"import std.clusters\nimport std.topologies\nimport std.collectives\ntopology t = {topology}\n"
        f"schedule s on t {{ run {collective}(t.npus, size: 64MiB, chunks: {chunks}) }}\n"
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


@pytest.mark.parametrize(("collective", "synthesizer"), [("gather", "pccl"), ("all_reduce", "symmetric")])
def test_connections_that_are_never_full_delay_nothing(
    collective: str, synthesizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that a schedule has on their way at once are on connections of their own, without being paired."""
    nodes = 4 if collective == "gather" else 2
    module = synthesized(f"dgx_h100({nodes})", collective, synthesizer, chunks=4)
    monkeypatch.setattr(lowering, "ATTEMPTS", [attempt for attempt in lowering.ATTEMPTS if not attempt.joined])
    program = lower(module)
    assert replay_time(program, module.network, LinkModel.STORE) <= TOLERATED_SLOWDOWN * module.collective_time()
    assert all(tb.send < 0 or tb.receive < 0 for gpu in program.gpus for tb in gpu.threadblocks)
    for gpu in program.gpus:
        for tb in gpu.threadblocks:
            sent = [program.messages[step.send] for step in tb.steps if step.send >= 0]
            assert all(a.arrival <= b.start for a, b in pairwise_at(sent, 2))


def pairwise_at(messages: list[Message], distance: int) -> list[tuple[Message, Message]]:
    return list(zip(messages, messages[distance:], strict=False))


def test_spread_flows_are_no_more_than_the_channels() -> None:
    """Five messages are on their way at once: three connections of two, or as many as there are, with turns."""
    module = synthesized("dgx_h100(2)", "all_reduce")
    start = first_program(module, MscclOptions())
    together = tuple(replace(m, start=0, leave=1, arrival=k + 1) for k, m in enumerate(start.messages))
    program = replace(start, messages=together)
    most = max(Counter((m.source, m.target, m.path) for m in together).values())
    for channels in (1, 2, 32):
        flows = spread_flows(program, 2, 64, channels)
        used = {(flow.source, flow.target): 0 for flow in flows}
        for flow in flows:
            used[flow.source, flow.target] = max(used[flow.source, flow.target], 1 + flow.path)
        paths = Counter((m.source, m.target) for m in {(m.source, m.target, m.path): m for m in together}.values())
        assert all(count <= max(channels, paths[pair]) for pair, count in used.items())
        assert max(used.values()) >= min(channels, -(-most // 2))


def test_what_waits_twice_counts_twice() -> None:
    """If a flow holds few steps, there are more flows; a chunk that came before takes two."""
    module = synthesized("dgx_h100(2)", "all_reduce")
    start = first_program(module, MscclOptions())
    came = Counter[Flow]()
    flows = spread_flows(start, 100, 4, 32)
    for flow, message in zip(flows, start.messages, strict=True):
        passed_on = any(
            m.target == message.source and m.chunk == message.chunk and m.arrival <= message.start
            for m in start.messages
        )
        came[flow] += 1 + passed_on
    assert max(came.values()) <= 4
    assert len(came) > len(set(spread_flows(start, 100, 64, 32)))


def test_order_is_not_awaited_where_a_file_cannot_name_the_threadblock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the data needs stays; of the other waits, those for the threadblocks that are awaited most often."""
    loose = first_program(synthesized("dgx_h100(2)", "reduce_scatter"), MscclOptions())
    program = repeat(assign(loose, flows_of(loose, 1), 32, 32, None))

    def awaited(found: Program) -> tuple[int, int]:
        """The most threadblocks of a GPU that are awaited, and the number of waits of all."""
        waits = [[p.threadblock for tb in gpu.threadblocks for s in tb.steps for p in s.waits] for gpu in found.gpus]
        return max(len(set(points)) for points in waits), sum(map(len, waits))

    for_data, in_turn = (awaited(depend(program, in_turn=turn)) for turn in (False, True))
    assert in_turn[0] > for_data[0] + 1
    monkeypatch.setattr(dependencies, "LAST_AWAITED", in_turn[0] - 2)
    limited = awaited(depend(program, in_turn=True))
    assert limited[0] == in_turn[0] - 1
    assert for_data[1] < limited[1] <= in_turn[1]


def unchanged(start: Program, _module: Module) -> Program:
    return start


def test_ties_at_switches_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each GPU sends once, what it has or the sum of all that came: there is nothing to order, only to exchange."""
    monkeypatch.setattr(lowering, "exchanged_program", unchanged)
    module = synthesized(LEAF_SPINE, "reduce", "swarm")
    program = lower(module)
    measured = quality(program, module)
    assert TOLERATED_SLOWDOWN * measured.schedule < measured.replay
    note = slowdown_note(program, measured)
    assert "messages of several GPUs reach a switch together, and a file cannot say which of them " in note
    assert "which of them leaves it first" in note


@pytest.mark.parametrize("chunks", [1, 4])
def test_messages_that_tie_come_in_the_order_of_the_schedule(chunks: int, tmp_path: Path) -> None:
    """With one chunk the file takes over 10 % longer than its schedule if no GPUs are exchanged."""
    module = synthesized(LEAF_SPINE, "reduce", "swarm", chunks)
    program = lower(module)
    measured = quality(program, module)
    assert measured.replay <= TOLERATED_SLOWDOWN * measured.schedule
    assert any("exchanged in the schedule" in note for note in program.notes) == (chunks == 1)
    assert_right(program, tmp_path)


@pytest.mark.parametrize("topology", [LEAF_SPINE, "dgx_h100(2)"])
def test_exchanged_messages_go_the_same_ways(topology: str) -> None:
    """GPUs are exchanged only if all links stay; the root of a reduce stays where it is."""
    module = synthesized(topology, "reduce", "swarm" if topology == LEAF_SPINE else "pccl")
    start, network = first_program(module, MscclOptions()), module.network
    messages = exchange_alike_gpus(start.messages, network, module.demand)
    assert (messages is start.messages) == (topology != LEAF_SPINE)
    lengths = [Counter((m.start, m.arrival, m.chunk, len(m.path)) for m in ms) for ms in (messages, start.messages)]
    assert lengths[0] == lengths[1]
    for message in messages:
        devices = [int(network.source[message.path[0]]), *(int(network.target[link]) for link in message.path)]
        assert (devices[0], devices[-1]) == (network.npus[message.source], network.npus[message.target])
        assert all(int(network.source[link]) == a for link, a in zip(message.path, devices, strict=False))
        assert message.source


def test_no_exchange_where_ranks_have_parts_of_their_own() -> None:
    module = synthesized(LEAF_SPINE, "gather", "pccl")
    start = first_program(module, MscclOptions())
    assert exchange_alike_gpus(start.messages, module.network, module.demand) is start.messages


@pytest.mark.slow
def test_ties_of_128_gpus() -> None:
    assert_as_fast_as_its_schedule(synthesized("fat_tree(8, 50GB/s, 0.5us)", "reduce", "swarm", 4))


@pytest.mark.slow
@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce", "all_to_all"])
@pytest.mark.parametrize("nodes", [4, 8, 16])
def test_many_nodes(nodes: int, collective: str) -> None:
    assert_as_fast_as_its_schedule(synthesized(f"dgx_h100({nodes})", collective))


def test_a_program_with_plan_and_file_has_both_where_switches_could_add(tmp_path: Path) -> None:
    """The schedule is made for switches that only pass on, also if two partials of a chunk meet in one."""
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
