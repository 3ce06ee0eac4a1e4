"""What NCCL runs by itself, for comparison: rings and trees of its shape, simulated on the network.

There are as many rings as `nccl_search` finds channels, and each goes through one node after another, over the NICs of
its channel. A tree is a chain inside each node, in the order of the channel, whose heads form NCCL's double binary tree
over the NICs by which the channel enters. All-to-All, gather and scatter are direct messages. Not there: the algorithms
that add in switches (NVLS, CollNet), and PAT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np

from collc.simulation.engine import simulate
from collc.simulation.routing import NoRoute, shortest_routes
from collc.simulation.tasks import DONE, SENT, Edges, Routes, TaskGraph
from collc.simulation.timing import ExactTiming
from collc.ten.network import Network
from collc.tuning.nccl_search import Channel, Pair, channels_of, on_rails
from collc.tuning.protocols import ProtocolCost, with_protocol

PIECES: Final = (1, 4, 16, 32)
"""Into how many pieces a buffer is divided, to send one while the next arrives; the best number counts. A ring has as
many rings side by side in place of each."""

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
    try:
        graphs = nccl_graphs(network, kind, shape, root)
    except NoRoute:
        return [None] * len(sizes)
    seen = [with_protocol(network, cost) for cost in costs]
    variants = [(view, graph) for view in range(len(seen)) for graph in range(len(graphs))]

    def time(variant: tuple[int, int], size: int) -> int:
        return simulate(seen[variant[0]], graphs[variant[1]].of_size(size), ExactTiming()).call_ps

    best: dict[int, tuple[int, tuple[int, int]]] = {}
    for position in sampled_positions(len(sizes)):
        best[position] = min((time(variant, sizes[position]), variant) for variant in variants)
    times: list[int | None] = []
    for position, size in enumerate(sizes):
        near = {best[other][1] for other in best if abs(other - position) < SAMPLED}
        times.append(best[position][0] if position in best else min(time(variant, size) for variant in sorted(near)))
    return times


@dataclass(frozen=True, slots=True)
class NcclGraph:
    """The messages of one of NCCL's shapes, each of one part of the buffer. parts: how many the buffer has."""

    tasks: TaskGraph
    parts: int

    def of_size(self, size: int) -> TaskGraph:
        """The messages for a buffer of `size` bytes; parts are rounded up to whole bytes."""
        return replace(self.tasks, size=np.full(len(self.tasks), -(-size // self.parts), np.int64))


def nccl_graphs(network: Network, kind: str, shape: str, root: int = 0, most: int | None = None) -> list[NcclGraph]:
    """The messages of a shape with each number of pieces. most: messages; there is no graph if it has more.

    Raises NoRoute if there are no paths.
    """
    channels = channels_of(network, rings=shape != "tree")
    graphs: list[NcclGraph] = []
    for pieces in PIECES:
        count = _message_count(len(network.npus), len(channels), kind, shape) * pieces
        if (pieces == 1 and count <= (most or count)) or (shape != "direct" and pieces > 1 and count <= MOST_MESSAGES):
            graphs.append(_graph(network, channels, kind, shape, pieces, root))
    return graphs


def _message_count(npus: int, channels: int, kind: str, shape: str) -> int:
    """The messages of a shape in one piece."""
    if shape == "direct":
        return npus * (npus - 1)
    if shape == "tree":
        return 4 * channels * (npus - 1)
    return channels * (npus - 1) * (_STEPS[kind] * npus if kind in _STEPS else 1)


def sampled_positions(count: int) -> list[int]:
    """Every third of `count` positions, and the last one."""
    return sorted({*range(0, count, SAMPLED), count - 1}) if count else []


_Path = tuple[int, ...]
"""The devices that a message must pass, from its sender to its receiver."""


@dataclass
class _Messages:
    """Messages by their paths, all of one size, and what each waits for."""

    rows: list[_Path] = field(default_factory=list[_Path])
    edges: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    last: dict[tuple[_Path, int], int] = field(default_factory=dict[tuple[_Path, int], int])

    def send(self, path: _Path, after: Sequence[int], channel: int = 0) -> int:
        """A message after others have arrived, and after the one before it on its connection has been sent."""
        number = len(self.rows)
        self.rows.append(path)
        self.edges += [(before, number, DONE) for before in after]
        previous = self.last.get((path, channel))
        if previous is not None:
            self.edges.append((previous, number, SENT))
        self.last[path, channel] = number
        return number

    def graph(self, network: Network) -> TaskGraph:
        """All messages, between the devices of their paths over the shortest routes."""
        row_of = {path: row for row, path in enumerate(dict.fromkeys(self.rows))}
        legs = np.array(sorted({leg for path in row_of for leg in pairwise(path)}), np.int32).reshape(-1, 2)
        routes, route = shortest_routes(network, legs[:, 0].copy(), legs[:, 1].copy())
        links_of = {
            (source, target): routes.links[routes.offsets[row] : routes.offsets[row + 1]].tolist()
            for (source, target), row in zip(legs.tolist(), route.tolist(), strict=True)
        }
        count = len(self.rows)
        return TaskGraph(
            size=np.zeros(count, np.int64),
            route=np.array([row_of[path] for path in self.rows], np.int32),
            duration=np.zeros(count, np.int64),
            source=np.array([path[0] for path in self.rows], np.int32),
            target=np.array([path[-1] for path in self.rows], np.int32),
            routes=Routes.of([tuple(link for leg in pairwise(path) for link in links_of[leg]) for path in row_of]),
            edges=Edges.of(self.edges),
            order=np.arange(count, 2 * count, dtype=np.int64),
            hop_order=np.arange(count, dtype=np.int64),
            any_lane=True,
        )


def _graph(network: Network, channels: list[list[Channel]], kind: str, shape: str, pieces: int, root: int) -> NcclGraph:
    messages = _Messages()
    ranks = network.npus.tolist()
    if shape == "direct":
        parts = _direct(messages, ranks, kind, root)
    elif shape == "tree":
        parts = _trees(messages, channels, pieces)
    else:
        rings = [_ring(parts) for parts in on_rails(channels)]
        if kind in _STEPS:
            parts = _rings(messages, rings * pieces, _STEPS[kind])
        else:
            parts = _chains(messages, rings, pieces, ranks[root], to_root=kind == "reduce")
    return NcclGraph(messages.graph(network), parts)


def _path(source: int, leave: Pair | None, enter: Pair | None, target: int) -> _Path:
    """From NPU to NPU, out of one node by a NIC and into the other by one."""
    passed = (source, *(leave or ()), *(enter or ())[::-1], target)
    return tuple(device for before, device in pairwise((-1, *passed)) if device != before)


def _ring(parts: Sequence[Channel]) -> list[_Path]:
    """The paths of a ring through all nodes; each ends where the next one begins."""
    paths: list[_Path] = []
    for part, following in zip(parts, [*parts[1:], parts[0]], strict=True):
        paths += pairwise(part.order)
        paths.append(_path(part.order[-1], part.leave, following.enter, following.order[0]))
    return paths


def _rings(messages: _Messages, rings: Sequence[Sequence[_Path]], rounds: int) -> int:
    """All messages of some rings. Returns into how many parts the buffer is divided, as the others below do."""
    count = len(rings[0])
    arrived: list[list[list[int]]] = [[[]] * count for _ in rings]  # on each path, what its next message waits for
    for _ in range(rounds * (count - 1)):
        for channel, ring in enumerate(rings):
            before = arrived[channel]
            arrived[channel] = [[messages.send(path, before[place - 1], channel)] for place, path in enumerate(ring)]
    return count * len(rings)


def _chains(messages: _Messages, rings: Sequence[list[_Path]], pieces: int, root: int, *, to_root: bool) -> int:
    for channel, ring in enumerate(rings):
        start = next(place for place, path in enumerate(ring) if path[0] == root) + to_root
        chain = (ring[start:] + ring[:start])[:-1]
        for _ in range(pieces):
            before: list[int] = []
            for path in chain:
                before = [messages.send(path, before, channel)]
    return pieces * len(rings)


def _direct(messages: _Messages, npus: list[int], kind: str, root: int) -> int:
    count = len(npus)
    for away in range(1, count):
        for rank, npu in enumerate(npus):
            other = (rank + away) % count
            if (kind == "scatter" and rank != root) or (kind == "gather" and other != root):
                continue
            messages.send((npu, npus[other]), [])
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


def _trees(messages: _Messages, channels: Sequence[Sequence[Channel]], pieces: int) -> int:
    """An All-Reduce: up each tree, then down."""
    trees = _node_parents(len(channels[0]))
    both = [(parts, tree) for parts in channels for tree in trees]
    for channel, (parts, tree) in enumerate(both):
        up: dict[int, _Path] = {}  # by NPU, the path to the one before it in its node, or to the head of another node
        for part, parent in zip(parts, tree, strict=True):
            if parent >= 0:
                up[part.order[0]] = _path(part.order[0], part.enter, parts[parent].enter, parts[parent].order[0])
            up |= {later: (later, earlier) for earlier, later in pairwise(part.order)}
        order: list[int] = [parts[tree.index(-1)].order[0]]  # each NPU after the one above it
        children: dict[int, list[int]] = {}
        for npu, path in sorted(up.items()):
            children.setdefault(path[-1], []).append(npu)
        for npu in order:
            order += children.get(npu, ())
        for _ in range(pieces):
            come: dict[int, int] = {}
            for npu in reversed(order[1:]):
                come[npu] = messages.send(up[npu], [come[child] for child in children.get(npu, ())], channel)
            down: dict[int, list[int]] = {order[0]: [come[child] for child in children.get(order[0], ())]}
            for npu in order[1:]:
                down[npu] = [messages.send(up[npu][::-1], down[up[npu][-1]], channel)]
    return pieces * len(both)
