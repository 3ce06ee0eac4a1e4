"""All-Reduce on a cluster that has lost NICs or GPUs: sums are formed so that damaged nodes send and receive less.

A Reduce-Scatter followed by an All-Gather would send all chunks except its own into a damaged node, and as much out of
it, over fewer NICs. But an All-Reduce may form the sum of a chunk at any NPU. The copies of sums are planned first,
from NPUs that are chosen for this; the partials take the same routes backwards in time.

- Of each undamaged node, some late chunks are *handed over*: their sums begin in the damaged node, which sends each to
  its node once; from there they continue as in the plan of the whole cluster. They need not enter the damaged node.
- In return the damaged node gives up early chunks of its own: their sums begin in undamaged nodes and spread over all
  others where links are free; each node that has such a sum forwards it.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from collc.synthesis.symmetric.damage import Damage
from collc.synthesis.symmetric.patched_gather import GatherPatch
from collc.synthesis.symmetric.routes import ClassTimes
from collc.ten.arrays import BoolArray, Int32Array
from collc.ten.factored_schedule import ChunkNumbers
from collc.ten.schedule import Transfers
from collc.ten.translations import Translations


@dataclass(frozen=True, eq=False)
class _Handover:
    """A chunk of an undamaged node whose sum begins in a damaged one.

    owner: the element whose chunk it is in the plan. sender, move: the element of the damaged node that sends it, and
    by which move. slot: picoseconds, when the plan sent there a chunk that is given up.
    """

    owner: int
    part: int
    sender: int
    move: int
    slot: int


class _Sending(NamedTuple):
    """A message to a node: its move, starts on its links, and arrival, in picoseconds."""

    node: int
    move: int
    starts: list[int]
    arrival: int


class SumPatch(GatherPatch):
    """The copies of sums. Elements stand for NPUs, as in GatherPatch."""

    def __init__(self, damage: Damage, translations: Translations, times: ClassTimes, numbers: ChunkNumbers) -> None:
        super().__init__(damage, translations, times, numbers)
        self._node = np.minimum(np.arange(translations.count), damage.inner_to.min(axis=0)).astype(np.int32)
        self._given = np.zeros((numbers.parts, translations.count), np.bool_)
        self._handed = np.full((numbers.parts, translations.count), -1, np.int32)
        self._late: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._begun: list[tuple[int, int, int, int]] = []
        self._without_nic: dict[int, list[int]] = {}
        self._times = times
        self._damaged: list[Int32Array] = []
        self._undamaged: list[Int32Array] = []
        self._present: list[int] = []
        self._lacking: dict[int, dict[int, None]] = {}
        self._moves: dict[int, dict[int, int]] = {}
        routes = np.empty((0, 1), np.int32) if damage.outer is None else damage.outer.routes
        windows = np.where(routes >= 0, times.window[routes], 0).sum(axis=1)
        self._least = int(windows.min()) if len(windows) else 0

    def rows(self) -> Transfers | None:
        """All copies; None if links are broken in other ways than NICs and GPUs, a node has lost half of its
        NICs, or there are too few chunks for this.
        """
        rail = self._rails()
        outer = self._damage.outer
        if rail is None or outer is None:
            return None
        handovers = self._reassign(rail)
        if handovers is None:
            return None
        target = self._node[self._damage.outer_to]
        begins = ~self._given & (self._handed < 0)
        parts = self._keep(begins, ~self._given[:, None] & (self._handed[:, None] != target))
        lost = [
            (part, move, owner)
            for part in range(self._numbers.parts)
            for move, owner in self._lost_moves()
            if not self._given[part, owner] and self._handed[part, owner] != target[move, owner]
        ]
        if not all(self._hand_over(one) for one in handovers) or not self._enter_all(lost):
            return None
        for part, owner, origin, other in self._begun:
            self._spread_in_node(part, owner, origin, 0, other)
        self._spread_given()
        return self._join_columns(parts)

    def least_gather(self) -> int:
        """Picoseconds that an All-Gather takes at least, in which all chunks of other nodes enter a damaged one."""
        damage, outer = self._damage, self._damage.outer
        assert outer is not None
        taken, longest = int(self._times.taken[outer.routes[:, 0]].min()), 0
        for node in self._damaged:
            foreign = int(damage.alive.sum()) - int(damage.alive[node].sum())
            nics = int(damage.enters[:, node].any(axis=0).sum())
            longest = max(longest, -(-foreign * self._numbers.parts // nics) * taken)
        return longest

    def _rails(self) -> BoolArray | None:
        """bool[elements]: whether each has a NIC; None if damage is not that of whole NICs and GPUs."""
        damage = self._damage
        rail = damage.alive & damage.enters.any(axis=0)
        return rail if np.array_equal(damage.enters, rail & rail[damage.outer_to]) else None

    def _reassign(self, rail: BoolArray) -> list[_Handover] | None:
        """Which chunks are given up and which are handed over, sets the tables of both."""
        parts, whole = self._numbers.parts, len(self._damage.inner.moves) + 1
        nodes = [np.flatnonzero(self._node == node).astype(np.int32) for node in np.unique(self._node).tolist()]
        present = [node for node in nodes if self._damage.alive[node].any()]
        undamaged = self._undamaged = [node for node in present if rail[node].all()]
        self._present = [int(node[0]) for node in present]
        damaged = self._damaged = [node for node in present if not rail[node].all()]
        if not undamaged or not damaged:
            return None
        found: list[_Handover] = []
        order = [(part, rank) for part in range(parts - 1, -1, -1) for rank in range(whole)]
        for node in damaged:
            sound = node[rail[node]]
            count = (whole - len(sound)) * parts
            late, order = order[:count], order[count:]
            early = [(part, int(element)) for part in range(parts) for element in sound][:count]
            if min(len(early), len(late)) < count or late[-1][0] <= early[-1][0]:
                return None
            without = node[~rail[node] & self._damage.alive[node]]
            self._given[:, without] = True
            self._without_nic[int(node[0])] = without.tolist()
            for part, element in early:
                self._given[part, element] = True
            for other in undamaged:
                found += self._handovers_to(node, other, early, late)
        return sorted(found, key=lambda one: (one.slot, one.sender, one.owner))

    def _handovers_to(
        self, node: Int32Array, other: Int32Array, early: list[tuple[int, int]], late: list[tuple[int, int]]
    ) -> list[_Handover]:
        """The chunks of an undamaged node that are handed over to a damaged one. late: parts and positions."""
        outer = self._damage.outer
        assert outer is not None
        found: list[_Handover] = []
        for (free, sender), (part, rank) in zip(early, late, strict=True):
            move = self._moves_to(sender)[int(self._node[other[0]])]
            owner = int(other[rank])
            self._handed[part, owner] = self._node[node[0]]
            found.append(_Handover(owner, part, sender, move, int(outer.starts[free, move, 0, 0])))
        return found

    def _hand_over(self, one: _Handover) -> bool:
        """Send a chunk from its damaged node to its own, and to all of both; False if it arrives too late to continue
        as planned.
        """
        damage, outer = self._damage, self._damage.outer
        assert outer is not None
        links = damage.outer_links[one.move, one.sender].tolist()
        starts, arrival = self._residual.earliest(links, 0)
        self._send(one.part, one.owner, links, starts)
        self._begin(one, starts[0])
        there = self._spread_in_node(one.part, one.owner, int(damage.outer_to[one.move, one.sender]), arrival)
        self._late[one.part, one.owner] = sorted(there, key=lambda pair: (pair[0] != one.owner, pair[1]))
        return self._late[one.part, one.owner][0][1] <= int(outer.starts[one.part, :, 0, 0].min())

    def _begin(self, one: _Handover, needed: int) -> None:
        """Choose where a handed over chunk begins: at an element without a NIC, which has less to pass on in its node,
        if the chunk gets from there to the one that sends it in time; else at that one.
        """
        for element in self._without_nic.get(int(self._node[one.sender]), []):
            inside = self._damage.inner_to[:, element].tolist()
            links = self._damage.inner_links[inside.index(one.sender), element].tolist()
            starts, arrival = self._residual.earliest(links, 0)
            if arrival <= needed:
                self._send(one.part, one.owner, links, starts)
                self._begun.append((one.part, one.owner, element, one.sender))
                return
        self._begun.append((one.part, one.owner, one.sender, one.sender))

    def _holders(self, part: int, owner: int) -> list[tuple[int, int]]:
        """See GatherPatch."""
        return self._late.get((part, owner)) or super()._holders(part, owner)

    def _spread_given(self) -> None:
        """Spread the chunks that were given up, each from another undamaged node, over all nodes.

        Of the elements that hold a chunk, the one that can send first does, to the node where it arrives first.
        """
        parts, owners = np.nonzero(self._given)
        chunks = list(zip(parts.tolist(), owners.tolist(), strict=True))
        step = max(1, len(self._undamaged) // len(chunks))
        ready: list[tuple[int, int, int]] = []
        for number, (part, owner) in enumerate(chunks):
            at = number * step % len(self._undamaged)
            origin = int(self._undamaged[at][0])
            lacking = [node for node in self._present if node != int(self._node[origin])]
            turn = bisect_left(lacking, int(self._node[origin]))
            self._lacking[number] = dict.fromkeys(lacking[turn:] + lacking[:turn])
            self._push(ready, number, self._spread_in_node(part, owner, origin, 0))
        while ready:
            since, number, sender = heapq.heappop(ready)
            found = self._next_node(number, sender, since, ready[0][0] if ready else None)
            if found is None:
                continue
            if found.move < 0:
                heapq.heappush(ready, (found.starts[0], number, sender))
                continue
            del self._lacking[number][found.node]
            links = self._damage.outer_links[found.move, sender].tolist()
            self._send(*chunks[number], links, found.starts)
            heapq.heappush(ready, (found.starts[0] + 1, number, sender))
            entry = int(self._damage.outer_to[found.move, sender])
            self._push(ready, number, self._spread_in_node(*chunks[number], entry, found.arrival))

    def _push(self, ready: list[tuple[int, int, int]], number: int, holders: list[tuple[int, int]]) -> None:
        for element, since in holders:
            if self._damage.enters[:, element].any():
                heapq.heappush(ready, (since, number, element))

    def _next_node(self, number: int, sender: int, since: int, limit: int | None) -> _Sending | None:
        """To which node an element can send a chunk so that it arrives first; None if all nodes have it.

        Where it cannot begin before `limit` the move is -1, and the start is that of a message to anywhere.
        """
        best: _Sending | None = None
        moves = self._moves_to(sender)
        for node in self._lacking[number]:
            move = moves.get(node)
            if move is None:
                continue
            links = self._damage.outer_links[move, sender].tolist()
            if best is None:
                begin, arrival = self._residual.earliest(links[:1], since)
                if limit is not None and begin[0] > max(since, limit):
                    return _Sending(-1, -1, begin, arrival)
                since = begin[0]
            starts, arrival = self._residual.earliest(links, since)
            if best is None or arrival < best.arrival:
                best = _Sending(node, move, starts, arrival)
            if arrival == since + self._least:
                break
        return best

    def _moves_to(self, sender: int) -> dict[int, int]:
        """The moves by which an element can reach other nodes."""
        found = self._moves.get(sender)
        if found is None:
            nodes = self._node[self._damage.outer_to[:, sender]].tolist()
            enters = self._damage.enters[:, sender].tolist()
            found = {node: move for move, (node, there) in enumerate(zip(nodes, enters, strict=True)) if there}
            self._moves[sender] = found
        return found
