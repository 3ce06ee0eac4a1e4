"""Rarest-first spreading (swarm): steps against known and proved optima; every result is verified."""

from __future__ import annotations

import random
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import NoSchedule, SourceError
from collc.passes.synthesizers import auto
from collc.synthesis.bounds import lower_bound
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.swarm import swarm, switch_paths
from collc.synthesis.task import Effort, Task, WorkMeter
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from collc.verification import verify_schedule
from tests.support import (
    DEFAULT,
    MiB,
    all_to_all,
    broadcast,
    demand_of,
    dgx1,
    dragonfly,
    fully_connected,
    grid,
    hypercube,
    network,
    reduce,
    ring,
    switched,
)
from tests.synthesis.random_problems import least_time, random_module

STEP = 500_000 + -(-MiB * 10**12 // (50 * 2**30))


def by_swarm(module: Module, effort: Effort | None = None) -> int:
    """Picoseconds of a schedule that passed all checks and does not beat the bound."""
    result = join(solve(module, lambda task: swarm(task, effort or Effort())))
    verdict = verify_schedule(result)
    assert "failed" not in verdict.checks.values(), verdict.diagnostics
    assert result.schedule is not None
    time = result.schedule.collective_time(result.network, result.demand)
    assert time >= lower_bound(result.network, result.demand, result.model).time
    return time


def group(net: Network) -> list[int]:
    return net.npus.tolist()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("backward", [False, True], ids=["broadcast", "reduce"])
@pytest.mark.parametrize(
    ("net", "chunks", "steps"),
    [
        (fully_connected(8), 1, 1),
        (fully_connected(8), 7, 2),
        (fully_connected(8), 14, 3),
        (fully_connected(8), 64, 10),
        (ring(8), 2, 4),
        (ring(8), 16, 11),
        (ring(8, one_way=True), 8, 14),
        (hypercube(5), 5, 5),
        (hypercube(5), 16, 8),
        (hypercube(5), 50, 14),
        (grid(4, 4, wrap=True), 16, 7),
        (grid(4, 3, 2, wrap=True), 16, 7),
        (grid(4, 4, 4, wrap=True), 60, 15),
        (grid(4, 4), 4, 7),
        (grid(4, 4), 16, 13),
    ],
    ids=lambda value: value.name if isinstance(value, Network) else None,
)
def test_steps_that_meet_the_bound(net: Network, chunks: int, steps: int, backward: bool):
    demand = (reduce if backward else broadcast)(group(net), chunks=chunks)
    module = Module("m", net, demand)
    assert by_swarm(module) == steps * STEP
    assert lower_bound(net, demand, LinkModel.STORE).time == steps * STEP


@pytest.mark.parametrize("chunks", [1, 6, 24])
def test_dgx1_meets_the_bound(chunks: int):
    demand = broadcast(list(range(8)), chunks=chunks)
    assert by_swarm(Module("m", dgx1(), demand)) == lower_bound(dgx1(), demand, LinkModel.STORE).time


@pytest.mark.parametrize("chunks", [1, 8, 32])
@pytest.mark.parametrize("model", LinkModel)
def test_slow_links_carry_chunks_that_fast_links_do_not(chunks: int, model: LinkModel):
    net = dragonfly(5, 4, LinkKind(500_000, Fraction(400 * 2**30)), LinkKind(500_000, Fraction(200 * 2**30)))
    demand = broadcast(list(range(20)), chunks=chunks)
    assert 100 * by_swarm(Module("m", net, demand, model)) <= 105 * lower_bound(net, demand, model).time


@pytest.mark.parametrize("count", [2, 3, 5, 8, 72, 513])
def test_one_switch_has_as_many_holders_as_can_be_after_each_step(count: int):
    """If the switch forwards a chunk as all holders do, 1, 2, 4, ... NPUs have it after two steps and more. If it
    passes each arrival on once, an NPU forwards it two hops later: 1, 2, 3, 5, 8, ... (the postal model).
    """
    holders, doubling, postal = [1, 1], 1, 1
    while 2 ** (doubling - 1) < count:
        doubling += 1
    while holders[postal] < count:
        holders.append(holders[-1] + holders[-2])
        postal += 1
    assert by_swarm(Module("m", switched(count), broadcast(list(range(count))))) == doubling * STEP
    assert by_swarm(Module("m", switched(count), reduce(list(range(count))))) == postal * STEP


@pytest.mark.parametrize(("chunks", "most"), [(8, 14), (32, 40)])
def test_one_switch_is_kept_busy(chunks: int, most: int):
    """Each of the other NPUs gets all chunks over its only link, after a start of about log2(8) hops of two."""
    eight = list(range(8))
    assert by_swarm(Module("m", switched(8), broadcast(eight, chunks=chunks))) <= (most - 1) * STEP
    assert by_swarm(Module("m", switched(8), reduce(eight, chunks=chunks))) <= (most + 1) * STEP


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("net", "chunks"),
    [
        (fully_connected(8), 64),
        (hypercube(5), 16),
        (grid(4, 4), 16),
        (dgx1(), 24),
        (ring(8), 16),
        (switched(8), 8),
        (switched(8, buffer=2), 8),
    ],
    ids=lambda value: value.name if isinstance(value, Network) else None,
)
def test_pipelined_is_no_longer_than_stored(net: Network, chunks: int):
    """A store-and-forward schedule is also a pipelined one; on direct links the latter is shorter, within a latency."""
    for maker in (broadcast, reduce):
        demand = maker(group(net), chunks=chunks)
        modules = [Module("m", net, demand, model) for model in LinkModel]
        stored, pipelined = (by_swarm(module) for module in modules)
        assert pipelined <= stored
        if not net.switch_count:
            assert pipelined <= lower_bound(net, demand, LinkModel.PIPELINED).time + 1_000_000 * len(net.kinds) * 2


