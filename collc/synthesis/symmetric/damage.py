"""A cluster of nodes that has lost some links or GPUs, seen as the whole cluster with what is missing."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Final

import numpy as np

from collc.graph.translations import find_translations
from collc.synthesis.symmetric.class_timetable import ClassTimetable
from collc.synthesis.symmetric.level_plan import LevelPlan, plan_levels, sums
from collc.synthesis.symmetric.routes import ClassTimes
from collc.synthesis.symmetric.undamaged import undamaged_network
from collc.synthesis.task import Task
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.factored_schedule import ChunkNumbers, chunk_size
from collc.ten.network import Network
from collc.ten.schedule import Transfers
from collc.ten.translations import Translations

MOST_LEVELS: Final = 2
"""Levels of clusters that are patched: nodes and GPUs of a node."""


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
        if levels is None or len(levels) > MOST_LEVELS:
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
