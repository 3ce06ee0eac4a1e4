"""Reductions over balanced spanning trees, up and down at once.

Each chunk has a spanning tree of its own, with its root near the centre of the network. It is reduced
up the tree and copied down again; the trees load all links about equally, and the chunks follow each
other in a pipeline, so that links into and out of each NPU are busy at the same time. On asymmetric
networks this beats Reduce-Scatter followed by All-Gather, where half of the links of a corner idle.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from collc.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.bounds_cuts import distances
from collc.synthesis.task import Effort
from collc.ten.demand import Demand, Op
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Schedule, Transfers

WORK = 20_000_000
"""Link visits that the search for the centre may take."""

SMALL = 10_000
"""Chunks times NPUs up to which all of them are tried."""

BALANCES = ((1, 4), (2, 4), (1, 8))
"""What is tried: how much the load of a link counts against the length of a way, in trees; and how many chunks later
a transfer is as urgent for each link of its way that is still to come.
"""


@dataclass(frozen=True, slots=True)
class _Tree:
    """A chunk's tree: nodes from the root down, for each its parent and the links to and from it.

    up, down: whether contributions come up from a node, and whether the result goes down to it.
    """

    nodes: list[int]
    parent: dict[int, int]
    rising: dict[int, int]
    falling: dict[int, int]
    up: set[int]
    down: set[int]


def overlapped(network: Network, demand: Demand, model: LinkModel, effort: Effort) -> Schedule:
    """A schedule of reductions (every chunk of the demand is one) over pipelined spanning trees.

    The best of a few weights. Raises NoSchedule where chunks are to be copied only, where the network has switches,
    or where links both ways do not join its NPUs.
    """
    _check(network, demand)
    centres = _centres(network)
    clock = Clock.of(network, demand, model)
    best: tuple[int, Transfers] | None = None
    small = len(demand.chunks) * len(network.npus) <= SMALL
    for weight, urgency in BALANCES if small else BALANCES[:1]:
        if best is not None and effort.stop():
            break
        trees = _trees(network, demand, clock, centres, weight)
        found = _Pipeline(network, clock, trees, urgency).run()
        if best is None or found[0] < best[0]:
            best = found
    assert best is not None
    return RowSchedule(model, best[1])


def _check(network: Network, demand: Demand) -> None:
    table = demand.chunks
    if bool((table.op == Op.COPY).any()) or network.switch_count:
        raise NoSchedule(
            Diagnostic(
                "S0302",
                "overlapped trees are for reductions over direct links",
                hint="synthesize tacos() or pccl() serves every demand",
            )
        )


def _centres(network: Network) -> list[int]:
    """The NPUs that are nearest to the farthest others."""
    sources, found = distances(network, network.latencies + 1, WORK)
    eccentricity = found[:, network.npus].max(axis=1)
    return sources[eccentricity == eccentricity.min()].tolist()


def _edges(network: Network) -> list[tuple[int, int, int, int]]:
    """Pairs of opposite links as (device, other, link to the other, link back)."""
    ends = list(zip(network.source.tolist(), network.target.tolist(), strict=True))
    back: dict[tuple[int, int], list[int]] = {}
    for link, (source, target) in enumerate(ends):
        back.setdefault((target, source), []).append(link)
    pairs: list[tuple[int, int, int, int]] = []
    taken: dict[tuple[int, int], int] = {}
    for link, (source, target) in enumerate(ends):
        if source < target:
            place = taken.get((source, target), 0)
            taken[source, target] = place + 1
            opposite = back.get((source, target), [])
            if place < len(opposite):
                pairs.append((source, target, link, opposite[place]))
    return pairs


def _trees(network: Network, demand: Demand, clock: Clock, centres: list[int], weight: int) -> list[_Tree]:
    """A tree for each chunk. A link counts as longer the more it carries already (Prim's algorithm)."""
    edges = _edges(network)
    ahead: list[list[tuple[int, int]]] = [[] for _ in range(network.device_count)]
    for number, (source, target, _, _) in enumerate(edges):
        ahead[source].append((target, number))
        ahead[target].append((source, number))
    table = demand.chunks
    load = [0] * len(edges)
    kinds = [(int(network.kind[there]), int(network.kind[back])) for _, _, there, back in edges]
    trees: list[_Tree] = []
    for chunk in range(len(table)):
        size = clock.size_of[chunk]
        by_kind: list[int] = clock.total[:, size].tolist()
        cost = [max(by_kind[a], by_kind[b]) for a, b in kinds]
        via = _grow(ahead, load, cost, centres[chunk % len(centres)], weight)
        pre, post = set(table.sets[int(table.pre[chunk])].tolist()), set(table.sets[int(table.post[chunk])].tolist())
        if not (pre | post) <= via.keys():
            raise NoSchedule(Diagnostic("S0302", f"links both ways do not join all NPUs of {network.name}"))
        trees.append(_tree(edges, via, pre, post))
        for node in trees[-1].nodes[1:]:
            edge = via[node][1]
            load[edge] += cost[edge]
    return trees


def _grow(
    ahead: list[list[tuple[int, int]]], load: list[int], cost: list[int], root: int, weight: int
) -> dict[int, tuple[int, int]]:
    """The nodes of a spanning tree, from the root down, with their parents and edges."""
    via: dict[int, tuple[int, int]] = {root: (-1, -1)}
    depth = {root: 0}
    heap = [(load[e] * weight + cost[e], e, there, root) for there, e in ahead[root]]
    heapq.heapify(heap)
    while heap:
        _, edge, node, parent = heapq.heappop(heap)
        if node in via:
            continue
        via[node] = (parent, edge)
        reach = depth[node] = depth[parent] + cost[edge]
        for there, e in ahead[node]:
            if there not in via:
                heapq.heappush(heap, (load[e] * weight + reach + cost[e], e, there, node))
    return via


def _tree(
    edges: list[tuple[int, int, int, int]], via: dict[int, tuple[int, int]], pre: set[int], post: set[int]
) -> _Tree:
    """The part of a spanning tree that leads to contributors and holders."""
    up, down = set(pre), set(post)
    for node in reversed(via):
        for kept in (up, down):
            if node in kept and via[node][0] >= 0:
                kept.add(via[node][0])
    nodes = [node for node in via if node in up or node in down]
    tree = _Tree(nodes, {}, {}, {}, up, down)
    for node in nodes:
        parent, edge = via[node]
        if parent < 0:
            continue
        tree.parent[node] = parent
        low, _, there, back = edges[edge]
        tree.rising[node], tree.falling[node] = (there, back) if low == node else (back, there)
    return tree


class _Pipeline:
    """Transfers up and down all trees, the most urgent first on each link."""

    def __init__(self, network: Network, clock: Clock, trees: list[_Tree], urgency: int) -> None:
        self._trees = trees
        self._urgency = urgency
        kinds = network.kind.tolist()
        busy, total = clock.busy.tolist(), clock.total.tolist()
        self._busy, self._total = [busy[k] for k in kinds], [total[k] for k in kinds]
        self._size: list[int] = clock.size_of.tolist()
        self._queue: list[list[tuple[int, int, int, bool]]] = [[] for _ in kinds]
        self._free = [0] * len(kinds)
        self._events: list[tuple[int, int, int, int, bool]] = []
        self._rows: tuple[list[int], list[int], list[int], list[bool]] = ([], [], [], [])
        self._children: list[dict[int, list[int]]] = []
        self._waits: list[dict[int, int]] = []
        self._below: list[dict[int, int]] = []
        self._above: list[dict[int, int]] = []
        for tree in trees:
            self._measure(tree)

    def _measure(self, tree: _Tree) -> None:
        """How far each node is from the root, and from the farthest node below it; the children that each waits for."""
        children: dict[int, list[int]] = {node: [] for node in tree.nodes}
        waits = dict.fromkeys(tree.nodes, 0)
        below = dict.fromkeys(tree.nodes, 0)
        above = dict.fromkeys(tree.nodes, 0)
        for node in tree.nodes[1:]:
            parent = tree.parent[node]
            above[node] = above[parent] + 1
            if node in tree.down:
                children[parent].append(node)
            waits[parent] += node in tree.up
        for node in reversed(tree.nodes[1:]):
            if node in tree.down:
                below[tree.parent[node]] = max(below[tree.parent[node]], below[node] + 1)
        self._children.append(children)
        self._waits.append(waits)
        self._below.append(below)
        self._above.append(above)

    def run(self) -> tuple[int, Transfers]:
        """The end in picoseconds, and all transfers."""
        waiting: set[int] = set()
        for chunk, tree in enumerate(self._trees):
            for node in tree.nodes:
                if not self._waits[chunk][node] and (node in tree.up):
                    self._settled(chunk, node, waiting)
        now = end = 0
        while True:
            for link in sorted(waiting):
                if self._free[link] <= now and self._queue[link]:
                    end = max(end, self._send(link, now))
            if not self._events:
                break
            waiting = set()
            now = self._events[0][0]
            while self._events and self._events[0][0] == now:
                _, link, chunk, node, rises = heapq.heappop(self._events)
                waiting.add(link)
                if chunk >= 0:
                    self._arrived(chunk, node, rises, waiting)
        chunks, links, starts, reduces = self._rows
        rows = Transfers.of(np.array(chunks), np.array(links), np.array(starts, np.int64), np.array(reduces, np.bool_))
        return end, rows

    def _arrived(self, chunk: int, node: int, rises: bool, waiting: set[int]) -> None:
        """Books what came up from a node, or down to it."""
        tree = self._trees[chunk]
        if not rises:
            self._fall(chunk, node, waiting)
            return
        parent = tree.parent[node]
        self._waits[chunk][parent] -= 1
        if not self._waits[chunk][parent]:
            self._settled(chunk, parent, waiting)

    def _settled(self, chunk: int, node: int, waiting: set[int]) -> None:
        """A node has all contributions from below: they go up or, from the root, down."""
        tree = self._trees[chunk]
        if node not in tree.parent:
            self._fall(chunk, node, waiting)
            return
        root = tree.nodes[0]
        ways = self._above[chunk][node] + self._below[chunk][root]
        link = tree.rising[node]
        heapq.heappush(self._queue[link], (chunk - self._urgency * ways, chunk, node, True))
        waiting.add(link)

    def _fall(self, chunk: int, node: int, waiting: set[int]) -> None:
        """A node has the result and passes it down."""
        tree = self._trees[chunk]
        for child in self._children[chunk][node]:
            ways = self._below[chunk][child] + 1
            link = tree.falling[child]
            heapq.heappush(self._queue[link], (chunk - self._urgency * ways, chunk, child, False))
            waiting.add(link)

    def _send(self, link: int, now: int) -> int:
        """Starts the most urgent transfer of a link; when it will have arrived."""
        _, chunk, node, rises = heapq.heappop(self._queue[link])
        for column, value in zip(self._rows, (chunk, link, now, rises), strict=True):
            column.append(value)  # pyright: ignore[reportArgumentType]
        size = self._size[chunk]
        free, arrival = now + self._busy[link][size], now + self._total[link][size]
        self._free[link] = free
        if free < arrival:
            heapq.heappush(self._events, (free, link, -1, -1, False))
        heapq.heappush(self._events, (arrival, link, chunk, node, rises))
        return arrival
