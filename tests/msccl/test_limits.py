"""Limits of the runtimes: programs that keep to them if their schedules would not, and those that cannot."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from collc.base.diagnostics import SourceError
from collc.msccl.check import check_file, expected_of
from collc.msccl.limits import check_merged_limits
from collc.msccl.lowering import precheck as lowering_precheck
from collc.msccl.lowering.dependencies import depend
from collc.msccl.lowering.lower import lower
from collc.msccl.lowering.precheck import precheck
from collc.msccl.lowering.quality import quality
from collc.msccl.options import MscclOptions, Placement, Profile
from collc.msccl.plans.plan import plan_of, remarks_of
from collc.msccl.plans.precheck import precheck_plan
from collc.msccl.program import Gpu, Op, Program, Slot, Step, Threadblock
from collc.msccl.slots import with_common_slots
from collc.ten.module import Module
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from tests import support
from tests.msccl.lowering import assert_right, by_hand, direct_all_to_all, ring_all_reduce, scheduled, steps_of, xml_of
from tests.msccl.test_lower_stages import stage

OLD = MscclOptions(profile=Profile.OLD)


def refused(module: Module, options: MscclOptions | None = None) -> str:
    with pytest.raises(SourceError) as caught:
        lower(module, options)
    (message,) = caught.value.diagnostics
    assert message.code in ("M0110", "M0111")
    assert message.hint
    return message.message


def longest(program: Program) -> int:
    return max(len(tb.steps) for gpu in program.gpus for tb in gpu.threadblocks)


def relayed(chunks: int) -> Module:
    """A broadcast along a line of 3, each chunk passed on as it comes: no two can move together."""
    rows = [(c, k, k + 1, c + k) for c in range(chunks) for k in range(2)]
    return by_hand(support.grid(3), support.broadcast([0, 1, 2], chunks=chunks), rows)


def star(points: int, inward: bool) -> Module:
    """NPU 0 and all others: a broadcast of it at once, or a reduction to it one after another."""
    links = [(0, k) for k in range(1, points + 1)] + [(k, 0) for k in range(1, points + 1)]
    network, everyone = support.network(points + 1, links), [*range(points + 1)]
    if not inward:
        return by_hand(network, support.broadcast(everyone), [(0, 0, k, 0) for k in range(1, points + 1)])
    return by_hand(network, support.reduce(everyone), [(0, k, 0, k) for k in range(1, points + 1)], reduce=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("options", "limit"), [(MscclOptions(), 64), (OLD, 256)], ids=["executor", "old"])
def test_steps_of_a_threadblock(options: MscclOptions, limit: int, tmp_path: Path) -> None:
    module = relayed(limit + 1)
    program = lower(module, options)
    assert program.channels == 2
    assert longest(program) <= limit
    assert_right(program, tmp_path)
    assert lower(relayed(limit), options).channels == 1
    message = refused(relayed(32 * limit + 1), options)
    assert message.startswith(f"the MSCCL program has {limit + 1} steps in one threadblock, 1 more than the {limit} ")


def test_steps_on_fewer_channels() -> None:
    assert lower(relayed(128), MscclOptions(channels=2)).channels == 2
    assert "has 65 steps in one threadblock" in refused(relayed(129), MscclOptions(channels=2))


def test_chunks_of_a_step(tmp_path: Path) -> None:
    """72 chunks that leave together are two steps."""
    module = by_hand(support.ring(2), support.broadcast([0, 1], chunks=72), [(c, 0, 1, c) for c in range(72)])
    program = lower(module, MscclOptions(sizes=(0, 1 << 20)))
    assert [step.count for step in steps_of(program) if step.op is Op.RECEIVE] == [71, 1]
    assert_right(program, tmp_path)


def test_copies_of_instances_are_of_71_chunks_at_most(tmp_path: Path) -> None:
    module = by_hand(support.ring(2), support.broadcast([0, 1], chunks=30), [(c, 0, 1, c) for c in range(30)])
    for instances in (2, 3):
        program = lower(module, MscclOptions(instances=instances, sizes=(0, 1 << 20)))
        counts = [step.count for step in steps_of(program) if step.op is Op.COPY]
        assert counts == ([60] if instances == 2 else [23, 7] * 3)
        assert_right(program, tmp_path)


def test_threadblocks_of_a_channel(tmp_path: Path) -> None:
    """40 peers take two channels, since one has 32 senders; 33 channels of 32 there are not."""
    program = lower(star(40, inward=False))
    assert program.channels == 2
    assert_right(program, tmp_path)
    assert "needs 2 channels, and may use 1" in refused(star(40, inward=False), MscclOptions(channels=1))


def test_channels(tmp_path: Path) -> None:
    """Parallel links have channels of their own, but share if there are more links than channels."""
    network = support.network(2, [(0, 1)] * 40 + [(1, 0)])
    chunk = support.broadcast([0, 1], chunks=40)
    module = by_hand(network, chunk, [(c, 0, 1, c) for c in range(40)])
    assert module.schedule is not None
    one = module.schedule.transfers
    rows = Transfers.of(one.chunk, one.chunk, np.zeros_like(one.start))
    spread = module.with_schedule(RowSchedule(LinkModel.STORE, rows), "all at once")
    program = lower(spread)
    assert program.channels <= 32
    assert_right(program, tmp_path)
    assert "4 instances need as many channels, and may use 2" in refused(spread, MscclOptions(instances=4, channels=2))


def test_threadblocks_of_a_gpu(tmp_path: Path) -> None:
    assert_right(lower(star(217, inward=False)), tmp_path)
    message = refused(star(217, inward=False), OLD)
    assert message == "the MSCCL program has 217 threadblocks on one GPU, 1 more than the 216 that the runtime allows"


def test_the_last_threadblock_that_others_wait_for(tmp_path: Path) -> None:
    """Those that others wait for come first; more than 128 of them there cannot be."""
    write = Step(Op.COPY, (0, 0, 0, 0), 1, src=Slot("i", 0), dst=Slot("s", 0))
    read = Step(Op.COPY, (1, 0, 0, 0), 1, src=Slot("s", 0), dst=Slot("o", 0))
    idle = Threadblock(-1, -1, 0, (replace(write, dst=Slot("s", 1)),))
    blocks = (idle, *[replace(idle, steps=())] * 198, Threadblock(-1, -1, 0, (write,)), replace(idle, steps=(read,)))
    program = replace(lower(direct_all_to_all(2)), gpus=(Gpu(0, 1, 1, 2, (), blocks),), placement=Placement.OUT)
    final = depend(program).gpus[0]
    assert final.threadblocks[0].steps[0].awaited
    assert final.threadblocks[-1].steps[0].waits[0].threadblock == 0
    assert_right(lower(star(128, inward=True)), tmp_path)
    message = refused(star(130, inward=True))
    assert message.startswith(
        "the MSCCL program has 128 as the last threadblock that others wait for, 1 more than the 127"
    )


def test_elements_that_a_rank_loads(tmp_path: Path) -> None:
    """2,100 chunks to send and as many to receive are far too many steps, if they do not move together."""
    program = lower(direct_all_to_all(2, 2100), MscclOptions(sizes=(0, 1 << 20)))
    assert longest(program) <= 64
    assert_right(program, tmp_path)
    message = refused(relayed(4200), OLD)
    assert (
        message
        == "the MSCCL program has 4205 elements that one rank loads, 110 more than the 4095 that the runtime allows"
    )


def test_slots_of_a_buffer() -> None:
    network = support.ring(4)
    demand = support.all_gather([0, 1, 2, 3], chunks=4096)
    precheck(network, demand, MscclOptions(instances=2))
    with pytest.raises(SourceError, match="49151 as the last chunk of a buffer, 16384 more than the 32767"):
        precheck(network, demand, MscclOptions(instances=3))


def test_too_many_messages_are_refused_before_a_schedule_is_sought() -> None:
    """Each of 64 GPUs receives 32,768 chunks: the lowering would take minutes and gigabytes."""
    network, demand = support.ring(64), support.all_reduce([*range(64)], chunks=512)
    for check in (precheck, precheck_plan):
        with pytest.raises(SourceError, match=r"at least 2,064,384 messages of one chunk, and a file is made of 1,048"):
            check(network, demand, MscclOptions())
        check(network, support.all_reduce([*range(64)], chunks=128), MscclOptions())


def test_schedules_of_too_many_messages_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering_precheck, "MOST_MESSAGES", 11)
    lower(direct_all_to_all(3))
    with pytest.raises(SourceError, match="at least 12 messages of one chunk"):
        lower(direct_all_to_all(4))


def test_limits_are_foreseen_before_threadblocks_are_formed() -> None:
    merged = stage(relayed(65), "merge")
    check_merged_limits(merged, channels=2)
    with pytest.raises(SourceError, match="65 steps in one threadblock, 1 more than the 64"):
        check_merged_limits(merged, channels=1)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("npus", [4, 8, 16])
@pytest.mark.parametrize("instances", [1, 2, 4])
@pytest.mark.parametrize("placement", [None, Placement.IN, Placement.OUT], ids=["both", "in", "out"])
def test_ring_all_reduce_is_as_lean_as_by_hand(
    npus: int, instances: int, placement: Placement | None, tmp_path: Path
) -> None:
    """1 threadblock per GPU and channel, 2 n - 1 steps, no scratch, no dependency."""
    for protocol in ("Simple", "LL", "LL128"):
        options = MscclOptions(instances=instances, placement=placement)
        program = lower(ring_all_reduce(npus), replace(options, protocol=type(options.protocol)(protocol)))
        assert program.channels == instances
        for gpu in program.gpus:
            assert gpu.scratch_chunks == 0
            assert [tb.channel for tb in gpu.threadblocks] == [*range(instances)]
            for tb in gpu.threadblocks:
                ops = [step.op.value for step in tb.steps]
                assert ops == ["s", *["rrs"] * (npus - 2), "rrcs", *["rcs"] * (npus - 2), "r"]
                assert not any(step.waits for step in tb.steps)
    assert_right(program, tmp_path)


def test_scratch_is_reused() -> None:
    """An All-to-All round a ring passes through scratch; how much sharing saves is in the report."""
    module = scheduled(support.ring(8), support.all_to_all([*range(8)]))
    program = lower(module)
    used = sum(gpu.scratch_chunks for gpu in program.gpus)
    assert 3 * used < 2 * program.scratch_needed
    assert quality(program, module).scratch_saved == program.scratch_needed - used


@pytest.mark.parametrize(
    ("ranks", "collective", "count"),
    [
        (3, partial(support.broadcast, chunks=3), 3),
        (6, partial(support.reduce, chunks=6), 6),
        (4, support.all_reduce, 0),
        (3, support.all_gather, 0),
    ],
)
def test_a_report_says_if_no_power_of_two_is_served(ranks, collective, count):
    """The runtime takes a file if the count is a multiple of the chunks; an All-Gather's counts once for each rank."""
    module = scheduled(support.fully_connected(ranks), collective(list(range(ranks))))
    said = [note for note in lower(module, MscclOptions()).notes if "none with a power of two" in note]
    assert said == (
        [f"serves only calls with a multiple of {count} elements, so none with a power of two: pad the buffers"]
        if count
        else []
    )
    plan = plan_of(module)
    assert [note for note in remarks_of(plan, MscclOptions()) if "none with a power of two" in note] == (
        [f"MSCCL++: serves only messages whose bytes {count} chunks divide, so none with a power of two"]
        if count
        else []
    )


