"""Single stages: fusion, scratch by liveness, dependencies, channels, the replay and the measures."""

from dataclasses import replace

import pytest

from collc.msccl.limits import MOST_CHUNKS, LimitUse, exceeded_limits
from collc.msccl.lowering.assign import assign
from collc.msccl.lowering.dependencies import depend
from collc.msccl.lowering.execution import (
    chunks_per_message,
    deadlocking_message_sizes,
    largest_size,
    list_steps,
    replay_time,
    terminates,
)
from collc.msccl.lowering.flows import flows_of
from collc.msccl.lowering.fuse import fusable_pairs
from collc.msccl.lowering.lower import lower
from collc.msccl.lowering.quality import Quality, quality
from collc.msccl.lowering.scratch_slots import allocate_scratch
from collc.msccl.options import MscclOptions, Placement, Profile, Protocol
from collc.msccl.program import FUSED, Gpu, Op, Point, Program, Slot, Step, Threadblock
from collc.runtime.replay import longest_chain
from collc.ten.schedule import LinkModel
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
)


def stage(module, name: str, options: MscclOptions | None = None) -> Program:
    """The first program that a stage makes."""
    seen: dict[str, Program] = {}
    lower(module, options, observe=seen.setdefault)
    return seen[name]


def line(n: int, chunks: int = 1) -> Program:
    """A broadcast along a line, chunk after chunk."""
    network = support.grid(n)
    rows = [(c, k, k + 1, k + c) for c in range(chunks) for k in range(n - 1)]
    return stage(by_hand(network, support.broadcast(list(range(n)), chunks=chunks), rows), "select")


def test_relays_fuse_and_fusion_can_be_left_out():
    loose = line(4)
    flows = flows_of(loose, 1)
    fused = assign(loose, flows, 32, 32, fusable_pairs(loose))
    assert [s.op.value for s in fused.gpus[1].threadblocks[0].steps] == ["rcs"]
    single = assign(replace(loose, profile=Profile.RCCL), flows, 32, 32, fusable_pairs(loose))
    assert [s.op.value for s in single.gpus[1].threadblocks[0].steps] == ["r", "s"]
    apart = assign(loose, flows, 32, 32, None)
    assert [len(tb.steps) for tb in apart.gpus[1].threadblocks] == [1, 1]
    waits = depend(apart).gpus[1].threadblocks
    assert [s.waits for tb in waits for s in tb.steps if s.op is Op.SEND] == [(Point(0, 0),)]


def test_a_relay_that_others_wait_for_is_not_fused():
    """NPU 1 passes one chunk to 2 and to 3 at once: neither may wait until the other has left."""
    network = support.network(4, [(0, 1), (1, 2), (1, 3)])
    rows = [(0, 0, 1, 0), (0, 1, 2, 1), (0, 1, 3, 1)]
    module = by_hand(network, support.broadcast([0, 1, 2, 3]), rows)
    program = lower(module)
    assert not [s for s in steps_of(program) if s.op in FUSED]
    later = by_hand(network, support.broadcast([0, 1, 2, 3]), [*rows[:2], (0, 1, 3, 2)])
    assert [s.op.value for s in steps_of(lower(later)) if s.op in FUSED] == ["rcs"]


def test_scratch_is_shared_by_chunks_that_pass_at_different_times():
    module = scheduled(support.ring(8), support.all_to_all(list(range(8))))
    before, after = stage(module, "assign"), stage(module, "allocate")
    assert sum(g.scratch_chunks for g in after.gpus) < after.scratch_needed
    assert before.scratch_needed == after.scratch_needed
    assert allocate_scratch(after).gpus == after.gpus


def without(program: Program, gpu: int, point: Point) -> Program:
    """The program whose step waits for nothing."""
    old = program.gpus[gpu]
    tb = old.threadblocks[point.threadblock]
    steps = tuple(replace(step, waits=()) if k == point.step else step for k, step in enumerate(tb.steps))
    blocks = (*old.threadblocks[: point.threadblock], replace(tb, steps=steps))
    changed = replace(old, threadblocks=(*blocks, *old.threadblocks[point.threadblock + 1 :]))
    return replace(program, gpus=(*program.gpus[:gpu], changed, *program.gpus[gpu + 1 :]))


