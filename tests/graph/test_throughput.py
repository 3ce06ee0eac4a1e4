"""Rates by cuts, against brute force over all sets and partitions, and against published numbers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any, cast

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from collc.graph import throughput
from collc.graph.digraph import Digraph
from collc.graph.throughput import broadcast_rate, gather_rate, reduce_rate
from collc.ten.arrays import Int64Array
from tests.kernel_choice import choose_kernels

Capacitated = tuple[Digraph, Int64Array, list[int]]


def capacitated(edges: list[tuple[int, int, int]], count: int, members: int) -> Capacitated:
    """Both directions of each edge; the members are the first vertices."""
    both = [(a, b, c) for a, b, c in edges] + [(b, a, c) for a, b, c in edges]
    source, target, capacity = (np.array(column) for column in zip(*both, strict=True))
    return (
        Digraph(count, source.astype(np.int32), target.astype(np.int32)),
        capacity.astype(np.int64),
        list(range(members)),
    )


def nodes(count: int, size: int, inside: int, outside: int) -> Capacitated:
    """Nodes of GPUs with a switch each, and a switch for the GPUs of each rank in their nodes."""
    gpus = count * size
    edges = [(gpu, gpus + gpu // size, inside) for gpu in range(gpus)]
    edges += [(gpu, gpus + count + gpu % size, outside) for gpu in range(gpus)]
    return capacitated(edges, gpus + count + size, gpus)


def mesh(width: int, height: int, rate: int) -> Capacitated:
    """A mesh of NPUs."""
    edges = [(y * width + x, y * width + x + 1, rate) for y in range(height) for x in range(width - 1)]
    edges += [(y * width + x, (y + 1) * width + x, rate) for y in range(height - 1) for x in range(width)]
    return capacitated(edges, width * height, width * height)


@st.composite
def networks(draw: st.DrawFn, most: int = 6) -> Capacitated:
    """Members and others, with links of unlike capacities, one way or both ways, connected or not."""
    members, others = draw(st.integers(2, most)), draw(st.integers(0, 2))
    count = members + others
    vertex = st.integers(0, count - 1)
    rows = draw(st.lists(st.tuples(vertex, vertex, st.integers(1, 9)), min_size=1, max_size=4 * count))
    if draw(st.booleans()):
        rows += [(b, a, c) for a, b, c in rows]
    if draw(st.booleans()):
        rows += [(a, (a + 1) % count, 2) for a in range(count)]
    if draw(st.booleans()):  # some are joined so well that no bottleneck divides them
        wide = draw(st.permutations(range(count)))[: draw(st.integers(1, count - 1))]
        rows += [(a, b, 20) for one, other in pairwise(wide) for a, b in ((one, other), (other, one))]
    source, target, capacity = (np.array(column) for column in zip(*rows, strict=True))
    return (
        Digraph(count, source.astype(np.int32), target.astype(np.int32)),
        capacity.astype(np.int64),
        list(range(members)),
    )


def capacity_out(graph: Digraph, capacity: Int64Array, inside: set[int]) -> int:
    edges = zip(graph.source.tolist(), graph.target.tolist(), capacity.tolist(), strict=True)
    return sum(c for a, b, c in edges if a in inside and b not in inside)


def least_cut_rate(graph: Digraph, capacity: Int64Array, members: list[int]) -> Fraction:
    """The least of capacity out / members, of all sets that have a member and miss one."""
    found: list[Fraction] = []
    for size in range(1, graph.vertex_count):
        for inside in combinations(range(graph.vertex_count), size):
            held = sum(member in inside for member in members)
            if 0 < held < len(members):
                found.append(Fraction(capacity_out(graph, capacity, set(inside)), held))
    return min(found)


@pytest.fixture(params=["plain", "in pieces", "compiled"])
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test in plain Python, with a call for each member, and with compiled flows; none finds a rate of another."""
    throughput._RATES.clear()
    if request.param == "in pieces":
        monkeypatch.setattr(throughput, "BATCH", 1)
    choose_kernels(monkeypatch, request.param == "compiled")


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("each_way")
def test_gathers_have_the_rate_of_the_narrowest_cut() -> None:
    @settings(deadline=None, max_examples=32)
    @given(networks())
    def holds(case: Capacitated) -> None:
        graph, capacity, members = case
        least = least_cut_rate(graph, capacity, members)
        if not least:
            with pytest.raises(ValueError, match="no path"):
                gather_rate(graph, capacity, members)
            return
        found = gather_rate(graph, capacity, members)
        assert found.rate == least
        outside = set(np.flatnonzero(found.outside).tolist())
        assert Fraction(capacity_out(graph, capacity, outside), sum(m in outside for m in members)) == least

    holds()


