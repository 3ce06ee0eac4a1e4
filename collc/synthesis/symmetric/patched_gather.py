"""All-Gather on a cluster that has lost some links or GPUs: the plan of the whole cluster, patched.

Transfers that touch what is missing are dropped, and with them all that they feed. A chunk that cannot enter a node on
its own rail enters it on another one, from a GPU that has it already, and spreads from there; only these transfers are
planned anew, in the gaps of what is left.
"""

from __future__ import annotations

from bisect import bisect_right, insort

import numpy as np

from collc.synthesis.completed import completed
from collc.synthesis.symmetric.class_timetable import ClassTimetable
from collc.synthesis.symmetric.level_plan import LevelPlan, plan_levels, sums
from collc.synthesis.symmetric.routes import ClassTimes
from collc.synthesis.task import Task
from collc.synthesis.translations import find_translations
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.factored_schedule import ChunkNumbers, chunk_size
from collc.ten.network import Network
from collc.ten.schedule import RowSchedule, Transfers
from collc.ten.translations import Translations

LEVELS = 2
"""Levels of clusters that are patched: nodes and GPUs of a node."""


def patched_gather(task: Task) -> RowSchedule | None:
    """A schedule of one All-Gather over all NPUs that are there; None where this does not apply.

    Raises ValueError where links have no bandwidth or latency.
    """
    numbers, whole = ChunkNumbers.of(task.demand), whole_cluster(task.network)
    if numbers is None or numbers.pairs or whole is None or task.reserved is not None:
        return None
    present = task.network.npus
    if len(task.demand.runs[0].group) != len(present) or not bool((numbers.rank[present] >= 0).all()):
        return None
    if task.release is not None and bool(task.release.any()):
        return None
    network, translations = whole
    times = ClassTimes.of(network, translations, task.model, chunk_size(task.demand))
    table = ClassTimetable(translations, times)
    levels = plan_levels(network, translations, times, table, np.zeros(numbers.parts, np.int64))
    if levels is None or len(levels) > LEVELS:
        return None
    patch = _Patch(task.network, translations, times, numbers, levels)
    rows = patch.rows() if patch.serves() else None
    return None if rows is None else RowSchedule(task.model, rows)


def is_damaged(network: Network) -> bool:
    """Whether a network is a cluster that has lost some links or GPUs."""
    return whole_cluster(network) is not None


def whole_cluster(network: Network) -> tuple[Network, Translations] | None:
    """The cluster that a damaged one was, with its translations; None where it was none.

    Switches must hold any number of chunks, and add nothing up.
    """
    if not network.has_switches or bool((network.buffers >= 0).any() | network.reduces.any()):
        return None
    whole = completed(network)
    translations = None if whole is None else find_translations(whole)
    if whole is None or translations is None or translations.count != network.npu_count:
        return None
    return whole, translations


class _LinkTimes:
    """The starts of transfers on one link, which take equal time."""

    def __init__(self, starts: list[int], taken: int) -> None:
        self._starts, self._taken = starts, taken
        self._full = 0, 0

    def first(self, ready: int) -> int:
        """The earliest free start from `ready` on."""
        at = self._full[1] if self._full[0] <= ready < self._full[1] else ready
        position = bisect_right(self._starts, at - self._taken)
        while position < len(self._starts) and self._starts[position] < at + self._taken:
            at = self._starts[position] + self._taken
            position += 1
        if at - ready > self._full[1] - self._full[0]:
            self._full = ready, at
        return at

    def take(self, start: int) -> None:
        """Occupy the link."""
        insort(self._starts, start)


