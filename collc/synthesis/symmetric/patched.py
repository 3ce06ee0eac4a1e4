"""Collectives on a cluster that has lost some links or GPUs: the plan of the whole cluster, patched.

The whole cluster has the links and NPUs that shifts of the NPUs of the damaged one lack. Of its plan, transfers over
missing parts, and all transfers that depend on them, are dropped. The chunks of the dropped transfers are planned
again, in the gaps of the others.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from collc.graph.coordinates import declared_coordinates
from collc.graph.translations import find_translations
from collc.synthesis.symmetric.class_timetable import ClassTimes, ClassTimetable
from collc.synthesis.symmetric.level_plan import LevelPlan, plan_exchange, plan_levels, sums
from collc.synthesis.symmetric.translated import MOST_EXPANDED
from collc.synthesis.task import Task
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.factored_schedule import ChunkNumbers, Translations, chunk_size
from collc.ten.network import Network
from collc.ten.schedule import RowSchedule, Transfers

SHARE = 3
"""A network that lacks over 1/SHARE of the links that it has is not completed: patches would be most of its plan."""


def undamaged_network(network: Network) -> Network | None:
    """The network that a damaged one was; the links that it has keep their numbers, and the others follow.

    None if it lacks nothing or much, if its NPUs form no array, or if links are parallel.
    """
    coordinates = declared_coordinates(network)
    if coordinates is None or not network.link_count:
        return None
    generators: list[Int64Array] = []
    for axis in range(len(coordinates.sizes)):
        found = _with_switches(network, coordinates.cyclic_shift(axis))
        if found is None:
            return None
        generators.append(found)
    count, kinds = network.device_count, len(network.kinds)
    keys = np.unique((network.source.astype(np.int64) * count + network.target) * kinds + network.kind)
    own = keys
    while True:
        ends, kind = np.divmod(keys, kinds)
        source, target = np.divmod(ends, count)
        images = [(device[source] * count + device[target]) * kinds + kind for device in generators]
        wider = np.union1d(keys, np.concatenate(images))
        if len(wider) - len(own) > len(own) // SHARE:
            return None
        if len(wider) == len(keys):
            break
        keys = wider
    added = np.setdiff1d(keys, own).astype(np.int64)
    if len(own) < network.link_count or (not len(added) and bool(network.present[: network.npu_count].all())):
        return None
    return _with_links(network, added)


def _with_links(network: Network, keys: Int64Array) -> Network:
    ends, kind = np.divmod(keys, len(network.kinds))
    source, target = np.divmod(ends, network.device_count)
    present = network.present.copy()
    present[: network.npu_count] = True
    axis = network.link_axis
    return replace(
        network,
        present=present,
        source=np.concatenate([network.source, source]).astype(np.int32),
        target=np.concatenate([network.target, target]).astype(np.int32),
        kind=np.concatenate([network.kind, kind]).astype(np.int32),
        link_axis=np.append(axis, np.full(len(keys), -1)).astype(np.int8) if len(axis) else axis,
    )


def _with_switches(network: Network, npus: Int32Array) -> Int64Array | None:
    """int64[devices]: the images of devices if the NPUs go to `npus`; each switch goes where most of its links lead.

    None if two switches would go to the same one.
    """
    image = np.full(network.device_count, -1, np.int64)
    image[: network.npu_count] = npus
    while True:
        switch, wanted = _votes(network, image)
        if not len(switch):
            break
        image[switch] = wanted
    unknown = np.flatnonzero(image < 0)
    image[unknown] = np.setdiff1d(np.arange(network.device_count), image)[: len(unknown)]
    return image if len(np.unique(image)) == len(image) else None


def _votes(network: Network, image: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The unknown switches next to known devices, and the ends of most of their links if the known devices move.

    Among equals a switch stays, or goes to the lowest number.
    """
    near = np.flatnonzero((image[network.source] >= 0) & (image[network.target] < 0))
    if not len(near):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    kinds = len(network.kinds)
    moved = image[network.source[near]] * kinds + network.kind[near]
    there = network.source.astype(np.int64) * kinds + network.kind
    order = np.argsort(there, kind="stable")
    low = np.searchsorted(there[order], moved, "left")
    size = np.searchsorted(there[order], moved, "right") - low
    row = np.repeat(np.arange(len(near)), size)
    position = np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size) + low[row]
    switch = network.target[near[row]].astype(np.int64)
    goal = network.target[order[position]].astype(np.int64)
    pairs, count = np.unique(np.stack([switch, goal]), axis=1, return_counts=True)
    keep = pairs[1] >= network.npu_count
    pairs, count = pairs[:, keep], count[keep]
    best = np.lexsort((pairs[1], pairs[1] != pairs[0], -count, pairs[0]))
    first = np.unique(pairs[0][best], return_index=True)[1]
    return pairs[0][best][first], pairs[1][best][first]


