"""The NPUs at which sums of an All-Reduce are formed, so that nodes without some of their NICs send and receive less.

A Reduce-Scatter followed by an All-Gather would send all chunks except its own into a damaged node, and as much out of
it, over fewer NICs. But an All-Reduce may form the sum of a chunk at any NPU. The copies of sums are planned first,
from NPUs that are chosen for this; the partials take the same routes backwards in time.

- The damaged node *gives up* early chunks of its own: their sums begin in undamaged nodes and spread over all others
  when links are free; each node that has such a sum forwards it.
- In return, of each undamaged node as many late chunks are *handed over*: their sums begin in the damaged node, and
  leave it for their own GPU when the chunks that were given up would have; from there they continue as in the plan of
  the whole cluster. They need not enter the damaged node.
- If NPUs have lost links within their node, what is handed over begins in these, which need not get it then. If it
  leaves early, their links are too slow for all of it. So the other choice is to give up chunks *evenly* over time, and
  to hand over chunks of a later part for each of them.
- With few chunks, early ones are late ones, too. Then all NICs of the damaged node send what is handed over first, and
  what would have been sent before that is dropped. If late ones follow early ones, this may be shorter or longer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from collc.synthesis.symmetric.class_timetable import Routes
from collc.synthesis.symmetric.level_plan import levels_of, sums
from collc.synthesis.symmetric.repair import Lost, Repair, SpreadRequest
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, ranges
from collc.ten.network import Network
from collc.ten.schedule import MOST_LISTED

_PartAndRank = tuple[int, int]
"""The chunk of a node that is this part of the data of this rank."""


class Moved(NamedTuple):
    """What has been moved. least: picoseconds that copies of sums would take at least otherwise. has_other: whether the
    other choice may be shorter.
    """

    least: int
    has_other: bool


def move_sums(repair: Repair, whole: Network, *, other: bool = False) -> Moved | None:
    """Change where chunks begin. other: give up chunks evenly if NPUs have lost links within their node, or else send
    what is handed over at once even if early chunks are not late.

    None if the network is no cluster of nodes, no node or all have lost NICs, one has lost half of them, or chunks are
    too few for that many nodes.
    """
    nodes = _nodes(repair, whole)
    if nodes is None:
        return None
    mover = _Mover(repair, nodes, other=other)
    if not mover.choose():
        return None
    least = mover.least_without()
    repair.spare_damaged()
    mover.give_up()
    repair.closed_first = mover.at_once
    if (mover.at_once and not mover.send_first()) or not mover.hand_over():
        return None
    return Moved(least, mover.has_other)


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
    """Moves the sums of one plan. node: int32[elements], the lowest element of each one's node. other: as of
    `move_sums`.
    """

    def __init__(self, repair: Repair, node: Int32Array, *, other: bool) -> None:
        self._repair, self._node, self._parts = repair, node, repair.numbers.parts
        self._nodes = [np.flatnonzero(node == first).astype(np.int32) for first in np.unique(node).tolist()]
        self._evenly = other and len(repair.damaged_inside) > 0
        self.at_once = other and not self._evenly
        self.has_other = len(repair.damaged_inside) > 0
        self._rail = repair.alive
        self._damaged: list[Int32Array] = []
        self._sound: list[Int32Array] = []
        self._given: list[tuple[int, int]] = []
        self._handed: list[tuple[int, int, int]] = []

    def _find_rail(self) -> BoolArray | None:
        """bool[elements]: who is there and has a NIC; None if more is missing than NICs, NPUs and some links of NPUs to
        their node, or both NICs and such links.
        """
        repair, messages = self._repair, self._repair.messages
        message, element = np.divmod(repair.missing, repair.count)
        source = repair.translations.sum(messages.sender[message], element.astype(np.int32))
        target = repair.translations.sum(messages.target[message], element.astype(np.int32))
        outside = self._node[source] != self._node[target]
        moves = len({int(n) for n in self._node.tolist()}) - 1
        lost = np.unique(np.stack([source, target])[:, outside], axis=1)
        out = np.bincount(lost[0], minlength=repair.count)
        rail = repair.alive & (out < moves)
        explained = ~rail[lost[0]] | ~rail[lost[1]]
        is_weak = ~repair.alive
        is_weak[repair.damaged_inside] = True
        explained = bool(explained.all()) and bool((is_weak[source] | is_weak[target])[~outside].all())
        return None if not explained or (len(repair.damaged_inside) and not bool(rail.all())) else rail

    def choose(self) -> bool:
        """Choose the chunks that are given up, and those that are handed over, with the node that gets them."""
        repair, parts, rail = self._repair, self._parts, self._find_rail()
        if rail is None:
            return False
        self._rail = rail
        alive = [node for node in self._nodes if repair.alive[node].any()]
        is_sound = rail.copy()
        is_sound[repair.damaged_inside] = False
        self._sound = [node for node in alive if is_sound[node].all()]
        self._damaged = [node for node in alive if not is_sound[node].all()]
        if not self._sound or not self._damaged:
            return False
        size = len(self._nodes[0])
        taken: set[tuple[int, int]] = set()
        overlaps = False
        for node in self._damaged:
            ranks = np.flatnonzero(rail[node]).tolist()
            count = self._most_useful(node) if len(ranks) == size else (size - len(ranks)) * parts
            if not count:
                return False
            pairs = self._even_pairs(count, taken) if self._evenly else self._early_pairs(ranks, count, taken)
            if pairs is None:
                return False
            given, late = pairs
            taken.update(late)
            self._given += [
                (part, int(node[rank])) for part in range(parts) for rank in self._ranks_without_nic(node, rail)
            ]
            self._given += [(part, int(node[rank])) for part, rank in given]
            first_late = parts if self._evenly else late[-1][0]
            overlaps |= parts - 1 - first_late >= first_late
            self.has_other |= parts - first_late == first_late
            self.at_once |= overlaps
            for number, sound in enumerate(self._sound):
                for part, rank in late:
                    turned = ranks[(ranks.index(rank) + number) % len(ranks)] if self.at_once else rank
                    self._handed.append((part, int(sound[turned]), int(node[turned])))
        # Each handed over chunk then misses as many sends as precede it on its NIC, and copies in a node for each.
        if overlaps and len(self._handed) ** 2 > MOST_LISTED:  # half as many messages, two links each
            return False
        return len(set(self._handed)) == len({(part, owner) for part, owner, _ in self._handed})

    def _early_pairs(
        self, ranks: list[int], count: int, taken: set[_PartAndRank]
    ) -> tuple[list[_PartAndRank], list[_PartAndRank]] | None:
        """The earliest chunks, which are given up, and the latest ones that are not taken, which are handed over."""
        late = [(part, rank) for part in range(self._parts - 1, -1, -1) for rank in ranks if (part, rank) not in taken][
            :count
        ]
        return None if len(late) < count else ([(self._parts - 1 - part, rank) for part, rank in late], late)

    def _even_pairs(self, count: int, taken: set[_PartAndRank]) -> tuple[list[_PartAndRank], list[_PartAndRank]] | None:
        """Chunks evenly over time, which are given up, and for each a later one of its rank that is handed over.

        Later by half of the parts that are not given up, so that before and after them as much time is left.
        """
        parts, size = self._parts, len(self._nodes[0])
        later = min(parts - 1, max(1, (parts - -(-count // size)) // 2))
        given = [(number * (parts - later) // count, number % size) for number in range(count)]
        handed: list[_PartAndRank] = []
        for part, rank in given:
            after = range(part + later, parts)
            handed += [(each, rank) for each in after if (each, rank) not in taken][:1]
        return None if len(handed) < count else (given, handed)

    def _most_useful(self, node: Int32Array) -> int:
        """How many chunks of each sound node a node gets that has lost links within, so that neither the links within
        it nor the NICs of sound nodes take longer than they must.
        """
        sound, most = len(self._sound), len(node) * self._parts
        handed = np.arange(most // 2)
        share = handed * (1 - 1 / sound) / ((len(self._nodes) - 1) * most)
        return int(np.maximum(self._time_within(node, handed), self._repair.end * (1 + share)).argmin())

    def _time_within(self, node: Int32Array, handed: Int64Array) -> Int64Array:
        """Picoseconds in which the weakest NPU of a node at least gets from the others what it does not begin itself,
        nor gets over its NIC, if each sound node hands over some chunks.
        """
        repair, size, sound = self._repair, len(node), len(self._sound)
        inside = np.intersect1d(node, repair.damaged_inside)
        count = self._parts * (repair.count - repair.count // size) - handed * sound * (1 / len(inside) - 1 / size)
        return (count * max(repair.time_within(each) for each in inside.tolist())).astype(np.int64)

    def _ranks_without_nic(self, node: Int32Array, rail: BoolArray) -> list[int]:
        """The ranks in a node of those that are there without a NIC."""
        return np.flatnonzero(~rail[node] & self._repair.alive[node]).tolist()

    def least_without(self) -> int:
        """How long the NICs that a damaged node has left take for all that its NICs send in the plan."""
        repair, messages = self._repair, self._repair.messages
        outer = np.flatnonzero(self._node[messages.sender] != self._node[messages.target])
        row = messages.rows[outer]
        link = repair.rows.link[row[row >= 0]]
        busy = np.bincount(repair.translations.class_row[link], weights=repair.times.taken[link])
        left = min(np.count_nonzero(self._rail[node]) for node in self._damaged)
        if len(repair.damaged_inside):
            return max(int(self._time_within(node, np.zeros(1, np.int64))[0]) for node in self._damaged)
        return int(busy.max()) * len(self._nodes[0]) // max(1, int(left))

    def give_up(self) -> None:
        """Let the sums of chunks of damaged nodes begin in other nodes."""
        repair, count = self._repair, self._repair.count
        step = max(1, len(self._sound) // len(self._given))
        roots = [int(self._sound[number * step % len(self._sound)][0]) for number in range(len(self._given))]
        part, owner = np.array(self._given, np.int64).T
        number, first = self._first_messages(part)
        repair.drop(first * count + owner[number])
        keys = part * count + owner
        repair.forget(keys * count + roots)
        lacks = np.flatnonzero(repair.alive[owner])
        any_of = first[np.searchsorted(number, lacks)]
        repair.lost = repair.lost.join(Lost(keys[lacks], owner[lacks], any_of))
        repair.holders |= {key: {root: 0} for key, root in zip(keys.tolist(), roots, strict=True)}
        repair.closed |= {*keys.tolist()}

    def _first_messages(self, part: Int64Array) -> tuple[Int64Array, Int64Array]:
        """(numbers, messages): for each of some chunks those messages by which the representative sends it."""
        messages = self._repair.messages
        first = np.flatnonzero(messages.parent < 0)
        first = first[np.argsort(messages.chunk[first], kind="stable")]
        chunk = messages.chunk[first]
        low, high = np.searchsorted(chunk, part, "left"), np.searchsorted(chunk, part, "right")
        return np.repeat(np.arange(len(part)), high - low), first[ranges(low, high)]

    def send_first(self) -> bool:
        """Send what is handed over at once, and what is given up to a few nodes, in place of what is sent or comes
        then in the plan. False if a node sends less in the plan than is handed over.
        """
        repair, messages, count = self._repair, self._repair.messages, self._repair.count
        outer = np.flatnonzero((messages.sender == 0) & (self._node[messages.target] != 0))
        outer = outer[np.argsort(messages.start[outer], kind="stable")]
        sends = [(part * count + owner, root, owner) for part, owner, root in self._handed]
        nearby = list(dict.fromkeys(messages.target[outer[: repair.moves.tried]].tolist()))
        lost = {*(repair.lost.key * count + repair.lost.element)[np.isin(repair.lost.key, [*repair.closed])].tolist()}
        for key in (part * count + owner for part, owner in self._given):
            (root,) = repair.holders[key]
            targets: list[int] = repair.translations.sum(np.array(nearby, np.int32), root).tolist()
            sends += [(key, root, target) for target in targets if key * count + target in lost]
        sent: dict[int, int] = {}
        taken: dict[int, list[int]] = {}
        rows: list[tuple[int, int, int, int]] = []
        got: list[int] = []
        for key, root, target in sends:
            number = sent.get(root, 0)
            hops = messages.rows[outer[min(number, len(outer) - 1)]]
            starts: list[int] = repair.rows.start[hops[hops >= 0]].tolist()
            route = repair.route_to(target, root) or []
            wanted = [*zip(route, starts, strict=False)]
            if number == len(outer) or not wanted or self._is_taken(wanted, taken):
                if key in repair.closed:
                    continue
                return False
            sent[root] = number + 1
            for link, start in wanted:
                taken.setdefault(link, []).append(start)
            rows += [(*divmod(key, count), *each) for each in wanted]
            repair.holders.setdefault(key, {root: 0})[target] = starts[-1] + int(repair.times.window[route[-1]])
            got.append(key * count + target)
        repair.forget(np.array(got, np.int64))
        columns = np.array(rows, np.int64).reshape(-1, 4).T
        repair.send(*columns)
        repair.drop(repair.find_overlaps(columns[2], columns[3]))
        return True

    def _is_taken(self, wanted: list[tuple[int, int]], taken: dict[int, list[int]]) -> bool:
        """Whether a link is taken then. wanted: links and starts. taken: starts by link."""
        long = self._repair.times.taken
        return any(abs(start - other) < int(long[link]) for link, start in wanted for other in taken.get(link, ()))

    def hand_over(self) -> bool:
        """Send what is handed over to its nodes; what these would then send on too early is dropped."""
        repair, messages, translations = self._repair, self._repair.messages, self._repair.translations
        count, node = repair.count, self._node
        part, owner, root = np.array(self._handed, np.int64).T
        # As the damaged node sends its own chunks in the plan.
        step = translations.difference(owner.astype(np.int32), root.astype(np.int32))
        order = np.lexsort((root, owner, step, part))
        part, owner, root, step = part[order], owner[order], root[order], step[order]
        number, first = self._first_messages(part)
        to = node[translations.sum(messages.target[first], owner[number].astype(np.int32))]
        near = (to == node[owner[number]]) | (to == node[root[number]])
        repair.drop((first * count + owner[number])[near])
        keys = part * count + owner
        for key, element in zip(keys.tolist(), root.tolist(), strict=True):
            repair.holders.setdefault(key, {element: 0})
        members = np.stack(self._nodes)[np.searchsorted(np.array([each[0] for each in self._nodes]), node)]
        row, position = np.nonzero(repair.alive[members[owner]])
        element = members[owner][row, position].astype(np.int64)
        weak = ~self._rail
        weak[repair.damaged_inside] = True
        begins = weak[members[root]] & repair.alive[members[root]] & ~weak[root][:, None]
        begins &= np.array([len(repair.holders[key]) == 1 for key in keys.tolist()])[:, None]
        number_of = {step: move for move, step in enumerate(repair.moves.steps.tolist())}
        request = SpreadRequest(
            keys, np.ones(len(keys), np.bool_), np.array([number_of[each] for each in step.tolist()]),
            np.append(0, np.cumsum(begins.sum(axis=1))), members[root][begins].astype(np.int64),
        )  # fmt: skip
        held = [key * count + each for key in keys.tolist() for each in repair.holders[key]]
        lacks = ~np.isin(keys[row] * count + element, held)
        got = repair.spread(request, Lost(keys[row], element, np.zeros(len(row), np.int64)).select(lacks))
        if got is None:
            return False
        for key, target, since in zip(*(column.tolist() for column in got), strict=True):
            repair.holders[key][target] = since
        rows = [(key, *each) for key in keys.tolist() for each in repair.holders[key].items()]
        repair.forget(np.array([key * count + each for key, each, _ in rows]))
        repair.drop(self._late_messages(Lost(*np.array(rows, np.int64).T)))
        return True

    def _late_messages(self, got: Lost) -> Int64Array:
        """The messages of chunks that would be sent before their senders have them. got: since when, for messages."""
        messages, count = self._repair.messages, self._repair.count
        chunk, owner = np.divmod(got.key, count)
        sender = self._repair.translations.difference(got.element.astype(np.int32), owner.astype(np.int32))
        own = messages.chunk.astype(np.int64) * count + messages.sender
        order = np.argsort(own, kind="stable")
        wanted = chunk * count + sender
        low, high = (np.searchsorted(own[order], wanted, side) for side in ("left", "right"))
        number, message = np.repeat(np.arange(len(wanted)), high - low), order[ranges(low, high)]
        late = messages.start[message] < got.message[number]
        return (message * count + owner[number])[late]
