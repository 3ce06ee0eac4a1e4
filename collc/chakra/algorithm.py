"""A schedule as the messages and reductions of a custom collective, with the order of messages on each link."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from collc.simulation.engine import simulate
from collc.simulation.schedule_tasks import ChunkMoves, chunk_edges, held_at_first, link_edges
from collc.simulation.tasks import DONE, Edges, Routes, TaskGraph
from collc.simulation.timing import AstraTiming
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel

REDUCTION_NS = 1
"""What ASTRA-sim takes for a compute node without a duration."""


@dataclass(frozen=True, eq=False)
class Algorithm:
    """n messages from NPU to NPU, one chunk each, in order of start; some are reduced where they arrive.

    moves: chunk and both devices of each message, and its times in the schedule. routes, route: int32[n].
    reduced: bool[n], whether the receiver adds the message to what it holds. before, after: int32[dependencies]:
    message `after` waits for the arrival (and reduction) of message `before`, because it brings the chunk
    (`produces`, bool[dependencies]) or so that messages enter a link in the order of the schedule.
    hold: int64[n], microseconds that a message is held back when all that it waits for has happened.
    start, arrival: int64[n], nanoseconds in ASTRA-sim's congestion-aware model; time: until all is done.
    """

    moves: ChunkMoves
    routes: Routes
    route: Int32Array
    reduced: BoolArray
    before: Int32Array
    after: Int32Array
    produces: BoolArray
    hold: Int64Array
    start: Int64Array
    arrival: Int64Array
    time: int


def algorithm_of(
    network: Network, demand: Demand, moves: ChunkMoves, routes: Routes, route: Int32Array, reduce: BoolArray
) -> Algorithm:
    """The messages of a schedule, as ASTRA-sim will run them.

    reduce: bool[n], whether the receiver adds the message. A receiver that holds nothing of the chunk stores it.
    Raises CheckFailed S0401 if a chunk is never at its sender, Deadlock, ValueError where a link has no bandwidth.
    """
    plan = _Plan.of(network, demand, moves, routes, route, reduce)
    found = _simulated(plan, np.zeros(len(route), np.int64))
    if plan.direct:
        return found
    order = np.lexsort((moves.start, plan.latest_starts()))
    by_deadline = _Plan.of(network, demand, moves.taken(order), routes, route[order], reduce[order])
    others = [_simulated(plan, plan.holds())]
    others += [_simulated(by_deadline, hold) for hold in (np.zeros(len(route), np.int64), by_deadline.holds())]
    return min([found, *others], key=lambda one: one.time)


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

    def latest_starts(self) -> Int64Array:
        """int64[n]: when messages must leave to arrive as in the schedule, if they do not wait on their routes."""
        clock = Clock.of(self.network, self.demand, LinkModel.PIPELINED)
        offsets, links = self.routes.of_tasks(self.route)
        size = clock.size_of[self.moves.chunk]
        taken = clock.total[self.network.kind[links], np.repeat(size, np.diff(offsets))]
        return self.moves.end - np.add.reduceat(taken, offsets[:-1])

    def holds(self) -> Int64Array:
        """int64[n]: microseconds that messages are held back, so that they do not come to a switch before their turn.

        A message leaves so late that it does not wait on its way in the schedule, as far as the messages after it on
        its first link allow, which keep their order.
        """
        moves, network = self.moves, self.network
        clock = Clock.of(network, self.demand, LinkModel.PIPELINED)
        first = self.routes.links[self.routes.offsets[self.route]]
        busy: list[int] = clock.busy[network.kind[first], clock.size_of[moves.chunk]].tolist()
        turns: dict[int, int] = {}
        times: list[int] = self.latest_starts().tolist()
        on: list[int] = first.tolist()
        for k in range(len(times) - 1, -1, -1):
            times[k] = max(int(moves.start[k]), min(times[k], turns.get(on[k], times[k] + busy[k]) - busy[k]))
            turns[on[k]] = times[k]
        ready = np.zeros(len(times), np.int64)
        np.maximum.at(ready, self.needed.after, moves.end[self.needed.before])
        return np.maximum(0, (np.array(times, np.int64) - ready) // 10**6)


def _simulated(plan: _Plan, hold: Int64Array) -> Algorithm:
    """The algorithm with messages held back. hold: int64[n], microseconds."""
    first_link = plan.routes.links[plan.routes.offsets[plan.route]]
    graph, work = _tasks(plan, hold)
    in_turn = Edges.joined([graph.edges, link_edges(first_link)])
    found = simulate(plan.network, replace(graph, edges=in_turn), AstraTiming())
    ended = found.end[np.where(work >= 0, work, np.arange(len(work)))]
    before, after = _order_on_links(plan.needed, ended, first_link)
    count = len(plan.needed.before)
    if not plan.direct:  # where messages pass switches, only the nodes themselves say how long they take
        producer = np.where(work >= 0, work, np.arange(len(work)))[before].astype(np.int32)
        in_traces = Edges.joined([graph.edges, Edges.all_of(producer, after, DONE)])
        found = simulate(plan.network, replace(graph, edges=in_traces), AstraTiming())
    return Algorithm(
        plan.moves,
        plan.routes,
        plan.route,
        plan.reduced,
        np.concatenate([plan.needed.before, before]),
        np.concatenate([plan.needed.after, after]),
        np.arange(count + len(before)) < count,
        hold,
        found.start[: len(work)],
        found.end[: len(work)],
        found.time,
    )


def _holds_before(network: Network, demand: Demand, moves: ChunkMoves) -> BoolArray:
    """bool[n]: whether the receiver holds something of the chunk before the message arrives."""
    key = moves.chunk.astype(np.int64) * network.device_count + moves.target
    order = np.lexsort((np.arange(len(key)), moves.end, key))
    later = np.zeros(len(key), np.bool_)
    later[order[1:]] = key[order[1:]] == key[order[:-1]]
    return later | held_at_first(network, demand, moves.chunk, moves.target)


def _tasks(plan: _Plan, hold: Int64Array) -> tuple[TaskGraph, Int64Array]:
    """(tasks, int64[n]): messages, reductions and waits; and the number of the reduction of each message, or -1."""
    moves, needed = plan.moves, plan.needed
    count, sums, held = len(hold), np.flatnonzero(plan.reduced).astype(np.int32), np.flatnonzero(hold)
    work, wait = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    work[sums] = count + np.arange(len(sums))
    wait[held] = count + len(sums) + np.arange(len(held))
    producer = np.where(work >= 0, work, np.arange(count))[needed.before].astype(np.int32)
    begins = np.where(wait >= 0, wait, np.arange(count)).astype(np.int32)
    edges = [
        Edges.all_of(producer, begins[needed.after], DONE),
        Edges.all_of(sums, work[sums].astype(np.int32), DONE),
        Edges.all_of(wait[held].astype(np.int32), held.astype(np.int32), DONE),
    ]
    more = len(sums) + len(held)
    here = np.append(moves.target[sums], moves.source[held])
    durations = np.append(np.full(len(sums), REDUCTION_NS, np.int64), hold[held] * 1000)
    graph = TaskGraph(
        size=np.append(plan.demand.chunks.size[moves.chunk], np.zeros(more, np.int64)),
        route=np.append(plan.route, np.full(more, -1, np.int32)),
        duration=np.append(np.zeros(count, np.int64), durations),
        source=np.append(moves.source, here),
        target=np.append(moves.target, here),
        routes=plan.routes,
        edges=Edges.joined(edges),
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
    found: list[tuple[int, int]] = []
    in_front: dict[int, tuple[int, list[int]]] = {}
    for message in range(count):
        time, waits = in_front.get(links[message], (-1, []))
        if times[message] <= time:
            found += [(before, message) for before in waits if before not in binding[message]]
            more = [before for before in binding[message] if times[message] == time and before not in waits]
            in_front[links[message]] = (time, waits + more)
        else:
            in_front[links[message]] = (times[message], binding[message])
    table = np.array(found, np.int32).reshape(len(found), 2)
    return table[:, 0], table[:, 1]
