"""Lowering, judged by the checker of the written file, which shares no code with it."""

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from collc.base.diagnostics import CheckFailed, CollcError, NoSchedule, SourceError
from collc.msccl import limits
from collc.msccl.check import ExpectedResult, check_file, expected_of
from collc.msccl.lowering import lower as lowering
from collc.msccl.lowering.execution import fullest_pair
from collc.msccl.lowering.lower import lower
from collc.msccl.lowering.precheck import precheck
from collc.msccl.lowering.quality import TOLERATED_SLOWDOWN, quality, slowdown_note
from collc.msccl.options import MscclOptions, Placement, Profile, Protocol
from collc.msccl.program import Op
from collc.msccl.slots import cut_to_slots
from collc.ten.demand import Op as Reduction
from collc.ten.module import Module
from collc.ten.schedule import LinkModel, RowSchedule, Transfers
from tests import support
from tests.msccl.lowering import (
    COLLECTIVES,
    STEP,
    assert_right,
    by_hand,
    direct_all_to_all,
    judged,
    random_network,
    ring_all_reduce,
    scheduled,
    steps_of,
    xml_of,
)

NETWORKS = [
    support.ring(2),
    support.ring(3),
    support.ring(4, one_way=True),
    support.ring(8),
    support.grid(3, 3),
    support.grid(4, 4, wrap=True),
    support.hypercube(3),
    support.fully_connected(4),
    support.dgx1(),
]


def test_a_hurry_ends_the_search_for_an_order_that_cannot_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    """If every order deadlocks, all attempts are made; in a hurry, those within the most messages."""
    module = scheduled(support.ring(4), support.all_reduce(list(range(4))))
    attempts: list[str] = []
    monkeypatch.setattr(lowering._StageRunner, "time_of", lambda *_: None)
    monkeypatch.setattr(lowering, "_without_deadlock", lambda _: None)
    with pytest.raises(CheckFailed, match="could deadlock"):
        lower(module, announce=attempts.append, hurried=lambda: True)
    assert any("attempt 2" in attempt for attempt in attempts)
    attempts.clear()
    monkeypatch.setattr(lowering, "_MOST_FOR_SPEED", 0)
    with pytest.raises(NoSchedule, match="no order of the schedule's steps that MSCCL can run was found soon after"):
        lower(module, announce=attempts.append, hurried=lambda: True)
    assert not any("attempt 2" in attempt for attempt in attempts)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: f"{n.name}x{n.npu_count}")
@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("chunks", [1, 3])
def test_every_collective_is_right(network, collective, chunks, tmp_path):
    module = scheduled(network, collective(list(range(network.npu_count)), chunks=chunks))
    program = lower(module)
    assert_right(program, tmp_path)
    if collective is not support.all_to_all:
        assert program.placement is Placement.BOTH


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(60))
def test_random_networks_and_options(seed, tmp_path):
    draw = random.Random(seed)
    network = random_network(seed)
    collective = draw.choice(COLLECTIVES)
    ranks = list(range(network.npu_count))
    extra = {"root": draw.choice(ranks)} if collective in COLLECTIVES[4:] else {}
    demand = collective(ranks, chunk=draw.choice([1, 1000, 2**20]), chunks=draw.randint(1, 5), **extra)
    module = scheduled(network, demand, draw.choice(list(LinkModel)))
    rooted = collective in (support.gather, support.scatter)
    options = MscclOptions(
        instances=draw.choice([1, 1, 2, 3]),
        protocol=draw.choice(list(Protocol)),
        profile=Profile.EXECUTOR if rooted else draw.choice(list(Profile)),
        sizes=draw.choice([(0, None), (0, 1 << 20), (1 << 10, 1 << 30)]),
    )
    assert_right(lower(module, options), tmp_path)


def test_ring_all_reduce_is_as_lean_as_by_hand(tmp_path):
    program = lower(ring_all_reduce(8))
    assert_right(program, tmp_path)
    assert program.channels == 1
    for gpu in program.gpus:
        assert gpu.scratch_chunks == 0
        (tb,) = gpu.threadblocks
        assert [step.op.value for step in tb.steps] == ["s", *["rrs"] * 6, "rrcs", *["rcs"] * 6, "r"]


def test_the_input_is_never_written():
    for collective in COLLECTIVES:
        program = lower(scheduled(support.grid(3, 3), collective(list(range(9)), chunks=2)))
        assert all(step.dst is None or step.dst.buffer != "i" for step in steps_of(program))


