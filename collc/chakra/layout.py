"""The nodes of the traces of an algorithm, with ids that let ASTRA-sim keep its order on links.

ASTRA-sim issues nodes that are free at one moment in the order of a hash table of ids (`issue_order`). No node waits
for a send, so that sends can have any of the last places in the file of their rank, and the ids of these. Sends over
one link that are free at one moment exchange their places until they enter it in the order of the algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from collc.chakra.algorithm import Algorithm
from collc.chakra.messages import trace_tasks
from collc.chakra.schema import NodeType
from collc.chakra.traces import Traces, node_name
from collc.simulation.engine import MOST_SIMULATED, simulate
from collc.simulation.timing import AstraTiming
from collc.ten.arrays import Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network


@dataclass(frozen=True, slots=True)
class Partials:
    """What NPUs relay and keep apart. origin: by message, the message whose partial it relays. kept: messages that
    their receivers only keep apart.
    """

    origin: dict[int, int]
    kept: set[int]


@dataclass(frozen=True, eq=False)
class Layout:
    """Traces without names, and what their nodes are.

    number: int64[nodes], of each in `_Nodes`. time: ASTRA-sim's nanoseconds until all is done.
    """

    nodes: _Nodes
    traces: Traces
    number: Int64Array
    time: int

    def names(self, algorithm: Algorithm, demand: Demand, partials: Partials) -> list[str]:
        """The names of all nodes: what each does with which chunk (`traces.node_name`)."""
        nodes = self.nodes
        numbers: list[int] = algorithm.moves.chunk.tolist()
        shown = {number: demand.chunk_name(number) for number in sorted(set(numbers))}
        chunks, rank = [shown[number] for number in numbers], nodes.source.tolist()
        columns = nodes.message, nodes.kind, nodes.peer, nodes.until
        rows: list[list[int]] = np.stack([column[self.number] for column in columns], axis=1).tolist()
        names: list[str] = []
        for message, kind, peer, until in rows:
            if message < 0:
                names.append(f"wait until {until} ns" if until else "nothing to do")
                continue
            origin = partials.origin.get(message, -1) if kind == NodeType.SEND else -1
            kept = kind == NodeType.RECV and message in partials.kept
            names.append(
                node_name(NodeType(kind), chunks[message], peer, rank[origin] if origin >= 0 else -1, kept=kept)
            )
        return names


def lay_out(algorithm: Algorithm, demand: Demand, network: Network, partials: Partials) -> Layout:
    """The traces that keep the order of the algorithm on its first links as far as ids can, or that take least time.

    Sends exchange places at most as often as their number has bits, but once if there are many.
    Raises as `trace_tasks` and `simulate` do.
    """
    nodes = _Nodes.of(algorithm, demand, network, partials)
    number = np.arange(len(algorithm.route))
    link = algorithm.routes.links[algorithm.routes.offsets[algorithm.route]]
    turn = np.empty(len(number), np.int64)
    turn[np.lexsort((number, algorithm.start))] = number
    wanted, best = turn, Layout(nodes, *nodes.traces(turn), np.iinfo(np.int64).max)
    for _ in range(len(number).bit_length() if len(number) <= MOST_SIMULATED else 2):
        traces, order = nodes.traces(turn)
        simulation = simulate(network, trace_tasks(traces, network, AstraTiming()), AstraTiming())
        row = np.empty(len(order), np.int64)
        row[order] = np.arange(len(order))
        sends = row[len(order) - len(number) :]
        begin, issued = simulation.hops.begin[simulation.hops.offsets[sends]], simulation.start[sends]
        entered, due = np.lexsort((turn, begin, issued, link)), np.lexsort((wanted, issued, link))
        done = np.array_equal(entered, due)
        if done or simulation.time < best.time:
            best = Layout(nodes, traces, order, simulation.time)
        if done:
            break
        places = turn[entered]
        turn = turn.copy()
        turn[due] = places
    return best


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The nodes of all ranks, the sends behind all others in order of their messages, and their dependencies.

    rank, peer, kind: int64[nodes]. message: int64[nodes], -1 for compute nodes that wait `until` a time in nanoseconds,
    or that do nothing (0). when: int64[nodes], orders the nodes of a file. size: int64[nodes], bytes.
    before, after: int64[dependencies], nodes. source: int64[messages], the ranks that send them.
    """

    rank: Int64Array
    peer: Int64Array
    kind: Int64Array
    message: Int64Array
    until: Int64Array
    when: Int64Array
    size: Int64Array
    before: Int64Array
    after: Int64Array
    source: Int64Array

    @staticmethod
    def of(algorithm: Algorithm, demand: Demand, network: Network, partials: Partials) -> _Nodes:
        """The nodes of an algorithm."""
        moves, rank_of = algorithm.moves, np.full(network.device_count, -1, np.int64)
        rank_of[network.npus] = np.arange(len(network.npus))
        source, target = rank_of[moves.source], rank_of[moves.target]
        held, sums, number = np.flatnonzero(algorithm.begin), np.flatnonzero(algorithm.reduced), np.arange(len(source))
        clocks, clock_of, chain = _clocks(source[held].tolist(), algorithm.begin[held].tolist())
        idle = np.setdiff1d(np.arange(len(network.npus)), np.concatenate([source, target]))
        receives = len(clocks) + len(idle)
        sends = receives + len(number) + len(sums)
        last = receives + number
        last[sums] = receives + len(number) + np.arange(len(sums))
        relays = np.array(sorted(partials.origin.items()), np.int64).reshape(-1, 2)
        edges = [
            chain,
            (receives + sums, last[sums]),
            (last[algorithm.before], sends + algorithm.after.astype(np.int64)),
            (receives + relays[:, 1], sends + relays[:, 0]),
            (clock_of, sends + held),
        ]
        before, after = (np.concatenate(ends) for ends in zip(*edges, strict=True))
        _, once = np.unique(before * (sends + len(number)) + after, return_index=True)
        none, size, arrival = np.full(receives, -1, np.int64), demand.chunks.size[moves.chunk], algorithm.arrival
        latest = np.full(len(number), np.iinfo(np.int64).max)
        return _Nodes(
            rank=np.concatenate([clocks[:, 0], idle, target, target[sums], source]),
            peer=np.concatenate([none, source, source[sums], target]),
            kind=np.repeat(
                np.array([NodeType.COMP, NodeType.RECV, NodeType.COMP, NodeType.SEND], np.int64),
                [receives, len(number), len(sums), len(number)],
            ),
            message=np.concatenate([none, number, sums, number]),
            until=np.append(clocks[:, 1], np.zeros(sends + len(number) - len(clocks), np.int64)),
            when=np.concatenate([none, arrival, arrival[sums], latest]),
            size=np.concatenate([none, size, sums, size]),
            before=before[once],
            after=after[once],
            source=source,
        )

    def traces(self, turn: Int64Array) -> tuple[Traces, Int64Array]:
        """(traces, int64[nodes]: the node of each row), if sends come in files in order of `turn`, int64[messages]."""
        place = np.arange(len(self.rank))
        place[len(place) - len(turn) :] = len(place) - len(turn) + turn
        order = np.lexsort((place, self.when, self.rank))
        first = np.append(0, np.cumsum(np.bincount(self.rank)))
        row = np.empty(len(order), np.int64)
        row[order] = np.arange(len(order))
        ids = np.arange(len(order)) - first[self.rank[order]]
        messages = self.kind[order] != NodeType.COMP
        edges = np.lexsort((row[self.before], row[self.after]))
        none = np.zeros(len(order), np.int64)
        traces = Traces(
            prefix=Path(),
            first=first,
            id=ids,
            place=ids.astype(np.int32),
            kind=self.kind[order].astype(np.int8),
            size=np.where(messages, self.size[order], 0),
            peer=np.where(messages, self.peer[order], -1).astype(np.int32),
            tag=np.where(messages, self.message[order], 0),
            duration=self.until[order] // 1000,
            before=row[self.before][edges].astype(np.int32),
            after=row[self.after][edges].astype(np.int32),
            contents=(),
            name=none,
            name_end=none,
        )
        return traces, order


