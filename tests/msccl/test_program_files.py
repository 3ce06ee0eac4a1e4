"""The files of a schedule: scratch of the old runtime, a file for each placement, plans that their loader can read."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from collc.base.diagnostics import SourceError
from collc.msccl.limits import bounded_scratch, scratch_bytes
from collc.msccl.lowering.execution import deadlocking_message_sizes, largest_size, message_bytes
from collc.msccl.lowering.files import program_files
from collc.msccl.lowering.lower import lower
from collc.msccl.options import MscclOptions, Placement, Profile, Protocol
from collc.msccl.plans.plan import plan_of, remarks_of
from collc.msccl.plans.precheck import precheck_plan
from collc.msccl.program import Program
from tests import support
from tests.msccl.lowering import COLLECTIVES, assert_right, direct_all_to_all, ring_all_reduce, scheduled, xml_of
from tests.msccl.test_lower_stages import exchange

GIB = 1 << 30
OLD = MscclOptions(profile=Profile.OLD)


def relayed_all_to_all(n: int) -> Program:
    """Blocks pass through scratch on their way round a ring."""
    return lower(scheduled(support.ring(n), support.all_to_all([*range(n)])), OLD)


def allocated(xml: bytes) -> list[int]:
    """What the old runtime allocates on each GPU, from the attributes of the file."""
    text = xml.decode()
    (largest,) = re.findall(r'maxBytes="(\d+)"', text)
    (chunks,) = re.findall(r'nchunksperloop="(\d+)"', text)
    return [int(largest) * int(scratch) // int(chunks) for scratch in re.findall(r's_chunks="(\d+)"', text)]


def test_scratch_of_the_old_runtime_is_bounded(tmp_path: Path) -> None:
    program = relayed_all_to_all(8)
    assert program.sizes == (0, 1365 << 20)
    assert GIB - (1 << 20) < max(allocated(xml_of(program))) <= GIB
    assert any("for buffers up to 1365MiB: when the old runtime starts" in note for note in program.notes)
    assert_right(program, tmp_path)


@pytest.mark.parametrize("scratch", [1, 2, 7, 8, 9, 64, 1000])
def test_more_scratch_lowers_the_largest_size(scratch: int) -> None:
    program = relayed_all_to_all(8)
    gpus = tuple(replace(gpu, scratch_chunks=scratch) for gpu in program.gpus)
    bounded = bounded_scratch(replace(program, gpus=gpus, sizes=(0, None)), sizes_given=False)
    largest = bounded.sizes[1]
    assert largest is not None
    used = max(allocated(xml_of(bounded)))
    assert used == scratch_bytes(bounded, largest) <= GIB
    assert largest == 4 * GIB or scratch_bytes(bounded, largest + (1 << 20)) > GIB


@pytest.mark.parametrize("options", [MscclOptions(), OLD], ids=["executor", "old"])
def test_files_without_scratch_have_no_bound(options: MscclOptions) -> None:
    program = lower(ring_all_reduce(4), options)
    assert program.sizes == (0, None)
    assert lower(scheduled(support.ring(8), support.all_to_all([*range(8)]))).sizes == (0, None)


def test_sizes_that_a_user_gives_are_kept() -> None:
    module = scheduled(support.ring(8), support.all_to_all([*range(8)]))
    small = lower(module, replace(OLD, sizes=(0, 1 << 20)))
    assert small.sizes == (0, 1 << 20)
    assert not any("scratch" in note for note in small.notes)
    large = lower(module, replace(OLD, sizes=(0, 64 * GIB)))
    assert large.sizes == (0, 64 * GIB)
    assert GIB < max(allocated(xml_of(large))) < 80 * GIB
    with pytest.raises(SourceError, match="bytes of scratch on one GPU") as caught:
        lower(module, replace(OLD, sizes=(0, 1 << 62)))
    assert caught.value.diagnostics[0].code == "M0111"
    assert lower(module, MscclOptions(sizes=(0, 1 << 62))).sizes == (0, 1 << 62)


def test_the_old_runtime_gets_a_file_for_each_placement(tmp_path: Path) -> None:
    module = ring_all_reduce(4)
    files = program_files(module, OLD)
    assert [variant for variant, _ in files] == ["out", "in"]
    assert [file.program.placement for file in files] == [Placement.OUT, Placement.IN]
    for variant, program in files:
        assert f'inplace="{int(variant == "in")}"'.encode() in xml_of(program)
        assert_right(program, tmp_path)
    assert program_files(module, replace(OLD, placement=Placement.BOTH))[1].variant == "in"
    for placement in (Placement.IN, Placement.OUT):
        (file,) = program_files(module, replace(OLD, placement=placement))
        assert (file.variant, file.program.placement) == ("", placement)
    (file,) = program_files(module, MscclOptions())
    assert (file.variant, file.program.placement) == ("", Placement.BOTH)


def test_one_file_where_only_one_placement_is_possible() -> None:
    module = scheduled(support.ring(5), support.all_to_all(list(range(5))))
    (file,) = program_files(module, OLD)
    assert (file.variant, file.program.placement) == ("", Placement.OUT)
    with pytest.raises(SourceError, match="impossible"):
        program_files(module, replace(OLD, placement=Placement.BOTH))


def test_plans_that_only_the_executor_of_mscclpp_runs_are_noted() -> None:
    noted: set[str] = set()
    for collective in COLLECTIVES:
        plan = plan_of(scheduled(support.ring(3), collective([0, 1, 2])))
        if any("only the Executor of MSCCL++" in note for note in remarks_of(plan, MscclOptions())):
            noted.add(collective.__name__)
    assert noted == {"all_to_all", "reduce", "gather", "scatter"}


@pytest.mark.parametrize(("least", "fits"), [((2 << 30) - 1, True), (2 << 30, False), (5 << 30, False)])
def test_plans_for_large_buffers_only_are_refused(least: int, fits: bool) -> None:
    """The loader of MSCCL++ reads the smallest size with a signed int of 32 bits."""
    module = ring_all_reduce(4)
    options = MscclOptions(sizes=(least, 16 << 30))
    if fits:
        precheck_plan(module.network, module.demand, options)
        assert plan_of(module, options)["min_message_size"] == least
        return
    for attempt in (lambda: precheck_plan(module.network, module.demand, options), lambda: plan_of(module, options)):
        with pytest.raises(SourceError, match="less than 2GiB") as caught:
            attempt()
        assert caught.value.diagnostics[0].code == "M0113"


def test_the_smallest_size_of_a_scatter_counts_all_parts() -> None:
    module = scheduled(support.ring(4), support.scatter([0, 1, 2, 3]))
    with pytest.raises(SourceError, match="less than 2GiB"):
        precheck_plan(module.network, module.demand, MscclOptions(sizes=(1 << 29, 1 << 30)))
    precheck_plan(module.network, module.demand, MscclOptions(sizes=((1 << 29) - 1, 1 << 30)))


@pytest.mark.parametrize("name", ["broadcast", "reduce"])
def test_reduce_and_broadcast_have_messages_of_512_kib(name: str) -> None:
    """Two GPUs that both send 8 chunks and then receive 8: with 4 chunks in a message, 2 messages are all in flight."""
    program = exchange(8)
    long = replace(program, collective=replace(program.collective, chunks_per_loop=8))
    short = replace(long, collective=replace(long.collective, kind=name, coll=name))
    assert message_bytes(long) == 4 * message_bytes(short) == 2 << 20
    assert largest_size(long, 4) == 4 * largest_size(short, 4) == 4 << 20
    above = (largest_size(short, 4) + 8, 1_363_152)  # 1 MiB and 8 bytes, 1.3 MiB
    for size in above:
        assert deadlocking_message_sizes(replace(short, sizes=(size, size))) == [3]
        assert not deadlocking_message_sizes(replace(long, sizes=(size, size)))
    assert not deadlocking_message_sizes(replace(short, sizes=(0, largest_size(short, 4))))
    assert message_bytes(replace(short, protocol=Protocol.LL)) == message_bytes(replace(long, protocol=Protocol.LL))


def test_direct_all_to_all_needs_no_scratch() -> None:
    program = lower(direct_all_to_all(4), OLD)
    assert program.sizes == (0, None)
    assert allocated(xml_of(program)) == [0] * 4
