"""Rarest-first spreading: an NPU that has a chunk sends it as soon as a path to an NPU that lacks it is free.

The chunk that most NPUs still lack goes first; a chunk that is being sent to an NPU counts as received. So a source
spreads different chunks over its links, and the NPUs that received them exchange them. This is the rarest-first rule of
BitTorrent; if each NPU has one port it is nearly optimal (Mundinger, Weber and Weiss, "Optimal scheduling of
peer-to-peer file dissemination", 2008).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collc.graph.matching import prioritised_matching
from collc.kernels.rarest_first import SEND_WORK
from collc.synthesis.conditions import members_of
from collc.synthesis.swarm.occupancy import Occupancy, TimedEvents
from collc.synthesis.swarm.problem import SwarmProblem
from collc.synthesis.swarm.switch_paths import SwitchPaths
from collc.synthesis.swarm.urgency import PathClass, Urgency, path_classes_of

NON_MINIMAL = 5, 4
"""A slow path that takes more than 5/4 of the time of the fastest one of its class over the same first link is
non-minimal. Such paths are used only for what no other path brings at the same time."""


PATH_WORK = 4
"""The work of preparing a path for an attempt."""

SERVE_WORK, PATHS_LOOKED_AT = 3, 10
"""The work of looking for what an NPU can get: SERVE_WORK, and 1 for every PATHS_LOOKED_AT paths."""


@dataclass(frozen=True, slots=True)
class SpreadRule:
    """The choices of one attempt.

    half_ratio: a class of slow paths begins where paths are at least `half_ratio` / 2 times as slow as the next faster
    ones; 0: all paths are of one class. fresh: a component does not send a chunk over slow paths again until every
    chunk has left its component once. tie_seed: tie-break seed; None: ties go to the lower number.
    """

    half_ratio: int
    fresh: bool
    tie_seed: int | None


@dataclass(frozen=True, slots=True)
class PathTransfers:
    """Chunks sent over switch paths, in order of start: rows of the conditions, paths, starts; and the last arrival."""

    row: list[int]
    path: list[int]
    start: list[int]
    end: int


class RarestFirst:
    """The simulation of one attempt: `run` returns what it planned. An object runs once.

    Inside, chunks are renumbered at random if there is a tie-break seed, and sets of them are ints (bit k: chunk k).
    work: what it has done, as WorkMeter counts it.
    """

    def __init__(self, problem: SwarmProblem, rule: SpreadRule, limit: int | None) -> None:
        self._paths, self._limit = problem.paths, limit
        count = len(problem.conditions)
        self._number, self._rank = tie_breaks(count, len(problem.have), rule.tie_seed)
        self._row = sorted(range(count), key=self._number.__getitem__)
        self._have, self._wanted, self._sizes = map(self._renumbered, (problem.have, problem.need, problem.sizes))
        welcome = self._renumbered(problem.welcome)
        self._need = [wanted | more for wanted, more in zip(self._wanted, welcome, strict=True)]
        self._missing = problem.missing
        self._occupancy = Occupancy(problem)
        for time, device, row in problem.later:
            self._occupancy.at(time).arrivals.append((device, 1 << self._number[row]))
        classes = path_classes_of(problem, rule.half_ratio) if rule.half_ratio else []
        self._urgency = Urgency(classes, self._held_sometime(problem), self._need, count)
        self._class = path_class_numbers(self._paths, classes)
        self._class_count = len(classes)
        self._fresh = rule.fresh
        self._index_paths(len(problem.have), problem.conditions.task.network.link_count)
        self._non_minimal = non_minimal_paths(self._paths, self._class)
        first_links = [links[0] for links in self._paths.links]
        self._shared = bool(classes) or len(set(first_links)) < len(first_links)
        self._duties = [0] * len(problem.have)
        # By receiver and last link, a time before which no path over it can start.
        self._closed = [[0] * len(ports) for ports in self._ports]
        self.work = PATH_WORK * len(self._paths.links)
        # Times before which a path cannot start: reservations are only added. By size, and the least of all sizes.
        self._blocked_of_size = [[0] * len(self._paths.links) for _ in self._sizes]
        self._blocked = self._blocked_of_size[0] if len(self._sizes) == 1 else [0] * len(self._paths.links)
        self._planned = PathTransfers([], [], [], 0)
        self._end = 0

    def _renumbered(self, sets: list[int]) -> list[int]:
        return [sum(1 << self._number[row] for row in members_of(bits)) for bits in sets]

    def _held_sometime(self, problem: SwarmProblem) -> list[int]:
        """By device, what it holds at the start or gets by its release."""
        held = list(self._have)
        for _, device, row in problem.later:
            held[device] |= 1 << self._number[row]
        return held

    def _index_paths(self, devices: int, links: int) -> None:
        """Fills `_ports`, `_serve_work`, `_fed` and `_users`.

        _ports: by receiver, for each last link the fastest class and the paths. _fed: by device, the receivers of its
        paths. _users: by link, the receivers of the paths over it.
        """
        ports, self._fed, self._users = receivers_of(self._paths, list(map(bool, self._need)), devices, links)
        self._serve_work = list(map(serve_work, ports))
        self._ports = [[(min(self._class[path] for path in port), port) for port in rows.values()] for rows in ports]

    def run(self, stop: Callable[[], bool]) -> PathTransfers | None:
        """Simulates until all have what they must get.

        Returns None if `stop` asks to stop, no event is left, or a chunk would arrive after the limit.
        """
        touched = {v for v, bits in enumerate(self._need) if bits}
        now = 0
        while self._missing:
            for all_paths in (False, True) if self._non_minimal else (True,):
                for v in sorted(touched, key=self._turn):
                    if self._need[v] and not self._serve(v, now, all_paths):
                        return None
            coming = None if stop() else self._occupancy.pop()
            if coming is None:
                break
            now, events = coming
            touched = self._apply(events)
        rows = [self._row[chunk] for chunk in self._planned.row]
        return None if self._missing else PathTransfers(rows, self._planned.path, self._planned.start, self._end)

    def _turn(self, v: int) -> tuple[int, int, int]:
        """The order in which receivers choose: who has the fewest chunks to pass on to other components, then who lacks
        most; by rank alone where no two paths share a first link.
        """
        if not self._shared:
            return 0, 0, self._rank[v]
        return self._duties[v], -self._need[v].bit_count(), self._rank[v]

    def _apply(self, events: TimedEvents) -> set[int]:
        """Applies the events of a time. Returns the receivers for which something may have become possible."""
        touched: set[int] = set()
        for device, bit in events.arrivals:
            self._have[device] |= bit
            touched |= self._fed[device]
        for switch, bit in events.slots:
            self._occupancy.add_idle_slot(switch, bit)
            self._have[switch] |= bit
            touched |= self._fed[switch]
        for link in events.links:
            touched |= self._users[link]
        return touched

    def _serve(self, v: int, now: int, all_paths: bool) -> bool:
        """Sends a receiver what its free last links can bring. Returns False if a chunk would arrive after the limit.

        all_paths: non-minimal ones too.
        """
        self.work += self._serve_work[v]
        closed = self._closed[v]
        lacks = [self._need[v]]
        lacks += [lacks[0] & self._urgency.lacking(number, v) for number in range(self._class_count)]
        have, sources, classes, blocked = self._have, self._paths.source, self._class, self._blocked
        gate, full = self._occupancy.gate, self._occupancy.full
        offers: list[int] = []
        ports: list[list[tuple[int, int]]] = []
        for number, (fastest, port) in enumerate(self._ports[v]):
            if closed[number] > now or not lacks[fastest]:
                continue
            first = min([blocked[path] for path in port])
            if first > now:
                closed[number] = first
                continue
            rows: list[tuple[int, int]] = []
            bits = 0
            for path in port:
                if blocked[path] > now or full[gate[path]] > now:
                    continue
                offer = have[sources[path]] & lacks[classes[path]]
                if offer and (all_paths or path not in self._non_minimal):
                    offer = self._sendable(path, offer, v, now)
                    if offer:
                        rows.append((path, offer))
                        bits |= offer
            if bits:
                offers.append(bits)
                ports.append(rows)
        if not offers:
            return True
        for bit, rows in zip(prioritised_matching(offers, self._urgency.by_urgency()), ports, strict=True):
            able = [path for path, offer in rows if offer & bit and self._sendable(path, bit, v, now)] if bit else []
            if able and not self._send(min(able, key=self._cost), bit, v, now):
                return False
        return True

    def _cost(self, path: int) -> tuple[int, int, int]:
        """The order in which paths are taken: the fastest first, then the one whose source has the fewest chunks."""
        source = self._paths.source[path]
        return self._paths.total[-1][path], self._have[source].bit_count(), self._rank[source]

    def _sendable(self, path: int, chunks: int, v: int, now: int) -> int:
        """Those of some chunks that may start on a path now."""
        number = self._class[path]
        if number:
            chunks &= self._urgency.lacking(number - 1, v)
            if self._fresh:
                chunks &= ~self._urgency.held_back(number - 1, self._paths.source[path])
        chunks = self._occupancy.not_yet_summed(path, chunks)
        sendable = 0
        for size, of_size in enumerate(self._sizes):
            some, blocked = chunks & of_size, self._blocked_of_size[size]
            if some and blocked[path] <= now:
                self.work += 1
                blocked[path] = self._occupancy.blocked_until(path, size, now)
                if blocked[path] <= now:
                    sendable |= some
        if not sendable and len(self._sizes) > 1:
            self._block(path, v, now)
        return sendable

    def _block(self, path: int, v: int, now: int) -> None:
        """Notes until when a path cannot start with a chunk of any size that its receiver still lacks."""
        times: list[int] = []
        for size, of_size in enumerate(self._sizes):
            if self._need[v] & of_size:
                blocked = self._blocked_of_size[size]
                if blocked[path] <= now:
                    blocked[path] = self._occupancy.blocked_until(path, size, now)
                times.append(blocked[path])
        self._blocked[path] = min(times)

    def _send(self, path: int, bit: int, v: int, now: int) -> bool:
        """Starts a chunk on a path. Returns False if a receiver that wants the chunk would get it after the limit."""
        size = next(size for size, of_size in enumerate(self._sizes) if of_size & bit)
        arrival = now + self._paths.total[size][path]
        wanted = bool(self._wanted[v] & bit)
        if self._limit is not None and arrival > self._limit:
            return not wanted
        self.work += SEND_WORK
        self._end = max(self._end, arrival)
        self._planned.row.append(bit.bit_length() - 1)
        self._planned.path.append(path)
        self._planned.start.append(now)
        if self._occupancy.reserve(path, size, bit, now):
            self._have[self._paths.source[path]] ^= bit
        self._occupancy.at(arrival).arrivals.append((v, bit))
        self._need[v] ^= bit
        self._missing -= wanted
        self._duties[v] += self._urgency.note_sent(v, bit)
        return True


def tie_breaks(chunks: int, devices: int, seed: int | None) -> tuple[list[int], list[int]]:
    """The number of each row of the conditions, and the rank of each device, in the order of which ties are broken."""
    number, rank = list(range(chunks)), list(range(devices))
    if seed is not None:
        chance = random.Random(seed)
        chance.shuffle(number)
        chance.shuffle(rank)
    return number, rank


def path_class_numbers(paths: SwitchPaths, classes: Sequence[PathClass]) -> list[int]:
    """The class of each path: 0 for the fast ones, or one more than the number of its class of slow ones."""
    return [sum(each.slowest <= slowest for each in classes) for slowest in paths.slowest]


def non_minimal_paths(paths: SwitchPaths, class_of: Sequence[int]) -> set[int]:
    """The slow paths that NON_MINIMAL describes. class_of: see `path_class_numbers`."""
    least: dict[tuple[int, int], int] = {}
    for path, links in enumerate(paths.links):
        key = links[0], class_of[path]
        least[key] = min(paths.total[-1][path], least.get(key, paths.total[-1][path]))
    over, under = NON_MINIMAL
    return {
        path
        for path, links in enumerate(paths.links)
        if class_of[path] and paths.total[-1][path] * under > over * least[links[0], class_of[path]]
    }


def receivers_of(
    paths: SwitchPaths, receives: Sequence[bool], devices: int, links: int
) -> tuple[list[dict[int, list[int]]], list[set[int]], list[set[int]]]:
    """By receiver and last link, the paths; by device, the receivers of its paths; by link, those of paths over it.

    receives: by device, whether it needs any chunk.
    """
    ports: list[dict[int, list[int]]] = [{} for _ in range(devices)]
    fed: list[set[int]] = [set() for _ in range(devices)]
    users: list[set[int]] = [set() for _ in range(links)]
    for path, (source, target, over) in enumerate(zip(paths.source, paths.target, paths.links, strict=True)):
        if receives[target]:
            ports[target].setdefault(over[-1], []).append(path)
            fed[source].add(target)
            for link in over:
                users[link].add(target)
    return ports, fed, users


def serve_work(ports: dict[int, list[int]]) -> int:
    """The work of looking for what a device can get. ports: by last link, the paths."""
    return SERVE_WORK + sum(map(len, ports.values())) // PATHS_LOOKED_AT
