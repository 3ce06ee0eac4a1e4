"""What NCCL runs by itself, for comparison: rings and trees of its shape, simulated on the network.

A ring goes through the NPUs of one node, then to the next node; there are as many rings as a node has NPUs, each of
which enters and leaves nodes at another NPU, so that all NICs are used. A tree is a chain inside each node, whose heads
form NCCL's double binary tree. All-to-All, gather and scatter are direct messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np

from collc.graph.digraph import nodes_of
from collc.simulation.engine import simulate
from collc.simulation.routing import NoRoute, shortest_routes
from collc.simulation.tasks import DONE, SENT, Edges, TaskGraph
from collc.simulation.timing import ExactTiming
from collc.ten.network import Network
from collc.tuning.protocols import ProtocolCost, with_protocol

PIECES: Final = (1, 4, 16, 32)
"""Into how many pieces a buffer is divided, to send one while the next arrives; the best number counts. A ring has as
many rings side by side in place of each, at most the 32 channels that NCCL has."""

MOST_MESSAGES: Final = 40_000
"""Most messages with more than one piece."""

SAMPLED: Final = 3
"""Of the sizes, every third is simulated with all protocols and pieces."""

_STEPS: Final = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
"""How often a ring goes round."""


def shapes_of(kind: str) -> tuple[str, ...]:
    """The shapes that NCCL has for a collective."""
    if kind == "all_reduce":
        return ("ring", "tree")
    return ("ring",) if kind in (*_STEPS, "broadcast", "reduce") else ("direct",)


def nccl_times(
    network: Network, kind: str, shape: str, sizes: Sequence[int], costs: Sequence[ProtocolCost], root: int = 0
) -> list[int | None]:
    """Picoseconds of NCCL's shape for each size, with the best of some protocols and numbers of pieces.

    All of these are simulated for every third size; between two of these, the best ones of both are. network: all NPUs
    take part, in their order. kind: of the standard collective. root: its rank. None without paths.
    """
    nodes = nodes_of(network)
    try:
        made = [_graph(network, nodes, kind, shape, pieces, root) for pieces in PIECES]
    except NoRoute:
        return [None] * len(sizes)
    graphs = [graph for graph in made if graph is not None]
    seen = [with_protocol(network, cost) for cost in costs]
    variants = [(view, graph) for view in range(len(seen)) for graph in range(len(graphs))]

    def time(variant: tuple[int, int], size: int) -> int:
        tasks, parts = graphs[variant[1]]
        pieces = np.full(len(tasks), -(-size // parts), np.int64)
        return simulate(seen[variant[0]], replace(tasks, size=pieces), ExactTiming()).time_ps

    best: dict[int, tuple[int, tuple[int, int]]] = {}
    for position in sampled_positions(len(sizes)):
        best[position] = min((time(variant, sizes[position]), variant) for variant in variants)
    times: list[int | None] = []
    for position, size in enumerate(sizes):
        near = {best[other][1] for other in best if abs(other - position) < SAMPLED}
        times.append(best[position][0] if position in best else min(time(variant, size) for variant in sorted(near)))
    return times


def sampled_positions(count: int) -> list[int]:
    """Every third of `count` positions, and the last one."""
    return sorted({*range(0, count, SAMPLED), count - 1}) if count else []


@dataclass
class _Messages:
    """Messages as (source, target), all of one size, and what each waits for."""

    rows: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    edges: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    last: dict[tuple[int, int, int], int] = field(default_factory=dict[tuple[int, int, int], int])

    def send(self, source: int, target: int, after: Sequence[int], channel: int = 0) -> int:
        """A message after others have arrived, and after the one before it on its connection has been sent."""
        number = len(self.rows)
        self.rows.append((source, target))
        self.edges += [(before, number, DONE) for before in after]
        previous = self.last.get((source, target, channel))
        if previous is not None:
            self.edges.append((previous, number, SENT))
        self.last[source, target, channel] = number
        return number

    def graph(self, network: Network) -> TaskGraph:
        """All messages over their shortest routes."""
        table = np.array(self.rows, np.int32)
        source, target = table[:, 0].copy(), table[:, 1].copy()
        routes, route = shortest_routes(network, source, target)
        count = len(self.rows)
        return TaskGraph(
            size=np.zeros(count, np.int64),
            route=route,
            duration=np.zeros(count, np.int64),
            source=source,
            target=target,
            routes=routes,
            edges=Edges.of(self.edges),
            order=np.arange(count, 2 * count, dtype=np.int64),
            hop_order=np.arange(count, dtype=np.int64),
            any_lane=True,
        )


def _graph(
    network: Network, nodes: list[list[int]], kind: str, shape: str, pieces: int, root: int
) -> tuple[TaskGraph, int] | None:
    """(messages, parts): messages of one part of the buffer each, and how many parts it has.

    None if there are no such pieces, or too many messages.
    """
    messages = _Messages()
    orders: list[list[int]] = []  # of each ring; every other node is passed backwards: a rail joins its two neighbours
    for channel in range(len(nodes[0]) if len(nodes) > 1 else 1):
        turned = [node[channel:] + node[:channel] for node in nodes]
        orders.append([npu for k, node in enumerate(turned) for npu in (node[::-1] if k % 2 else node)])
    ranks = network.npus.tolist()
    if shape == "direct":
        if pieces > 1:
            return None
        parts = _direct(messages, ranks, kind, root)
    elif shape == "tree":
        parts = _trees(messages, nodes, pieces)
    elif kind in _STEPS:
        parts = _rings(messages, orders * pieces, _STEPS[kind])
    else:
        parts = _chains(messages, orders, pieces, ranks[root], to_root=kind == "reduce")
    if len(messages.rows) > MOST_MESSAGES and pieces > 1:
        return None
    return messages.graph(network), parts


def _rings(messages: _Messages, orders: list[list[int]], rounds: int) -> int:
    """All messages of some rings. Returns into how many parts the buffer is divided, as the others below do."""
    count = len(orders[0])
    arrived = [[-1] * count for _ in orders]
    for _ in range(rounds * (count - 1)):
        for channel, order in enumerate(orders):
            before = arrived[channel]
            arrived[channel] = [
                messages.send(
                    order[position - 1],
                    order[position],
                    [before[position - 1]] if before[position - 1] >= 0 else [],
                    channel,
                )
                for position in range(count)
            ]
    return count * len(orders)


def _chains(messages: _Messages, orders: list[list[int]], pieces: int, root: int, *, to_root: bool) -> int:
    for channel, order in enumerate(orders):
        start = order.index(root)
        path = order[start:] + order[:start]
        path = path[::-1] if to_root else path
        for _ in range(pieces):
            before: list[int] = []
            for source, target in pairwise(path):
                before = [messages.send(source, target, before, channel)]
    return pieces * len(orders)


def _direct(messages: _Messages, npus: list[int], kind: str, root: int) -> int:
    count = len(npus)
    for away in range(1, count):
        for rank, npu in enumerate(npus):
            other = (rank + away) % count
            if (kind == "scatter" and rank != root) or (kind == "gather" and other != root):
                continue
            messages.send(npu, npus[other], [])
    return count


def _node_parents(count: int) -> list[list[int]]:
    """The parents in both trees: the second one is the first mirrored (even counts) or shifted by one (odd counts)."""
    first = [-1]  # of the binary tree, whose leaves are the odd ranks; rank 0 is the root
    for rank in range(1, count):
        bit = rank & -rank
        above = (rank ^ bit) | (bit << 1)
        first.append(above if above < count else rank ^ bit)
    if count == 1:
        return [first]
    turned = [count - 1 - rank if count % 2 == 0 else (rank + 1) % count for rank in range(count)]
    second = [-1] * count
    for rank, up in enumerate(first):
        second[turned[rank]] = -1 if up < 0 else turned[up]
    return [first, second]


def _trees(messages: _Messages, nodes: list[list[int]], pieces: int) -> int:
    """An All-Reduce: up each tree, then down."""
    parents = _node_parents(len(nodes))
    channels = [(start, tree) for start in range(len(nodes[0])) for tree in parents]
    for channel, (start, tree) in enumerate(channels):
        chains = [node[start:] + node[:start] for node in nodes]
        up: dict[int, int] = {}  # the parent of each NPU: the one before it in its node, or the head of another node
        for chain, parent in zip(chains, tree, strict=True):
            up[chain[0]] = -1 if parent < 0 else chains[parent][0]
            up |= {later: earlier for earlier, later in pairwise(chain)}
        depth: dict[int, int] = {}
        for npu in up:
            path = [npu]
            while up[path[-1]] >= 0:
                path.append(up[path[-1]])
            depth[npu] = len(path)
        order = sorted(up, key=lambda npu: (-depth[npu], npu))
        children: dict[int, list[int]] = {npu: [] for npu in up}
        for npu in order:
            if up[npu] >= 0:
                children[up[npu]].append(npu)
        for _ in range(pieces):
            come: dict[int, int] = {}
            for npu in order:
                if up[npu] >= 0:
                    come[npu] = messages.send(npu, up[npu], [come[child] for child in children[npu]], channel)
            down: dict[int, list[int]] = {}
            for npu in reversed(order):
                after = down[npu] if up[npu] >= 0 else [come[child] for child in children[npu]]
                for child in children[npu]:
                    down[child] = [messages.send(npu, child, after, channel)]
    return pieces * len(channels)