def whole_cluster(network: Network) -> tuple[Network, Translations] | None:
    """The cluster that a damaged one was, with its translations; None if it was none.

    Switches must hold any number of chunks, and add nothing up.
    """
    if not network.has_switches or network.has_limited_buffers or bool(network.reduces.any()):
        return None
    whole = undamaged_network(network)
    translations = None if whole is None else find_translations(whole)
    if whole is None or translations is None or translations.count != network.npu_count:
        return None
    return whole, translations


class Damage:
    """Which moves of a cluster are left. Elements stand for NPUs: element e for the image of the representative.

    whole: the undamaged cluster. times: of chunks on its links. numbers: of the chunks. alive: bool[elements].
    inner, outer: the plans of the GPUs of a node and of the nodes; outer has no moves if there is one node.
    inner_to, outer_to: int32[moves, elements], where a move leads from each element; inner_links, outer_links:
    int32[moves, elements, hops]. enters: bool[moves, elements], whether an outer move is possible.
    """

    def __init__(
        self,
        network: Network,
        whole: Network,
        translations: Translations,
        times: ClassTimes,
        numbers: ChunkNumbers,
        levels: list[LevelPlan],
    ) -> None:
        self._network, self.whole, self.translations = network, whole, translations
        self.times, self.numbers = times, numbers
        self.elements = np.arange(translations.count, dtype=np.int32)
        self.alive: BoolArray = network.present[translations.orbits[0]]
        self.inner = levels[-1]
        self.inner_to = sums(translations, self.inner.moves, self.elements)
        self.inner_links = self.links_of(self.inner.routes)
        self.outer = levels[0] if len(levels) > 1 else LevelPlan.empty(numbers.parts)
        self.outer_to = sums(translations, self.outer.moves, self.elements)
        self.outer_links = self.links_of(self.outer.routes)
        self.enters = self.intact(self.outer_links) & self.alive & self.alive[self.outer_to]

    @staticmethod
    def of(task: Task) -> Damage | None:
        """The damage to the cluster of a task; None unless the task is one collective over all NPUs that are there,
        and its plan for the whole cluster can be patched: all GPUs of a node still reach each other, routes of a level
        have equally many links, and no two translations of a transfer share a link.

        Raises ValueError if links have no bandwidth or latency.
        """
        network, numbers = task.network, ChunkNumbers.of(task.demand)
        if numbers is None or task.reserved is not None or (task.release is not None and bool(task.release.any())):
            return None
        group = task.demand.runs[0].group
        cluster = whole_cluster(network) if np.array_equal(np.sort(group), network.npus) else None
        if cluster is None:
            return None
        whole, translations = cluster
        times = ClassTimes.of(whole, translations, task.model, chunk_size(task.demand))
        release = np.zeros(1 if numbers.pairs else numbers.parts, np.int64)
        levels = plan_levels(whole, translations, times, ClassTimetable(translations, times), release)
        if levels is None or len(levels) > 2:
            return None
        damage = Damage(network, whole, translations, times, numbers, levels)
        broken = ~damage.intact(damage.inner_links) & damage.alive & damage.alive[damage.inner_to]
        used = np.concatenate([level.routes.reshape(-1) for level in levels])
        patchable = not bool(broken.any()) and int(used.min()) >= 0 and not bool(times.turn[used].any())
        return damage if patchable else None

    def links_of(self, routes: Int32Array) -> Int32Array:
        """int32[routes, elements, hops]: routes from each element, -1 after their ends."""
        count, hops = routes.shape
        shape = count, len(self.elements), hops
        link = np.broadcast_to(routes[:, None], shape).reshape(-1)
        sender = np.broadcast_to(self.elements[None, :, None], shape).reshape(-1)
        return np.where(link >= 0, self.translations.moved_links(link, sender), -1).reshape(shape)

    def intact(self, links: Int32Array) -> BoolArray:
        """bool: whether no link of a route, along the last axis, is missing."""
        return links.max(axis=2, initial=-1) < self._network.link_count


