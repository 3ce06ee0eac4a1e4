"""Files for RCCL: five operations, other limits and message sizes, and counters of sends that guard nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from collc.base.diagnostics import SourceError
from collc.msccl.check import check_file
from collc.msccl.check.findings import Findings
from collc.msccl.check.reader import read_file
from collc.msccl.lowering.execution import largest_size, message_bytes
from collc.msccl.lowering.five_operations import with_guarded_sends
from collc.msccl.lowering.lower import lower
from collc.msccl.options import MscclOptions, Profile, Protocol
from collc.msccl.program import Op, Program
from tests import support
from tests.msccl.lowering import COLLECTIVES, assert_right, random_network, ring_all_reduce, scheduled, xml_of
from tests.msccl.programs import Block, File, Gpu, write

RCCL = MscclOptions(profile=Profile.RCCL)
FIVE = {Op.SEND, Op.RECEIVE, Op.COPY, Op.REDUCE, Op.NOP}


def operations(program: Program) -> set[Op]:
    return {step.op for gpu in program.gpus for tb in gpu.threadblocks for step in tb.steps}


@pytest.mark.parametrize("protocol", list(Protocol))
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_with_five_operations(tmp_path: Path, collective, protocol: Protocol) -> None:
    for network in (support.ring(4), support.fully_connected(3)):
        program = lower(scheduled(network, collective([*range(network.npu_count)])), replace(RCCL, protocol=protocol))
        assert operations(program) <= FIVE
        assert b'name="' in xml_of(program)
        assert_right(program, tmp_path)
        assert any("ROCm 7.12" in note for note in program.notes)


def assert_right_on(seed: int, folder: Path) -> None:
    network = random_network(seed)
    demand = COLLECTIVES[seed % len(COLLECTIVES)]([*range(network.npu_count)], chunks=1 + seed % 2)
    protocol = list(Protocol)[seed % 3]
    program = lower(scheduled(network, demand), replace(RCCL, protocol=protocol, instances=1 + seed // 5 % 2))
    assert operations(program) <= FIVE, seed
    assert_right(program, folder)


@pytest.mark.parametrize("seed", range(8))
def test_random_networks(tmp_path: Path, seed: int) -> None:
    assert_right_on(seed, tmp_path)


@pytest.mark.slow
def test_many_random_networks(tmp_path: Path) -> None:
    for seed in range(100, 400):
        assert_right_on(seed, tmp_path)


def test_messages_of_one_time_do_not_share_scratch() -> None:
    """Seven parts of a sum arrive at once, each in a slot of its own."""
    program = lower(scheduled(support.fully_connected(8), support.reduce_scatter([*range(8)])), RCCL)
    assert {gpu.scratch_chunks for gpu in program.gpus} == {7}


def test_fused_operations_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.xml"
    path.write_bytes(xml_of(lower(ring_all_reduce(4))))
    assert check_file(path).ok
    verdict = check_file(path, profile="rccl")
    assert verdict.checks["contract"] == "failed"
    assert any("RCCL does not run rrcs" in finding.message for finding in verdict.findings)


@pytest.mark.parametrize(("threadblocks", "fits"), [(64, True), (65, False)])
def test_at_most_64_threadblocks(tmp_path: Path, threadblocks: int, fits: bool) -> None:
    blocks = [Block(chan=0).add("cpy") for _ in range(1)] + [Block() for _ in range(threadblocks - 1)]
    file = File("allgather", 1, [Gpu((1, 1, 0), blocks)])
    path = write(tmp_path / "f.xml", file)
    assert (check_file(path, profile="rccl").checks["contract"] == "ok") == fits
    assert check_file(path, profile="executor").checks["contract"] == "ok"


@pytest.mark.parametrize(("steps", "channel", "fits"), [(64, 127, True), (65, 0, False), (1, 128, False)])
def test_steps_and_channels(tmp_path: Path, steps: int, channel: int, fits: bool) -> None:
    """64 steps of a threadblock, and 128 channels."""
    block = Block(chan=channel)
    for _ in range(steps):
        block.add("cpy")
    path = write(tmp_path / "f.xml", File("allgather", 1, [Gpu((1, 1, 0), [block])], nchannels=channel + 1))
    assert (check_file(path, profile="rccl").checks["contract"] == "ok") == fits


@pytest.mark.parametrize(("proto", "size"), [("Simple", 2 << 20), ("LL", 16 << 10), ("LL128", 50_176)])
def test_message_sizes_of_the_check(tmp_path: Path, proto: str, size: int) -> None:
    """A quarter of it for reduce and broadcast with Simple."""
    for coll, part in (("allgather", 1), ("broadcast", 4 if proto == "Simple" else 1)):
        path = write(tmp_path / "f.xml", File(coll, 1, [Gpu((1, 1, 0), [Block().add("cpy")])], proto=proto))
        program = read_file(path, "rccl", Findings())
        assert program.message_bytes == size // part


def test_what_is_written_keeps_the_limits() -> None:
    """64 threadblocks of a GPU; and 64 steps of a threadblock, for which the chunks are divided among more of them."""
    fit = scheduled(support.fully_connected(9), support.all_gather([*range(9)]))
    most = lower(fit, replace(RCCL, instances=8))
    assert max(len(gpu.threadblocks) for gpu in most.gpus) == 64
    with pytest.raises(SourceError, match="threadblocks") as caught:
        lower(fit, replace(RCCL, instances=9))
    assert caught.value.diagnostics[0].code == "M0111"
    module = scheduled(support.ring(3), support.all_reduce([0, 1, 2], chunks=24))
    longest = max(len(tb.steps) for gpu in lower(module, RCCL).gpus for tb in gpu.threadblocks)
    assert 32 < longest <= 64


def guarded_overwrite(after: str) -> File:
    """Rank 0 sends its scratch slot and overwrites it in another threadblock, which waits for the send or a copy."""
    first = Block(send=1).add("cpy", ("i", 0), ("s", 0)).add("s", ("s", 0), hasdep=int(after == "s"))
    if after == "cpy":
        first.add("cpy", ("s", 0), ("s", 1), hasdep=1)
    second = Block().add("cpy", ("i", 1), ("s", 0), dep=(0, 1 if after == "s" else 2))
    second.add("cpy", ("s", 0), ("o", 1)).add("cpy", ("i", 0), ("o", 0))
    receiver = Block(recv=0).add("r", dst=("o", 0)).add("cpy", ("i", 1), ("o", 1))
    return File("custom", 2, [Gpu((2, 2, 2), [first, second]), Gpu((2, 2, 0), [receiver])], proto="LL")


@pytest.mark.parametrize(
    ("profile", "proto", "after", "outcome"),
    [
        ("rccl", "LL", "s", "failed"),
        ("rccl", "LL128", "s", "failed"),
        ("rccl", "Simple", "s", "ok"),
        ("rccl", "LL", "cpy", "ok"),
        ("executor", "LL", "s", "ok"),
    ],
)
def test_the_counter_of_a_send_guards_no_overwrite(
    tmp_path: Path, profile: str, proto: str, after: str, outcome: str
) -> None:
    file = replace(guarded_overwrite(after), proto=proto, coll="broadcast")
    verdict = check_file(write(tmp_path / "f.xml", file), profile=profile)  # type: ignore[arg-type]
    assert verdict.checks["race"] == outcome, verdict.findings


def test_programs_without_the_copies_have_races(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, path = replace(RCCL, protocol=Protocol.LL), tmp_path / "f.xml"
    found: list[str] = []
    for seed in range(12):
        network = random_network(seed)
        module = scheduled(network, support.all_to_all([*range(network.npu_count)], chunks=2))
        with monkeypatch.context() as patch:
            patch.setattr("collc.msccl.lowering.lower.with_guarded_sends", lambda program: program)
            bare = lower(module, options)
        if with_guarded_sends(bare) == bare:
            continue
        path.write_bytes(xml_of(bare))
        found.append(check_file(path, profile="rccl").checks["race"])
        path.write_bytes(xml_of(lower(module, options)))
        assert check_file(path, profile="rccl").checks["race"] == "ok"
    assert "failed" in found


@pytest.mark.parametrize(
    ("protocol", "size"), [(Protocol.SIMPLE, 2 << 20), (Protocol.LL, 16 << 10), (Protocol.LL128, 50_176)]
)
def test_message_sizes(tmp_path: Path, protocol: Protocol, size: int) -> None:
    program = lower(scheduled(support.ring(3), support.all_gather([0, 1, 2])), replace(RCCL, protocol=protocol))
    assert message_bytes(program) == size
    assert largest_size(program, 1) == size * 3


def test_gather_can_be_selected(tmp_path: Path) -> None:
    module = scheduled(support.ring(3), support.gather([0, 1, 2]))
    path = tmp_path / "f.xml"
    path.write_bytes(xml_of(lower(module, RCCL)))
    assert not [finding for finding in check_file(path, profile="rccl").findings if finding.warning]
    assert [finding for finding in check_file(path, profile="executor").findings if finding.warning]
