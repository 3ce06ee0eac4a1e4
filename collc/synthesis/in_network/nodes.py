"""Reductions in the switches of nodes, if the network between the nodes only copies.

In each node one NPU represents the node for a chunk: the switch of the node reduces the contributions of the others,
and the representative adds its own. Any other synthesizer reduces the partials of the representatives, and the sum
returns to all NPUs through the switches. Chunks are sent in batches: while the sums of one batch return, the
contributions to the next are reduced.

Two nodes have another option for small buffers: each NPU swaps its contribution with the NPU at its position in the
other node. Then the switches of both nodes add up the same sum and send it to all: one crossing between the nodes,
where a reduction among representatives and what leads to them and back takes two more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.synthesis.retiming import MOST_TRANSFERS, shifted_left
from collc.ten.arrays import BoolArray, Int32Array
from collc.ten.demand import ChunkFamily, ChunkTable, Demand, HolderSets, Run
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule, Transfers

Exchange = Callable[[Module], Module]
"""A synthesizer of reductions among representatives."""

Swap = tuple[list[int], list[int]]
"""The links from an NPU to one of another node, and back."""

MOST_AHEAD: Final = 4
"""Batches that go up before the sums of another one come back, at most."""


class EarlyTransfers:
    """Transfers of a module, added one by one, each as early as its link is free.

    rows: (chunk, link, start in picoseconds, whether it carries a partial). free: by link, when it is free.
    """

    def __init__(self, module: Module) -> None:
        network, clock = module.network, Clock.of(module.network, module.demand, module.model)
        self._busy: list[list[int]] = clock.busy[network.kind].tolist()
        self._total: list[list[int]] = clock.total[network.kind].tolist()
        self._size: list[int] = clock.size_of.tolist()
        self.rows: list[tuple[int, int, int, bool]] = []
        self.free: dict[int, int] = {}

    def arrival(self, chunk: int, link: int, start: int) -> int:
        """When a chunk that enters a link at `start` has arrived."""
        return start + self._total[link][self._size[chunk]]

    def start(self, link: int, ready: int) -> int:
        """The earliest start on a link of what is ready at some time."""
        return max(ready, self.free.get(link, 0))

    def send(self, chunk: int, link: int, ready: int, partial: bool) -> int:
        """Add a transfer as early as its link is free; return when it has arrived."""
        start = self.start(link, ready)
        self.free[link] = start + self._busy[link][self._size[chunk]]
        self.rows.append((chunk, link, start, partial))
        return self.arrival(chunk, link, start)

    def transfers(self) -> Transfers:
        """All transfers that were added."""
        columns = np.array(self.rows, np.int64).reshape(-1, 4)
        chunk, link = columns[:, 0].astype(np.int32), columns[:, 1].astype(np.int32)
        return Transfers.of(chunk, link, columns[:, 2], columns[:, 3].astype(np.bool_))


def usable_switches(network: Network) -> BoolArray:
    """bool[devices]: the switches that reduce, have multicast and an unlimited buffer."""
    usable = np.zeros(network.device_count, np.bool_)
    usable[network.npu_count :] = network.reduces & network.multicast & (network.buffers < 0)
    return usable


def reduce_by_nodes(module: Module, chunks: list[int], exchange: Exchange) -> Module:
    """The module with its chunks reduced in nodes first, then among representatives.

    Raises SourceError if no two NPUs share a switch that reduces, and what `exchange` raises.
    """
    nodes = _nodes_of(module.network)
    if not any(len(node.npus) > 1 for node in nodes):
        message = "no two NPUs are linked to a switch that reduces"
        raise SourceError(Diagnostic("S0302", message, hint="use 'synthesize pccl()', which supports every demand"))
    plan = _NodePlan(module, nodes, chunks, exchange)
    candidates: list[Transfers] = []
    for ahead in range(1, 1 + min(MOST_AHEAD, len(plan.batches))):
        rows = plan.transfers(ahead)
        if len(rows) <= MOST_TRANSFERS:
            rows = shifted_left(module.network, module.demand, module.model, rows) or rows
        candidates.append(rows)
    swapped = plan.swapped_first(chunks)
    candidates += [] if swapped is None else [swapped]
    schedules = [RowSchedule(module.model, rows) for rows in candidates]
    best = min(schedules, key=lambda schedule: schedule.collective_time(module.network, module.demand))
    return replace(module, schedule=best)


@dataclass(frozen=True, slots=True)
class _Node:
    """NPUs that are linked to the same switches that reduce. up, down: by switch and NPU, the link."""

    npus: tuple[int, ...]
    switches: tuple[int, ...]
    up: dict[tuple[int, int], int]
    down: dict[tuple[int, int], int]


def _nodes_of(network: Network) -> list[_Node]:
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


def _network_between(network: Network) -> tuple[Network, Int32Array]:
    """The network without the links of switches that reduce and have NPUs, and the numbers of the links kept."""
    inside = np.zeros(network.device_count, np.bool_)
    inside[network.target[network.source < network.npu_count]] = True
    inside &= usable_switches(network)
    kept = np.flatnonzero(~inside[network.source] & ~inside[network.target]).astype(np.int32)
    axis = network.link_axis[kept] if len(network.link_axis) else network.link_axis
    ends = {"source": network.source[kept], "target": network.target[kept], "kind": network.kind[kept]}
    return replace(network, **ends, link_axis=axis), kept


class _NodePlan:
    """The transfers of all chunks, one stage after another; they are moved together later. batches: of chunks."""

    def __init__(self, module: Module, nodes: list[_Node], chunks: list[int], exchange: Exchange) -> None:
        self._module, self._nodes, self._exchange = module, nodes, exchange
        width = self._width = max(len(node.npus) for node in nodes)
        self.batches = [chunks[k : k + width] for k in range(0, len(chunks), width)]
        table = module.demand.chunks
        sets = [set(table.sets[number].tolist()) for number in range(len(table.sets))]
        self._holders = {chunk: sets[int(table.pre[chunk])] for chunk in chunks}
        self._wanting = {chunk: sets[int(table.post[chunk])] for chunk in chunks}
        self._between, self._kept = _network_between(module.network)
        self._exchanged: dict[tuple[object, ...], Module] = {}
        self._early = EarlyTransfers(module)
        self._parts: list[Transfers] = []
        self._now = self._arrived = 0

    def transfers(self, ahead: int) -> Transfers:
        """All transfers. ahead: batches that go up before the sums of another one come back."""
        self._early, self._parts = EarlyTransfers(self._module), []
        self._now = self._arrived = 0
        for batch in self.batches[:ahead]:
            self._go_up(batch)
        for number, batch in enumerate(self.batches):
            self._exchange_sums(batch)
            for later in self.batches[number + ahead : number + ahead + 1]:
                self._go_up(later)
            self._come_down(batch)
        return Transfers.concatenate([*self._parts, self._early.transfers()])

    def swapped_first(self, chunks: list[int]) -> Transfers | None:
        """All transfers if two nodes swap contributions before their switches add up; None if they cannot."""
        if len(self._nodes) != 2 or len(self._nodes[0].npus) != len(self._nodes[1].npus):
            return None
        first, second = self._nodes
        everyone = {*first.npus, *second.npus}
        if any(self._holders[chunk] != everyone or self._wanting[chunk] != everyone for chunk in chunks):
            return None
        swaps = swaps_of(self._module.network, first.npus, second.npus) if first.switches and second.switches else None
        if swaps is None:
            return None
        ups = [[node.up[node.switches[0], npu] for npu in node.npus] for node in self._nodes]
        downs = [[node.down[node.switches[0], npu] for npu in node.npus] for node in self._nodes]
        early = EarlyTransfers(self._module)
        return early.transfers() if swap_and_add(early, chunks, swaps, ups, downs) else None

    def _representatives(self, chunk: int, turn: int) -> list[tuple[_Node, int]]:
        """The NPU that represents each node with a part in a chunk; if possible, all are at one position."""
        wanting, holders = self._wanting[chunk], self._holders[chunk]
        able: list[tuple[_Node, list[int]]] = []
        for node in self._nodes:
            npus = [npu for npu in node.npus if npu in wanting] or [npu for npu in node.npus if npu in holders]
            if npus:
                able.append((node, npus))
        for position in range(turn, turn + self._width):
            chosen = [(node, node.npus[position % len(node.npus)]) for node, _ in able]
            if all(npu in npus for (_, npu), (_, npus) in zip(chosen, able, strict=True)):
                return chosen
        return [(node, npus[turn % len(npus)]) for node, npus in able]

    def _go_up(self, batch: list[int]) -> None:
        """Contributions to the switches, and from there to the representatives."""
        self._begin_stage()
        for turn, chunk in enumerate(batch):
            for node, representative in self._representatives(chunk, turn):
                others = [npu for npu in node.npus if npu in self._holders[chunk] and npu != representative]
                if others:
                    switch = node.switches[turn % len(node.switches)]
                    ready = max(self._send(chunk, node.up[switch, npu], self._now, True) for npu in others)
                    self._send(chunk, node.down[switch, representative], ready, True)

    def _come_down(self, batch: list[int]) -> None:
        """The sums from the representatives to all NPUs that want them."""
        self._begin_stage()
        for turn, chunk in enumerate(batch):
            for node, representative in self._representatives(chunk, turn):
                others = [npu for npu in node.npus if npu in self._wanting[chunk] and npu != representative]
                if others:
                    switch = node.switches[turn % len(node.switches)]
                    ready = self._send(chunk, node.up[switch, representative], self._now, False)
                    for npu in others:
                        self._send(chunk, node.down[switch, npu], ready, False)

    def _begin_stage(self) -> None:
        """Lets the next transfers begin when all before have ended."""
        self._now = max(self._now, self._arrived)
        self._early.free.clear()

    def _send(self, chunk: int, link: int, ready: int, partial: bool) -> int:
        arrival = self._early.send(chunk, link, ready, partial)
        self._arrived = max(self._arrived, arrival)
        return arrival

    def _exchange_sums(self, batch: list[int]) -> None:
        """Reductions among the representatives. Batches with the same ones are planned once."""
        self._begin_stage()
        ends = [self._ends(chunk, turn) for turn, chunk in enumerate(batch)]
        table = self._module.demand.chunks
        key = tuple((*pair, int(table.size[c]), int(table.op[c])) for pair, c in zip(ends, batch, strict=True))
        if key not in self._exchanged:
            module = replace(self._module, network=self._between, demand=_demand_among(self._module, batch, ends))
            self._exchanged[key] = self._exchange(module)
        planned = self._exchanged[key]
        assert planned.schedule is not None
        rows = planned.schedule.transfers
        chunks = np.array(batch, np.int32)[rows.chunk]
        self._parts.append(Transfers(chunks, self._kept[rows.link], rows.start + self._now, rows.reduce))
        self._now += planned.schedule.collective_time(self._between, planned.demand)

    def _ends(self, chunk: int, turn: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The representatives that have a part of a chunk, and those that get its sum."""
        representatives = self._representatives(chunk, turn)
        holders, wanting = self._holders[chunk], self._wanting[chunk]
        return (
            tuple(npu for node, npu in representatives if not holders.isdisjoint(node.npus)),
            tuple(npu for node, npu in representatives if not wanting.isdisjoint(node.npus)),
        )