class Patch:
    """The transfers that are left of a plan by translations, and messages in their gaps. Elements stand for NPUs.

    link, start: the transfers of the representative, of which no two translations use the same link.
    """

    def __init__(self, damage: Damage, link: Int32Array, start: Int64Array) -> None:
        self._damage = damage
        classes = damage.translations.class_row[link]
        order = np.lexsort((start, classes))
        rows, first = np.unique(classes[order], return_index=True)
        parts = (part.tolist() for part in np.split(start[order], first[1:]))
        self._starts: dict[int, list[int]] = dict(zip(rows.tolist(), parts, strict=True))
        self._dropped: dict[int, set[int]] = {}
        self._link_starts: dict[int, list[int]] = {}
        # Owners, targets, parts, links and starts of transfers.
        self._kept: list[tuple[Int32Array, Int32Array, Int32Array, Int32Array, Int64Array]] = []
        self._new: list[tuple[int, int, int, int, int]] = []

    def keep(self, links: Int32Array, starts: Int64Array, left: BoolArray, target: Int32Array) -> None:
        """Keep the transfers of some messages, and free the times of the others.

        links: int32[messages, owners, hops]. starts: int64[parts, messages, hops]. left: bool[parts, messages, owners],
        which transfers are kept. target: int32[messages, owners], for whom each owner's block is.
        """
        for hop in range(links.shape[2]):
            used = links[:, :, hop] >= 0
            for part in range(len(starts)):
                row, owner = np.nonzero(left[part] & used)
                column = np.full(len(row), part, np.int32)
                link, start = links[row, owner, hop], starts[part, row, hop]
                self._kept.append((owner.astype(np.int32), target[row, owner], column, link, start))
                row, owner = np.nonzero(~left[part] & used)
                for number, time in zip(links[row, owner, hop].tolist(), starts[part, row, hop].tolist(), strict=True):
                    self._dropped.setdefault(number, set()).add(time)

    def earliest(self, links: list[int], ready: int) -> tuple[list[int], int]:
        """The earliest starts on the links of a route, one after another, and the arrival."""
        times, starts = self._damage.times, list[int]()
        for link in links:
            taken, busy, start = int(times.taken[link]), self._starts_on(link), ready
            position = bisect_right(busy, start - taken)
            while position < len(busy) and busy[position] < start + taken:
                start = busy[position] + taken
                position += 1
            starts.append(start)
            ready = start + int(times.window[link])
        return starts, ready

    def send(self, owner: int, target: int, part: int, links: list[int], starts: list[int]) -> None:
        """Send a chunk over the links of a route."""
        for link, start in zip(links, starts, strict=True):
            insort(self._starts_on(link), start)
            self._new.append((owner, target, part, link, start))

    def transfers(self) -> Transfers:
        """All transfers that were kept, and the new ones."""
        new = np.array(self._new, np.int64).reshape(-1, 5)
        owner, target, part, link = new[:, :4].astype(np.int32).T
        columns = [*self._kept, (owner, target, part, link, new[:, 4])]
        owner, target, part, link, start = (np.concatenate(column) for column in zip(*columns, strict=True))
        npus, numbers = self._damage.translations.orbits[0], self._damage.numbers
        return Transfers.of(numbers.number(npus[owner], npus[target] if numbers.pairs else None, part), link, start)

    def _starts_on(self, link: int) -> list[int]:
        """The starts of all transfers on a link, which take equal time."""
        starts = self._link_starts.get(link)
        if starts is None:
            of_class = self._starts.get(int(self._damage.translations.class_row[link]), [])
            dropped = self._dropped.get(link, ())
            starts = self._link_starts[link] = [start for start in of_class if start not in dropped]
        return starts