@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("placement", [Placement.IN, Placement.OUT])
def test_one_placement_alone(collective, placement, tmp_path):
    if collective is support.all_to_all:
        module = direct_all_to_all(4)
    else:
        module = scheduled(support.ring(4), collective([0, 1, 2, 3]))
    program = lower(module, MscclOptions(placement=placement))
    assert_right(program, tmp_path)
    assert f'inplace="{int(placement is Placement.IN)}"'.encode() in xml_of(program)


def test_all_gather_in_place_copies_nothing():
    module = scheduled(support.ring(4), support.all_gather([0, 1, 2, 3]))
    program = lower(module, MscclOptions(placement=Placement.IN))
    assert not [step for step in steps_of(program) if step.op is Op.COPY]


def test_all_to_all_in_place_where_each_block_leaves_before_its_successor_comes(tmp_path):
    program = lower(direct_all_to_all(4, 2))
    assert program.placement is Placement.BOTH
    assert_right(program, tmp_path)
    relayed = lower(scheduled(support.ring(5), support.all_to_all(list(range(5)))))
    assert relayed.placement is Placement.OUT
    assert "out of place only" in relayed.notes[0]
    with pytest.raises(SourceError, match="impossible"):
        lower(scheduled(support.ring(5), support.all_to_all(list(range(5)))), MscclOptions(placement=Placement.IN))


def test_neighbouring_chunks_move_together(tmp_path):
    program = lower(direct_all_to_all(4, 2))
    assert {step.count for step in steps_of(program)} == {2}
    assert_right(program, tmp_path)


def test_chunks_in_any_order_move_together(tmp_path):
    demand = support.broadcast([0, 1], chunks=4)
    program = lower(by_hand(support.ring(2), demand, [(2, 0, 1, 0), (0, 0, 1, 1), (3, 0, 1, 2), (1, 0, 1, 3)]))
    assert [step.count for step in steps_of(program) if step.send >= 0] == [4]
    assert_right(program, tmp_path)


def test_long_messages_between_two_peers_do_not_block(tmp_path):
    """Both send 8 chunks and then receive 8: known to hang if 8 chunks are more than 2 messages."""
    program = lower(direct_all_to_all(2, 8))
    assert_right(program, tmp_path)
    assert program.sizes == (0, None)
    small = lower(direct_all_to_all(2, 8), MscclOptions(sizes=(0, 1 << 20)))
    assert max(step.count for step in steps_of(small)) == 8
    assert_right(small, tmp_path)


def test_long_threadblocks_are_split_over_channels(tmp_path, monkeypatch):
    network = support.ring(4, one_way=True)
    module = scheduled(network, support.all_reduce([0, 1, 2, 3], chunks=32))
    for profile, limit in ((Profile.EXECUTOR, 64), (Profile.OLD, 256)):
        program = lower(module, MscclOptions(profile=profile))
        assert max(len(tb.steps) for gpu in program.gpus for tb in gpu.threadblocks) <= limit
        assert_right(program, tmp_path)
    crowded = scheduled(support.grid(2, 4), support.all_reduce(list(range(8)), chunks=16))
    assert_right(
        lower(crowded, MscclOptions(instances=2, channels=2)), tmp_path
    )  # with steps of several chunks, unfused
    monkeypatch.setattr(lowering, "ATTEMPTS", lowering.ATTEMPTS[:1])
    with pytest.raises(SourceError, match=r"needs \d+ channels, and may use 1") as caught:
        lower(crowded, MscclOptions(instances=2, channels=2))
    assert "chunks" in caught.value.diagnostics[0].hint


def test_too_many_gpus_are_refused_early():
    n = 1100
    network = support.ring(n, one_way=True)
    module = by_hand(network, support.broadcast(list(range(n))), [(0, k, k + 1, k) for k in range(n - 1)])
    with pytest.raises(SourceError, match="at most 1023 GPUs"):
        lower(module)


def test_instances_have_channels_of_their_own(tmp_path):
    module = ring_all_reduce(4)
    program = lower(module, MscclOptions(instances=3))
    assert program.channels == 3
    assert program.chunks_per_loop == 12
    assert {len(gpu.threadblocks) for gpu in program.gpus} == {3}
    assert_right(program, tmp_path)