@pytest.mark.parametrize("seed", range(12))
def test_no_dependency_can_be_left_out(seed, tmp_path):
    """Without any one of them, the checker finds two accesses that nothing orders."""
    network, collective = random_network(seed), COLLECTIVES[seed % 4]
    program = lower(scheduled(network, collective(list(range(network.npu_count)), chunks=1 + seed % 2)))
    for gpu in program.gpus:
        waiting = [
            Point(t, k) for t, tb in enumerate(gpu.threadblocks) for k, step in enumerate(tb.steps) if step.waits
        ]
        for point in waiting[:4]:
            assert judged(without(program, gpu.rank, point), tmp_path).checks["race"] == "failed"


def answered(protocol: Protocol) -> Program:
    """NPU 0 sends a chunk from scratch, and the answer of its receiver overwrites it."""
    module = by_hand(support.ring(2), support.broadcast([0, 1]), [(0, 0, 1, 0)])
    program = replace(lower(module), protocol=protocol, placement=Placement.OUT)
    times = [(t, phase, t, 0) for t in range(4) for phase in (0, 1)]
    zero = (
        Threadblock(1, -1, 0, (Step(Op.SEND, times[1], 1, src=Slot("s", 0), send=0),)),
        Threadblock(-1, 1, 0, (Step(Op.RECEIVE, times[6], 1, dst=Slot("s", 0), receive=1),)),
    )
    one = (
        Threadblock(0, 0, 0, (
            Step(Op.RECEIVE, times[2], 1, dst=Slot("o", 0), receive=0),
            Step(Op.SEND, times[3], 1, src=Slot("o", 0), send=1),
        )),
    )  # fmt: skip
    message = program.messages[0]
    back = replace(message, source=1, target=0)
    return replace(program, messages=(message, back), gpus=(Gpu(0, 1, 1, 1, (), zero), Gpu(1, 0, 1, 0, (), one)))


def test_what_an_answer_implies_needs_no_dependency():
    waits = [step.waits for step in steps_of(depend(answered(Protocol.SIMPLE), by_messages=True))]
    assert not any(waits)
    for program in (depend(answered(Protocol.SIMPLE)), depend(answered(Protocol.LL), by_messages=True)):
        assert [step.waits for step in steps_of(program)].count((Point(0, 0),)) == 1


def test_the_first_chunk_of_an_answer_does_not_say_that_all_were_sent():
    """Both chunks go to and fro in one step each; the first may be back before the second has left."""
    program = answered(Protocol.SIMPLE)
    gpus = tuple(
        replace(g, scratch_chunks=2 * g.scratch_chunks, threadblocks=tuple(
            replace(tb, steps=tuple(replace(s, count=2) for s in tb.steps)) for tb in g.threadblocks
        ))
        for g in program.gpus
    )  # fmt: skip
    relay = Step(Op.RECEIVE_COPY_SEND, (1, 0, 1, 0), 2, dst=Slot("o", 0), receive=0, send=1)
    one = replace(gpus[1], threadblocks=(Threadblock(0, 0, 0, (relay,)),))
    waits = [step.waits for step in steps_of(depend(replace(program, gpus=(gpus[0], one)), by_messages=True))]
    assert waits.count((Point(0, 0),)) == 1


def test_threadblocks_send_over_one_link_in_turn():
    module = by_hand(support.ring(2), support.broadcast([0, 1], chunks=2), [(0, 0, 1, 0), (1, 0, 1, 1)])
    program = stage(module, "select")
    loose = assign(program, flows_of(program, 2), 32, 32, fusable_pairs(program))
    assert [len(tb.steps) for tb in loose.gpus[1].threadblocks] == [1, 1]
    assert not any(step.waits for step in steps_of(depend(loose)))
    waits = [(step.op, step.waits) for step in steps_of(depend(loose, in_turn=True)) if step.waits]
    assert waits == [(Op.SEND, (Point(0, 0),))]


@pytest.mark.parametrize("seed", range(8))
def test_programs_whose_threadblocks_send_in_turn_are_right(seed, tmp_path):
    network, collective = random_network(seed), COLLECTIVES[seed % 4]
    module = scheduled(network, collective(list(range(network.npu_count)), chunks=3))
    program = stage(module, "select")
    for fusable in (fusable_pairs(program), None):
        loose = assign(program, flows_of(program, 3), 32, 32, fusable)
        final = depend(loose, by_messages=True, in_turn=True)
        if not deadlocking_message_sizes(final):
            assert_right(final, tmp_path)


def test_what_is_copied_onto_itself_in_place_waits_for_nobody(tmp_path):
    program = lower(scheduled(support.fully_connected(4), support.all_gather([0, 1, 2, 3])))
    assert program.placement is Placement.BOTH
    assert not any(step.waits for step in steps_of(program))
    assert_right(program, tmp_path)