def _clocks(ranks: list[int], begins: list[int]) -> tuple[Int64Array, Int64Array, tuple[Int64Array, Int64Array]]:
    """Compute nodes that end at given times: (int64[nodes, 2], int64[n], dependencies): rank and nanoseconds of each,
    and the node that ends at each of n times on its rank.

    A node takes whole microseconds, or 1 ns: the nanoseconds are a chain of nodes, which the times share.
    """
    nodes: list[tuple[int, int]] = []
    chain: list[tuple[int, int]] = []
    node_at: dict[tuple[int, int], int] = {}
    times: dict[int, set[int]] = {}
    for rank, begin in zip(ranks, begins, strict=True):
        times.setdefault(rank, set()).add(begin)
    for rank in sorted(times):
        first = len(nodes)
        for tick in range(max(time % 1000 for time in times[rank])):
            chain += [(len(nodes) - 1, len(nodes))] * (tick > 0)
            node_at[rank, tick + 1] = len(nodes)
            nodes.append((rank, tick + 1))
        for time in sorted(time for time in times[rank] if time >= 1000):
            chain += [(first + time % 1000 - 1, len(nodes))] * (time % 1000 > 0)
            node_at[rank, time] = len(nodes)
            nodes.append((rank, time))
    table, edges = (np.array(rows, np.int64).reshape(-1, 2) for rows in (nodes, chain))
    of = np.array([node_at[key] for key in zip(ranks, begins, strict=True)], np.int64)
    return table, of, (edges[:, 0], edges[:, 1])
