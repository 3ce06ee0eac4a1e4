"""The NPUs at which sums of an All-Reduce are formed, so that nodes without some of their NICs send and receive less.

A Reduce-Scatter followed by an All-Gather would send all chunks except its own into a damaged node, and as much out of
it, over fewer NICs. But an All-Reduce may form the sum of a chunk at any NPU. The copies of sums are planned first,
from NPUs that are chosen for this; the partials take the same routes backwards in time.

- The damaged node *gives up* early chunks of its own: their sums begin in undamaged nodes and spread over all others
  when links are free; each node that has such a sum forwards it.
- In return, of each undamaged node as many late chunks are *handed over*: their sums begin in the damaged node, and
  leave it for their own GPU when the chunks that were given up would have; from there they continue as in the plan of
  the whole cluster. They need not enter the damaged node.
- With few chunks, early ones are late ones, too. Then all NICs of the damaged node send what is handed over first, and
  what would have been sent before that is dropped.
"""

from __future__ import annotations

import numpy as np

from collc.synthesis.symmetric.class_timetable import Routes
from collc.synthesis.symmetric.level_plan import levels_of, sums
from collc.synthesis.symmetric.one_shot import MOST_MESSAGES
from collc.synthesis.symmetric.repair import Repair
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.network import Network


def move_sums(repair: Repair, whole: Network) -> bool:
    """Change where chunks begin; False if the network is no cluster of nodes, no node or all have lost NICs, one has
    lost half of them, or chunks are too few for that many nodes.
    """
    nodes = _nodes(repair, whole)
    if nodes is None:
        return False
    mover = _Mover(repair, nodes)
    if not mover.choose():
        return False
    mover.give_up()
    repair.closed_first = mover.at_once
    return (not mover.at_once or mover.send_first()) and mover.hand_over()


def _nodes(repair: Repair, whole: Network) -> Int32Array | None:
    """int32[elements]: the lowest element of the node of each; None if there are not two levels."""
    translations = repair.translations
    if not whole.has_switches:
        return None
    routes = Routes(whole, translations, repair.times, through=False)
    levels = levels_of(translations, routes.distance[translations.orbits[0]])
    if levels is None or len(levels) != 2:
        return None
    elements = np.arange(translations.count, dtype=np.int32)
    near = np.append(np.int32(0), levels[-1])
    return sums(translations, near, elements).min(axis=0)


