"""Reductions in switches: contributions go up to one switch, and the sum goes down to all NPUs that want it.

A switch that reduces adds up the contributions to a chunk, and a switch with multicast sends the sum to all NPUs at
once. While one chunk goes down, the next one goes up. So an All-Reduce of n chunks takes n + 1 hops, compared with 2n
if NPUs reduce. A single switch is a tree with one root; the leaf and spine switches of a network with in-network
reductions (SHARP: Graham et al., "Scalable Hierarchical Aggregation Protocol", COMHPC 2016) are larger ones. If no tree
of such switches joins all NPUs, the switches of the nodes are used (nodes.py).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.synthesis.in_network.nodes import EarlyTransfers, Exchange, reduce_by_nodes, usable_switches
from collc.synthesis.list_schedule import TASK_WORK
from collc.synthesis.task import Effort
from collc.ten.arrays import BoolArray, Int32Array
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import RowSchedule, Transfers


def in_network(module: Module, effort: Effort, exchange: Exchange | None = None) -> Module:
    """The module with a schedule in which each chunk is reduced over the tree of switches that has its sum first.

    exchange: plans the reductions among nodes if no tree joins all NPUs; None: this is an error. Raises SourceError
    if a chunk that moves is not reduced, or the NPUs that contribute to it or want it are linked to no switches that
    reduce, have multicast and an unlimited buffer; NoSchedule if `effort.stop` returns True.
    """
    chunks = _reduced_chunks(module)
    transfers = _plan_over_trees(module, effort, chunks)
    if transfers is not None:
        effort.work.finish()
        return replace(module, schedule=RowSchedule(module.model, transfers))
    if exchange is None:
        message = "no tree of switches that reduce joins all NPUs that contribute to a chunk or want it"
        raise SourceError(Diagnostic("S0302", message, hint="use 'synthesize pccl()', which supports every demand"))
    return reduce_by_nodes(module, chunks, exchange)


def _reduced_chunks(module: Module) -> list[int]:
    """The chunks to reduce. Raises SourceError if other chunks move, or something is planned already."""
    table = module.demand.chunks
    sizes = table.sets.sizes
    wanted = sizes[table.post] > 0
    reduced = (table.op != Op.COPY) & (sizes[table.pre] > 1) & wanted
    if module.schedule is not None or bool((~reduced & wanted & (table.pre != table.post)).any()):
        message = (
            "reduction in switches needs a demand whose chunks are all reduced and of which nothing is planned yet"
        )
        raise SourceError(Diagnostic("S0302", message, hint="use 'synthesize pccl()', which supports every demand"))
    return np.flatnonzero(reduced).tolist()


def _plan_over_trees(module: Module, effort: Effort, chunks: list[int]) -> Transfers | None:
    """All transfers; None if a chunk has no tree."""
    network, table = module.network, module.demand.chunks
    trees, early = _sum_trees(network), EarlyTransfers(module)
    for chunk in chunks:
        if effort.stop():
            raise NoSchedule(Diagnostic("S0201", "stopped before all chunks were planned", hint="give it more time"))
        holders, wanting = (table.sets[int(column[chunk])].tolist() for column in (table.pre, table.post))
        plans = [tree.plan(early, chunk, holders, wanting) for tree in trees]
        effort.work.add(TASK_WORK * len(trees) * (len(holders) + len(wanting)))
        reached = [plan for plan in plans if plan is not None]
        if not reached:
            return None
        for link, start, partial in min(reached, key=lambda plan: plan[0])[1]:
            early.send(chunk, link, start, partial)
    return early.transfers()


@dataclass(frozen=True, slots=True)
class _SumTree:
    """The paths to a root switch, and from it, over switches that reduce. root: its number.

    source, target: the ends of links. up, down: by device, the link towards the root, and the one over which the sum
    comes; -1 for none. height: by device, links up to the root. depth: links from the root.
    """

    root: int
    source: list[int]
    target: list[int]
    up: list[int]
    down: list[int]
    height: list[int]
    depth: list[int]

    def plan(
        self, early: EarlyTransfers, chunk: int, holders: list[int], wanting: list[int]
    ) -> tuple[int, list[tuple[int, int, bool]]] | None:
        """(end, (link, start, whether it carries a partial) of each transfer); None if a path is missing."""
        ups, downs = self._links(self.up, holders, self.target), self._links(self.down, wanting, self.source)
        if ups is None or downs is None:
            return None
        ready: dict[int, int] = {}
        rows: list[tuple[int, int, bool]] = []
        for link in sorted(ups, key=lambda link: -self.height[self.source[link]]):
            start = early.start(link, ready.get(self.source[link], 0))
            head = self.target[link]
            ready[head] = max(ready.get(head, 0), early.arrival(chunk, link, start))
            rows.append((link, start, True))
        there, end = {self.root: ready.get(self.root, 0)}, 0
        for link in sorted(downs, key=lambda link: self.depth[self.target[link]]):
            start = early.start(link, there[self.source[link]])
            there[self.target[link]] = early.arrival(chunk, link, start)
            end = max(end, there[self.target[link]])
            rows.append((link, start, False))
        return end, rows

    def _links(self, next_link: list[int], npus: list[int], ends: list[int]) -> set[int] | None:
        """The links of the paths of some NPUs; None if one has none."""
        links: set[int] = set()
        for npu in npus:
            device = npu
            while device != self.root:
                link = next_link[device]
                if link < 0:
                    return None
                if link in links:
                    break
                links.add(link)
                device = ends[link]
        return links


def _sum_trees(network: Network) -> list[_SumTree]:
    """A tree for each usable switch that links lead to, in order of number."""
    usable = usable_switches(network)
    source: list[int] = network.source.tolist()
    target: list[int] = network.target.tolist()
    trees: list[_SumTree] = []
    for root in np.flatnonzero(usable).tolist():
        up, height = _links_on_paths(root, usable, network.in_links, source)
        down, depth = _links_on_paths(root, usable, network.out_links, target)
        if max(up) >= 0:
            trees.append(_SumTree(root, source, target, up, down, height, depth))
    return trees


def _links_on_paths(
    root: int, usable: BoolArray, csr: tuple[Int32Array, Int32Array], other_end: list[int]
) -> tuple[list[int], list[int]]:
    """By device, the link of its shortest path to the root (or from it), and how many links that has."""
    offsets: list[int] = csr[0].tolist()
    links: list[int] = csr[1].tolist()
    link, hops = [-1] * len(usable), [0] * len(usable)
    queue = deque[int]([root])
    while queue:
        device = queue.popleft()
        for number in links[offsets[device] : offsets[device + 1]]:
            other = other_end[number]
            if link[other] < 0 and other != root:
                link[other], hops[other] = number, hops[device] + 1
                if usable[other]:
                    queue.append(other)
    return link, hops
