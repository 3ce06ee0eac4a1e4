"""All-Reduce by cores that exchange partials: step counts, and sums that count each contribution once."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import NoSchedule, SourceError
from collc.passes.synthesizers import auto
from collc.synthesis.auto.synthesizer import time_of
from collc.synthesis.bounds import lower_bound
from collc.synthesis.exchange import exchange
from collc.synthesis.exchange.cores import Core, CoreKind, core_kinds, odd_ring_exchange
from collc.synthesis.exchange.placement import choose_cores
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort, Task, WorkMeter
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Schedule, Transfers
from collc.verification.prove import prove_properties
from collc.verification.schedule_check import verify_schedule
from tests.support import (
    MiB,
    all_gather,
    all_reduce,
    demand_of,
    dgx1,
    fully_connected,
    grid,
    hypercube,
    network,
    reduce_scatter,
    ring,
    switched,
)
from tests.synthesis.cases import kind
from tests.synthesis.checker import check, retimed


def planned(net: Network, demand: Demand, model: LinkModel = LinkModel.STORE, effort: Effort | None = None) -> Schedule:
    """A schedule, which is right and no better than the bound."""
    effort = effort or Effort()
    built = exchange(Module("m", net, demand, model), effort, tacos)
    assert built.schedule is not None
    time = check(net, demand, built.schedule)
    assert verify_schedule(built).ok
    assert lower_bound(net, demand, model).time <= time
    return built.schedule


def steps_of(net: Network, demand: Demand) -> float:
    step = int(Clock.of(net, demand, LinkModel.STORE).total[0, 0])
    return planned(net, demand).collective_time(net, demand) / step


def line(n: int) -> Network:
    return network(n, [pair for i in range(n - 1) for pair in ((i, i + 1), (i + 1, i))], name=f"line{n}")


OPTIMA = [
    *((ring(n), steps) for n, steps in zip(range(3, 10), (2, 3, 4, 5, 6, 7, 8), strict=True)),
    *((line(n), 2 * (n - 1)) for n in range(3, 10)),
    *((fully_connected(n), 2) for n in range(3, 10)),
    *((ring(4, one_way=True), 6), (ring(8, one_way=True), 14)),
    *((grid(3, 2), 5), (grid(4, 2), 7), (grid(3, 3), 8)),
    *((grid(3, 3, wrap=True), 4), (grid(4, 2, wrap=True), 5), (hypercube(3), 5), (dgx1(), 4)),
]
"""Networks and the least steps of All-Reduce with one chunk for each NPU, found and proved by a SAT solver (CaDiCaL)
apart from collc. Trees take 4, 6 and 8 steps on the rings of 4, 6 and 8, and 6, 8, 6, 6 and 4 on the last networks but
those of 9 NPUs."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("net", "steps"), OPTIMA, ids=lambda value: value.name if isinstance(value, Network) else "")
def test_as_many_chunks_as_npus_take_the_fewest_steps(net: Network, steps: int) -> None:
    demand = all_reduce(net.npus.tolist())
    assert steps_of(net, demand) == steps
    step = int(Clock.of(net, demand, LinkModel.STORE).total[0, 0])
    least = 3 if net.name == "dgx1" else steps  # that 3 steps are too few for a DGX-1 takes a search
    assert lower_bound(net, demand, LinkModel.STORE).time == least * step


@pytest.mark.parametrize("npus", range(3, 40, 2))
def test_both_turns_of_an_odd_ring_give_the_sum_on_different_links(npus: int) -> None:
    order = random.Random(npus).sample(range(npus), npus)
    rounds = [list(odd_ring_exchange(order, turn)) for turn in (0, 1)]
    for of_turn in rounds:
        assert len(of_turn) == (npus + 1) // 2
        held = {npu: Counter([npu]) for npu in order}
        came: dict[tuple[int, int], Counter[int]] = {}
        for messages in of_turn:
            sent = [held[m.source] if m.came_from < 0 else came[m.came_from, m.source] for m in messages]
            for message, partial in zip(messages, sent, strict=True):
                came[message.source, message.target] = partial
                if not message.kept:
                    held[message.target] = held[message.target] + partial
        assert all(held[npu] == Counter(order) for npu in order)
    for one, other in zip(*rounds, strict=True):
        used = [(m.source, m.target) for m in (*one, *other)]
        assert len(used) == len(set(used)) <= 2 * npus
        near = dict(zip(order, [*order[1:], order[0]], strict=True))
        assert all(near[a] == b or near[b] == a for a, b in used)


