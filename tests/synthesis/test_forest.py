"""Throughput-optimal trees (forest): loads recounted, schedules verified, shares of the optimum that are published."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collc.base.diagnostics import NoSchedule, SourceError
from collc.graph.throughput import gather_rate, reduce_rate, tree_capacities
from collc.graph.translations import find_translations
from collc.synthesis.bounds import lower_bound
from collc.synthesis.conditions import conditions_of
from collc.synthesis.forest import forest, plan_forest
from collc.synthesis.forest.problem import ForestProblem, TreeBatch, forest_problem
from collc.synthesis.forest.schedules import shared_out
from collc.synthesis.forest.synthesizer import plan_summed
from collc.synthesis.forest.trees import Rerouting, gather_candidates, least_work, summed_counts, tree_counts
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.task import COMPILED_TIMES, Effort, WorkMeter
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import LinkKind, Network
from collc.ten.schedule import LinkModel
from collc.verification import verify_schedule
from tests import support
from tests.kernel_choice import choose_kernels
from tests.support import GiB, MiB, demand_of, network
from tests.synthesis.cases import task_of
from tests.synthesis.checker import check
from tests.synthesis.random_problems import random_network
from tests.synthesis.throughput_networks import a100, dgx1, kind, mesh, mi250, rails, weak

PIPELINED = LinkModel.PIPELINED


def gathered(net: Network, chunks: int, size: int = GiB) -> Demand:
    return support.all_gather(net.npus.tolist(), size // (net.npu_count * chunks), chunks)


def problem_of(net: Network, demand: Demand) -> ForestProblem:
    return forest_problem(conditions_of(task_of(net, demand, PIPELINED)))


def by_forest(module: Module, effort: Effort | None = None) -> int:
    """Picoseconds of a schedule that passed all checks and does not beat the bound."""
    return verified(join(solve(module, lambda task: forest(task, effort or Effort()))))


def verified(result: Module) -> int:
    """Picoseconds of a result that both checks call right."""
    verdict = verify_schedule(result)
    assert "failed" not in verdict.checks.values(), verdict.diagnostics
    assert result.schedule is not None
    time = result.schedule.collective_time(result.network, result.demand)
    assert time == check(result.network, result.demand, result.schedule)
    assert time >= lower_bound(result.network, result.demand, result.model).time
    return time


def assert_trees(problem: ForestProblem, demand: list[int], carried: list[int], batches: list[TreeBatch]) -> None:
    """Each tree spans the members along edges of the network; together they load no edge beyond what it carries."""
    edges = dict(
        zip(zip(problem.graph.source.tolist(), problem.graph.target.tolist(), strict=True), carried, strict=True)
    )
    load = Counter[tuple[int, int]]()
    built = Counter[int]()
    members = problem.members.tolist()
    for batch in batches:
        built[batch.root] += batch.amount
        tree: nx.DiGraph[int] = nx.DiGraph()
        tree.add_node(members[batch.root])
        for path in batch.paths:
            assert path[0] in tree
            assert path[-1] not in tree
            assert not set(path[1:-1]) & set(members)
            tree.add_edge(path[0], path[-1])
            for end in pairwise(path):
                load[end] += batch.amount
        assert sorted(tree) == members
        assert nx.is_arborescence(tree)
    assert [built[number] for number in range(len(members))] == demand
    assert all(amount <= edges[end] for end, amount in load.items())


@st.composite
def both_directions(draw: st.DrawFn) -> tuple[Network, list[int]]:
    """Connected NPUs and switches, links of unlike rates, each both ways; by NPU the trees that begin there."""
    npus, switches = draw(st.integers(2, 6)), draw(st.integers(0, 3))
    count = npus + switches
    rate = st.integers(1, 9)
    edges = [(draw(st.integers(0, vertex - 1)), vertex, kind(draw(rate), 500)) for vertex in range(1, count)]
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda end: end[0] != end[1])
    edges += [(a, b, kind(draw(rate), 500)) for a, b in draw(st.lists(ends, max_size=2 * count))]
    demand = draw(st.lists(st.integers(0, 5), min_size=npus, max_size=npus).filter(any))
    return network(npus, [one for a, b, k in edges for one in ((a, b, k), (b, a, k))], switches), demand


def test_distances_are_sought_when_trees_grow_and_not_before() -> None:
    """Trees that take more work than is left are refused by their number."""
    problem = problem_of(mesh(3, 3), gathered(mesh(3, 3), 1))
    grown = Rerouting(problem, undirected=True)
    works = [grown.work(count) for count in summed_counts(problem, Fraction(1))]
    assert works == sorted(works, reverse=True)
    assert "centres" not in vars(problem)
    assert problem.centres.tolist() == [4]


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_rerouted_trees_span_the_members(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_kernels(monkeypatch, compiled)

    @settings(deadline=None, max_examples=20)
    @given(both_directions(), st.sampled_from([0, 256, 4096]))
    def holds(case: tuple[Network, list[int]], shallow: int) -> None:
        net, demand = case
        chunks = [(MiB, [npu], net.npus.tolist(), Op.COPY) for npu, trees in enumerate(demand) for _ in range(trees)]
        problem = problem_of(net, demand_of(chunks))
        for count in tree_counts(problem):
            batches, time = Rerouting(problem).trees(count, shallow)
            load = loads(problem, batches)
            assert_trees(problem, count.demand, load, batches)
            busiest = max(Fraction(one, int(rate)) for one, rate in zip(load, problem.capacity, strict=True))
            assert time == pytest.approx(float(busiest * (count.time / count.duration)))
            assert busiest >= count.duration

    holds()


@pytest.mark.parametrize(
    ("net", "elements"), [(rails(4), 32), (mesh(4, 4), 4), (support.ring(6), 6)], ids=["h100", "mesh", "ring"]
)
@pytest.mark.parametrize("trees_each", [1, 3])
def test_translated_trees_are_trees_and_load_links_of_a_class_alike(
    net: Network, elements: int, trees_each: int
) -> None:
    translations = find_translations(net)
    assert translations is not None
    assert translations.count == elements
    problem = problem_of(net, gathered(net, trees_each, 96 * MiB))
    count = tree_counts(problem)[0]
    given, time = Rerouting(problem, translations).trees(count, 256)
    batches: list[TreeBatch] = []
    for batch in given:
        for element in range(elements):
            image = [int(translations.device_images(device)[element]) for device in range(net.device_count)]
            paths = tuple(tuple(image[device] for device in path) for path in batch.paths)
            batches.append(TreeBatch(image[batch.root], batch.amount, paths))
    load = loads(problem, batches)
    assert_trees(problem, count.demand, load, batches)
    assert time == pytest.approx(max(np.array(load) / problem.capacity))
    classes = translations.link_class[problem.fastest].tolist()
    assert len(set(zip(classes, load, strict=True))) == len(set(classes))


def loads(problem: ForestProblem, batches: list[TreeBatch]) -> list[int]:
    """Trees on each pair of devices."""
    found = Counter[tuple[int, int]]()
    for batch in batches:
        for path in batch.paths:
            for end in pairwise(path):
                found[end] += batch.amount
    return [found[end] for end in zip(problem.graph.source.tolist(), problem.graph.target.tolist(), strict=True)]


@pytest.mark.parametrize("demand", [gathered(a100(2), 3), demand_of([(1, [0], range(16), Op.COPY)])])
def test_trees_that_take_more_work_than_is_left_are_not_sought(demand: Demand, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(a100(2), demand)
    works = {grown.work(count) for grown, count, _ in gather_candidates(problem, tree_counts(problem))}
    assert min(works) >= least_work(problem) >= max(works) // (3 * 16)
    monkeypatch.setattr("collc.synthesis.forest.synthesizer.tree_counts", lambda _: pytest.fail("sought"))
    meter = WorkMeter(most=least_work(problem) // COMPILED_TIMES)
    with pytest.raises(NoSchedule):
        forest(task_of(a100(2), demand), Effort().with_work(meter))
    assert meter.is_exceeded


def test_room_for_long_paths_grows() -> None:
    """A chain of switches between each two NPUs."""
    ends = [(0, 2), *((k, k + 1) for k in range(2, 30)), (30, 1)]
    net = network(2, [one for a, b in ends for one in ((a, b), (b, a))], switches=29)
    by_forest(Module("m", net, support.all_gather([0, 1], MiB, 2)))


@pytest.mark.slow
@pytest.mark.parametrize("net", [a100(2), rails(2), dgx1(), mesh(3, 4)], ids=["a100", "h100", "dgx1", "mesh"])
def test_plain_and_compiled_give_the_same(net: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(net, gathered(net, 3, MiB * 48), PIPELINED)
    found: list[list[bytes]] = []
    for compiled in (False, True):
        choose_kernels(monkeypatch, compiled)
        rows = forest(task, Effort()).transfers
        found.append([column.tobytes() for column in (rows.chunk, rows.link, rows.start)])
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("net", "counts", "published"),
    [
        (a100(2), {1: 0.989, 8: 0.998, 13: 1}, 346.67),
        (a100(4), {1: 1}, 266.67),
        (rails(2), {1: 0.964, 2: 1}, 533.33),
        (rails(4), {1: 0.9964, 10: 1}, 516.13),
        (mi250(2), {1: 0.904, 2: 0.964, 8: 0.977, 16: 0.990, 83: 1}, 354.13),
        (mi250(4), {1: 0.938, 8: 1}, 341.33),
        (dgx1(), {1: 0.778, 2: 0.933, 8: 0.982, 6: 1}, None),
        (mesh(8, 8), {1: 0.984, 2: 1}, None),
    ],
    ids=["a100 x2", "a100 x4", "h100 x2", "h100 x4", "mi250 x2", "mi250 x4", "dgx1", "mesh"],
)
def test_share_of_the_rate_that_few_trees_reach(
    net: Network, counts: dict[int, float], published: float | None
) -> None:
    """GB/s as published for ForestColl; the shares are exact solutions of a prototype."""
    problem = problem_of(net, gathered(net, 1))
    members = problem.members.tolist()
    rate = gather_rate(problem.graph, problem.capacity, members).rate
    for count, share in counts.items():
        _, time = tree_capacities(problem.graph, problem.capacity, members, [count] * len(members))
        assert float(Fraction(count) / (rate * time)) == pytest.approx(share, abs=6e-4)
    if published is not None:
        chunk = GiB // net.npu_count
        seconds = float(1 / rate) * problem.unit / 1e12
        assert net.npu_count * chunk / seconds / 1e9 == pytest.approx(published, rel=1e-4)


COLLECTIVES = {
    "all_gather": support.all_gather,
    "reduce_scatter": support.reduce_scatter,
    "all_reduce": support.all_reduce,
    "broadcast": support.broadcast,
    "reduce": support.reduce,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", COLLECTIVES)
@pytest.mark.parametrize("model", LinkModel)
def test_random_networks(what: str, model: LinkModel) -> None:
    chance = random.Random(f"{what} {model}")
    for _ in range(12):
        npus, switches = chance.randrange(2, 7), chance.randrange(3)
        kinds = [LinkKind(chance.randrange(3) * 10**5, Fraction(chance.randrange(1, 5) * 10**9)) for _ in range(3)]
        rows = [(vertex, chance.randrange(vertex), chance.choice(kinds)) for vertex in range(1, npus + switches)]
        rows += [(*chance.sample(range(npus + switches), 2), chance.choice(kinds)) for _ in range(npus)]
        net = network(npus, [one for a, b, k in rows for one in ((a, b, k), (b, a, k))], switches)
        group = sorted(chance.sample(range(npus), chance.randrange(2, npus + 1)))
        by_forest(Module("m", net, COLLECTIVES[what](group, MiB, chance.choice([1, 2, 3, 8])), model))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("net", "chunks", "size", "share"),
    [
        (dgx1(), 6, GiB, 0.999),
        (rails(4), 16, GiB, 0.99),
        (mesh(4, 4), 2, GiB, 0.99),
        (a100(2), 8, GiB, 0.95),
        (rails(4), 16, 16 * MiB, 0.94),
        (a100(2), 32, 16 * MiB, 0.95),
    ],
    ids=["dgx1", "h100 x4", "mesh", "a100 x2", "h100 x4, 16 MiB", "a100 x2, 16 MiB"],
)
def test_share_of_the_optimum_with_some_chunks(net: Network, chunks: int, size: int, share: float) -> None:
    demand = gathered(net, chunks, size)
    assert share * by_forest(Module("m", net, demand, PIPELINED)) <= optimum(net, demand)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "chunks", "size", "share"),
    [
        (mi250(2), 256, GiB, 0.985),
        (rails(4), 40, GiB, 0.995),
        (mesh(8, 8), 2, GiB, 0.999),
        (mi250(2), 256, 16 * MiB, 0.91),
        (a100(2), 64, 16 * MiB, 0.975),
    ],
)
def test_share_of_the_optimum_with_many_chunks(net: Network, chunks: int, size: int, share: float) -> None:
    demand = gathered(net, chunks, size)
    assert share * by_forest(Module("m", net, demand, PIPELINED)) <= optimum(net, demand)


def optimum(net: Network, demand: Demand) -> float:
    """Picoseconds of an All-Gather with any number of chunks, without latencies."""
    problem = problem_of(net, demand)
    rate = gather_rate(problem.graph, problem.capacity, problem.members.tolist()).rate
    return float(problem.unit * Fraction(len(demand.chunks), net.npu_count) / rate)


def test_a_line_of_switches_and_relays_outside_the_group() -> None:
    """NPU 0 - switch 5 - switch 6 - NPU 1 - NPU 4 (outside) - NPU 2 - NPU 3."""
    edges = [(0, 5), (5, 6), (6, 1), (1, 4), (4, 2), (2, 3)]
    net = network(5, [one for a, b in edges for one in ((a, b), (b, a))], switches=2)
    for maker in COLLECTIVES.values():
        by_forest(Module("m", net, maker([0, 1, 2, 3], MiB, 2)))


def test_an_npu_outside_the_group_gets_a_chunk_once() -> None:
    """NPU 0 - NPU 4 (outside), behind which the others are: backwards, what it would send twice must not be added."""
    edges = [(0, 5), (5, 4), (4, 6), (6, 1), (6, 2), (4, 3)]
    net = network(5, [one for a, b in edges for one in ((a, b), (b, a))], switches=2)
    for what in ("broadcast", "reduce", "reduce_scatter", "all_reduce"):
        by_forest(Module("m", net, COLLECTIVES[what]([0, 1, 2, 3], MiB, 2)))
    task = task_of(net, support.broadcast([0, 1, 2, 3], MiB))
    assert net.target[forest(task, Effort()).transfers.link].tolist().count(4) == 1


def test_parallel_links_are_all_used() -> None:
    net = network(2, [(0, 1), (0, 1), (0, 1), (1, 0)])
    demand = support.broadcast([0, 1], MiB, chunks=6)
    step = by_forest(Module("m", net, demand)) / 2
    assert step == by_forest(Module("m", net, support.broadcast([0, 1], MiB)))


def test_parallel_links_share_chunks_by_their_rates() -> None:
    fast, slow = kind(3, 0), kind(1, 0)
    net = network(2, [(0, 1, slow), (0, 1, fast), (1, 0, slow)])
    demand = support.broadcast([0, 1], 3 * 10**6, chunks=8)
    assert by_forest(Module("m", net, demand)) == 6 * 10**9


def test_links_one_way() -> None:
    by_forest(Module("m", support.ring(5, one_way=True), support.all_gather(list(range(5)), chunks=2)))


def test_nothing_to_do() -> None:
    task = task_of(support.ring(3), demand_of([(MiB, [0], [0], Op.COPY)]))
    assert len(forest(task, Effort())) == 0


def test_chunks_go_to_trees_in_proportion() -> None:
    batches = [TreeBatch(0, 1, ((0, 1),)), TreeBatch(1, 1, ((1, 0),)), TreeBatch(0, 2, ((0, 2, 1),))]
    assert [(one.root, one.amount) for one in shared_out(batches, [7, 1])] == [(0, 2), (1, 1), (0, 5)]
    assert [(one.root, one.amount) for one in shared_out(batches, [1, 0])] == [(0, 1)]


def unlike_switch() -> Network:
    """A switch with one link in and two out: no trees without copies in the switch reach the rate of the cuts."""
    return network(3, [(0, 3), (3, 1), (3, 2)], switches=1)


@pytest.mark.parametrize(
    ("net", "demand", "message"),
    [
        (support.ring(4), support.all_to_all([0, 1, 2, 3]), "not every chunk is for all NPUs"),
        (support.ring(4), demand_of([(1, [0], [1, 2], Op.COPY), (2, [0], [1, 2], Op.COPY)]), "differ in size"),
        (support.ring(4), demand_of([(1, [0, 1], [2], Op.COPY)]), "held by several NPUs"),
        (support.switched(4, buffer=2), support.all_gather([0, 1, 2, 3]), "buffers of limited size"),
    ],
)
def test_what_is_not_served(net: Network, demand: Demand, message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        forest(task_of(net, demand), Effort())
    assert caught.value.diagnostics[0].code == "S0309"


def test_a_switch_that_cannot_be_split_off() -> None:
    """Trees load the link into the switch once for each NPU behind it."""
    demand = support.broadcast([0, 1, 2], MiB, chunks=2)
    assert by_forest(Module("m", unlike_switch(), demand)) == 5 * by_forest(
        Module("m", network(2, [(0, 1)]), support.broadcast([0, 1], MiB))
    )


def test_no_path() -> None:
    net = network(3, [(0, 1), (1, 0), (0, 2)])
    with pytest.raises(SourceError, match="no path leads") as caught:
        forest(task_of(net, support.all_gather([0, 1, 2])), Effort())
    assert caught.value.diagnostics[0].code == "S0103"


def test_other_transfers_are_planned_already() -> None:
    net = support.ring(4)
    demand = support.all_gather([0, 1, 2, 3])
    planned = forest(task_of(net, demand), Effort()).transfers
    task = task_of(net, demand)
    reserved = type(task)(net, demand, task.model, task.chunks, reserved=planned)
    with pytest.raises(SourceError, match="other transfers are planned already"):
        forest(reserved, Effort())


def test_stopped() -> None:
    task = task_of(support.ring(4), support.all_gather([0, 1, 2, 3]))
    with pytest.raises(NoSchedule, match="stopped") as caught:
        forest(task, Effort(stop=lambda: True))
    assert caught.value.diagnostics[0].code == "S0201"


def test_a_stop_while_trees_are_grown_keeps_those_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    choose_kernels(monkeypatch, False)
    net = mi250(2)
    problem = problem_of(net, gathered(net, 4))
    count = tree_counts(problem)[0]
    asked: list[int] = []

    def stop(after: int) -> bool:
        asked.append(after)
        return len(asked) >= after

    Rerouting(problem, stop=lambda: stop(100)).trees(count, 256)
    assert len(asked) > 1
    asked.clear()
    batches, _ = Rerouting(problem, stop=lambda: stop(1)).trees(count, 256)
    assert len(asked) == 1
    assert_trees(problem, count.demand, loads(problem, batches), batches)


def test_a_stop_keeps_the_best_so_far() -> None:
    net = a100(2)
    task = task_of(net, gathered(net, 16), PIPELINED)
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) > 3

    early, late = (forest(task, effort).collective_time(net, task.demand) for effort in (Effort(stop=stop), Effort()))
    assert late <= early


def test_numbers_of_trees_are_sorted_by_load() -> None:
    """Fewer trees with more load; 4 trees have no less load than 2 there."""
    counts = tree_counts(problem_of(mi250(2), gathered(mi250(2), 16)))
    assert [max(count.demand) for count in counts] == [16, 8, 2, 1]
    assert [count.time for count in counts] == sorted(count.time for count in counts)


@pytest.mark.slow
def test_more_trees_than_the_least_number_spread_the_load_of_a_broadcast() -> None:
    """8 trees could fill the 8 NICs of each node evenly, but are not found; each NIC carries two of them then."""
    net = rails(6)
    rows = [(4 * MiB, [0], net.npus.tolist(), Op.COPY)] * 256
    time = by_forest(Module("m", net, demand_of(rows), PIPELINED))
    counts = tree_counts(problem_of(net, demand_of(rows)))
    assert [sum(count.demand) for count in counts] == [8, 16, 32, 64, 128, 256, 4, 2, 1]
    assert time < 1.5 * float(counts[0].time) * problem_of(net, demand_of(rows)).unit


def test_unlike_numbers_of_chunks() -> None:
    """One member has 5 chunks, one has 2, the others none."""
    everyone = list(range(6))
    rows = [(MiB, [owner], everyone, Op.COPY) for owner in (1, 1, 4, 1, 1, 4, 1)]
    by_forest(Module("m", mesh(2, 3), demand_of(rows), PIPELINED))


def all_reduced(net: Network, chunks: int, model: LinkModel = PIPELINED) -> Module:
    size = GiB // (net.npu_count * chunks)
    return Module("m", net, support.all_reduce(net.npus.tolist(), size, chunks), model)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("net", "chunks", "share"), [(weak(8, 30), 8, 0.75), (mesh(4, 4), 8, 0.85)])
def test_trees_used_both_ways(net: Network, chunks: int, share: float) -> None:
    """Against the bound of all partitions; nothing is faster than 1.15 times RS + AG, whose bound is that of cuts."""
    module = all_reduced(net, chunks)
    both = plan_summed(module, Effort())
    assert both is not None
    time = verified(module.with_schedule(both, ""))
    problem = problem_of(net, gathered(net, chunks))
    members = problem.members.tolist()
    least = problem.unit * len(module.demand.chunks) / reduce_rate(problem.graph, problem.capacity, members).rate
    assert share * time <= least
    assert verified(plan_forest(module, Effort())) <= time
    assert time < 2 * optimum(net, gathered(net, chunks)) / 1.15


@pytest.mark.parametrize("model", LinkModel)
def test_trees_used_both_ways_on_random_networks(model: LinkModel) -> None:
    chance = random.Random(str(model))
    found = 0
    for _ in range(10):
        npus, switches = chance.randrange(3, 8), chance.randrange(3)
        kinds = [LinkKind(chance.randrange(3) * 10**5, Fraction(rate * 10**9)) for rate in (1, 3, 9)]
        rows = [(vertex, chance.randrange(vertex), chance.choice(kinds)) for vertex in range(1, npus + switches)]
        rows += [(*chance.sample(range(npus + switches), 2), chance.choice(kinds)) for _ in range(npus)]
        net = network(npus, [one for a, b, k in rows for one in ((a, b, k), (b, a, k))], switches)
        module = all_reduced(net, chance.choice([1, 2, 5]), model)
        both = plan_summed(module, Effort())
        if both is not None:
            found += 1
            verified(module.with_schedule(both, ""))
    assert found >= 4


@pytest.mark.parametrize(
    "module",
    [
        all_reduced(rails(2), 1),
        all_reduced(support.ring(5, one_way=True), 1),
        all_reduced(network(3, [(0, 1), (1, 0), (1, 2, kind(9, 500)), (2, 1)]), 1),
        all_reduced(network(3, [(0, 1), (1, 0)]), 1),
        all_reduced(support.switched(4, buffer=1), 1),
        Module("m", mesh(3, 3), support.reduce_scatter(list(range(9))), PIPELINED),
        Module("m", mesh(3, 3), support.all_reduce([0, 1, 2, 3, 5, 6, 7, 8]), PIPELINED),
    ],
    ids=["no gain", "one way", "unlike rates", "no path", "buffers", "Reduce-Scatter", "NPU outside the group"],
)
def test_where_trees_are_not_used_both_ways(module: Module) -> None:
    assert plan_summed(module, Effort()) is None


def test_a_switch_that_adds_up_is_left_to_others() -> None:
    module = all_reduced(replace(weak(8, 30), reduces=np.ones(3, np.bool_)), 1)
    assert plan_summed(module, Effort()) is None
    with pytest.raises(SourceError, match="a switch reduces"):
        plan_forest(module, Effort())


def test_a_stop_after_trees_used_both_ways() -> None:
    """The first schedule is kept."""
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) > 2  # before their rates, and before the first schedule

    assert verified(plan_forest(all_reduced(weak(8, 30), 2), Effort(stop=stop))) > 0


START_UP = """
import sys
from collc.synthesis.forest import forest
from collc.synthesis.task import COMPILED_TIMES, Effort, WorkMeter
from tests.support import all_gather
from tests.synthesis.cases import task_of
from tests.synthesis.random_problems import random_network
from tests.synthesis.throughput_networks import mi250
net = mi250(2)
forest(task_of(net, all_gather(net.npus.tolist())), Effort())
print("numba" in sys.modules)
"""


def test_32_gpus_do_not_wait_for_compiled_code() -> None:
    done = subprocess.run([sys.executable, "-c", START_UP], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_many_random_networks(first: int) -> None:
    """Networks of all kinds with switches, links one way, groups, both link models; what is served is verified."""
    served = 0
    for seed in range(first, first + 50):
        chance = random.Random(seed)
        net = random_network(chance)
        net = replace(net, buffers=np.full(net.switch_count, -1))
        npus = net.npus.tolist()
        if len(npus) < 2:
            continue
        group = sorted(chance.sample(npus, chance.randrange(2, len(npus) + 1)))
        demand = COLLECTIVES[chance.choice(list(COLLECTIVES))](group, MiB, chance.choice([1, 2, 7]))
        try:
            result = plan_forest(Module("m", net, demand, chance.choice(list(LinkModel))), Effort())
        except SourceError:
            continue
        found = result if result.schedule is not None else join(result)
        verdict = verify_schedule(found)
        assert "failed" not in verdict.checks.values(), (seed, verdict.diagnostics)
        served += 1
    assert served >= 25