class _Mover:
    """Moves the sums of one plan. node: int32[elements], the lowest element of each one's node."""

    def __init__(self, repair: Repair, node: Int32Array) -> None:
        self._repair, self._node, self._parts = repair, node, repair.numbers.parts
        self._nodes = [np.flatnonzero(node == first).astype(np.int32) for first in np.unique(node).tolist()]
        self.at_once = False
        self._damaged: list[Int32Array] = []
        self._sound: list[Int32Array] = []
        self._given: list[tuple[int, int]] = []
        self._handed: list[tuple[int, int, int]] = []

    def _rail(self) -> BoolArray | None:
        """bool[elements]: who is there and has a NIC; None if other things than NICs and NPUs are missing."""
        repair, messages = self._repair, self._repair.messages
        message, element = np.divmod(repair.missing, repair.count)
        source = repair.translations.sum(messages.sender[message], element.astype(np.int32))
        target = repair.translations.sum(messages.target[message], element.astype(np.int32))
        outside = self._node[source] != self._node[target]
        inside_broken = ~outside & repair.alive[source] & repair.alive[target]
        moves = len({int(n) for n in self._node.tolist()}) - 1
        lost = np.unique(np.stack([source, target])[:, outside], axis=1)
        out = np.bincount(lost[0], minlength=repair.count)
        rail = repair.alive & (out < moves)
        explained = ~rail[lost[0]] | ~rail[lost[1]]
        return None if bool(inside_broken.any()) or not bool(explained.all()) else rail

    def choose(self) -> bool:
        """Choose the chunks that are given up, and those that are handed over, with the node that gets them."""
        repair, parts, rail = self._repair, self._parts, self._rail()
        if rail is None:
            return False
        alive = [node for node in self._nodes if repair.alive[node].any()]
        self._sound = [node for node in alive if rail[node].all()]
        self._damaged = [node for node in alive if not rail[node].all()]
        if not self._sound or not self._damaged:
            return False
        size = len(self._nodes[0])
        taken: set[tuple[int, int]] = set()
        for node in self._damaged:
            ranks = np.flatnonzero(rail[node]).tolist()
            count = (size - len(ranks)) * parts
            late = [(part, rank) for part in range(parts - 1, -1, -1) for rank in ranks if (part, rank) not in taken]
            if len(late) < count:
                return False
            late = late[:count]
            taken.update(late)
            self._given += [
                (part, int(node[rank])) for part in range(parts) for rank in self._ranks_without_nic(node, rail)
            ]
            self._given += [(parts - 1 - part, int(node[rank])) for part, rank in late]
            self.at_once |= parts - 1 - late[-1][0] >= late[-1][0]
            for number, other in enumerate(self._sound):
                for part, rank in late:
                    turned = ranks[(ranks.index(rank) + number) % len(ranks)] if self.at_once else rank
                    self._handed.append((part, int(other[turned]), int(node[turned])))
        # Each handed over chunk then misses as many sends as precede it on its NIC, and copies in a node for each.
        if self.at_once and len(self._handed) ** 2 // 2 > MOST_MESSAGES:
            return False
        return len(set(self._handed)) == len({(part, owner) for part, owner, _ in self._handed})

    def _ranks_without_nic(self, node: Int32Array, rail: BoolArray) -> list[int]:
        """The ranks in a node of those that are there without a NIC."""
        return np.flatnonzero(~rail[node] & self._repair.alive[node]).tolist()

    def hand_over(self) -> bool:
        """Send what is handed over to its nodes; what these would then send on too early is dropped."""
        repair, messages, translations = self._repair, self._repair.messages, self._repair.translations
        keys: list[Int64Array] = []
        for part, owner, root in self._handed:
            to = self._node[translations.sum(messages.target, owner)]
            first = (messages.chunk == part) & (messages.parent < 0)
            first &= (to == self._node[owner]) | (to == self._node[root])
            keys.append(np.flatnonzero(first) * repair.count + owner)
        repair.drop(np.concatenate(keys))
        keys.clear()
        in_order = sorted(self._handed, key=lambda each: (each[0], repair.minus(each[1], each[2]), each))
        for part, owner, root in in_order:  # as the damaged node sends its own chunks in the plan
            near = np.flatnonzero(((self._node == self._node[owner]) | (self._node == self._node[root])) & repair.alive)
            lost = repair.lost[part, owner]
            holders = repair.holders.setdefault((part, owner), {root: 0})
            lacking = {element: lost.pop(element, 0) for element in near.tolist() if element not in holders}
            lost.pop(root, 0)
            if not repair.spread(part, owner, lacking, holders, closed=True):
                return False
            keys.append(self._late_messages(part, owner, holders))
        repair.drop(np.concatenate(keys))
        return True

    def _late_messages(self, part: int, owner: int, holders: dict[int, int]) -> Int64Array:
        """The messages of a chunk that would be sent before their senders have it."""
        repair, messages = self._repair, self._repair.messages
        since = np.zeros(repair.count, np.int64)
        since[list(holders)] = list(holders.values())
        own = np.flatnonzero(messages.chunk == part)
        sender = repair.translations.sum(messages.sender[own], owner)
        return own[messages.start[own] < since[sender]] * repair.count + owner

    def send_first(self) -> bool:
        """Send what is handed over at once, and what is given up to a few nodes, in the place of what is sent or comes
        then in the plan. False if a node sends less in the plan than is handed over.
        """
        repair, messages = self._repair, self._repair.messages
        outer = np.flatnonzero((messages.sender == 0) & (self._node[messages.target] != 0))
        outer = outer[np.argsort(messages.start[outer], kind="stable")]
        sends = [(part, owner, root, owner) for part, owner, root in self._handed]
        for part, owner in self._given:
            (root,) = repair.holders[part, owner]
            steps = dict.fromkeys(messages.target[outer[: repair.tried]].tolist())
            targets = (repair.add(root, step) for step in steps)
            sends += [(part, owner, root, target) for target in targets if target in repair.lost[part, owner]]
        sent: dict[int, int] = {}
        keys: list[Int64Array] = []
        for part, owner, root, target in sends:
            route = repair.route(repair.number_of[repair.minus(target, root)], root)
            number = sent.get(root, 0)
            rows = messages.rows[outer[min(number, len(outer) - 1)]]
            starts: list[int] = repair.rows.start[rows[rows >= 0]].tolist()
            if route is None or number == len(outer) or any(map(repair.gaps.has_added, route, starts)):
                if (part, owner) in repair.closed:
                    continue
                return False
            sent[root] = number + 1
            repair.send(part, owner, route, starts)
            keys.append(repair.find_overlaps(route, starts))
            holders = repair.holders.setdefault((part, owner), {root: 0})
            holders[target] = starts[-1] + int(repair.times.window[route[-1]])
            if (part, owner) in repair.closed:
                del repair.lost[part, owner][target]
        repair.drop(np.concatenate(keys))
        return True

    def give_up(self) -> None:
        """Let the sums of chunks of damaged nodes begin in other nodes."""
        repair, messages = self._repair, self._repair.messages
        step = max(1, len(self._sound) // len(self._given))
        for number, (part, owner) in enumerate(self._given):
            root = int(self._sound[number * step % len(self._sound)][0])
            first = np.flatnonzero((messages.chunk == part) & (messages.parent < 0))
            repair.drop(first * repair.count + owner)
            lacking = repair.lost.setdefault((part, owner), {})
            lacking.update({owner: int(first[0])} if repair.alive[owner] else {})
            lacking.pop(root)
            repair.holders[part, owner] = {root: 0}
            repair.closed.add((part, owner))