def through_switch(repeats: int = 1, multicast: bool = False) -> Module:
    """NPU 0 broadcasts to 1 and 2 over a switch; it sends each chunk `repeats` times to the switch."""
    network = support.switched(3, multicast=multicast)
    demand = support.broadcast([0, 1, 2])
    up, down1, down2 = 0, 3, 5
    rows = [(up, k * STEP) for k in range(repeats)] + [(down1, STEP), (down2, 2 * STEP)]
    columns = (np.zeros(len(rows), np.int32), np.array([r[0] for r in rows], np.int32), np.array([r[1] for r in rows]))
    schedule = RowSchedule(LinkModel.STORE, Transfers.of(*columns))
    return Module("over", network, demand).with_schedule(schedule, "by hand")


def test_hops_over_switches_become_one_message(tmp_path):
    program = lower(through_switch(2))
    assert_right(program, tmp_path)
    assert sorted((m.source, m.target, len(m.path)) for m in program.messages) == [(0, 1, 2), (0, 2, 2)]
    module = through_switch(2)
    assert quality(program, module).replay <= quality(program, module).schedule


def test_a_switch_that_multicasts_is_refused_with_a_way_out():
    with pytest.raises(SourceError, match="multicasts") as caught:
        lower(through_switch(1, multicast=True))
    assert "unwound" in caught.value.diagnostics[0].hint


def test_what_a_switch_passes_on_twice_is_sent_twice(tmp_path):
    program = lower(through_switch(1))
    assert_right(program, tmp_path)
    assert sorted((m.source, m.target) for m in program.messages) == [(0, 1), (0, 2)]
    assert "1 messages are sent again by GPUs, since a switch forwards each message once" in program.notes


def test_who_has_the_chunk_already_sends_it_again(tmp_path):
    """NPU 1 has the chunk after 2 steps; the switch passes it on to NPU 2 in the fourth, when NPU 0 sends another."""
    network, demand = support.switched(3), support.broadcast([0, 1, 2], chunks=2)
    rows = [(0, 0, 0), (0, 3, 1), (1, 0, 2), (0, 5, 3), (1, 3, 3), (1, 5, 4)]
    chunk, link, start = (np.array(column) for column in zip(*rows, strict=True))
    schedule = RowSchedule(LinkModel.STORE, Transfers.of(chunk, link, start * STEP))
    module = Module("again", network, demand).with_schedule(schedule, "by hand")
    program = lower(module)
    assert_right(program, tmp_path)
    assert (1, 2, 0) in {(m.source, m.target, m.chunk) for m in program.messages}
    assert quality(program, module).replay <= quality(program, module).schedule


def test_useless_transfers_are_left_out(tmp_path):
    demand = support.broadcast([0, 1, 2])
    rows = [(0, 0, 1, 0), (0, 0, 2, 0), (0, 1, 2, 1), (0, 2, 1, 2)]
    program = lower(by_hand(support.fully_connected(3), demand, rows))
    assert len(program.messages) == 2
    assert_right(program, tmp_path)


def test_a_transfer_before_its_time_is_refused():
    demand = support.broadcast([0, 1, 2])
    with pytest.raises(CheckFailed, match="before it holds it"):
        lower(by_hand(support.fully_connected(3), demand, [(0, 1, 2, 0), (0, 0, 1, 0)]))


def test_exchange_of_partial_sums(tmp_path):
    """Recursive doubling: both send what they are about to overwrite."""
    demand = support.demand_of(
        [(support.MiB, [0, 1, 2, 3], [0, 1, 2, 3], Reduction.SUM) for _ in range(4)], None, [0, 1, 2, 3]
    )
    rows = [(c, a, a ^ d, s) for s, d in ((0, 1), (4, 2)) for a in range(4) for c in range(4)]
    spread = [(c, a, b, s + c) for c, a, b, s in rows]
    module = by_hand(support.hypercube(2), demand, spread, reduce=True)
    standard = support.all_reduce([0, 1, 2, 3]).runs[0].standard
    run = module.demand.runs[0]
    object.__setattr__(run, "standard", standard)
    assert_right(lower(module), tmp_path)


def custom() -> Module:
    """NPU 0 has two chunks; 1 wants the first, 2 both."""
    rows = [(1000, [0], [1, 2], Reduction.COPY), (1000, [0], [2], Reduction.COPY)]
    demand = support.demand_of(rows, None, [0, 1, 2])
    return by_hand(support.fully_connected(3), demand, [(0, 0, 1, 0), (1, 0, 2, 0), (0, 1, 2, 1)])


