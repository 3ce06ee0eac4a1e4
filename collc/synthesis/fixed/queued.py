"""Algorithms written by hand as messages that queue at links (`allow congestion`).

A statement is a message over the links of its route, as in ASTRA-sim's congestion-aware model: a message that meets
others at a link waits in its queue, and the NPUs on the way forward it without adding it. A message leaves when all
that it needs has come to its source. What it needs follows from the order of the statements on links that were never
busy (collc/synthesis/fixed/layout.py): for a copied chunk its first arrival, for a reduced one all earlier arrivals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError, Span
from collc.simulation.engine import Simulation, simulate
from collc.simulation.routing import NoRoute, shortest_routes
from collc.simulation.schedule_tasks import ChunkMoves, chunk_edges
from collc.simulation.tasks import DONE, Edges, Routes, TaskGraph
from collc.simulation.timing import ExactTiming
from collc.synthesis.fixed.layout import nominal_times
from collc.ten.algorithm import AlgorithmSends
from collc.ten.arrays import BoolArray, Int32Array, join_columns, select_rows
from collc.ten.demand import Demand, Op
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, QueuedMessages, Transfers


@dataclass(frozen=True, eq=False)
class _Statements:
    """The statements of all runs. sends: one row each. run: int32. moves: with their times on idle links."""

    sends: AlgorithmSends
    run: Int32Array
    moves: ChunkMoves


def lay_out_queued(
    network: Network, demand: Demand, runs: Mapping[int, tuple[AlgorithmSends, Span | None]], model: LinkModel
) -> Transfers:
    """The transfers of all algorithms together. runs: by number of the run, its statements and its place.

    Raises SourceError as `lay_out`, but reductions may pass NPUs that have a contribution.
    """
    statements = _statements(network, demand, runs, model)
    graph = _graph(network, demand, statements, model)
    simulation = simulate(network, graph, ExactTiming(model))
    reduced: BoolArray = demand.chunks.op[statements.sends.chunk] != Op.COPY
    if statements.moves.overtaken(network, reduced, simulation.start, simulation.end):
        simulation = simulate(network, _with_barriers(graph, statements), ExactTiming(model))
    return _transfers(statements.sends, simulation)


def _statements(
    network: Network, demand: Demand, runs: Mapping[int, tuple[AlgorithmSends, Span | None]], model: LinkModel
) -> _Statements:
    parts: list[tuple[int, AlgorithmSends, ChunkMoves]] = []
    for number, (sends, span) in runs.items():
        start, end = nominal_times(network, demand, number, sends, model, span)
        apart = np.flatnonzero(sends.source != sends.target)
        kept = select_rows(sends, apart)
        parts.append((number, kept, ChunkMoves(kept.chunk, kept.source, kept.target, start[apart], end[apart])))
    return _Statements(
        join_columns([part[1] for part in parts]),
        np.repeat(np.array([part[0] for part in parts], np.int32), [len(part[1]) for part in parts]),
        join_columns([part[2] for part in parts]),
    )


def _graph(network: Network, demand: Demand, statements: _Statements, model: LinkModel) -> TaskGraph:
    """A task for each message. Of messages that come to a link at once, those of earlier statements go first; of those
    that an NPU with limits could send at once, that to the NPU with the next number, so that all send in one direction.
    """
    sends, moves = statements.sends, statements.moves
    size = demand.chunks.size[sends.chunk]
    routes, route = _routes(network, sends, int(np.median(size)) if len(size) else 0, model)
    rank = np.empty(len(sends), np.int64)
    turn = (sends.target - sends.source) % network.npu_count * network.has_endpoints
    rank[np.lexsort((np.arange(len(sends)), turn, moves.start))] = np.arange(len(sends))
    return TaskGraph(
        size=size,
        route=route,
        duration=np.zeros(len(sends), np.int64),
        source=sends.source,
        target=sends.target,
        routes=routes,
        edges=chunk_edges(network, demand, moves),
        order=rank,
        hop_order=rank,
    )


def _routes(network: Network, sends: AlgorithmSends, size: int, model: LinkModel) -> tuple[Routes, Int32Array]:
    """The routes that take the least time for a message of `size` bytes, and the row of each statement."""
    timing = ExactTiming(model)
    taken = np.array([max(1, timing.hop(size, kind)[1]) for kind in network.kinds], np.int64)
    try:
        return shortest_routes(network, sends.source, sends.target, taken[network.kind])
    except NoRoute as error:
        ends = f"{network.shown_name(error.source)} to {network.shown_name(error.target)}"
        raise SourceError(Diagnostic("S0103", f"no path leads from {ends}")) from error


def _with_barriers(graph: TaskGraph, statements: _Statements) -> TaskGraph:
    """The tasks, where a step begins only when all messages of the step before, in the same run, have arrived."""
    edges = [graph.edges]
    count = len(graph)
    first: list[int] = []
    for run in np.unique(statements.run).tolist():
        steps = np.where(statements.run == run, statements.sends.step, -1)
        before: Int32Array | None = None
        for step in np.unique(steps[steps >= 0]).tolist():
            of_step = np.flatnonzero(steps == step).astype(np.int32)
            if before is not None:
                barrier = np.full(1, count + len(first), np.int32)
                edges.append(Edges.all_of(before, np.repeat(barrier, len(before)), DONE))
                edges.append(Edges.all_of(np.repeat(barrier, len(of_step)), of_step, DONE))
                first.append(int(graph.source[of_step[0]]))
            before = of_step
    here, order = np.array(first, np.int32), graph.order
    assert order is not None
    numbers = np.append(order, count + np.arange(len(first)))
    return TaskGraph(
        size=np.append(graph.size, np.zeros(len(first), np.int64)),
        route=np.append(graph.route, np.full(len(first), -1, np.int32)),
        duration=np.zeros(count + len(first), np.int64),
        source=np.append(graph.source, here),
        target=np.append(graph.target, here),
        routes=graph.routes,
        edges=Edges.join(edges),
        order=numbers,
        hop_order=numbers,
    )


def _transfers(sends: AlgorithmSends, found: Simulation) -> Transfers:
    """The hops of all messages. One that takes a single link, and waited for nothing, is a transfer by itself."""
    offsets = found.hops.offsets[: len(sends) + 1]
    lengths = np.diff(offsets)
    message = np.repeat(np.arange(len(sends), dtype=np.int32), lengths)
    ready = np.empty(len(message), np.int64)
    ready[1:] = found.hops.arrived[:-1]
    ready[offsets[:-1]] = found.start[: len(sends)]
    waited = found.hops.arrived > found.hops.begin + found.hops.delay
    first = offsets[:-1]
    alone = (lengths == 1) & (found.hops.begin[first] == found.start[: len(sends)]) & ~waited[first]
    number = np.where(alone[message], -1, message).astype(np.int32)
    received = np.where(waited, found.hops.arrived, -1) if bool(waited.any()) else None
    messages = QueuedMessages(number, ready, found.hops.injected, received) if bool((number >= 0).any()) else None
    chunk, reduce = sends.chunk[message], sends.reduce[message]
    return Transfers.of(chunk, found.hops.link, found.hops.begin, reduce, None, messages)