def nodes(count: int) -> Network:
    """Nodes of eight on a fast switch each, and a slow switch for the NPUs of one rank in all nodes."""
    fast, slow = LinkKind(350_000, Fraction(450 * 10**9)), LinkKind(850_000, Fraction(50 * 10**9))
    links: list[tuple[int, int] | tuple[int, int, LinkKind]] = []
    for npu in range(8 * count):
        for switch, kind in ((8 * count + npu // 8, fast), (9 * count + npu % 8, slow)):
            links += [(npu, switch, kind), (switch, npu, kind)]
    return network(8 * count, links, switches=count + 8, shape=(count, 8))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("backward", [False, True], ids=["broadcast", "reduce"])
@pytest.mark.parametrize(("count", "chunks", "ratio"), [(2, 8, 1.2), (2, 24, 1.25), (3, 16, 1.75)])
def test_nodes_share_out_their_slow_links(count: int, chunks: int, ratio: float, backward: bool):
    """The root alone would take chunks / (450 + 50 GB/s): 2.2 times the bound with two nodes, 3.3 with more chunks."""
    net = nodes(count)
    demand = (reduce if backward else broadcast)(group(net), 4 * MiB, chunks)
    bound = lower_bound(net, demand, LinkModel.STORE).time
    assert by_swarm(Module("m", net, demand)) <= ratio * bound


def test_never_shorter_than_the_optimum_and_mostly_as_short():
    """Against all schedules of small broadcasts on random direct networks."""
    met = tried = 0
    for seed in range(18):
        chance = random.Random(seed)
        ends = [(a, b) for a in range(4) for b in range(4) if a != b and chance.random() < 0.7]
        net = network(4, ends)
        demand = broadcast([0, 1, 2, 3], chunks=chance.randrange(1, 4))
        try:
            steps = by_swarm(Module("m", net, demand)) // STEP
        except SourceError:
            continue
        chunks = len(demand.chunks)
        least = least_time(4, [(a, b, 1, 1) for a, b in ends], [[0]] * chunks, [[0, 1, 2, 3]] * chunks)
        assert least is not None
        assert steps >= least
        tried += 1
        met += steps == least
    assert tried >= 9
    assert met >= tried - 1


def test_relays_outside_the_group():
    net = network(5, [(0, 1), (1, 2), (2, 3), (0, 4), (4, 3)])
    demand = demand_of([(MiB, [0], [3], Op.COPY), (MiB, [0], [2, 3], Op.COPY)])
    result = join(solve(Module("m", net, demand), lambda task: swarm(task, Effort())))
    assert "failed" not in verify_schedule(result).checks.values()


@pytest.mark.parametrize(
    ("net", "steps"), [(grid(4, 4, wrap=True), 7), (hypercube(5), 7), (grid(4, 4, 4, wrap=True), 8)]
)
def test_npus_outside_a_multicast_help(net: Network, steps: int):
    """Half of the NPUs want 16 chunks; the others forward chunks, and receive none that they do not forward."""
    n = net.npu_count
    wanting = list(range(n // 4, n // 4 * 3 + 1))
    demand = demand_of([(MiB, [0], wanting, Op.COPY)] * 16)
    module = Module("m", net, demand)
    assert by_swarm(module) == steps * STEP == lower_bound(net, demand, LinkModel.STORE).time
    result = join(solve(module, lambda task: swarm(task, Effort())))
    assert result.schedule is not None
    rows = result.schedule.transfers
    sent = set(zip(rows.chunk.tolist(), net.source[rows.link].tolist(), strict=True))
    brought = set(zip(rows.chunk.tolist(), net.target[rows.link].tolist(), strict=True))
    assert all(npu in wanting or (chunk, npu) in sent for chunk, npu in brought)


def test_reserved_links_and_release_times_are_respected():
    net, demand = ring(4), broadcast([0, 1, 2, 3], chunks=2)
    first = swarm(Task(net, demand, LinkModel.STORE, np.array([0], np.int32)), Effort())
    release = np.array([0, 3 * STEP], np.int64)
    task = Task(net, demand, LinkModel.STORE, np.array([1], np.int32), release, first.transfers)
    second = swarm(task, Effort())
    assert int(second.transfers.start.min()) == 3 * STEP
    taken = set(zip(first.transfers.link.tolist(), first.transfers.start.tolist(), strict=True))
    early = swarm(Task(net, demand, LinkModel.STORE, np.array([1], np.int32), None, first.transfers), Effort())
    starts = early.transfers.start.tolist()
    assert all(start % STEP == 0 for start in starts)
    assert not taken & set(zip(early.transfers.link.tolist(), starts, strict=True))


def test_slots_of_a_switch_are_not_exceeded():
    for buffer in (1, 2):
        by_swarm(Module("m", switched(6, buffer=buffer), broadcast(list(range(6)), chunks=4)))
        by_swarm(Module("m", switched(6, buffer=buffer), reduce(list(range(6)), chunks=4)))


def test_same_seed_same_schedule():
    module = Module("m", nodes(2), broadcast(list(range(16)), chunks=9))
    task = Task(module.network, module.demand, module.model, np.arange(9, dtype=np.int32))
    one, four = (swarm(task, Effort(seed=5, threads=threads)).transfers for threads in (1, 4))
    assert all((getattr(one, k) == getattr(four, k)).all() for k in ("chunk", "link", "start"))


def test_impossible_problems_are_refused():
    with pytest.raises(SourceError, match="no path of links leads to npu"):
        by_swarm(Module("m", network(3, [(0, 1)]), broadcast([0, 1, 2])))
    with pytest.raises(NoSchedule, match="stopped"):
        by_swarm(Module("m", ring(4), broadcast([0, 1, 2, 3])), Effort(stop=lambda: True))


def test_auto_meets_the_bound_if_few_npus_hold_what_many_receive():
    for demand in (broadcast(list(range(8)), chunks=14), reduce(list(range(8)), chunks=14)):
        result = auto(Module("m", fully_connected(8), demand), Effort())
        assert any("meets the bound" in note for note in result.notes)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6))
def test_random_worlds(seed: int):
    """Direct links, switches of all kinds, both models, reductions and copies: valid, never better than the bound."""
    with suppress(SourceError, NoSchedule):  # no path leads there, or the rules of switches allow none
        by_swarm(random_module(random.Random(seed)), Effort(seed=seed))


def test_unlike_sizes_and_parallel_links():
    net = network(3, [(0, 1), (0, 1), (1, 2), (0, 2, DEFAULT)])
    rows = [(size, [0], [1, 2], Op.COPY) for size in (MiB, 3 * MiB, 5, 2 * MiB)]
    by_swarm(Module("m", net, demand_of(rows)))


def test_pairs_are_counted_on_networks_of_any_size() -> None:
    """Numbers of pairs of devices exceed 32 bits with more than 46,340 of these."""
    for count, are_too_many in ((447, False), (448, True), (47_000, True)):
        assert switch_paths.has_many_paths(switched(count)) == are_too_many


def test_paths_through_thousands_of_switches() -> None:
    last_hops = {device: [(device - 1, device - 1)] for device in range(1, 3001)}
    assert switch_paths._paths_between(last_hops, 0, 3000) == [tuple(range(3000))]


def test_an_attempt_that_takes_more_work_than_allowed_is_given_up() -> None:
    module = Module("m", fully_connected(6), all_to_all(list(range(6)), chunks=4))
    meter = WorkMeter(most=1_000)
    with pytest.raises(NoSchedule, match="stopped before it had a schedule"):
        solve(module, lambda task: swarm(task, Effort().with_work(meter)))
    assert meter.spent < 2_000
    whole = WorkMeter(1)
    solve(module, lambda task: swarm(task, Effort(work=whole)))
    assert whole.spent > 2_000


def test_tables_of_more_work_than_is_left_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """3 bytes for each of 4,032 chunks and 65 devices take 786 units."""
    monkeypatch.setattr("collc.synthesis.swarm.synthesizer.swarm_problem", None)
    module = Module("m", switched(64), all_to_all(list(range(64))))
    with pytest.raises(NoSchedule, match="stopped before it had a schedule"):
        solve(module, lambda task: swarm(task, Effort().with_work(WorkMeter(most=700))))