class _Patch:
    """The patch of one plan. Elements stand for NPUs: element e for the NPU to which it takes the representative."""

    def __init__(
        self,
        network: Network,
        translations: Translations,
        times: ClassTimes,
        numbers: ChunkNumbers,
        levels: list[LevelPlan],
    ) -> None:
        self._network, self._translations, self._times, self._numbers = network, translations, times, numbers
        self._alive: BoolArray = network.present[translations.orbits[0]]
        self._inner = levels[-1]
        self._outer = levels[0] if len(levels) > 1 else None
        elements = np.arange(translations.count, dtype=np.int32)
        self._inner_to = sums(translations, self._inner.moves, elements)
        self._inner_links = self._links_of(self._inner, elements)
        self._times_of: dict[int, _LinkTimes] = {}
        self._dropped: dict[int, set[int]] = {}
        self._starts: dict[int, set[int]] = {}
        self._new: list[tuple[int, int, int, int]] = []
        if self._outer is not None:
            self._outer_to = sums(translations, self._outer.moves, elements)
            self._outer_links = self._links_of(self._outer, elements)
            self._enters = self._intact(self._outer_links) & self._alive & self._alive[self._outer_to]

    def _links_of(self, level: LevelPlan, elements: Int32Array) -> Int32Array:
        """int32[moves, elements, hops]: the route of each move from each element; -1 after its end."""
        moves, hops = level.routes.shape
        shape = moves, len(elements), hops
        link = np.broadcast_to(level.routes[:, None], shape).reshape(-1)
        sender = np.broadcast_to(elements[None, :, None], shape).reshape(-1)
        return np.where(link >= 0, self._translations.moved_links(link, sender), -1).reshape(shape)

    def _intact(self, links: Int32Array) -> BoolArray:
        """bool[moves, elements]: whether no link of a route is missing."""
        return links.max(axis=2) < self._network.link_count

    def serves(self) -> bool:
        """Whether all GPUs of a node still reach each other, routes of a level have equally many links, and no two
        translations of a transfer share a link.
        """
        broken = ~self._intact(self._inner_links) & self._alive & self._alive[self._inner_to]
        used = np.concatenate([level.routes.reshape(-1) for level in (self._inner, self._outer) if level is not None])
        return not bool(broken.any()) and int(used.min()) >= 0 and not bool(self._times.turn[used].any())

    def rows(self) -> Transfers | None:
        """All transfers: those of the plan that are left, and the new ones; None where a node cannot be entered."""
        parts = self._kept()
        if self._outer is not None:
            starts = self._outer.starts[:, :, 0, 0]
            lost = [(int(starts[p, t]), p, t, g) for p in range(len(starts)) for t, g in self._lost()]
            if not all(self._enter(p, t, g) for _, p, t, g in sorted(lost)):
                return None
            new = np.array(self._new, np.int64).reshape(-1, 4)
            owner, part, link = (new[:, column].astype(np.int32) for column in range(3))
            parts.append((owner, part, link, new[:, 3]))
        owner, part, link, start = (np.concatenate(column) for column in zip(*parts, strict=True))
        chunk = self._numbers.number(self._translations.orbits[0][owner], None, part)
        return Transfers.of(chunk, link, start)

    def _lost(self) -> list[tuple[int, int]]:
        """The moves and owners of chunks that cannot enter a node with GPUs in it by themselves."""
        inside = self._alive[self._outer_to] | self._alive[self._inner_to][:, self._outer_to].any(axis=0)
        move, owner = np.nonzero(~self._enters & self._alive & inside)
        return list(zip(move.tolist(), owner.tolist(), strict=True))

    def _kept(self) -> list[tuple[Int32Array, Int32Array, Int32Array, Int64Array]]:
        """The transfers of the plan that are left, as columns of owners, parts, links and starts. Notes the others."""
        found: list[tuple[Int32Array, Int32Array, Int32Array, Int64Array]] = []
        if self._outer is not None:
            found += self._columns(self._outer, 0, self._outer_links, self._enters & self._alive)
        for number, holder in enumerate(self._inner.holders.tolist()):
            # Owner g has its chunk at element g + holder, which sends it on if it has got it there.
            sender = self._translations.sums(holder)
            kept = self._alive[self._inner_to[:, sender]] & self._alive & self._alive[sender]
            if number and self._outer is not None:
                kept &= self._enters[number - 1]
            found += self._columns(self._inner, number, self._inner_links[:, sender], kept)
        return found

    def _columns(
        self, level: LevelPlan, holder: int, links: Int32Array, kept: BoolArray
    ) -> list[tuple[Int32Array, Int32Array, Int32Array, Int64Array]]:
        """links: int32[moves, owners, hops]. kept: bool[moves, owners]."""
        found: list[tuple[Int32Array, Int32Array, Int32Array, Int64Array]] = []
        move, owner = np.nonzero(kept)
        lost_move, lost_owner = np.nonzero(~kept)
        for hop in range(links.shape[2]):
            link, lost = links[move, owner, hop], links[lost_move, lost_owner, hop]
            for part in range(self._numbers.parts):
                start = level.starts[part, :, holder, hop]
                found.append((owner.astype(np.int32), np.full(len(link), part, np.int32), link, start[move]))
                for one, at in zip(lost.tolist(), start[lost_move].tolist(), strict=True):
                    self._dropped.setdefault(one, set()).add(at)
        return found

    def _enter(self, part: int, move: int, owner: int) -> bool:
        """Bring a chunk into a node on any rail that is there, as early as possible, and spread it in the node.

        False where no rail is there.
        """
        assert self._outer is not None
        best: tuple[int, int, int, list[int]] | None = None
        there = zip(self._inner_to[:, owner].tolist(), self._inner.arrivals[part, :, 0].tolist(), strict=True)
        spread = [(owner, 0), *there]
        for number, (sender, ready) in enumerate(spread):
            if self._enters[move, sender] and self._alive[sender]:
                starts, arrival = self._earliest(self._outer_links[move, sender].tolist(), ready)
                if best is None or arrival < best[0]:
                    best = arrival, number, sender, starts
        if best is None:
            return False
        arrival, _, sender, starts = best
        self._send(part, owner, self._outer_links[move, sender].tolist(), starts)
        entry = int(self._outer_to[move, sender])
        for number, target in enumerate(self._inner_to[:, entry].tolist()):
            if self._alive[target]:
                links = self._inner_links[number, entry].tolist()
                self._send(part, owner, links, self._earliest(links, arrival)[0])
        return True

    def _earliest(self, links: list[int], ready: int) -> tuple[list[int], int]:
        """The earliest starts on a route, and the arrival."""
        starts: list[int] = []
        for link in links:
            starts.append(self._link_times(link).first(ready))
            ready = starts[-1] + int(self._times.window[link])
        return starts, ready

    def _send(self, part: int, owner: int, links: list[int], starts: list[int]) -> None:
        for link, start in zip(links, starts, strict=True):
            self._link_times(link).take(start)
            self._new.append((owner, part, link, start))

    def _link_times(self, link: int) -> _LinkTimes:
        found = self._times_of.get(link)
        if found is None:
            number = int(self._translations.class_row[link])
            left = self._class_starts(number) - self._dropped.get(link, set())
            found = self._times_of[link] = _LinkTimes(sorted(left), int(self._times.taken[link]))
        return found

    def _class_starts(self, number: int) -> set[int]:
        """The starts on each link of a class in the plan of the whole cluster."""
        known = self._starts.get(number)
        if known is None:
            known = set[int]()
            for level in (self._inner, self._outer):
                if level is not None:
                    for move, route in enumerate(level.routes.tolist()):
                        for hop, link in enumerate(route):
                            if link >= 0 and int(self._translations.class_row[link]) == number:
                                known.update(level.starts[:, move, :, hop].reshape(-1).tolist())
            self._starts[number] = known
        return known