def test_every_limit_is_named_with_what_exceeds_it():
    program = lower(direct_all_to_all(3))
    assert exceeded_limits(program) == []
    gpu = program.gpus[0]
    tb = gpu.threadblocks[0]
    wide = [replace(tb, channel=0)] * 40
    cases = {
        "steps": replace(gpu, threadblocks=(replace(tb, steps=tb.steps * 40),)),
        "threadblocks": replace(gpu, threadblocks=(tb,) * 1025),
        "last chunk": replace(gpu, scratch_chunks=40_000),
        "one channel": replace(gpu, threadblocks=tuple(wide)),
        "wait for": replace(gpu, threadblocks=(replace(tb, steps=(replace(tb.steps[0], waits=(Point(128, 0),)),)),)),
        "elements": replace(gpu, threadblocks=(replace(tb, steps=tb.steps * 10),) * 300),
    }
    for words, broken in cases.items():
        found = exceeded_limits(replace(program, gpus=(broken, *program.gpus[1:])))
        assert any(words in excess.what for excess in found), words
    assert any(e.what == "channels" for e in exceeded_limits(replace(program, channels=33)))
    error = LimitUse("channels", 33, 32, "use fewer").error()
    assert "33 channels, 1 more than the 32" in error.diagnostics[0].message


def exchange(count: int, protocol: Protocol = Protocol.SIMPLE) -> Program:
    """Two GPUs; each sends `count` chunks and then receives as many."""
    program = lower(direct_all_to_all(2), MscclOptions(placement=Placement.OUT, protocol=protocol))
    gpus = []
    for gpu in program.gpus:
        (tb,) = gpu.threadblocks
        steps = [replace(s, count=count) for s in tb.steps if s.op is not Op.COPY]
        gpus.append(replace(gpu, threadblocks=(replace(tb, steps=tuple(steps)),)))
    return replace(program, gpus=tuple(gpus))