flow_value = cast("Callable[[nx.DiGraph[int], int, int], int]", nx.maximum_flow_value)


@given(networks())
@settings(deadline=None, max_examples=24)
def test_broadcasts_have_the_rate_of_the_least_flow(case: Capacitated) -> None:
    graph, capacity, members = case
    flows: nx.DiGraph[int] = nx.DiGraph()
    flows.add_nodes_from(range(graph.vertex_count))
    for a, b, c in zip(graph.source.tolist(), graph.target.tolist(), capacity.tolist(), strict=True):
        if a != b:
            flows.add_edge(a, b, capacity=flows.get_edge_data(a, b, {"capacity": 0})["capacity"] + c)
    least = min(flow_value(flows, 0, member) for member in members[1:])
    if not least:
        with pytest.raises(ValueError, match="no path"):
            broadcast_rate(graph, capacity, 0, members)
    else:
        assert broadcast_rate(graph, capacity, 0, members).rate == least


def partitions(items: list[int]) -> list[list[list[int]]]:
    """All partitions of a list."""
    if not items:
        return [[]]
    found: list[list[list[int]]] = []
    for rest in partitions(items[1:]):
        found.append([[items[0]], *rest])
        found += [[*rest[:at], [items[0], *rest[at]], *rest[at + 1 :]] for at in range(len(rest))]
    return found


def flow_out(graph: Digraph, capacity: Int64Array, members: list[int], part: list[int]) -> int:
    """The least capacity out of a set that has just these members, whatever else it has."""
    others = [vertex for vertex in range(graph.vertex_count) if vertex not in members]
    sets = ({*part, *more} for size in range(len(others) + 1) for more in combinations(others, size))
    return min(capacity_out(graph, capacity, one) for one in sets)


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("each_way")
def test_all_reduces_have_the_bound_of_the_worst_partition() -> None:
    @settings(deadline=None, max_examples=24)
    @given(networks(5))
    def holds(case: Capacitated) -> None:
        graph, capacity, members = case
        rates = [
            Fraction(sum(flow_out(graph, capacity, members, part) for part in parts), 2 * (len(parts) - 1))
            for parts in partitions(members)
            if len(parts) > 1
        ]
        assume(min(rates) > 0)
        assert reduce_rate(graph, capacity, members).rate == min(rates)

    holds()


@pytest.mark.parametrize(
    ("case", "gathered"),
    [
        (nodes(2, 8, 300, 25), Fraction(1040, 3)),
        (nodes(4, 8, 300, 25), Fraction(800, 3)),
        (nodes(8, 8, 300, 25), Fraction(1600, 7)),
        (nodes(16, 8, 450, 50), Fraction(1280, 3)),
        (mesh(8, 8, 50), Fraction(6400, 63)),
    ],
)
def test_published_rates_of_gathers(case: Capacitated, gathered: Fraction) -> None:
    """GB/s of the gathered buffer: ForestColl's for two, four and eight nodes of A100."""
    assert gather_rate(*case).rate * len(case[2]) == gathered


@pytest.mark.parametrize(
    ("case", "reduced", "parts"),
    [
        (nodes(2, 8, 450, 50), Fraction(800, 3), 16),
        (nodes(16, 8, 450, 50), Fraction(640, 3), 16),
        (nodes(16, 8, 300, 25), Fraction(320, 3), 16),
        (mesh(8, 8, 50), Fraction(800, 9), 64),
    ],
)
def test_rates_of_all_reduces(case: Capacitated, reduced: Fraction, parts: int) -> None:
    """On clusters the worst partition is that into nodes; on a mesh, whose corners are weak, that into NPUs."""
    found = reduce_rate(*case)
    assert found.rate == reduced
    assert len(set(found.parts)) == parts


