"""Earliest-arrival search: proved optima, switches, release times, reserved links, plain and compiled."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import NoSchedule, SourceError
from collc.synthesis.bounds import lower_bound
from collc.synthesis.conditions import conditions_of
from collc.synthesis.pccl import pccl
from collc.synthesis.pccl import synthesizer as module
from collc.synthesis.task import Effort, Task, WorkMeter
from collc.ten.demand import Demand, Op
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel, Schedule, Transfers
from tests.kernel_choice import choose_kernels
from tests.support import (
    DEFAULT,
    MiB,
    all_gather,
    all_to_all,
    broadcast,
    demand_of,
    dgx1,
    fully_connected,
    grid,
    network,
    ring,
    switched,
)
from tests.synthesis.replay_checker import problems

STEP = 20_031_250


def plan(
    net: Network, demand: Demand, effort: Effort | None = None, model: LinkModel = LinkModel.STORE, **more
) -> Schedule:
    task = Task(net, demand, model, np.arange(len(demand.chunks), dtype=np.int32), **more)
    schedule = pccl(task, effort or Effort())
    assert problems(net, demand, schedule.transfers, model, inverted=task.inverted) == []
    return schedule


def steps(net: Network, demand: Demand, **more) -> float:
    return plan(net, demand, **more).collective_time(net, demand) / STEP


@pytest.mark.parametrize(
    ("net", "count"), [(grid(2, 2), 2), (grid(2, 3), 4), (fully_connected(5), 1)], ids=["2x2", "2x3", "full"]
)
def test_all_to_all_optima(net: Network, count: int):
    assert steps(net, all_to_all(list(range(net.npu_count)))) == count


def test_all_to_all_dgx1():
    net = dgx1()
    one = 700_000 + -(-MiB * 10**12 // (25 * 10**9))
    assert plan(net, all_to_all(list(range(8)))).collective_time(net, all_to_all(list(range(8)))) == 3 * one


def test_all_to_all_mesh_8x8():
    assert steps(grid(8, 8), all_to_all(list(range(64)))) <= 130


def test_all_to_all_mesh_8x8_meets_the_bound():
    assert steps(grid(8, 8), all_to_all(list(range(64))), effort=Effort(seed=1, trials=16)) == 128


@pytest.mark.slow
def test_many_hops_over_pipelined_links():
    """Planned in steps and retimed, 1.4 times the bound."""
    net, demand = grid(14, 14), all_to_all(list(range(196)), 50_000)
    time = plan(net, demand, model=LinkModel.PIPELINED).collective_time(net, demand)
    assert time <= 1.1 * lower_bound(net, demand, LinkModel.PIPELINED).time


def test_groups_on_a_mesh():
    sizes = [[0, 2, 2], [1, 0, 1], [1, 1, 0]]
    rows = [(MiB, [i], [j], Op.COPY) for i in range(3) for j in range(3) for _ in range(sizes[i][j])]
    rows += [(MiB, [6 + i], [6, 7, 8], Op.COPY) for i in range(3) for _ in range(2)]
    assert steps(grid(3, 3), demand_of(rows)) == 3


def test_broadcast_reaches_all_at_the_depth():
    assert steps(grid(4, 4), broadcast(list(range(16)))) == 6


@pytest.mark.parametrize("multicast", [False, True])
@pytest.mark.parametrize("buffer", [-1, 1, 2, 5])
@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("model", list(LinkModel))
def test_switches_keep_to_their_rules(multicast: bool, buffer: int, inverted: bool, model: LinkModel):
    net = switched(5, buffer=buffer, multicast=multicast)
    plan(net, all_gather(list(range(5))), model=model, inverted=inverted)
    plan(net, all_to_all(list(range(5))), model=model, inverted=inverted)


def test_multicast_pays():
    group = list(range(8))
    assert steps(switched(8, multicast=True), all_gather(group)) == 8
    assert steps(switched(8), all_to_all(group)) == 8


def test_one_slot_lets_one_chunk_pass_at_a_time():
    assert steps(switched(4, buffer=1), all_to_all(list(range(4)))) == 13


def test_inverted_arrivals_leave_a_switch_once():
    net = switched(4)
    rows = plan(net, all_gather(list(range(4))), inverted=True).transfers
    into = net.target[rows.link] == 4
    assert into.sum() == (~into).sum() == 12


def test_release_and_reserved():
    net = network(2, [(0, 1)])
    demand = demand_of([(MiB, [0], [1], Op.COPY)] * 2)
    taken = Transfers.of(np.array([1], np.int32), np.array([0], np.int32), np.array([STEP], np.int64))
    task = Task(net, demand, LinkModel.STORE, np.array([0], np.int32), np.array([7, 0]), taken)
    assert pccl(task, Effort()).transfers.start.tolist() == [2 * STEP]
    early = Task(net, demand, LinkModel.STORE, np.array([0], np.int32), None, taken)
    assert pccl(early, Effort()).transfers.start.tolist() == [0]


def test_sizes_may_differ():
    net = network(3, [(0, 1), (1, 2), (0, 2, LinkKind(500_000, DEFAULT.bandwidth / 10))])
    demand = demand_of([(MiB, [0], [2], Op.COPY), (5 * MiB, [0], [2], Op.COPY), (1, [0], [1, 2], Op.COPY)])
    plan(net, demand)
    plan(net, demand, model=LinkModel.PIPELINED)


def test_unreachable_is_named():
    with pytest.raises(
        SourceError, match=r"no path leads from npu\[1\] to npu\[0\], which must receive chunk 0:x\[0\]"
    ):
        plan(network(2, [(0, 1)]), demand_of([(MiB, [1], [0], Op.COPY)]))


def test_stopped_before_anything():
    with pytest.raises(NoSchedule):
        plan(ring(4), all_to_all([0, 1, 2, 3]), Effort(stop=lambda: True))


def test_distances_of_more_work_than_is_left_are_not_computed(monkeypatch: pytest.MonkeyPatch):
    """From 25 NPUs over 80 links, of which six count as one."""
    net, demand = grid(5, 5), broadcast(list(range(25)))
    task = Task(net, demand, LinkModel.STORE, np.arange(1, dtype=np.int32))
    targets = len(conditions_of(task).targets)
    monkeypatch.setattr(module, "_Portfolio", lambda *_: pytest.fail("distances are computed"))
    for most, outcome in ((targets * 80 // 6 - 1, NoSchedule), (targets * 80 // 6, pytest.fail.Exception)):
        with pytest.raises(outcome):
            pccl(task, Effort().with_work(WorkMeter(most=most)))


def test_nothing_to_do():
    assert len(plan(ring(4), demand_of([(MiB, [0], [0], Op.COPY)]))) == 0


def same(a: Schedule, b: Schedule) -> bool:
    return all(np.array_equal(getattr(a.transfers, c), getattr(b.transfers, c)) for c in ("chunk", "link", "start"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("kind", ["uniform", "mixed"])
def test_compiled_code_finds_the_same(monkeypatch: pytest.MonkeyPatch, seed: int, kind: str):
    net = grid(3, 4) if kind == "uniform" else network(6, mixed_links(), switches=1)
    group = list(range(net.npu_count))
    triples = demand_of([(MiB, [i], [(i + k) % len(group) for k in (1, 2, 4)], Op.COPY) for i in group])
    for demand in [all_to_all(group)] + ([triples] if kind == "uniform" else []):
        choose_kernels(monkeypatch, False)
        effort, compiled_effort = Effort(seed), Effort(seed)
        plain = plan(net, demand, effort)
        choose_kernels(monkeypatch, True)
        assert same(plan(net, demand, compiled_effort), plain)
        assert compiled_effort.work.spent == effort.work.spent > 0
        assert same(plan(net, demand, Effort(seed, threads=3)), plain)


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_compiled_code_finds_the_same_steps_on_any_network(data: st.DataObject):
    n = data.draw(st.integers(2, 7))
    device = st.integers(0, n - 1)
    pairs = st.tuples(device, device).filter(lambda x: x[0] != x[1])
    links = [(i, (i + 1) % n) for i in range(n)] + data.draw(st.lists(pairs, max_size=8))
    sets = st.lists(device, min_size=1, max_size=n)
    row = st.tuples(st.just(MiB), sets, sets, st.just(Op.COPY))
    demand = demand_of([*data.draw(st.lists(row, min_size=1, max_size=9)), (MiB, [0], [n - 1], Op.COPY)])
    seed = data.draw(st.integers(0, 9))
    effort, compiled_effort = Effort(seed), Effort(seed)
    with pytest.MonkeyPatch.context() as patch:
        choose_kernels(patch, False)
        plain = plan(network(n, links), demand, effort)
        choose_kernels(patch, True)
        assert same(plan(network(n, links), demand, compiled_effort), plain)
        assert compiled_effort.work.spent == effort.work.spent


@pytest.mark.parametrize("size", [1024, MiB, 16 * MiB])
def test_pipelined_is_never_longer(size: int):
    net = grid(4, 5)
    demand = all_to_all(list(range(20)), chunk=size)
    stored = plan(net, demand).collective_time(net, demand)
    assert plan(net, demand, model=LinkModel.PIPELINED).collective_time(net, demand) < stored


@pytest.mark.parametrize("net", [grid(4, 4), switched(16, buffer=3), switched(16)], ids=["steps", "slots", "times"])
def test_batches_do_not_change_the_schedule(monkeypatch: pytest.MonkeyPatch, net: Network):
    demand = all_to_all(list(range(16)))
    whole = plan(net, demand, Effort(3))
    monkeypatch.setattr("collc.synthesis.pccl.planning_order.BATCH", 2 * net.link_count)
    assert same(plan(net, demand, Effort(3)), whole)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("net", [grid(4, 4), switched(6), switched(6, buffer=2)])
def test_stopped_in_time_keeps_the_best(threads: int, net: Network):
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 12

    demand = all_to_all(net.npus.tolist())
    plan(net, demand, Effort(trials=1000, threads=threads, stop=stop))
    assert asked < 1000


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("net", [grid(4, 4), switched(16, buffer=3)], ids=["steps", "times"])
def test_search_asks_to_stop_between_batches(monkeypatch: pytest.MonkeyPatch, compiled: bool, net: Network):
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > 3

    monkeypatch.setattr("collc.synthesis.pccl.planning_order.BATCH", 7 * net.link_count)
    choose_kernels(monkeypatch, compiled)
    with pytest.raises(NoSchedule):
        plan(net, all_to_all(list(range(16))), Effort(stop=stop))
    assert asked == 4


@pytest.mark.parametrize("threads", [1, 2])
def test_further_trials_go_on_from_the_best(threads: int):
    """An All-to-All within one row over all links of the mesh: 85 steps were the best known; one trial finds 86."""
    found = steps(grid(8, 8), all_to_all(list(range(8)), chunks=16), effort=Effort(trials=6, threads=threads))
    assert found <= 84


def mixed_links() -> list[tuple[int, int, LinkKind]]:
    slow, fast = LinkKind(1_000_000, DEFAULT.bandwidth / 7), LinkKind(300_000, DEFAULT.bandwidth)
    around = [(i, (i + 1) % 6, fast) for i in range(6)]
    return around + [(i, 6, slow) for i in range(6)] + [(6, i, slow) for i in range(6)]


@given(st.data())
@settings(max_examples=24, deadline=None)
def test_any_network(data: st.DataObject):
    n, switches = data.draw(st.integers(2, 5)), data.draw(st.integers(0, 2))
    kinds = st.builds(LinkKind, st.integers(1, 10**6), st.sampled_from([DEFAULT.bandwidth, DEFAULT.bandwidth / 3]))
    around = [(i, (i + 1) % n, DEFAULT) for i in range(n)]
    device = st.integers(0, n + switches - 1)
    extra = data.draw(st.lists(st.tuples(device, device, kinds).filter(lambda x: x[0] != x[1]), max_size=8))
    limits = data.draw(st.lists(st.sampled_from([-1, 1, 2]), min_size=switches, max_size=switches))
    net = network(n, around + extra, switches, limits, data.draw(st.booleans()))
    sets = st.lists(st.integers(0, n - 1), min_size=1, max_size=n)
    rows = data.draw(
        st.lists(st.tuples(st.sampled_from([1, MiB, 3 * MiB]), sets, sets, st.just(Op.COPY)), min_size=1, max_size=8)
    )
    model = data.draw(st.sampled_from(LinkModel))
    effort = Effort(data.draw(st.integers(0, 9)))
    inverted = data.draw(st.booleans())
    a = plan(net, demand_of(rows), effort, model, inverted=inverted)
    assert same(a, plan(net, demand_of(rows), effort, model, inverted=inverted))


@pytest.mark.parametrize(("count", "chunks", "compiled"), [(48, 16, True), (48, 1, False)])
def test_trees_to_many_targets_count_for_what_is_compiled(count: int, chunks: int, compiled: bool) -> None:
    """The farthest target of all is two hops away, but what takes time is that there are many."""
    net = switched(count)
    demand = all_gather(list(range(count)), chunks=chunks)
    task = Task(net, demand, LinkModel.STORE, np.arange(len(demand.chunks), dtype=np.int32))
    first = next(module._Portfolio(conditions_of(task), Effort()).fresh_attempts())
    assert first.compile_it == compiled
