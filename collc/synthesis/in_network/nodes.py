"""Reductions in the switches of nodes, where the network between the nodes only copies.

In each node one NPU represents the node for a chunk: the switch of the node reduces the contributions of the others,
and the representative adds its own. Any other synthesizer reduces the partials of the representatives, and the sum
returns to all NPUs through the switches. Chunks are sent in batches: while the sums of one batch return, the
contributions to the next are reduced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.synthesis.in_network.mirrored_nodes import MirroredNodes, Row, swaps_of
from collc.synthesis.in_network.sum_trees import usable_switches
from collc.synthesis.retiming import MOST_TRANSFERS, shifted_left
from collc.ten.arrays import Int32Array
from collc.ten.demand import ChunkFamily, ChunkTable, Demand, HolderSets, Run
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule, Transfers

Exchange = Callable[[Module], Module]
"""A synthesizer of reductions among representatives."""

AHEAD = 4
"""Batches that go up before the sums of another one come back, at most."""


def by_nodes(module: Module, chunks: list[int], exchange: Exchange) -> Module:
    """The module with its chunks reduced in nodes first, then among representatives.

    Raises SourceError if no two NPUs share a switch that reduces, and what `exchange` raises.
    """
    nodes = _nodes(module.network)
    if not any(len(node.npus) > 1 for node in nodes):
        message = "no two NPUs are linked to a switch that reduces"
        raise SourceError(Diagnostic("S0302", message, hint="use 'synthesize pccl()', which supports every demand"))
    plan = _NodePlan(module, nodes, chunks, exchange)
    schedules: list[RowSchedule] = []
    for ahead in range(1, 1 + min(AHEAD, len(plan.batches))):
        rows = plan.transfers(ahead)
        if len(rows) <= MOST_TRANSFERS:
            rows = shifted_left(module.network, module.demand, module.model, rows) or rows
        schedules.append(RowSchedule(module.model, rows))
    swapped = plan.swapped_first(chunks)
    if swapped is not None:
        schedules.append(RowSchedule(module.model, swapped))
    best = min(schedules, key=lambda schedule: schedule.collective_time(module.network, module.demand))
    return replace(module, schedule=best)


def _transfers(rows: list[Row]) -> Transfers:
    columns = np.array(rows, np.int64).reshape(-1, 4)
    chunk, link = columns[:, 0].astype(np.int32), columns[:, 1].astype(np.int32)
    return Transfers.of(chunk, link, columns[:, 2], columns[:, 3].astype(np.bool_))


@dataclass(frozen=True, slots=True)
class _Node:
    """NPUs that are linked to the same switches that reduce. up, down: by switch and NPU, the link."""

    npus: tuple[int, ...]
    switches: tuple[int, ...]
    up: dict[tuple[int, int], int]
    down: dict[tuple[int, int], int]


def _nodes(network: Network) -> list[_Node]:
    """All NPUs in nodes; one without a switch is a node by itself."""
    usable = usable_switches(network)
    up: dict[tuple[int, int], int] = {}
    down: dict[tuple[int, int], int] = {}
    for link, (a, b) in enumerate(zip(network.source.tolist(), network.target.tolist(), strict=True)):
        if usable[b] and a < network.npu_count:
            up.setdefault((b, a), link)
        if usable[a] and b < network.npu_count:
            down.setdefault((a, b), link)
    members: dict[tuple[int, ...], list[int]] = {}
    nodes: list[_Node] = []
    for npu in network.npus.tolist():
        switches = tuple(sorted(switch for switch, other in up if other == npu and (switch, npu) in down))
        if switches:
            members.setdefault(switches, []).append(npu)
        else:
            nodes.append(_Node((npu,), (), up, down))
    return nodes + [_Node(tuple(npus), switches, up, down) for switches, npus in members.items()]


def _between(network: Network) -> tuple[Network, Int32Array]:
    """The network without the links of switches that reduce and have NPUs, and the numbers of the links kept."""
    usable = usable_switches(network)
    inside = np.zeros(network.device_count, np.bool_)
    npus = np.arange(network.device_count) < network.npu_count
    inside[network.target[npus[network.source]]] = True
    inside &= usable
    kept = np.flatnonzero(~inside[network.source] & ~inside[network.target]).astype(np.int32)
    axis = network.link_axis[kept] if len(network.link_axis) else network.link_axis
    part = replace(
        network, source=network.source[kept], target=network.target[kept], kind=network.kind[kept], link_axis=axis
    )
    return part, kept


class _NodePlan:
    """The transfers of all chunks, one stage after another; they are moved together later. batches: of chunks."""

    def __init__(self, module: Module, nodes: list[_Node], chunks: list[int], exchange: Exchange) -> None:
        self._module, self._nodes, self._exchange = module, nodes, exchange
        width = self._width = max(len(node.npus) for node in nodes)
        self.batches = [chunks[k : k + width] for k in range(0, len(chunks), width)]
        network = module.network
        clock = Clock.of(network, module.demand, module.model)
        self._busy: list[list[int]] = clock.busy[network.kind].tolist()
        self._total: list[list[int]] = clock.total[network.kind].tolist()
        self._size: list[int] = clock.size_of.tolist()
        table = module.demand.chunks
        sets = [set(table.sets[number].tolist()) for number in range(len(table.sets))]
        self._holders = {chunk: sets[int(table.pre[chunk])] for chunk in chunks}
        self._wanting = {chunk: sets[int(table.post[chunk])] for chunk in chunks}
        self._between, self._kept = _between(network)
        self._known: dict[tuple[object, ...], Module] = {}
        self._begin()

    def _begin(self) -> None:
        self._rows: list[Row] = []
        self._parts: list[Transfers] = []
        self._free: dict[int, int] = {}
        self._now = self._stage = 0

    def transfers(self, ahead: int) -> Transfers:
        """All transfers. ahead: batches that go up before the sums of another one come back."""
        self._begin()
        for batch in self.batches[:ahead]:
            self._go_up(batch)
        for number, batch in enumerate(self.batches):
            self._exchange_sums(batch)
            for later in self.batches[number + ahead : number + ahead + 1]:
                self._go_up(later)
            self._come_down(batch)
        return Transfers.concatenate([*self._parts, _transfers(self._rows)])

    def swapped_first(self, chunks: list[int]) -> Transfers | None:
        """All transfers where two nodes swap contributions before their switches add up; None if they cannot."""
        if len(self._nodes) != 2 or len(self._nodes[0].npus) != len(self._nodes[1].npus):
            return None
        first, second = self._nodes
        everyone = {*first.npus, *second.npus}
        if any(self._holders[chunk] != everyone or self._wanting[chunk] != everyone for chunk in chunks):
            return None
        swaps = (
            swaps_of(self._module.network, (first.npus, second.npus)) if first.switches and second.switches else None
        )
        if swaps is None:
            return None
        ups, downs = (
            tuple([links[node.switches[0], npu] for npu in node.npus] for node in self._nodes)
            for links in (first.up, first.down)
        )
        rows = MirroredNodes(tuple(swaps), (ups[0], ups[1]), (downs[0], downs[1])).transfers(
            chunks, self._size, self._busy, self._total
        )
        return None if rows is None else _transfers(rows)

    def _representatives(self, chunk: int, turn: int) -> list[tuple[_Node, int]]:
        """The NPU that represents each node with a part in a chunk; if possible, all are at one position."""
        wanting, holders = self._wanting[chunk], self._holders[chunk]
        able: list[tuple[_Node, list[int]]] = []
        for node in self._nodes:
            npus = [npu for npu in node.npus if npu in wanting] or [npu for npu in node.npus if npu in holders]
            if npus:
                able.append((node, npus))
        for position in range(turn, turn + self._width):
            at = [(node, node.npus[position % len(node.npus)]) for node, _ in able]
            if all(npu in npus for (_, npu), (_, npus) in zip(at, able, strict=True)):
                return at
        return [(node, npus[turn % len(npus)]) for node, npus in able]

    def _go_up(self, batch: list[int]) -> None:
        """Contributions to the switches, and from there to the representatives."""
        self._begin_stage()
        for turn, chunk in enumerate(batch):
            for node, representative in self._representatives(chunk, turn):
                others = [npu for npu in node.npus if npu in self._holders[chunk] and npu != representative]
                if others:
                    switch = node.switches[turn % len(node.switches)]
                    ready = max(self._sent(chunk, node.up[switch, npu], self._now, True) for npu in others)
                    self._sent(chunk, node.down[switch, representative], ready, True)

    def _come_down(self, batch: list[int]) -> None:
        """The sums from the representatives to all NPUs that want them."""
        self._begin_stage()
        for turn, chunk in enumerate(batch):
            for node, representative in self._representatives(chunk, turn):
                others = [npu for npu in node.npus if npu in self._wanting[chunk] and npu != representative]
                if others:
                    switch = node.switches[turn % len(node.switches)]
                    ready = self._sent(chunk, node.up[switch, representative], self._now, False)
                    for npu in others:
                        self._sent(chunk, node.down[switch, npu], ready, False)

    def _begin_stage(self) -> None:
        """Lets the next transfers begin when all before have ended."""
        size, total = self._size, self._total
        ends = (
            start + total[link][size[chunk]] for chunk, link, start, _ in self._rows[len(self._rows) - self._stage :]
        )
        self._now = max(self._now, max(ends, default=0))
        self._free.clear()
        self._stage = 0

    def _sent(self, chunk: int, link: int, ready: int, partial: bool) -> int:
        """Adds a transfer as early as its link is free; returns its end."""
        size = self._size[chunk]
        start = max(ready, self._free.get(link, 0))
        self._free[link] = start + self._busy[link][size]
        self._rows.append((chunk, link, start, partial))
        self._stage += 1
        return start + self._total[link][size]

    def _exchange_sums(self, batch: list[int]) -> None:
        """Reductions among the representatives. Batches with the same ones are planned once."""
        self._begin_stage()
        ends = [self._ends(chunk, turn) for turn, chunk in enumerate(batch)]
        table = self._module.demand.chunks
        key = tuple((*pair, int(table.size[c]), int(table.op[c])) for pair, c in zip(ends, batch, strict=True))
        if key not in self._known:
            module = replace(self._module, network=self._between, demand=_among(self._module, batch, ends))
            self._known[key] = self._exchange(module)
        planned = self._known[key]
        assert planned.schedule is not None
        rows = planned.schedule.transfers
        chunks = np.array(batch, np.int32)[rows.chunk]
        self._parts.append(Transfers(chunks, self._kept[rows.link], rows.start + self._now, rows.reduce))
        self._now += planned.schedule.collective_time(self._between, planned.demand)

    def _ends(self, chunk: int, turn: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The representatives that have a part of a chunk, and those that get its sum."""
        found = self._representatives(chunk, turn)
        holders, wanting = self._holders[chunk], self._wanting[chunk]
        return (
            tuple(npu for node, npu in found if not holders.isdisjoint(node.npus)),
            tuple(npu for node, npu in found if not wanting.isdisjoint(node.npus)),
        )


def _among(module: Module, batch: list[int], ends: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> Demand:
    """The demand of some chunks, numbered from 0, among representatives: for each chunk, the representatives that have
    it and those that want it.
    """
    table = module.demand.chunks
    sets: dict[tuple[int, ...], int] = {}
    pre = np.array([sets.setdefault(giving, len(sets)) for giving, _ in ends], np.int32)
    post = np.array([sets.setdefault(taking, len(sets)) for _, taking in ends], np.int32)
    chunks = np.array(batch)
    op = np.where([len(giving) > 1 for giving, _ in ends], table.op[chunks], 0).astype(table.op.dtype)
    index = np.arange(len(batch), dtype=np.int32)[:, None]
    family = np.zeros(len(batch), np.int32)
    holders = HolderSets.of([list(each) for each in sets])
    pattern = ChunkTable(table.size[chunks], pre, post, op, family, index, (ChunkFamily("x", 1),), holders)
    return Demand((Run("representatives", module.network.npus, pattern),))