@pytest.mark.parametrize(("ranks", "instances"), [(3, 1), (7, 2), (12, 1), (15, 1)])
def test_an_all_reduce_has_chunks_that_usual_sizes_divide_by(ranks, instances, tmp_path):
    """A power of two of chunks, in blocks within 3 % of equal ones; the file is right, as is one of a power of two."""
    module = scheduled(support.ring(ranks), support.all_reduce(list(range(ranks))))
    program = lower(module, MscclOptions(instances=instances))
    chunks = program.chunks_per_loop // instances
    assert chunks & (chunks - 1) == 0
    assert -(-chunks // ranks) * ranks <= 1.03 * chunks
    path = tmp_path / "f.xml"
    path.write_bytes(xml_of(program))
    assert check_file(path, collective="all_reduce").ok
    assert max(message.count for message in program.messages) <= 71
    plan = plan_of(module, MscclOptions(instances=instances))
    assert plan["gpus"][0]["input_chunks"] == chunks * instances


def test_an_all_reduce_that_would_be_limited_keeps_equal_blocks():
    """Many instances of many ranks would have more slots than offsets reach, and other collectives stay as they are."""
    module = Module("m", support.ring(31), support.all_reduce(list(range(31))))
    assert with_common_slots(module, MscclOptions(instances=64)) is not module.demand
    assert with_common_slots(module, MscclOptions(instances=65)) is module.demand
    assert with_common_slots(module, replace(OLD, custom=True)) is module.demand
    for ranks, demand in (
        (8, support.all_reduce(list(range(8)))),
        (3, support.all_gather([0, 1, 2])),
        (2, support.broadcast([0, 1], chunks=3)),
        (4, support.all_reduce([0, 1, 2])),  # of some ranks, so custom in the file
    ):
        assert with_common_slots(Module("m", support.ring(ranks), demand), MscclOptions()) is demand


@pytest.mark.parametrize("missing", range(5))
def test_a_file_of_a_group_is_checked_whole(missing, tmp_path):
    """A custom file has the chunks of the program, and a lost message is a wrong result."""
    module = scheduled(support.fully_connected(4), support.all_reduce([0, 1, 2]))
    rows = module.schedule.transfers
    kept = np.arange(len(rows)) != missing
    left = Transfers.of(rows.chunk[kept], rows.link[kept], rows.start[kept], rows.reduce[kept])
    expected, path = expected_of(module.network, module.demand), tmp_path / "f.xml"
    for schedule, outcome in ((module.schedule, "ok"), (RowSchedule(module.model, left), "failed")):
        program = lower(replace(module, schedule=schedule), OLD)
        assert program.chunks_per_loop == 3
        path.write_bytes(xml_of(program))
        assert check_file(path, profile="old", expected=expected).checks["result"] == outcome
    path.write_bytes(xml_of(lower(module, OLD)).replace(b'nchunksperloop="3"', b'nchunksperloop="4"'))
    verdict = check_file(path, profile="old", expected=expected)
    assert "nchunksperloop is 4, but the longest buffer of the collective has 3 chunks" in {
        finding.message for finding in verdict.findings
    }