def patched_schedule(task: Task) -> RowSchedule | None:
    """A schedule of one All-Gather or All-to-All over all NPUs that are there; None if this does not apply.

    Raises ValueError if links have no bandwidth or latency.
    """
    damage = Damage.of(task)
    if damage is None:
        return None
    rows = _exchange(damage) if damage.numbers.pairs else GatherPatch(damage).rows()
    return None if rows is None else RowSchedule(task.model, rows)


class GatherPatch(Patch):
    """The patch of an All-Gather.

    A chunk that cannot enter a node on its own rail enters it on another rail, from a GPU that has it already, and
    spreads from there.
    """

    def __init__(self, damage: Damage) -> None:
        levels = (damage.inner, damage.outer)
        link = [np.broadcast_to(level.routes[None, :, None], level.starts.shape).reshape(-1) for level in levels]
        start = [level.starts.reshape(-1) for level in levels]
        super().__init__(damage, np.concatenate(link), np.concatenate(start))

    def rows(self) -> Transfers | None:
        """All transfers; None if a node cannot be entered."""
        parts = self._damage.numbers.parts
        self.keep_levels(np.ones((parts, 1), np.bool_), np.ones((parts, len(self._damage.outer.moves), 1), np.bool_))
        lost = ((part, move, owner) for part in range(parts) for move, owner in self.lost_moves())
        return self.transfers() if self.enter_all(lost) else None

    def lost_moves(self) -> list[tuple[int, int]]:
        """The moves and owners of chunks that cannot enter a node with GPUs in it by themselves."""
        damage = self._damage
        inside = damage.alive[damage.outer_to] | damage.alive[damage.inner_to][:, damage.outer_to].any(axis=0)
        move, owner = np.nonzero(~damage.enters & damage.alive & inside)
        return list(zip(move.tolist(), owner.tolist(), strict=True))

    def keep_levels(self, begins: BoolArray, enters: BoolArray) -> None:
        """Keep the transfers of the plan that are left.

        begins: bool[parts, owners], which chunks spread from their owners. enters: bool[parts, moves, owners], which of
        them go to other nodes.
        """
        damage = self._damage
        alive = damage.alive
        self._keep_level(damage.outer, 0, damage.outer_links, damage.enters & alive & enters)
        for number, holder in enumerate(damage.inner.holders.tolist()):
            # Owner g has its chunk at element g + holder, which sends it on if it has got it there.
            sender = damage.translations.sums(holder)
            within = alive[damage.inner_to[:, sender]] & alive & alive[sender]
            sent = enters[:, number - 1] & damage.enters[number - 1] if number else begins
            self._keep_level(damage.inner, number, damage.inner_links[:, sender], within & sent[:, None])

    def _keep_level(self, level: LevelPlan, holder: int, links: Int32Array, left: BoolArray) -> None:
        self.keep(links, level.starts[:, :, holder], left, np.zeros(links.shape[:2], np.int32))

    def enter_all(self, lost: Iterable[tuple[int, int, int]]) -> bool:
        """Bring chunks into nodes that they cannot enter by themselves: parts, moves and owners. The earliest first."""
        starts = self._damage.outer.starts[:, :, 0, 0]
        return all(self._enter(*chunk) for _, *chunk in sorted((int(starts[chunk[:2]]), *chunk) for chunk in lost))

    def holders(self, part: int, owner: int) -> list[tuple[int, int]]:
        """The elements of the owner's node that hold a chunk, and since when; the owner first."""
        damage = self._damage
        arrivals: list[int] = damage.inner.arrivals[part, :, 0].tolist()
        return [(owner, 0), *zip(damage.inner_to[:, owner].tolist(), arrivals, strict=True)]

    def _enter(self, part: int, move: int, owner: int) -> bool:
        """Bring a chunk into a node on any rail that is there, as early as possible, and spread it in the node.

        False if no rail is there.
        """
        damage = self._damage
        options: list[tuple[int, int, int, list[int]]] = []
        for number, (sender, ready) in enumerate(self.holders(part, owner)):
            if damage.enters[move, sender]:
                starts, arrival = self.earliest(damage.outer_links[move, sender].tolist(), ready)
                options.append((arrival, number, sender, starts))
        if not options:
            return False
        arrival, _, sender, starts = min(options)
        self.send(owner, 0, part, damage.outer_links[move, sender].tolist(), starts)
        self.spread_in_node(part, owner, int(damage.outer_to[move, sender]), arrival)
        return True

    def spread_in_node(self, part: int, owner: int, entry: int, since: int, known: int = -1) -> list[tuple[int, int]]:
        """Send a chunk from one element to all others of its node but `known`; those that have it, and since when."""
        damage, holders = self._damage, [(entry, since)]
        for number, target in enumerate(damage.inner_to[:, entry].tolist()):
            if damage.alive[target] and target != known:
                links = damage.inner_links[number, entry].tolist()
                starts, arrival = self.earliest(links, since)
                self.send(owner, 0, part, links, starts)
                holders.append((target, arrival))
        return holders