@pytest.mark.parametrize(("protocol", "capacity"), [(Protocol.SIMPLE, 2), (Protocol.LL, 8), (Protocol.LL128, 8)])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 9, 20])
def test_an_exchange_blocks_where_its_messages_exceed_the_connection(protocol, capacity, count):
    program = exchange(count, protocol)
    for per_message in (1, 2, 3, 4, 8):
        assert terminates(program, per_message) == (-(-count // per_message) <= capacity)


def test_the_largest_safe_size_is_exact():
    """8 chunks and 2 messages in flight: 4 chunks must fit in one message of 2 MiB."""
    program = exchange(8)
    assert deadlocking_message_sizes(program) == [1, 2, 3]
    assert largest_size(program, 4) == (2 << 20) // 4 * program.chunks_per_loop
    assert chunks_per_message(program, largest_size(program, 4)) == 4
    assert chunks_per_message(program, largest_size(program, 4) + program.chunks_per_loop) == 3
    assert deadlocking_message_sizes(replace(program, sizes=(0, largest_size(program, 4)))) == []


def test_threads_that_wait_for_each_other_never_end():
    step = Step(Op.COPY, (0, 0, 0, 0), 1, Slot("i", 0), Slot("o", 0), awaited=True)
    blocks = tuple(Threadblock(-1, -1, 0, (replace(step, waits=(Point(1 - k, 0),)),)) for k in range(2))
    program = replace(lower(direct_all_to_all(2)), gpus=(Gpu(0, 1, 1, 0, (), blocks),))
    assert not terminates(program, 1)
    with pytest.raises(ValueError, match="blocks forever"):
        replay_time(program, support.ring(2), LinkModel.STORE)


def test_replay_of_the_ring_takes_the_textbook_time():
    module = ring_all_reduce(8)
    program = lower(module)
    measured = quality(program, module)
    assert measured.replay == measured.schedule == 14 * STEP
    assert (measured.steps, measured.threadblocks, measured.channels) == (15, 1, 1)
    assert (measured.fused, measured.scratch, measured.chain) == (1000, 0, 15)


def test_replay_waits_for_links_that_flows_share():
    """Two instances have flows of their own but one link: half the chunk each, and the latency twice."""
    module = by_hand(support.ring(2), support.broadcast([0, 1]), [(0, 0, 1, 0)])
    half = (STEP - 500_000) // 2 + 500_000
    program = lower(module, MscclOptions(instances=2))
    assert replay_time(program, module.network, LinkModel.STORE) == 2 * half
    assert replay_time(program, module.network, LinkModel.PIPELINED) == STEP


def test_replay_knows_that_connections_are_full():
    """Three messages on a long link: the third waits for room, which the schedule did not."""
    kind = support.LinkKind(10 * STEP, support.DEFAULT.bandwidth)
    network = support.network(2, [(0, 1, kind), (1, 0, kind)])
    rows = [(c, 0, 1, c) for c in range(3)]
    module = by_hand(network, support.broadcast([0, 1], chunks=3), rows)
    program = stage(module, "select")
    program = depend(assign(program, flows_of(program, 1), 32, 32, fusable_pairs(program)))
    one = STEP - 500_000
    time = replay_time(program, network, LinkModel.PIPELINED)
    assert time == 2 * (10 * STEP + one)


def test_longest_chain_counts_across_gpus():
    loose = line(5)
    assert longest_chain(list_steps(depend(assign(loose, flows_of(loose, 1), 32, 32, fusable_pairs(loose)))).waits) == 5


@pytest.mark.sampled(9)
@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda c: c.__name__)
@pytest.mark.parametrize(
    "network",
    [support.ring(8), support.grid(3, 3), support.grid(4, 4, wrap=True), support.dgx1(), support.hypercube(3)],
    ids=lambda n: n.name,
)
@pytest.mark.parametrize("chunks", [1, 4])
def test_the_program_is_as_fast_as_its_schedule(collective, network, chunks):
    module = scheduled(network, collective(list(range(network.npu_count)), chunks=chunks))
    measured = quality(lower(module), module)
    assert measured.replay * 100 <= measured.schedule * 105


@pytest.mark.sampled(3)
@pytest.mark.parametrize("collective", COLLECTIVES[:4], ids=lambda c: c.__name__)
@pytest.mark.parametrize(
    "network",
    [support.ring(8), support.grid(3, 3, wrap=True), support.dgx1(), support.hypercube(3)],
    ids=lambda n: n.name,
)
@pytest.mark.parametrize("size", [1 << 10, 16 << 10])
def test_programs_of_tiny_messages_are_as_fast_as_their_schedules(collective, network, size):
    """If latencies overlap, far more must be in flight than the two messages of a connection."""
    demand = collective(list(range(network.npu_count)), chunk=size, chunks=2)
    module = scheduled(network, demand, LinkModel.PIPELINED)
    measured = quality(lower(module), module)
    assert measured.replay * 100 <= measured.schedule * 105


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_are_as_fast_as_their_schedules(seed):
    network = random_network(seed)
    collective = COLLECTIVES[seed % len(COLLECTIVES)]
    module = scheduled(network, collective(list(range(network.npu_count)), chunks=1 + seed % 3))
    measured = quality(lower(module), module)
    assert measured.replay * 100 <= measured.schedule * 105


def test_all_to_all_on_many_gpus_uses_channels_evenly(tmp_path):
    program = lower(direct_all_to_all(40))
    assert program.channels == 2
    assert {len(gpu.threadblocks) for gpu in program.gpus} == {39}
    assert_right(program, tmp_path)


@pytest.mark.slow
def test_many_threadblocks_on_a_gpu_are_noted():
    program = lower(direct_all_to_all(140))
    assert any("139 threadblocks" in note for note in program.notes)


def test_counts_stay_within_one_step(tmp_path):
    program = lower(direct_all_to_all(2, 100), MscclOptions(sizes=(0, 1 << 20), placement=Placement.OUT))
    assert max(step.count for step in steps_of(program)) == MOST_CHUNKS
    assert_right(program, tmp_path)


def test_the_old_profile_pads_buffers_of_rooted_collectives():
    module = scheduled(support.ring(4), support.broadcast([0, 1, 2, 3], chunks=2))
    assert {(g.input_chunks, g.output_chunks) for g in lower(module, MscclOptions(profile=Profile.OLD)).gpus} == {
        (2, 2)
    }
    assert {(g.input_chunks, g.output_chunks) for g in lower(module).gpus} == {(2, 2), (0, 2)}


def test_one_of_a_kind_is_reported_in_the_singular():
    one = Quality(1, 1, 1, 1, 0, 0, 1, 80_125_000, 80_125_000, 0, 0)
    assert str(one) == (
        "1 threadblock per GPU, 1 step each at most, 1 channel, 1 scratch chunk (0 saved), 0 % of relays fused, "
        "longest chain 1 step, simulated 80.125us (schedule: 80.125us), link model pipelined"
    )
