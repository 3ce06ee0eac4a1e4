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

REDUCTION_NS = 1
"""What ASTRA-sim takes for a compute node without a duration."""


@dataclass(frozen=True, eq=False)
class Algorithm:
    """n messages from NPU to NPU, one chunk each, in order of start; some are reduced where they arrive.

    moves: chunk and both devices of each message, and its times in the schedule. routes, route: int32[n].
    reduced: bool[n], whether the receiver adds the message to what it holds. before, after: int32[dependencies]:
    message `after` waits for the arrival (and reduction) of message `before`, because it brings the chunk
    (`produces`, bool[dependencies]) or so that messages enter a link in the order of the schedule.
    start, arrival: int64[n], nanoseconds in ASTRA-sim's congestion-aware model; time: until all is done.
    """

    moves: ChunkMoves
    routes: Routes
    route: Int32Array
    reduced: BoolArray
    before: Int32Array
    after: Int32Array
    produces: BoolArray
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
    reduced = reduce & _holds_before(network, demand, moves)
    needed = chunk_edges(network, demand, moves)
    first_link = routes.links[routes.offsets[route]]
    graph, work = _tasks(demand, moves, routes, route, reduced, needed)
    in_turn = Edges.joined([graph.edges, link_edges(first_link)])
    found = simulate(network, replace(graph, edges=in_turn), AstraTiming())
    ended = found.end[np.where(work >= 0, work, np.arange(len(work)))]
    before, after = _order_on_links(needed, ended, first_link)
    count = len(needed.before)
    return Algorithm(
        moves,
        routes,
        route,
        reduced,
        np.concatenate([needed.before, before]),
        np.concatenate([needed.after, after]),
        np.arange(count + len(before)) < count,
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


def _tasks(
    demand: Demand, moves: ChunkMoves, routes: Routes, route: Int32Array, reduced: BoolArray, needed: Edges
) -> tuple[TaskGraph, Int64Array]:
    """(tasks, int64[n]): messages, then reductions; and the number of the reduction of each message, or -1."""
    count, sums = len(moves.chunk), np.flatnonzero(reduced).astype(np.int32)
    work = np.full(count, -1, np.int64)
    work[sums] = count + np.arange(len(sums))
    producer = np.where(work >= 0, work, np.arange(count))[needed.before].astype(np.int32)
    edges = [
        Edges.all_of(producer, needed.after, DONE),
        Edges.all_of(sums, work[sums].astype(np.int32), DONE),
    ]
    here = moves.target[sums]
    graph = TaskGraph(
        size=np.append(demand.chunks.size[moves.chunk], np.zeros(len(sums), np.int64)),
        route=np.append(route, np.full(len(sums), -1, np.int32)),
        duration=np.append(np.zeros(count, np.int64), np.full(len(sums), REDUCTION_NS, np.int64)),
        source=np.append(moves.source, here),
        target=np.append(moves.target, here),
        routes=routes,
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