@pytest.mark.parametrize(("npus", "time"), [(5, 2_811_000), (9, 3_850_000), (15, 5_743_000)])
def test_middle_sizes_on_odd_rings_take_fewer_rounds_than_trees(npus: int, time: int) -> None:
    """64 KiB; 3.05, 5.16 and 8.22 us if NPUs add all that arrives."""
    net = ring(npus, LinkKind(500_000, Fraction(50 * 10**9)))
    demand = all_reduce(net.npus.tolist(), 2**16 // npus)
    module = Module("m", net, demand, LinkModel.PIPELINED)
    built = exchange(module, Effort(), tacos)
    assert built.schedule is not None
    assert check(net, demand, built.schedule) <= time
    assert verify_schedule(built).ok


@pytest.mark.parametrize(("net", "steps"), [(grid(4, 2), 7), (grid(4, 2, wrap=True), 5), (hypercube(3), 5)])
def test_little_work_suffices_for_the_fewest_steps(net: Network, steps: int) -> None:
    """`auto` grants no more beside what Z3 may need: one placement on each kind of cores."""
    demand = all_reduce(net.npus.tolist())
    built = exchange(Module("m", net, demand), Effort(work=WorkMeter(40_000)), tacos)
    assert time_of(built) == steps * int(Clock.of(net, demand, LinkModel.STORE).total[0, 0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("net", "chunks", "steps"),
    [
        (fully_connected(4), 1, 1),
        (fully_connected(8), 1, 1),
        *((ring(n), 1, n // 2) for n in range(3, 10)),
        *((ring(n), 2, (n + 1) // 2) for n in range(3, 10)),
        *((line(n), 1, n - 1) for n in (4, 5, 8)),
        *((grid(3, 3, wrap=True), k, 2) for k in (1, 2)),
        *((grid(4, 2, wrap=True), k, 3) for k in (1, 2)),
        *((hypercube(3), k, 3) for k in (1, 2, 3)),
        *((dgx1(), k, 2) for k in (1, 2)),
        *((grid(3, 3), k, 4) for k in (1, 2)),
        (grid(3, 2), 1, 3),
        (grid(4, 2), 1, 4),
        (grid(4, 4), 1, 6),
        (ring(16), 2, 8),
        (grid(6, 4, wrap=True), 2, 5),
        (grid(4, 4, wrap=True), 4, 4),
    ],
)
def test_few_chunks_are_exchanged_by_larger_cores(net: Network, chunks: int, steps: int) -> None:
    npus = net.npus.tolist()
    demand = demand_of([(MiB, npus, npus, Op.SUM)] * chunks)
    assert steps_of(net, demand) == steps
    step = int(Clock.of(net, demand, LinkModel.STORE).total[0, 0])
    assert lower_bound(net, demand, LinkModel.STORE).time == steps * step


@pytest.mark.parametrize("net", [ring(4), grid(3, 2), fully_connected(4)])
def test_an_exchange_is_proved(net: Network) -> None:
    demand = all_reduce(net.npus.tolist())
    module = Module("m", net, demand).with_schedule(planned(net, demand), "exchange")
    assert prove_properties(module).answer == "proved"


def test_groups_have_cores_of_their_own() -> None:
    net = grid(4, 4)
    demand = Demand((*all_reduce([0, 1, 4, 5]).runs, *all_reduce([2, 3, 6], chunks=2).runs))
    planned(net, demand)
    planned(net, demand, LinkModel.PIPELINED)
    sparse = Demand(all_reduce([0, 5, 10, 15]).runs)
    planned(net, sparse)


def test_one_npu_without_links_has_its_sum_already() -> None:
    """What is left of two NPUs without the other one."""
    assert not len(planned(network(1, ()), all_reduce([0])))


def test_one_npu_has_its_sum_already() -> None:
    assert not len(planned(ring(4), all_reduce([2])))


@pytest.mark.parametrize("model", list(LinkModel))
def test_links_may_differ(model: LinkModel) -> None:
    fast, slow = kind(50, Fraction(1, 2)), kind(10, Fraction(2))
    links = [pair for a, b in ((0, 1), (2, 3)) for pair in ((a, b, fast), (b, a, fast))]
    links += [pair for a, b in ((0, 2), (1, 3)) for pair in ((a, b, slow), (b, a, slow))]
    net = network(4, links)
    planned(net, all_reduce([0, 1, 2, 3], chunks=2), model)


def test_what_is_sent_before_a_partial_arrives_is_still_sent_without_it() -> None:
    """NPUs 0 and 1 swap partials when that of 2 has reached 0. Shifted to the left, 1 must not send at once: 0 would
    have its partial when it sends, and 1 get its own back."""
    fast, slow = kind(50, Fraction(1, 2)), kind(1, Fraction(1))
    net = network(3, [(2, 0, slow), (0, 1, fast), (1, 0, fast)])
    demand = demand_of([(MiB, [0, 1, 2], [0, 1], Op.SUM)])
    begin = int(Clock.of(net, demand, LinkModel.STORE).total[0, 0])
    rows = Transfers.of(np.zeros(3, np.int32), np.arange(3, dtype=np.int32), np.array([0, begin, begin]), True)
    module = retimed(Module("m", net, demand, schedule=RowSchedule(LinkModel.STORE, rows)))
    assert verify_schedule(module).ok
    earlier = time_of(module)
    assert earlier == begin + int(Clock.of(net, demand, LinkModel.PIPELINED).total[1, 0])


def test_pipelined_sums_are_shifted_to_the_left() -> None:
    net = fully_connected(8)
    demand = all_reduce(net.npus.tolist(), 1024)
    time = planned(net, demand, LinkModel.PIPELINED).collective_time(net, demand)
    assert time == lower_bound(net, demand, LinkModel.PIPELINED).time  # one-shot; trees take 1.59 times as long


def test_the_same_seed_gives_the_same_schedule() -> None:
    demand = all_reduce(list(range(8)))
    first, second = (planned(hypercube(3), demand, effort=Effort(seed=5)).transfers for _ in range(2))
    for column in ("chunk", "link", "start", "reduce"):
        assert np.array_equal(getattr(first, column), getattr(second, column))


@pytest.mark.parametrize(
    ("net", "demand", "message"),
    [
        (switched(4), all_reduce([0, 1, 2, 3]), "has switches"),
        (ring(4), all_gather([0, 1, 2, 3]), "is only for demands in which all contributors receive the sum"),
        (ring(4), reduce_scatter([0, 1, 2, 3]), "is only for demands in which all contributors receive the sum"),
        (ring(4), Demand(()), "is only for demands in which all contributors receive the sum"),
    ],
)
def test_what_does_not_fit_is_refused(net: Network, demand: Demand, message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        planned(net, demand)
    assert caught.value.diagnostics[0].code == "S0310"


def test_what_is_planned_already_is_refused() -> None:
    net, demand = ring(4), all_reduce([0, 1, 2, 3])
    module = Module("m", net, demand, schedule=planned(net, demand))
    with pytest.raises(SourceError, match="some are planned already"):
        exchange(module, Effort(), tacos)


def test_stopped_at_once_there_is_no_schedule() -> None:
    with pytest.raises(NoSchedule):
        planned(ring(4), all_reduce([0, 1, 2, 3]), effort=Effort(stop=lambda: True))


@pytest.mark.parametrize(("npus", "relayed"), [(8, True), (16, False)])
def test_files_for_runtimes_have_few_partials_that_are_kept_apart(npus: int, relayed: bool) -> None:
    module = Module("m", ring(npus), all_reduce(list(range(npus)), 128), LinkModel.PIPELINED)
    for relays in (False, True):
        built = exchange(replace(module, relays=relays), Effort(), tacos)
        assert built.schedule is not None
        assert verify_schedule(built).ok
        assert (built.schedule.transfers.relayed is not None) == (relayed or not relays)


def test_the_kinds_of_cores() -> None:
    kinds = {found.name: len(found.cores) for found in core_kinds(grid(3, 3), np.arange(9, dtype=np.int32))}
    assert kinds == {"vertex": 9, "edge": 12, "line of 3 in 2": 6, "line of 9 in 4": 2}
    kinds = {found.name: len(found.cores) for found in core_kinds(dgx1(), np.arange(8, dtype=np.int32))}
    assert kinds == {
        "vertex": 8, "edge": 16, "clique of 4": 2, "line of 4 in 1": 2, "line of 8 in 2": 2,
    }  # fmt: skip
    kinds = {f.name: len(f.cores) for f in core_kinds(ring(4, one_way=True), np.arange(4, dtype=np.int32))}
    assert kinds == {"vertex": 4}


def test_a_network_in_many_parts_is_no_product() -> None:
    rings = [(4 * k + i, 4 * k + (i + 1) % 4) for k in range(8) for i in range(4)]
    net = network(32, rings + [(b, a) for a, b in rings])
    kinds = {found.name: len(found.cores) for found in core_kinds(net, np.arange(32, dtype=np.int32))}
    assert kinds == {"vertex": 32, "edge": 32}


def test_the_choice_of_cores_counts_as_work(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = next(found for found in core_kinds(ring(6), np.arange(6, dtype=np.int32)) if found.name == "edge")
    assert edges.looks(5) == 5 * 6 * (2 + 2)  # members and messages
    monkeypatch.setattr(CoreKind, "looks", lambda _kind, _chunks: 6_000_000)
    meter = WorkMeter(most=900_000)
    with pytest.raises(NoSchedule):
        exchange(Module("m", ring(6), all_reduce(list(range(6))), LinkModel.STORE), Effort().with_work(meter), tacos)
    assert meter.spent == 1_000_000 + 8 * 6 * 10


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_random_networks(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 6))
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
    around = [pair for i in range(count) for pair in ((i, (i + 1) % count), ((i + 1) % count, i))]
    chosen = data.draw(st.lists(st.sampled_from(pairs), max_size=8))
    kinds = [kind(50, Fraction(1, 2)), kind(25, Fraction(1))]
    net = network(count, [(*pair, kinds[data.draw(st.integers(0, 1))]) for pair in [*around, *chosen]])
    group = data.draw(st.lists(st.sampled_from(range(count)), min_size=1, unique=True))
    demand = demand_of([(MiB, group, group, Op.SUM)] * data.draw(st.integers(1, 6)))
    planned(net, demand, data.draw(st.sampled_from(list(LinkModel))))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("net", [grid(8, 8, wrap=True), grid(8, 8)], ids=["torus", "mesh"])
def test_auto_exchanges_what_is_small_on_large_networks(net: Network) -> None:
    demand = all_reduce(net.npus.tolist(), 128)
    result = auto(Module("m", net, demand, LinkModel.PIPELINED), Effort())
    assert result.algorithm == "exchange"
    assert time_of(result) == lower_bound(net, demand, LinkModel.PIPELINED).time


@pytest.mark.parametrize(("both_ways", "calls"), [(True, 1), (False, 2)])
def test_where_links_have_a_way_back_the_reduction_mirrors_the_spread(both_ways: bool, calls: int) -> None:
    """One placement. Without a link of the same kind back, both directions are planned."""
    slow = LinkKind(500_000, Fraction(10 * 10**9))
    net = hypercube(3)
    if not both_ways:
        links = zip(net.source.tolist(), net.target.tolist(), strict=True)
        net = network(8, [(a, b, slow if a < b else net.kinds[0]) for a, b in links])
    planned: list[Task] = []

    def spread(task: Task, effort: Effort) -> Schedule:
        planned.append(task)
        return tacos(task, effort)

    module = Module("m", net, all_reduce(list(range(8))), LinkModel.STORE)
    found = exchange(module, Effort(work=WorkMeter(1), bound=0), spread)
    assert len(planned) == calls
    assert verify_schedule(found).ok


@pytest.mark.parametrize("net", [ring(8), ring(7), grid(3, 4), grid(4, 4, wrap=True), dgx1(), fully_connected(5)])
@pytest.mark.parametrize("seed", [None, 1])
def test_cores_are_those_of_least_cost(net: Network, seed: int | None) -> None:
    degree = np.bincount(net.target, minlength=net.npu_count).tolist()
    for one in core_kinds(net, net.npus):
        chunks, steps = net.npu_count + 3, 2
        order = list(range(len(one.cores)))
        if seed is not None:
            random.Random(seed).shuffle(order)
        found = choose_cores(one, chunks, degree, steps, None if seed is None else random.Random(seed))
        for number, chosen in enumerate(found):
            costs = [_cost(one.cores[core], found[:number], chunks, degree, steps) for core in order]
            assert one.cores[order[costs.index(min(costs))]] is chosen, one.name


def _cost(core: Core, before: list[Core], chunks: int, degree: list[int], steps: int) -> tuple[int, ...]:
    """Messages that clash, uses, members that lack chunks, radius, parts joined, chunks that members have."""
    taken = Counter((message, r) for other in before for r, round_ in enumerate(other.rounds) for message in round_)
    clash = max((taken[message, r] for r, round_ in enumerate(core.rounds) for message in round_), default=0)
    held = Counter(npu for other in before for npu in other.members)
    part = {npu: frozenset([npu]) for npu in range(len(degree))}
    for other in before:
        joined = frozenset().union(*(part[npu] for npu in other.members))
        part.update(dict.fromkeys(joined, joined))
    lacking = sum(chunks - steps * degree[npu] > held[npu] for npu in core.members)
    apart = len({part[npu] for npu in core.members})
    uses = sum(other is core for other in before)
    return clash, uses, -lacking, core.radius, -apart, sum(held[npu] for npu in core.members)


def test_what_has_too_many_messages_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 64 NPUs gives a contribution to, and gets, each of 64 sums: no core changes that."""
    net = grid(4, 4, 4, wrap=True)
    module = Module("m", net, all_reduce(list(range(64))))
    monkeypatch.setattr("collc.synthesis.exchange.synthesizer.core_kinds", None)
    meter = WorkMeter(1, most=8 * 64 * 63)
    with pytest.raises(NoSchedule):
        exchange(module, Effort().with_work(meter), tacos)
    assert meter.is_exceeded
    assert meter.spent == 0
