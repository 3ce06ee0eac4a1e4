"""The transfers of a schedule as tasks: what each of them waits for, found from the times of the schedule."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import CheckFailed, Diagnostic
from collc.simulation.tasks import DONE, SENT, START, Edges, Routes, TaskGraph
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, select_rows
from collc.ten.demand import Demand, Op
from collc.ten.limited import Ports
from collc.ten.network import Network
from collc.ten.schedule import MessageHops, Transfers


@dataclass(frozen=True, eq=False)
class ChunkMoves:
    """Chunks that go from device to device, over one link or several.

    chunk, source, target: int32[moves]. start, end: int64[moves], when each leaves and arrives in the schedule.
    """

    chunk: Int32Array
    source: Int32Array
    target: Int32Array
    start: Int64Array
    end: Int64Array

    @staticmethod
    def of(network: Network, rows: Transfers, ends: Int64Array) -> ChunkMoves:
        """One for each transfer."""
        return ChunkMoves(rows.chunk, network.source[rows.link], network.target[rows.link], rows.start, ends)

    @staticmethod
    def of_messages(
        network: Network, rows: Transfers, ends: Int64Array, first: Int64Array, last: Int64Array
    ) -> ChunkMoves:
        """One for each message, which leaves when it joins its first queue.

        first, last: int64[messages], the rows of its first and last hop. ends: int64[transfers].
        """
        ready = rows.start
        if rows.messages is not None:
            ready = np.where(rows.messages.number >= 0, rows.messages.ready, ready)
        source, target = network.source[rows.link[first]], network.target[rows.link[last]]
        return ChunkMoves(rows.chunk[first], source, target, ready[first], ends[last])

    def select(self, rows: NDArray[np.intp]) -> ChunkMoves:
        """Some of the moves, or all in another order."""
        return select_rows(self, rows)

    def overtaken(self, network: Network, reduced: BoolArray, ready: Int64Array, end: Int64Array) -> bool:
        """Whether, at other times, a reduced chunk leaves a device after more or fewer arrivals than at these.

        reduced: bool[moves]. ready, end: int64[moves], the other times.
        """
        _, first, last = arrivals_before(network, self)
        _, other_first, other_last = arrivals_before(network, replace(self, start=ready, end=end))
        return bool(((last - first) != (other_last - other_first))[reduced].any())


def schedule_tasks(
    network: Network, demand: Demand, rows: Transfers, ends: Int64Array, in_turn: bool = True
) -> TaskGraph:
    """One task for each transfer. ends: int64[transfers], when each arrives in the schedule.

    A transfer waits for its chunk (`chunk_edges`) and, `in_turn`, until the transfer before it has left its link, and
    the one before it has left its source if this sends one after another.
    Raises CheckFailed (S0401) if a chunk is never at the source of its transfer.
    """
    edges = transfer_edges(network, demand, rows, ends)
    if in_turn:
        edges = Edges.join([edges, *order_edges(network, rows)])
    tasks = tasks_of_transfers(network, demand, rows, edges)
    if rows.messages is None or rows.messages.received is None:
        return tasks
    rank = np.empty(len(rows), np.int64)
    rank[np.argsort(ends, kind="stable")] = np.arange(len(rows))
    return replace(tasks, hop_order=rank)  # of messages that reach an NPU at once, the one first received goes first


def tasks_of_transfers(network: Network, demand: Demand, rows: Transfers, edges: Edges) -> TaskGraph:
    """One task for each transfer, with what they wait for."""
    return TaskGraph(
        size=demand.chunks.size[rows.chunk],
        route=rows.link,
        duration=np.zeros(len(rows), np.int64),
        source=network.source[rows.link],
        target=network.target[rows.link],
        routes=Routes.single_links(network),
        edges=edges,
    )


def transfer_edges(network: Network, demand: Demand, rows: Transfers, ends: Int64Array) -> Edges:
    """The arrivals for which each transfer waits: of its chunk, or of the hop before in its message.

    ends: int64[transfers], when each arrives in the schedule. Raises as `chunk_edges`.
    """
    if rows.messages is None:
        return chunk_edges(network, demand, ChunkMoves.of(network, rows, ends))
    hops = MessageHops.of(rows.messages.number, rows.start)
    between = chunk_edges(network, demand, ChunkMoves.of_messages(network, rows, ends, hops.first, hops.last))
    last, first = hops.last[between.before].astype(np.int32), hops.first[between.after].astype(np.int32)
    ends_to_starts = Edges.all_of(last, first, DONE)
    inside = Edges.all_of(hops.before.astype(np.int32), hops.after.astype(np.int32), DONE)
    return Edges.join([ends_to_starts, inside])


def order_edges(network: Network, rows: Transfers) -> list[Edges]:
    """Each transfer waits until the one before it has left its link, and if an NPU limits what it sends, for the
    start of the one that it sends before.

    Messages that queue wait for their link when their NPU has sent them, so that its order is that on its links too.
    """
    if not network.has_endpoints:
        return [link_edges(rows.link)]
    port = Ports.of(network).out[network.source[rows.link]]
    injected = rows.start if rows.messages is None else rows.messages.injected
    order = np.lexsort((injected, port)).astype(np.int32)
    same = (port[order[1:]] == port[order[:-1]]) & (port[order[1:]] >= 0)
    in_turn = Edges.all_of(order[:-1][same], order[1:][same], START)
    if rows.messages is None:
        return [link_edges(rows.link), in_turn]
    free = np.flatnonzero(port < 0).astype(np.int32)
    links = link_edges(rows.link[free])
    return [Edges(free[links.before], free[links.after], links.phase), in_turn]


def link_edges(link: Int32Array) -> Edges:
    """Each transfer waits until the one before it has left its link. link: int32[transfers], in order of start."""
    order = np.argsort(link, kind="stable").astype(np.int32)
    same = link[order[1:]] == link[order[:-1]]
    return Edges.all_of(order[:-1][same], order[1:][same], SENT)


def chunk_edges(network: Network, demand: Demand, rows: ChunkMoves) -> Edges:
    """The arrivals of its chunk for which each move waits.

    One of a copied chunk waits for the first arrival of the chunk at its source, one of a reduced chunk for all
    arrivals that precede it in the schedule, one out of a switch for the last of them; none if the source holds
    a copied chunk from the beginning. Raises CheckFailed (S0401) if a chunk is never at the source of its transfer.
    """
    before, first, last = arrivals_before(network, rows)
    switch = rows.source >= network.npu_count
    reduced = demand.chunks.op[rows.chunk] != Op.COPY
    held = held_at_first(demand, rows.chunk, rows.source) & ~switch
    none = (first == last) & ~held
    if none.any():
        k = int(np.flatnonzero(none)[0])
        source, target = (network.shown_name(int(end[k])) for end in (rows.source, rows.target))
        message = f"chunk {demand.chunk_name(int(rows.chunk[k]))} is never at the source of {source} -> {target}"
        raise CheckFailed(Diagnostic("S0401", message, hint="verify the schedule first"))
    first = np.where(switch, np.maximum(first, last - 1), first)
    last = np.where(switch | reduced, last, np.minimum(last, first + 1))
    last = np.where(held & ~reduced, first, last)
    waits = last - first
    after = np.repeat(np.arange(len(waits), dtype=np.int32), waits)
    offsets = np.zeros(len(waits), np.int64)
    np.cumsum(waits[:-1], out=offsets[1:])
    return Edges.all_of(before[np.arange(len(after)) + np.repeat(first - offsets, waits)], after, DONE)


def arrivals_before(network: Network, rows: ChunkMoves) -> tuple[Int32Array, Int64Array, Int64Array]:
    """(order, first, last): the arrivals of its chunk at the source of move k, up to its start, are
    order[first[k]:last[k]], in order of time.
    """
    count = len(rows.chunk)
    chunk = rows.chunk.astype(np.int64) * network.device_count
    key = np.concatenate([chunk + rows.target, chunk + rows.source])
    time = np.concatenate([rows.end, rows.start])
    leaves = np.repeat(np.array([False, True]), count)
    order = np.lexsort((leaves, time, key))
    arrives = ~leaves[order]
    arrived_before = np.cumsum(arrives)
    sorted_key = key[order]
    new = np.append(True, sorted_key[1:] != sorted_key[:-1]) if count else np.zeros(0, np.bool_)
    group = np.maximum.accumulate(np.where(new, np.arange(2 * count), 0))
    first_of_group = (arrived_before - arrives)[group]
    departures = order[~arrives] - count
    first, last = np.zeros(count, np.int64), np.zeros(count, np.int64)
    first[departures], last[departures] = first_of_group[~arrives], arrived_before[~arrives]
    return order[arrives].astype(np.int32), first, last


def held_at_first(demand: Demand, chunk: Int32Array, device: Int32Array) -> BoolArray:
    """bool[moves]: whether the device holds the chunk from the beginning."""
    return demand.chunks.sets.contain(demand.chunks.pre[chunk], device)