def test_a_switch_with_links_elsewhere_joins_no_members() -> None:
    """Two members on a switch that has links to five others: in one part, they would send what the switch can."""
    rows = [(0, 7, 10), (7, 0, 10), (1, 7, 10), (7, 1, 10), (2, 0, 1)]
    rows += [row for k in range(5) for row in ((2 + k, 2 + (k + 1) % 5, 1), (7, 2 + k, 5))]
    source, target, capacity = (np.array(column) for column in zip(*rows, strict=True))
    graph = Digraph(8, source.astype(np.int32), target.astype(np.int32))
    assert reduce_rate(graph, capacity.astype(np.int64), list(range(7))).rate == Fraction(10 + 10 + 6, 2 * 6)


@pytest.mark.usefixtures("each_way")
@pytest.mark.parametrize("rate", [gather_rate, reduce_rate])
def test_rates_of_equal_problems_are_computed_once(
    rate: Callable[[Digraph, Int64Array, list[int]], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search for a number of chunks asks for the same rate with each number and link model."""
    made: list[int] = []
    flows = vars(throughput)["_Flows"]

    def counted(*args: Any, **options: Any) -> Any:
        made.append(1)
        return flows(*args, **options)

    monkeypatch.setattr("collc.graph.throughput._Flows", counted)
    first = rate(*mesh(3, 3, 50))
    assert rate(*mesh(3, 3, 50)) is first
    assert len(made) == 1
    rate(*mesh(3, 3, 40))
    assert len(made) == 2


def test_one_member_has_no_rate() -> None:
    graph, capacity, _ = mesh(2, 1, 1)
    for rate in (gather_rate, reduce_rate):
        with pytest.raises(ValueError, match="two members"):
            rate(graph, capacity, [0])


def test_flows_that_do_not_fit_in_64_bits_are_refused() -> None:
    graph, capacity, members = capacitated([(0, 1, 1 << 60), (1, 2, 1 << 60)], 3, 3)
    with pytest.raises(OverflowError, match="64 bits"):
        gather_rate(graph, capacity, members)
    with pytest.raises(OverflowError, match="64 bits"):
        reduce_rate(graph, capacity, members)


@given(networks(), st.data())
@settings(deadline=None, max_examples=24)
def test_trees_fit_into_the_capacities_and_no_shorter_time_suffices(case: Capacitated, data: st.DataObject) -> None:
    """Against maximum flows of networkx; the next shorter time is the largest multiple of 1 / capacity below."""
    graph, capacity, members = case
    demand = [data.draw(st.integers(0, 4)) for _ in members]
    assume(sum(demand) > 0)

    def suffices(time: Fraction) -> bool:
        flows: nx.DiGraph[int] = nx.DiGraph()
        flows.add_nodes_from(range(graph.vertex_count + 1))
        for a, b, c in zip(graph.source.tolist(), graph.target.tolist(), capacity.tolist(), strict=True):
            if a != b:
                before = flows.get_edge_data(a, b, {"capacity": 0})["capacity"]
                flows.add_edge(a, b, capacity=before + int(time * c))
        for member, trees in zip(members, demand, strict=True):
            flows.add_edge(graph.vertex_count, member, capacity=trees)
        return all(flow_value(flows, graph.vertex_count, member) >= sum(demand) for member in members)

    most = Fraction(sum(demand))
    if not suffices(most):
        with pytest.raises(ValueError, match="no path"):
            throughput.tree_capacities(graph, capacity, members, demand)
        return
    carried, time = throughput.tree_capacities(graph, capacity, members, demand)
    assert carried.tolist() == [int(time * c) for c in capacity.tolist()]
    assert suffices(time)
    shorter = [Fraction(-(-time.numerator * c // time.denominator) - 1, c) for c in set(capacity.tolist())]
    if max(shorter) > 0:
        assert not suffices(max(shorter))
