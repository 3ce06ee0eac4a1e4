"""The rates that a network allows, by cuts: All-Gather and broadcast by maximum flows, All-Reduce by partitions.

Capacities are whole numbers, so that rates are exact fractions. Vertices that are no members only forward. Every
function raises OverflowError if the sums of flows do not fit in 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps
from typing import Any, Final, TypeVar

import numpy as np

from collc.graph.digraph import Digraph, strongly_connected
from collc.kernels.compiled import BATCH, STEP_TIME, compile_kernel, numbers, runs_compiled, version_of
from collc.kernels.max_flow import UNLIMITED, FlowGraph, augment, first_unfed, truncate
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, distinct

Rate = TypeVar("Rate")
_RateOf = Callable[[Digraph, Int64Array, Sequence[int]], Rate]
Numbers = MutableSequence[int]

REMEMBERED = 8
"""Rates that are kept: searches for a number of chunks ask for the same ones again and again."""


@dataclass(frozen=True, eq=False)
class GatherRate:
    """The largest rate at which every member can send its own data to all others at once.

    rate: of one member, in units of the capacities. outside: bool[vertices], the set whose edges out are the
    bottleneck: their capacity over its members is the rate.
    """

    rate: Fraction
    outside: BoolArray


@dataclass(frozen=True, eq=False)
class ReduceRate:
    """A bound on the rate of an All-Reduce among members that alone can reduce.

    rate: of the buffer. parts: for each member the number of its part; 2 (parts - 1) copies of the buffer must cross
    the edges between the parts.
    """

    rate: Fraction
    parts: tuple[int, ...]


_RATES: Final = dict[tuple[object, ...], Any]()
"""The rates of the last REMEMBERED problems."""


def _remember_rates(function: _RateOf[Rate]) -> _RateOf[Rate]:
    """The function, which computes the rate of a problem once; problems are told apart by their numbers."""

    @wraps(function)
    def rate(graph: Digraph, capacity: Int64Array, members: Sequence[int]) -> Rate:
        if len(members) < 2:
            raise ValueError("a rate needs at least two members")
        numbers = (graph.source.tobytes(), graph.target.tobytes(), capacity.tobytes())
        key = (function, graph.vertex_count, *numbers, *members)
        if key not in _RATES:
            if len(_RATES) == REMEMBERED:
                del _RATES[next(iter(_RATES))]
            _RATES[key] = function(graph, capacity, members)
        return _RATES[key]

    return rate


@_remember_rates
def gather_rate(graph: Digraph, capacity: Int64Array, members: Sequence[int]) -> GatherRate:
    """The exact rate of an All-Gather (Zhao et al., ForestColl, 2024, section 5.1).

    The rate is the least capacity out of a set over its members, of all sets that miss a member. Newton's method: a
    cut that is too narrow for the rate so far gives the next, smaller rate. Raises ValueError if there are fewer
    than two members, or no path leads from a member to another.
    """
    flows = _Flows(graph, capacity, members, sinks=False)
    into = np.zeros(graph.vertex_count, np.int64)
    np.add.at(into, graph.target, capacity)
    worst = min(members, key=lambda member: (int(into[member]), member))
    rate = Fraction(int(into[worst]), len(members) - 1)
    outside = np.ones(graph.vertex_count, np.bool_)
    outside[worst] = False
    finished = 0
    while rate:
        unfed = flows.first_unfed(rate, finished)
        if unfed is None:
            outside.flags.writeable = False
            return GatherRate(rate, outside)
        finished, outside = unfed
        leaving = outside[graph.source] & ~outside[graph.target]
        rate = Fraction(int(capacity[leaving].sum()), int(outside[list(members)].sum()))
    raise ValueError("no path leads from a member to another")


def broadcast_rate(graph: Digraph, capacity: Int64Array, root: int, members: Sequence[int]) -> GatherRate:
    """The exact rate at which one member can send to all others: the least of the maximum flows (Edmonds 1973)."""
    flows = _Flows(graph, capacity, [root], sinks=False)
    best: GatherRate | None = None
    for member in members:
        if member != root:
            sent, outside = flows.largest(root, member)
            if best is None or sent < best.rate:
                best = GatherRate(Fraction(sent), outside)
    if best is None or not best.rate:
        raise ValueError("no path leads from the root to a member" if best else "a rate needs at least two members")
    return best


@_remember_rates
def reduce_rate(graph: Digraph, capacity: Int64Array, members: Sequence[int]) -> ReduceRate:
    """The least, over partitions of the members, of the sum of the flows out of the parts / 2 (parts - 1).

    The flow out of a part is the largest to all members outside it. Before a member has the sum, all other parts have
    sent a partial of it; from then on all other parts must receive it. The least over all partitions is least in
    polynomial time: Newton's method, and for each rate a Dilworth truncation; first of sets of vertices, if wide edges
    join some. Not valid if vertices that are no members add up or copy. Raises ValueError as gather_rate does.
    """
    joined = _joined_vertices(graph, capacity, members)
    if joined is not None:
        label, width = joined
        between = label[graph.source] != label[graph.target]
        ends = (label[each[between]].astype(np.int32) for each in (graph.source, graph.target))
        few, number = np.unique(label[list(members)], return_inverse=True)
        least = _least_rate(Digraph(int(label.max()) + 1, *ends), capacity[between], few.tolist())
        if 2 * least.rate <= width:
            rows: list[int] = number.tolist()
            return ReduceRate(least.rate, tuple(least.parts[row] for row in rows))
    return _least_rate(graph, capacity, members)


def _joined_vertices(graph: Digraph, capacity: Int64Array, members: Sequence[int]) -> tuple[Int64Array, int] | None:
    """(int64[vertices], the set of each vertex; a capacity): sets that some least partition does not divide if its rate
    is at most half of the capacity; None if there are none.

    Edges of that capacity or more lead from each vertex of a set to each other one, and all edges out of those that are
    no members end in it. If k parts, with what forwards for them, divide a set, such an edge leaves each of them inside
    it. So the flow out of all of them and the set is less than the sum of theirs by k times the capacity or more, and
    there are at most k parts fewer, each of which counts twice the rate.
    """
    forwards = np.ones(graph.vertex_count, np.bool_)
    forwards[list(members)] = False
    for width in distinct(capacity)[::-1].tolist():
        label = strongly_connected(graph.with_edges(capacity >= width))
        leaves = forwards[graph.source] & (label[graph.source] != label[graph.target])
        alone = np.isin(label, label[graph.source[leaves]])
        _, label = np.unique(np.where(alone, np.arange(len(label)), label), return_inverse=True)
        parts = len(np.unique(label[list(members)]))
        if parts < len(members):
            return (label, width) if parts > 1 else None
    return None


def _least_rate(graph: Digraph, capacity: Int64Array, members: Sequence[int]) -> ReduceRate:
    """See reduce_rate."""
    flows = _Flows(graph, capacity, members, sinks=True)
    parts = list(range(len(members)))
    rate = _partition_rate(flows, parts)
    while rate:
        partition = flows.best_partition(rate)
        if partition is None:
            return ReduceRate(rate, tuple(parts))
        parts = partition
        rate = _partition_rate(flows, parts)
    raise ValueError("no path leads from a member to another")


def tree_capacities(
    graph: Digraph, capacity: Int64Array, members: Sequence[int], demand: Sequence[int]
) -> tuple[Int64Array, Fraction]:
    """(how many trees each edge can carry, the time a tree needs on an edge of capacity 1), the time the least.

    demand: how many spanning trees begin at each member; if one tree takes `time`, an edge carries
    floor(capacity x time) of them, and these suffice for all (Zhao et al., ForestColl, 2024, section 5.5). The least
    time is found among the multiples of 1 / capacity. Raises ValueError where no path leads
    from a member with a demand to another.
    """
    flows = _Flows(graph, capacity, members, sinks=False)
    total = sum(demand)
    kinds, kind = np.unique(capacity, return_inverse=True)
    rates = sorted({*kinds.tolist()} - {0})
    into = np.zeros(graph.vertex_count, np.int64)
    np.add.at(into, graph.target, capacity)
    needs = [(total - own, int(into[member])) for member, own in zip(members, demand, strict=True)]
    if any(need and not width for need, width in needs):
        raise ValueError("no path leads from a member to another")
    low = max((Fraction(need, width) for need, width in needs if need), default=Fraction(0))

    def largest_multiple(time: Fraction) -> Fraction:
        """The largest multiple of 1 / capacity up to a time."""
        return max(Fraction(int(time * rate), rate) for rate in rates)

    def trees_carried(time: Fraction) -> Int64Array:
        return np.array([int(time * rate) for rate in kinds.tolist()], np.int64)[kind]

    def suffices(time: Fraction) -> bool:
        return flows.suffices(trees_carried(time), demand)

    high = max(largest_multiple(low), Fraction(1, rates[-1]))
    while not suffices(high):
        if high * rates[0] >= total:  # each edge carries all trees
            raise ValueError("no path leads from a member to another")
        low, high = high, 2 * high
    while True:
        least = min(Fraction(int(low * rate) + 1, rate) for rate in rates)
        if least >= high:
            break
        middle = max(least, largest_multiple((low + high) / 2))
        if suffices(middle):
            high = middle
        else:
            low = middle
    return trees_carried(high), high


def load_flows() -> None:
    """Load or compile the kernels of all rates."""
    for kernel in (augment, first_unfed, truncate):
        compile_kernel(kernel)
    ends = np.array([0, 1], np.int32)
    pair, capacity = Digraph(2, ends, ends[::-1]), np.ones(2, np.int64)
    for function in (gather_rate, reduce_rate):
        function(pair, capacity, [0, 1])


def _partition_rate(flows: _Flows, parts: list[int]) -> Fraction:
    labels = np.array(parts)
    names = sorted(set(parts))
    return Fraction(sum(flows.out_of(labels == name) for name in names), 2 * (len(names) - 1))


class _Flows:
    """The arcs of a graph with one source, and one sink if that is asked for, beside its vertices.

    Arcs: the edges, then source -> member, then member -> sink, then all of these backwards.
    """

    def __init__(self, graph: Digraph, capacity: Int64Array, members: Sequence[int], *, sinks: bool) -> None:
        self._capacity, self._members = capacity, list(members)
        self._vertices = graph.vertex_count
        self._source, self._sink = graph.vertex_count, graph.vertex_count + 1
        self._compiled = runs_compiled(augment, STEP_TIME * len(members) * graph.edge_count)
        ends = np.array(self._members, np.int64)
        tails = [graph.source.astype(np.int64), np.full(len(ends), self._source)]
        heads = [graph.target.astype(np.int64), ends]
        if sinks:
            tails.append(ends)
            heads.append(np.full(len(ends), self._sink))
        tail, head = np.concatenate(tails), np.concatenate(heads)
        self._forward = len(tail)
        arcs = Digraph(
            graph.vertex_count + 2,
            np.concatenate([tail, head]).astype(np.int32),
            np.concatenate([head, tail]).astype(np.int32),
        )
        offsets, order = arcs.out_edges
        number = np.arange(self._forward)
        zeros = np.zeros(graph.vertex_count + 3, np.int64)
        back = np.concatenate([number + self._forward, number])
        columns = (offsets, order, arcs.target, back, *(zeros.copy() for _ in range(4)))
        self._graph = FlowGraph(*map(self._numbers, columns))
        self._supplies = np.arange(len(ends)) + graph.edge_count
        self._drains = self._supplies + len(ends)
        self._supply, self._drain = self._numbers(self._supplies), self._numbers(self._drains)
        self._sum = int(capacity.sum(dtype=np.float64)) + 1

    def first_unfed(self, rate: Fraction, finished: int) -> tuple[int, BoolArray] | None:
        """The first member that cannot get `rate` of every member, and the source's side of the cut that shows it."""
        capacities = self._capacities(rate.denominator, supply=rate.numerator)
        number = self._first_unfed(capacities, finished, len(self._members) * rate.numerator)
        return None if number < 0 else (number, self._source_side())

    def suffices(self, capacity: Int64Array, demand: Sequence[int]) -> bool:
        """Whether each member gets the demands of all members, over edges of other capacities."""
        if int(capacity.sum(dtype=np.float64)) + len(demand) * sum(demand) >= UNLIMITED:
            raise OverflowError("capacities are too large for flows of 64 bits")
        flow = np.zeros(2 * self._forward, np.int64)
        flow[: len(capacity)] = capacity
        flow[len(capacity) : len(capacity) + len(demand)] = demand
        return self._first_unfed(self._numbers(flow), 0, sum(demand)) < 0

    def _first_unfed(self, capacities: Numbers, finished: int, need: int) -> int:
        """The first member that gets less than it needs, or -1; in pieces, between which a signal ends the search."""
        search = version_of(first_unfed, self._compiled)
        count = max(1, BATCH // len(capacities))
        for first in range(finished, len(self._members), count):
            supply = self._supply[: first + count]
            number = search(self._graph, capacities, self._source, supply, first, need)
            if number >= 0:
                return number
        return -1

    def largest(self, source: int, sink: int) -> tuple[int, BoolArray]:
        """The largest flow from one vertex to another, and the source's side of a least cut."""
        send = version_of(augment, self._compiled)
        sent = send(self._graph, self._capacities(1), source, sink, UNLIMITED)
        return sent, self._source_side()

    def out_of(self, part: BoolArray) -> int:
        """The largest flow from some members to all others."""
        send = version_of(augment, self._compiled)
        capacities = self._with_supply(1)
        capacities[np.where(part, self._supplies, self._drains)] = UNLIMITED
        return send(self._graph, self._numbers(capacities), self._source, self._sink, UNLIMITED)

    def best_partition(self, rate: Fraction) -> list[int] | None:
        """By member the number of its part, of a partition that does not allow a rate; None if all do."""
        search = version_of(truncate, self._compiled)
        given = self._capacities(rate.denominator)
        value, parts = (self._numbers(np.zeros(len(self._members), np.int64)) for _ in range(2))
        least = search(
            self._graph, given, self._capacities(rate.denominator), self._source, self._sink, self._supply,
            self._drain, 2 * rate.numerator, value, parts,
        )  # fmt: skip
        return None if least >= -2 * rate.numerator else [int(label) for label in parts]

    def _capacities(self, scale: int, supply: int = 0) -> Numbers:
        """As `_with_supply`, for kernels."""
        return self._numbers(self._with_supply(scale, supply))

    def _with_supply(self, scale: int, supply: int = 0) -> Int64Array:
        """Capacities of all arcs: edges times a scale, then the arcs from the source."""
        if self._sum * scale + supply * len(self._members) >= UNLIMITED:
            raise OverflowError("capacities are too large for flows of 64 bits")
        capacities = np.zeros(2 * self._forward, np.int64)
        capacities[: len(self._capacity)] = self._capacity * scale
        capacities[len(self._capacity) : len(self._capacity) + len(self._members)] = supply
        return capacities

    def _source_side(self) -> BoolArray:
        """Vertices from which no path leads to the sink of the last flow."""
        return np.array([self._graph.level[vertex] < 0 for vertex in range(self._vertices)], np.bool_)

    def _numbers(self, values: Int64Array | Int32Array) -> Numbers:
        return numbers(values.astype(np.int64), self._compiled)