def test_custom_collectives_need_the_old_profile(tmp_path):
    with pytest.raises(SourceError, match="is not a collective of the MSCCL executor") as caught:
        lower(custom())
    assert 'profile: "old"' in caught.value.diagnostics[0].hint
    program = lower(custom(), MscclOptions(profile=Profile.OLD))
    assert program.collective.coll == "custom"
    assert program.placement is Placement.OUT
    assert "failed" not in judged(program, tmp_path).checks.values()


def mixed(*sizes: int) -> Module:
    """Chunks of several sizes that NPU 0 sends to 1, one after another."""
    demand = support.demand_of([(size, [0], [1], Reduction.COPY) for size in sizes], None, [0, 1])
    return by_hand(support.ring(2), demand, [(k, 0, 1, k) for k in range(len(sizes))])


def test_unequal_chunks_are_cut_to_a_common_slot(tmp_path):
    module = mixed(1000, 2000, 500)
    program = lower(module, MscclOptions(profile=Profile.OLD))
    assert program.chunk_bytes == 500
    assert [gpu.input_chunks for gpu in program.gpus] == [7, 7]
    assert "chunks of several sizes are cut into slots of 500B" in program.notes
    path = tmp_path / "f.xml"
    path.write_bytes(xml_of(program))
    expected = expected_of(module.network, module.demand)
    assert set(check_file(path, profile="old", expected=expected).checks.values()) == {"ok"}
    shorter = expected_of(module.network, mixed(2000, 1000, 500).demand)
    assert check_file(path, profile="old", expected=shorter).checks["result"] == "ok"  # the same slots
    longer = expected_of(module.network, mixed(1000, 2500, 500).demand)
    assert check_file(path, profile="old", expected=longer).checks["contract"] == "failed"
    swapped = ExpectedResult({**expected.outputs, (1, 3): expected.outputs[1, 4], (1, 4): expected.outputs[1, 3]})
    assert check_file(path, profile="old", expected=swapped).checks["result"] == "failed"


@pytest.mark.parametrize("sizes", [(1_000_000, 640_000), (1_000_000, 10_000)])
def test_slots_of_unequal_chunks_move_together(sizes, tmp_path):
    """Fused steps of an exchange on a ring could deadlock if a message has one slot; unfused they stay large."""
    copies = [(size, [npu], [0, 1, 2, 3], Reduction.COPY) for npu in range(4) for size in sizes]
    module = scheduled(support.ring(4), support.demand_of(copies, None, list(range(4))))
    program = lower(module, MscclOptions(profile=Profile.OLD))
    measured = quality(program, module)
    assert measured.replay <= TOLERATED_SLOWDOWN * measured.schedule
    path = tmp_path / "f.xml"
    path.write_bytes(xml_of(program))
    verdict = check_file(path, profile="old", expected=expected_of(module.network, module.demand))
    assert set(verdict.checks.values()) == {"ok"}