def _demand_among(module: Module, batch: list[int], ends: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> Demand:
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


def swap_and_add(
    early: EarlyTransfers,
    chunks: Sequence[int],
    swaps: Sequence[Swap],
    ups: Sequence[Sequence[int]],
    downs: Sequence[Sequence[int]],
) -> bool:
    """Add all transfers, chunk by chunk; False if swaps do not overlap in time, so that the second partial would have
    the first one in it.

    swaps: for each pair of NPUs, the links from the one in the first node to the other, and back. ups, downs: for each
    node, the links between its NPUs and a switch that reduces.
    """
    for chunk in chunks:
        ready = [[0] * len(swaps), [0] * len(swaps)]
        for pair, paths in enumerate(swaps):
            starts: list[int] = []
            for there, path in enumerate(paths, start=1):
                arrival = early.send(chunk, path[0], 0, True)
                starts.append(early.rows[-1][2])
                for link in path[1:]:
                    arrival = early.send(chunk, link, arrival, True)
                ready[there % 2][pair] = arrival
            if starts[0] >= ready[0][pair] or starts[1] >= ready[1][pair]:
                return False
        for node in range(2):
            here = max(early.send(chunk, link, when, True) for link, when in zip(ups[node], ready[node], strict=True))
            for link in downs[node]:
                early.send(chunk, link, here, False)
    return True


def swaps_of(network: Network, first: Sequence[int], second: Sequence[int]) -> list[Swap] | None:
    """The links of each swap between the NPUs at one position of two nodes; None if two NPUs have neither direct links
    nor a switch of their own between them that copies and has room for all.
    """
    link_of = {pair: k for k, pair in enumerate(zip(network.source.tolist(), network.target.tolist(), strict=True))}
    free = network.npu_count + np.flatnonzero(~network.reduces & (network.buffers < 0))
    switches = dict.fromkeys(free.tolist())
    swaps: list[Swap] = []
    for a, b in zip(first, second, strict=True):
        pairs = ((a, b), (b, a))
        if all(pair in link_of for pair in pairs):
            swaps.append(([link_of[a, b]], [link_of[b, a]]))
            continue
        able = (s for s in switches if all((x, s) in link_of and (s, y) in link_of for x, y in pairs))
        switch = next(able, -1)
        if switch < 0:
            return None
        del switches[switch]
        there, back = ([link_of[x, switch], link_of[switch, y]] for x, y in pairs)
        swaps.append((there, back))
    return swaps