def _exchange(damage: Damage) -> Transfers | None:
    """The transfers of an All-to-All.

    A block whose route is broken goes to another GPU of its node, over the rail of that GPU, and in the other node to
    its target. None if the plan is too large, two translations of a transfer share a link, or a block finds no route.
    """
    translations = damage.translations
    plan = plan_exchange(damage.whole, translations, damage.times, damage.numbers.parts)
    if plan is None or plan.starts.size * translations.count > MOST_EXPANDED:
        return None
    used = np.broadcast_to(plan.routes >= 0, plan.starts.shape)
    link = np.broadcast_to(plan.routes, plan.starts.shape)[used]
    if bool(damage.times.turn[link].any()):
        return None
    patch = Patch(damage, link, plan.starts[used])
    links, target = damage.links_of(plan.routes), sums(translations, damage.elements[1:], damage.elements)
    wanted = damage.alive & damage.alive[target]
    left = damage.intact(links) & wanted
    patch.keep(links, plan.starts, np.broadcast_to(left, (len(plan.starts), *left.shape)), target)
    rail_routes = _RailRoutes(damage)
    for start, part, owner, to in _lost_blocks(plan.starts[:, :, 0], wanted & ~left, target):
        options = [(route, *patch.earliest(route, start)) for route in rail_routes.of(owner, to)]
        if not options:
            return None
        route, starts, _ = min(options, key=lambda option: option[2])
        patch.send(owner, to, part, route, starts)
    return patch.transfers()


def _lost_blocks(starts: Int64Array, lost: BoolArray, target: Int32Array) -> list[tuple[int, int, int, int]]:
    """(start, part, owner, target) of each block that lost its transfers, the earliest first."""
    row, owner = np.nonzero(lost)
    pairs = list(zip(row.tolist(), owner.tolist(), target[row, owner].tolist(), strict=True))
    return sorted((int(times[row]), part, owner, to) for part, times in enumerate(starts) for row, owner, to in pairs)


class _RailRoutes:
    """Routes between GPUs of two nodes, over the rail of each GPU."""

    def __init__(self, damage: Damage) -> None:
        self._damage = damage
        self._near = np.append(np.int32(0), damage.inner.moves)
        self._number_of = {element: number for number, element in enumerate(self._near.tolist())}
        table = sums(damage.translations, damage.outer.moves, self._near).tolist()
        self._split = {
            element: (move, near)
            for move, row in enumerate(table)
            for near, element in zip(self._near.tolist(), row, strict=True)
        }

    def of(self, owner: int, target: int) -> list[list[int]]:
        """The links of all routes that are there."""
        damage, translations = self._damage, self._damage.translations
        difference = int(translations.difference(np.array([target], np.int32), owner)[0])
        if difference not in self._split:
            return []
        move, rest = self._split[difference]
        senders = translations.sum(self._near, owner)
        after = translations.difference(np.full(len(self._near), rest, np.int32), self._near)
        routes: list[list[int]] = []
        for number, (sender, last) in enumerate(zip(senders.tolist(), after.tolist(), strict=True)):
            if damage.enters[move, sender]:
                entry = int(damage.outer_to[move, sender])
                into_node = self._links_in_node(entry, self._number_of[last])
                routes.append(
                    self._links_in_node(owner, number) + damage.outer_links[move, sender].tolist() + into_node
                )
        return routes

    def _links_in_node(self, sender: int, number: int) -> list[int]:
        """The links from a GPU to another one of its node, by the number of the element in between; none to itself."""
        return self._damage.inner_links[number - 1, sender].tolist() if number else []
