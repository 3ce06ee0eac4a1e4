"""The transfers of a schedule as messages over one link or several, each a task by itself."""

from __future__ import annotations

import numpy as np

from collc.simulation.schedule_tasks import ChunkMoves, arrivals_before, chunk_edges, schedule_tasks
from collc.simulation.tasks import Routes, TaskGraph
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Demand, Op
from collc.ten.network import Network
from collc.ten.schedule import MessageHops, Transfers


def message_tasks(network: Network, demand: Demand, rows: Transfers, ends: Int64Array) -> TaskGraph:
    """One task for each message, over all its hops, which waits for its chunk only (`chunk_edges`).

    A chunk that a switch passes on is one message with what brought it there, and if the switch multicasts, a
    message to each end. A sum begins at the switch that adds it up. A transfer between NPUs that belongs to no message
    is one by itself. ends: int64[transfers], when each arrives in the schedule.
    Raises CheckFailed (S0401) if a chunk is never at the source of its message.
    """
    if rows.messages is None and not network.has_switches:
        return schedule_tasks(network, demand, rows, ends, in_turn=False)
    before = _hops_before(network, demand, rows, ends)
    last = np.setdiff1d(np.arange(len(rows), dtype=np.int64), before)
    first, paths = _paths(rows, before, last)
    moves = ChunkMoves.of_messages(network, rows, ends, first, last)
    routes, route = routes_of(paths)
    return TaskGraph(
        size=demand.chunks.size[moves.chunk],
        route=route,
        duration=np.zeros(len(route), np.int64),
        source=moves.source,
        target=moves.target,
        routes=routes,
        edges=chunk_edges(network, demand, moves),
    )


def message_routes(rows: Transfers, hops: MessageHops) -> tuple[Routes, Int32Array]:
    """(routes, int32[n]): the paths that n messages take, each once, and which of them each message takes."""
    begin = np.flatnonzero(np.isin(hops.rows, hops.first))
    links: list[tuple[int, ...]] = [tuple(route.tolist()) for route in np.split(rows.link[hops.rows], begin[1:])]
    return routes_of(links[: len(begin)])


def routes_of(paths: list[tuple[int, ...]]) -> tuple[Routes, Int32Array]:
    """(routes, int32[n]): n paths, each once, and the row of each."""
    row_of = {path: row for row, path in enumerate(dict.fromkeys(paths))}
    return Routes.of([*row_of]), np.array([row_of[path] for path in paths], np.int32)


def _hops_before(network: Network, demand: Demand, rows: Transfers, ends: Int64Array) -> Int64Array:
    """int64[transfers]: the transfer that brought what each one passes on; -1 if its message begins."""
    before = np.full(len(rows), -1, np.int64)
    alone = np.arange(len(rows), dtype=np.int64)
    if rows.messages is not None:
        hops = MessageHops.of(rows.messages.number, rows.start)
        before[hops.after] = hops.before
        alone = np.flatnonzero(rows.messages.number < 0).astype(np.int64)
    moves = ChunkMoves.of(network, rows, ends).select(alone.astype(np.intp))
    order, first, last = arrivals_before(network, moves)
    inside = moves.source >= network.npu_count
    adds = np.append(np.zeros(network.npu_count, np.bool_), network.reduces)[moves.source]
    summed = adds & (demand.chunks.op[moves.chunk] != Op.COPY) & (last - first > 1)
    passed = np.flatnonzero(inside & ~summed & (last > first))
    before[alone[passed]] = alone[order[last[passed] - 1]]
    relays: list[int] = rows.relays[alone].tolist()
    for k in passed[rows.relays[alone[passed]] >= 0].tolist():
        came = alone[order[first[k] : last[k]]]
        over = came[rows.link[came] == relays[k]]
        before[alone[k]] = over[-1] if len(over) else -1
    return before


def _paths(rows: Transfers, before: Int64Array, last: Int64Array) -> tuple[Int64Array, list[tuple[int, ...]]]:
    """(int64[n], paths): the first transfer of each message, and its links. last: int64[n], its last transfer."""
    came: list[int] = before.tolist()
    links: list[int] = rows.link.tolist()
    first: list[int] = []
    paths: list[tuple[int, ...]] = []
    ends: list[int] = last.tolist()
    for row in ends:
        path = [links[row]]
        begin = row
        while came[begin] >= 0:
            begin = came[begin]
            path.append(links[begin])
        first.append(begin)
        paths.append(tuple(reversed(path)))
    return np.array(first, np.int64), paths