def test_many_slots_in_common_take_longer_and_the_report_says_why():
    """1001 slots are 15 steps of at most 71."""
    module = mixed(1_000_000, 1_000)
    program = lower(module, MscclOptions(profile=Profile.OLD))
    assert sum(message.count for message in program.messages) == 1001
    measured = quality(program, module)
    assert measured.replay == measured.busiest_link
    slow = replace(measured, schedule=measured.replay * 10 // 11)
    assert "a step moves at most 71 slots, here of 1kB, and each message pays the latency" in slowdown_note(
        program, slow
    )


@pytest.mark.parametrize(("size", "fits"), [(32767, True), (32768, False)])
def test_slots_are_at_most_as_many_as_a_file_can_address(size, fits):
    demand = support.demand_of([(size, [0], [1], Reduction.COPY), (1, [0], [1], Reduction.COPY)], None, [0, 1])
    if fits:
        assert len(cut_to_slots(demand).chunks) == 32768
        return
    with pytest.raises(SourceError, match=r"slots of 1 byte in common: a buffer has 32769") as caught:
        precheck(support.ring(2), demand, MscclOptions(profile=Profile.OLD))
    assert caught.value.diagnostics[0].code == "M0104"


def test_a_part_of_the_npus_is_no_communicator():
    demand = support.all_gather([0, 1])
    rows = [(0, 0, 1, 0), (1, 1, 0, 0)]
    with pytest.raises(ValueError, match="not the communicator of one run"):
        lower(by_hand(support.ring(3), demand, rows))


def test_root_is_in_the_name_and_in_the_report():
    module = scheduled(support.ring(4), support.broadcast([0, 1, 2, 3], root=2))
    program = lower(module)
    assert b'name="ring4_root_2"' in xml_of(program)
    assert program.notes == ("for root 2 alone: the runtime uses the file for any root",)


def test_stages_can_be_watched():
    seen = []
    lower(ring_all_reduce(4), observe=lambda stage, program: seen.append((stage, str(program))))
    assert [stage for stage, _ in seen] == ["select", "merge", "assign", "allocate", "repeat", "depend"]
    assert "rrc i[" in seen[0][1]
    assert "tb 0 send=1 recv=3 chan=0" in seen[-1][1]


def test_same_module_same_bytes():
    def text() -> bytes:
        return xml_of(lower(scheduled(support.grid(3, 3), support.all_to_all(list(range(9)), chunks=2))))

    assert text() == text()


def test_more_instances_than_channels():
    with pytest.raises(CollcError, match="4 instances need as many channels"):
        lower(ring_all_reduce(4), MscclOptions(instances=4, channels=2))


def test_where_nothing_else_helps_the_largest_size_is_lowered(tmp_path, monkeypatch):
    """Only one way to run the stages is left: 8 chunks at once, safe while 4 of them fit in a message."""
    monkeypatch.setattr(lowering, "ATTEMPTS", lowering.ATTEMPTS[:1])
    program = lower(direct_all_to_all(2, 8))
    assert program.sizes == (0, (2 << 20) // 4 * 16)
    assert any("8388608 bytes only" in note for note in program.notes)
    assert_right(program, tmp_path)
    with pytest.raises(CheckFailed, match="could deadlock"):
        lower(direct_all_to_all(2, 8), MscclOptions(sizes=(1 << 30, 1 << 30)))


def slowdown_of(module: Module, options: MscclOptions | None = None) -> str:
    program = lower(module, options)
    return slowdown_note(program, quality(program, module))


def test_a_program_that_takes_longer_says_why():
    """Each cause that is named is a bound that no program with these messages goes below."""
    module = ring_all_reduce(8)
    lean = lower(module)
    measured = quality(lean, module)
    assert slowdown_note(lean, measured) == ""
    assert slowdown_note(lean, replace(measured, replay=110, schedule=100)) == ""
    begin = "MSCCL: the program takes 11 % longer than its schedule: "
    slower = replace(measured, replay=111, schedule=100, busiest_link=100, fullest_pair=100)
    assert slowdown_note(lean, slower).startswith(begin + "its threadblocks wait for one another")
    late = slowdown_of(module, MscclOptions(instances=8))
    assert "its busiest link is occupied for 329.437584us, since each of the 8 instances pays the latency" in late
    assert 14 * 8 * (-(-(STEP - 500_000) // 8) + 500_000) == 329_437_584


def test_tiny_messages_need_more_in_flight_than_connections_hold():
    """200 messages of 1 ns on a link of 10 us: all 32 channels hold 64 of them at a time."""
    kind = support.LinkKind(10_000_000, Fraction(10**9))
    network = support.network(2, [(0, 1, kind), (1, 0, kind)])
    demand = support.all_to_all([0, 1], chunk=1, chunks=200)
    rows = [(1, a, b, c) for c in range(200) for a, b in ((0, 1), (1, 0))]
    chunk = np.array([(a * 2 + b) * 200 + c for _, a, b, c in rows], np.int32)
    link = np.array([a for _, a, _, _ in rows], np.int32)
    start = np.array([c * 1_000 for *_, c in rows], np.int64)
    module = Module("tiny", network, demand, LinkModel.PIPELINED)
    module = module.with_schedule(RowSchedule(LinkModel.PIPELINED, Transfers.of(chunk, link, start)), "by hand")
    small = MscclOptions(sizes=(0, 1 << 20))
    assert slowdown_of(module, small) == ""  # 71 chunks are one message, whichever way they go
    assert len(lower(module, small).messages) == 6
    in_place = lower(module)  # two chunks in a step at most, or each waits for the other to have sent
    assert in_place.channels == 32
    assert len(in_place.messages) == 200
    assert fullest_pair(in_place, network, LinkModel.PIPELINED) == 100 * 10_002_000 // 64
    assert "even on all channels those of two GPUs take 15.628125us" in slowdown_of(module)


def test_too_many_threadblocks_for_an_h100_are_remarked(monkeypatch):
    assert not any("multiprocessors" in note for note in lower(direct_all_to_all(4)).notes)
    monkeypatch.setattr(limits, "MULTIPROCESSORS", 2)
    assert any("3 threadblocks must run on a GPU at once" in note for note in lower(direct_all_to_all(4)).notes)
