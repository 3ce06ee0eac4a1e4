"""A schedule as the messages and reductions of a custom collective, with the order of messages on each link.

A switch of ASTRA-sim sends on at once what arrives, and traces can hold messages back at NPUs only. So each message
leaves as late as it can without being late at its last link, and messages for one link leave in the order of that link.
If several messages of an NPU are due together this cannot hold for all of them; then other orders are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from collc.chakra.schema import REDUCTION_NS
from collc.simulation.engine import Deadlock, simulate
from collc.simulation.schedule_tasks import ChunkMoves, chunk_edges, held_at_first, link_edges
from collc.simulation.tasks import DONE, SENT, Edges, Routes, TaskGraph
from collc.simulation.timing import AstraTiming
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel

_MICROSECOND: Final = 1000


ORDERS: Final = 120
"""Orders of messages that are tried."""

MOST_MESSAGES: Final = 100_000
"""Messages that all orders may simulate together, about."""


@dataclass(frozen=True, eq=False)
class HopTimes:
    """n messages at their first and last links in ASTRA-sim's nanoseconds, in the order of the schedule on each link.

    ready: int64[n], when a message can leave. enter: when it enters its first link. due: when it must at the latest so
    that it enters its last link in time, if it does not wait on the way. busy: how long it occupies its first link.
    first, last: int32[n], links; the last is -1 for messages over a single link. time: until all is done.
    """

    ready: Int64Array
    enter: Int64Array
    due: Int64Array
    busy: Int64Array
    first: Int32Array
    last: Int32Array
    time: int

    def latest(self, key: Int64Array, apart: int) -> Int64Array:
        """int64[n], nanoseconds: when messages leave, planned from the last to the first in order of `key`.

        apart: nanoseconds between messages that go to the same last link.
        """
        columns = self.busy, self.due, self.ready, self.first, self.last
        busy, due, ready, first, last = (_ints(column) for column in columns)
        leave = [0] * len(due)
        following: dict[int, int] = {}
        beside: dict[int, int] = {}
        for k in _ints(np.argsort(key, kind="stable")[::-1]):
            time = min(due[k], following.get(first[k], due[k] + busy[k]) - busy[k])
            if last[k] >= 0:
                time = min(time, beside.get(last[k], time + apart) - apart)
            leave[k] = following[first[k]] = max(time, ready[k], 0)
            if last[k] >= 0:
                beside[last[k]] = leave[k]
        return np.array(leave, np.int64)

    def candidates(self) -> Iterator[Int64Array]:
        """Times before which messages do not leave, int64[n], 0: as soon as it can be sent; the likeliest first."""
        rng = np.random.default_rng(0)
        slot = int(self.busy.max(initial=1))
        for number in range(min(ORDERS, 1 + MOST_MESSAGES // max(1, len(self.due)))):
            key = self.enter if number == 2 else self.due
            if number > 2:
                share = rng.random()
                noise = rng.random(len(key)) * slot * (0.1, 1, 2, 4)[number % 4]
                key = (share * self.due + (1 - share) * self.enter + noise).astype(np.int64)
            times = self.latest(key, 1 - number % 2)
            whole = np.maximum(self.ready, times // _MICROSECOND * _MICROSECOND)
            for begin in (whole, times):  # compute nodes take whole microseconds, so that fewer of them make these
                yield np.where(begin > self.ready, begin, 0) if number % 3 else begin


@dataclass(frozen=True, eq=False)
class Algorithm:
    """n messages from NPU to NPU, one chunk each, in order of start; the receivers reduce some of them.

    moves: chunk and both devices of each message, and its times in the schedule. routes, route: int32[n].
    reduced: bool[n], whether the receiver adds the message to what it holds. before, after: int32[dependencies]:
    message `after` waits for the arrival (and reduction) of message `before`, because it brings the chunk
    (`produces`, bool[dependencies]) or so that messages enter a link in the order of the schedule.
    begin: int64[n], nanoseconds before which a message is not sent; 0: as soon as it can be.
    start, arrival: int64[n], nanoseconds in ASTRA-sim's congestion-aware model; time: until all is done.
    schedule_time: nanoseconds until all is done if links carry messages in the order of the schedule.
    """

    moves: ChunkMoves
    routes: Routes
    route: Int32Array
    reduced: BoolArray
    before: Int32Array
    after: Int32Array
    produces: BoolArray
    begin: Int64Array
    start: Int64Array
    arrival: Int64Array
    time: int
    schedule_time: int


TimeOfTraces = Callable[[Algorithm], int]
"""Nanoseconds that the traces of an algorithm take as they are written."""


def algorithm_of(
    network: Network,
    demand: Demand,
    moves: ChunkMoves,
    routes: Routes,
    route: Int32Array,
    reduce: BoolArray,
    time_of_traces: TimeOfTraces | None = None,
    hop_starts: Int64Array | None = None,
) -> Algorithm:
    """The messages of a schedule, as ASTRA-sim will run them: if possible in the time of the schedule.

    reduce: bool[n], whether the receiver adds the message. A receiver that holds nothing of the chunk stores it.
    hop_starts: int64[hops], picoseconds at which the hops enter their links in the schedule, message by message; None:
    a message waits before its second hop only.
    time_of_traces: decides if messages come to a switch at one moment, whose order depends on that of the nodes.
    Raises CheckFailed S0401 if a chunk is never at its sender, Deadlock, ValueError if a link has no bandwidth.
    """
    plan = _Plan.of(network, demand, moves, routes, route, reduce)
    best = _simulate_algorithm(plan, np.zeros(len(route), np.int64))
    times = None if plan.direct else _hop_times(plan, hop_starts)
    if times is None:
        return best
    for begin in chain([best.begin], times.candidates()):
        other = replace(_simulate_algorithm(plan, begin), schedule_time=times.time)
        if time_of_traces is not None and (other.time == times.time or begin is best.begin):
            other = replace(other, time=time_of_traces(other))
        if begin is best.begin:
            best = other
        best = min(best, other, key=lambda some: (some.time != times.time, some.time > times.time, some.time))
        if best.time == times.time:
            break
    return best


@dataclass(frozen=True, eq=False)
class _Plan:
    """What `algorithm_of` is given, which messages are reduced, and which arrivals each waits for."""

    network: Network
    demand: Demand
    moves: ChunkMoves
    routes: Routes
    route: Int32Array
    reduced: BoolArray
    needed: Edges

    @staticmethod
    def of(
        network: Network, demand: Demand, moves: ChunkMoves, routes: Routes, route: Int32Array, reduce: BoolArray
    ) -> _Plan:
        """The plan for messages in this order. reduce: bool[n], whether the receiver adds the message."""
        reduced = reduce & _holds_before(network, demand, moves)
        return _Plan(network, demand, moves, routes, route, reduced, chunk_edges(network, demand, moves))

    @property
    def direct(self) -> bool:
        """Whether all messages take one link."""
        return int(np.diff(self.routes.offsets).max(initial=0)) <= 1


def _hop_times(plan: _Plan, hop_starts: Int64Array | None) -> HopTimes | None:
    """The messages at their first and last links; None if the order of the schedule at other links is not known.

    Each hop of a message is a task, which waits for the hop before and for its turn on the link. hop_starts: see
    `algorithm_of`.
    """
    moves, count = plan.moves, len(plan.route)
    offsets, links = plan.routes.of_tasks(plan.route)
    message = np.repeat(np.arange(count, dtype=np.int32), np.diff(offsets))
    first, last = offsets[:-1], offsets[1:] - 1
    planned = _planned_starts(plan, offsets, links) if hop_starts is None else hop_starts
    graph, work = _tasks(plan, np.zeros(count, np.int64))
    sums = np.flatnonzero(work >= 0)
    begins, ends = first.astype(np.int32), last.astype(np.int32)
    done = ends.copy()
    done[sums] = len(links) + np.arange(len(sums))
    inner = np.flatnonzero(np.diff(message) == 0).astype(np.int32)
    turns = np.lexsort((planned, links)).astype(np.int32)
    same = links[turns[1:]] == links[turns[:-1]]
    edges = [
        Edges.all_of(done[plan.needed.before], begins[plan.needed.after], DONE),
        Edges.all_of(inner, inner + np.int32(1), DONE),
        Edges.all_of(ends[sums], done[sums], DONE),
        Edges.all_of(turns[:-1][same], turns[1:][same], SENT),
    ]
    none = np.full(len(sums), -1, np.int32)
    hops = TaskGraph(
        size=np.append(graph.size[:count][message], np.zeros(len(sums), np.int64)),
        route=np.append(links, none),
        duration=np.append(np.zeros(len(links), np.int64), graph.duration[count:]),
        source=np.append(moves.source[message], moves.target[sums]),
        target=np.append(moves.target[message], moves.target[sums]),
        routes=Routes.single_links(plan.network),
        edges=Edges.join(edges),
    )
    try:
        simulation = simulate(plan.network, hops, AstraTiming())
    except Deadlock:
        return None
    ready = np.zeros(count, np.int64)
    np.maximum.at(ready, plan.needed.after, simulation.end[done][plan.needed.before])
    enter, leave = simulation.hops.begin[first], simulation.hops.begin[last]
    before_last = np.add.reduceat(simulation.hops.delay, first) - simulation.hops.delay[last]
    several = np.where(first < last, links[last], -1).astype(np.int32)
    return HopTimes(
        ready, enter, leave - before_last, simulation.hops.busy[first], links[first], several, simulation.time
    )


def _planned_starts(plan: _Plan, offsets: Int64Array, links: Int32Array) -> Int64Array:
    """int64[hops]: when hops enter their links in the schedule, if messages wait before their second hop only.

    offsets: int64[n + 1]. links: int32[hops], the links of the messages.
    """
    moves = plan.moves
    message = np.repeat(np.arange(len(plan.route), dtype=np.int32), np.diff(offsets))
    clock = Clock.of(plan.network, plan.demand, LinkModel.PIPELINED)
    taken = clock.total[plan.network.kind[links], clock.size_of[moves.chunk[message]]]
    left = np.append(np.cumsum(taken[::-1])[::-1], 0)
    planned = moves.end[message] - left[:-1] + left[offsets[1:]][message]
    planned[offsets[:-1]] = moves.start
    return planned


def _simulate_algorithm(plan: _Plan, begin: Int64Array) -> Algorithm:
    """The algorithm whose messages are sent from `begin` on (int64[n], nanoseconds).

    If this is 0 for all, more dependencies let them enter their first links in the order of the schedule.
    """
    first_link = plan.routes.links[plan.routes.offsets[plan.route]]
    graph, work = _tasks(plan, begin)
    done = np.where(work >= 0, work, np.arange(len(work)))
    before = after = np.zeros(0, np.int32)
    edges = graph.edges
    if not begin.any():
        in_turn = Edges.join([edges, link_edges(first_link)])
        simulation = simulate(plan.network, replace(graph, edges=in_turn), AstraTiming())
        before, after = _order_on_links(plan.needed, simulation.end[done], first_link)
        # If messages pass switches, only the nodes themselves say how long they take.
        in_traces = Edges.join([edges, Edges.all_of(done[before].astype(np.int32), after, DONE)])
        edges = in_turn if plan.direct else in_traces
    simulation = simulate(plan.network, replace(graph, edges=edges), AstraTiming())
    count = len(plan.needed.before)
    return Algorithm(
        plan.moves,
        plan.routes,
        plan.route,
        plan.reduced,
        np.concatenate([plan.needed.before, before]),
        np.concatenate([plan.needed.after, after]),
        np.arange(count + len(before)) < count,
        begin,
        simulation.start[: len(work)],
        simulation.end[: len(work)],
        simulation.time,
        simulation.time,
    )


def _holds_before(network: Network, demand: Demand, moves: ChunkMoves) -> BoolArray:
    """bool[n]: whether the receiver holds something of the chunk before the message arrives."""
    key = moves.chunk.astype(np.int64) * network.device_count + moves.target
    order = np.lexsort((np.arange(len(key)), moves.end, key))
    later = np.zeros(len(key), np.bool_)
    later[order[1:]] = key[order[1:]] == key[order[:-1]]
    return later | held_at_first(demand, moves.chunk, moves.target)


def _tasks(plan: _Plan, begin: Int64Array) -> tuple[TaskGraph, Int64Array]:
    """(tasks, int64[n]): messages, reductions and waits; and the number of the reduction of each message, or -1."""
    moves, needed = plan.moves, plan.needed
    count, sums, held = len(begin), np.flatnonzero(plan.reduced).astype(np.int32), np.flatnonzero(begin)
    work = np.full(count, -1, np.int64)
    work[sums] = count + np.arange(len(sums))
    waits = (count + len(sums) + np.arange(len(held))).astype(np.int32)
    producer = np.where(work >= 0, work, np.arange(count))[needed.before].astype(np.int32)
    edges = [
        Edges.all_of(producer, needed.after, DONE),
        Edges.all_of(sums, work[sums].astype(np.int32), DONE),
        Edges.all_of(waits, held.astype(np.int32), DONE),
    ]
    more = len(sums) + len(held)
    here = np.append(moves.target[sums], moves.source[held])
    durations = np.append(np.full(len(sums), REDUCTION_NS, np.int64), begin[held])
    graph = TaskGraph(
        size=np.append(plan.demand.chunks.size[moves.chunk], np.zeros(more, np.int64)),
        route=np.append(plan.route, np.full(more, -1, np.int32)),
        duration=np.append(np.zeros(count, np.int64), durations),
        source=np.append(moves.source, here),
        target=np.append(moves.target, here),
        routes=plan.routes,
        edges=Edges.join(edges),
    )
    return graph, work


def _order_on_links(needed: Edges, ended: Int64Array, link: Int32Array) -> tuple[Int32Array, Int32Array]:
    """(before, after): more dependencies, so that messages queue at their first link in the order of the schedule.

    A message that would be ready before those in front of it, or with them, also waits for what they wait for last: of
    arrivals at the same time, all. It does not wait for these messages, since a send is done when its message has
    arrived.
    ended: int64[n], when each message has arrived and is reduced.
    """
    count = len(ended)
    ready = np.zeros(count, np.int64)
    np.maximum.at(ready, needed.after, ended[needed.before])
    binding: list[list[int]] = [[] for _ in range(count)]
    last = ended[needed.before] == ready[needed.after]
    pairs: list[tuple[int, int]] = np.stack([needed.before[last], needed.after[last]], axis=1).tolist()
    for before, after in pairs:
        binding[after].append(before)
    times: list[int] = ready.tolist()
    links: list[int] = link.tolist()
    dependencies: list[tuple[int, int]] = []
    in_front: dict[int, tuple[int, list[int]]] = {}
    for message in range(count):
        time, waits = in_front.get(links[message], (-1, []))
        if times[message] <= time:
            dependencies += [(before, message) for before in waits if before not in binding[message]]
            more = [before for before in binding[message] if times[message] == time and before not in waits]
            in_front[links[message]] = (time, waits + more)
        else:
            in_front[links[message]] = (times[message], binding[message])
    table = np.array(dependencies, np.int32).reshape(len(dependencies), 2)
    return table[:, 0], table[:, 1]


def _ints(column: NDArray[np.integer[Any]]) -> list[int]:
    return column.tolist()
