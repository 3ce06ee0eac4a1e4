"""All-Reduce on a cluster that has lost NICs or GPUs: sums are formed so that damaged nodes send and receive less.

A Reduce-Scatter followed by an All-Gather would send all chunks except its own into a damaged node, and as much out of
it, over fewer NICs. But an All-Reduce may form the sum of a chunk at any NPU. The copies of sums are planned first,
from NPUs that are chosen for this; the partials take the same routes backwards in time.

- Of each undamaged node, some late chunks are *handed over*: their sums begin in the damaged node, which sends each to
  its node once; from there they continue as in the plan of the whole cluster. They need not enter the damaged node.
- In return the damaged node gives up early chunks of its own: their sums begin in undamaged nodes and spread over all
  others when links are free; each node that has such a sum forwards it.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from typing import NamedTuple

import numpy as np

from collc.graph.automorphisms import opposite_links
from collc.synthesis.symmetric.patched import Damage, GatherPatch
from collc.synthesis.task import Task
from collc.ten.arrays import BoolArray, Int32Array
from collc.ten.module import Module
from collc.ten.schedule import RowSchedule, Transfers


def patched_sums(module: Module) -> RowSchedule | None:
    """A schedule of one All-Reduce over all NPUs that are there, whose sums are formed at NPUs that save a damaged
    node traffic; None if this does not apply, or may take longer than a Reduce-Scatter and an All-Gather.

    Raises ValueError if links have no bandwidth or latency.
    """
    standard = module.demand.standard
    if standard is None or standard.kind != "all_reduce" or module.schedule is not None:
        return None
    opposite = opposite_links(module.network)
    damage = Damage.of(Task(module.network, module.demand, module.model, np.empty(0, np.int32)))
    if opposite is None or damage is None:
        return None
    patch = SumPatch(damage)
    rows = patch.rows()
    if rows is None:
        return None
    arrival = rows.start + damage.times.window[rows.link]
    end = int(arrival.max())
    if end >= patch.least_gather():
        return None
    sums = Transfers.of(rows.chunk, opposite[rows.link], end - arrival, True)
    chunk, link = np.concatenate([sums.chunk, rows.chunk]), np.concatenate([sums.link, rows.link])
    start, reduce = np.concatenate([sums.start, rows.start + end]), np.concatenate([sums.reduce, rows.reduce])
    return RowSchedule(module.model, Transfers(chunk, link, start, reduce))  # all sums start before `end`


class _Handover(NamedTuple):
    """A chunk of an undamaged node whose sum begins in a damaged one.

    slot: picoseconds, when the plan sent there a chunk that is given up. sender, move: the element of the damaged node
    that sends it, and by which move. owner: the element whose chunk it is in the plan.
    """

    slot: int
    sender: int
    owner: int
    part: int
    move: int


class SumPatch(GatherPatch):
    """The copies of sums. Elements stand for NPUs, as in GatherPatch."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(damage)
        shape = damage.numbers.parts, damage.translations.count
        self._node = np.minimum(damage.elements, damage.inner_to.min(axis=0)).astype(np.int32)
        self._given = np.zeros(shape, np.bool_)
        self._handed = np.full(shape, -1, np.int32)
        self._late: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._damaged: list[Int32Array] = []
        self._undamaged: list[Int32Array] = []
        self._without_nic: dict[int, list[int]] = {}
        self._moves: dict[int, dict[int, int]] = {}

    def rows(self) -> Transfers | None:
        """All copies; None if links are broken in other ways than NICs and GPUs, a node has lost half of its
        NICs, or there are too few chunks for this.
        """
        damage = self._damage
        rail = damage.alive & damage.enters.any(axis=0)
        if not len(damage.outer.moves) or not np.array_equal(damage.enters, rail & rail[damage.outer_to]):
            return None
        handovers = self._reassign(rail)
        if handovers is None:
            return None
        entered = ~self._given[:, None] & (self._handed[:, None] != self._node[damage.outer_to])
        self.keep_levels(~self._given & (self._handed < 0), entered)
        parts = range(damage.numbers.parts)
        lost = [(part, *each) for part in parts for each in self.lost_moves() if entered[(part, *each)]]
        begun: list[tuple[int, int, int, int]] = []
        if not all(self._hand_over(handover, begun) for handover in handovers) or not self.enter_all(lost):
            return None
        for part, owner, origin, other in begun:
            self.spread_in_node(part, owner, origin, 0, other)
        self._spread_given()
        return self.transfers()

    def least_gather(self) -> int:
        """Picoseconds that an All-Gather takes at least, in which all chunks of other nodes enter a damaged one."""
        damage = self._damage
        taken, longest = int(damage.times.taken[damage.outer.routes[:, 0]].min()), 0
        for node in self._damaged:
            foreign = int(damage.alive.sum()) - int(damage.alive[node].sum())
            nics = int(damage.enters[:, node].any(axis=0).sum())
            longest = max(longest, -(-foreign * damage.numbers.parts // nics) * taken)
        return longest

    def holders(self, part: int, owner: int) -> list[tuple[int, int]]:
        """See GatherPatch."""
        return self._late.get((part, owner)) or super().holders(part, owner)

    def _reassign(self, rail: BoolArray) -> list[_Handover] | None:
        """Which chunks are given up and which are handed over, sets the tables of both. rail: who has a NIC."""
        damage = self._damage
        parts, whole = damage.numbers.parts, len(damage.inner.moves) + 1
        nodes = [np.flatnonzero(self._node == node).astype(np.int32) for node in np.unique(self._node).tolist()]
        nodes = [node for node in nodes if damage.alive[node].any()]
        undamaged = self._undamaged = [node for node in nodes if rail[node].all()]
        self._damaged = [node for node in nodes if not rail[node].all()]
        if not undamaged or not self._damaged:
            return None
        handovers: list[_Handover] = []
        order = [(part, rank) for part in range(parts - 1, -1, -1) for rank in range(whole)]
        for node in self._damaged:
            sound = node[rail[node]]
            count = (whole - len(sound)) * parts
            late, order = order[:count], order[count:]
            early = [(part, int(element)) for part in range(parts) for element in sound][:count]
            if min(len(early), len(late)) < count or late[-1][0] <= early[-1][0]:
                return None
            without = node[~rail[node] & damage.alive[node]]
            self._given[:, without] = True
            self._without_nic[int(node[0])] = without.tolist()
            for part, element in early:
                self._given[part, element] = True
            for other in undamaged:
                for (free, sender), (part, rank) in zip(early, late, strict=True):
                    move, owner = self._moves_to(sender)[int(self._node[other[0]])], int(other[rank])
                    self._handed[part, owner] = self._node[node[0]]
                    slot = int(damage.outer.starts[free, move, 0, 0])
                    handovers.append(_Handover(slot, sender, owner, part, move))
        return sorted(handovers)

    def _hand_over(self, handover: _Handover, begun: list[tuple[int, int, int, int]]) -> bool:
        """Send a chunk from its damaged node to its own, and to all of both; False if it arrives too late to continue
        as planned.

        begun: its part, its owner, the element where it begins and the one that sends it are added.
        """
        damage = self._damage
        _, sender, owner, part, move = handover
        links = damage.outer_links[move, sender].tolist()
        starts, arrival = self.earliest(links, 0)
        self.send(owner, 0, part, links, starts)
        begun.append((part, owner, self._begin(handover, starts[0]), sender))
        there = self.spread_in_node(part, owner, int(damage.outer_to[move, sender]), arrival)
        late = self._late[part, owner] = sorted(there, key=lambda pair: (pair[0] != owner, pair[1]))
        return late[0][1] <= int(damage.outer.starts[part, :, 0, 0].min())

    def _begin(self, handover: _Handover, needed: int) -> int:
        """The element where a handed over chunk begins: one without a NIC, which has less to pass on in its node, if
        the chunk gets from there to the one that sends it in time, and is sent; else that one.
        """
        for element in self._without_nic[int(self._node[handover.sender])]:
            inside = self._damage.inner_to[:, element].tolist()
            links = self._damage.inner_links[inside.index(handover.sender), element].tolist()
            starts, arrival = self.earliest(links, 0)
            if arrival <= needed:
                self.send(handover.owner, 0, handover.part, links, starts)
                return element
        return handover.sender

    def _spread_given(self) -> None:
        """Spread the chunks that were given up, each from another undamaged node, over all nodes.

        Of the elements that hold a chunk, the one that can send first does, to the node that it reaches first.
        """
        damage = self._damage
        chunks: list[tuple[int, int]] = [(part, owner) for part, owner in np.argwhere(self._given).tolist()]
        present = sorted(int(node[0]) for node in (*self._damaged, *self._undamaged))
        lacking: list[list[int]] = []
        ready: list[tuple[int, int, int]] = []

        def add_senders(number: int, holders: list[tuple[int, int]]) -> None:
            for element, since in holders:
                if damage.enters[:, element].any():
                    heapq.heappush(ready, (since, number, element))

        step = max(1, len(self._undamaged) // len(chunks))
        for number, (part, owner) in enumerate(chunks):
            origin = int(self._undamaged[number * step % len(self._undamaged)][0])
            turn = bisect_left(present, origin)
            lacking.append(present[turn + 1 :] + present[:turn])
            add_senders(number, self.spread_in_node(part, owner, origin, 0))
        while ready:
            since, number, sender = heapq.heappop(ready)
            moves, (part, owner) = self._moves_to(sender), chunks[number]
            options = [
                (node, links, *self.earliest(links, since))
                for node in lacking[number]
                if node in moves and (links := damage.outer_links[moves[node], sender].tolist())
            ]
            if not options:
                continue
            node, links, starts, arrival = min(options, key=lambda option: option[3])
            lacking[number].remove(node)
            self.send(owner, 0, part, links, starts)
            heapq.heappush(ready, (starts[0] + 1, number, sender))
            add_senders(number, self.spread_in_node(part, owner, int(damage.outer_to[moves[node], sender]), arrival))

    def _moves_to(self, sender: int) -> dict[int, int]:
        """The moves by which an element can reach other nodes."""
        if sender not in self._moves:
            nodes = self._node[self._damage.outer_to[:, sender]].tolist()
            pairs = enumerate(zip(nodes, self._damage.enters[:, sender].tolist(), strict=True))
            self._moves[sender] = {node: move for move, (node, there) in pairs if there}
        return self._moves[sender]
