"""Chunks that spread as in a swarm: whoever has a chunk passes it on as soon as a lane is free.

What the most still lack goes first, and what is under way counts as there: so a source spreads different chunks over
its links, and those who got them exchange them (the rarest-first rule of file sharing; where each peer has one port it
is nearly optimal: Mundinger, Weber and Weiss, "Optimal scheduling of peer-to-peer file dissemination", 2008).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from collc.synthesis.conditions import members_of
from collc.synthesis.swarm.problem import SwarmProblem
from collc.synthesis.swarm.traffic import Moment, Traffic
from collc.synthesis.swarm.urgency import Urgency, levels_of

DETOUR = 5, 4
"""A slow lane that takes more than so many times as long as another over the same first link comes second."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How to choose.

    halves: lanes that are so many halves as slow as the next faster ones are a class of their own; 0: no classes.
    fresh: what has left a part by a slow lane is not sent by that part again before all else has left.
    seed: of the ties; None: by number.
    """

    halves: int
    fresh: bool
    seed: int | None


@dataclass(frozen=True, slots=True)
class Found:
    """Lanes that chunks take, in order of start: rows of chunks, lanes and starts; end: the last arrival."""

    row: list[int]
    lane: list[int]
    start: list[int]
    end: int


class Swarm:
    """One run; see `run`."""

    def __init__(self, problem: SwarmProblem, rule: Rule, limit: int | None) -> None:
        self._lanes, self._limit = problem.lanes, limit
        count = len(problem.conditions)
        self._names = list(range(count))
        self._rank = list(range(len(problem.have)))
        if rule.seed is not None:
            chance = random.Random(rule.seed)
            chance.shuffle(self._names)
            chance.shuffle(self._rank)
        self._rows = sorted(range(count), key=self._names.__getitem__)
        self._have, self._wanted, self._sizes = map(self._renamed, (problem.have, problem.need, problem.sizes))
        welcome = self._renamed(problem.welcome)
        self._need = [wanted | more for wanted, more in zip(self._wanted, welcome, strict=True)]
        self._missing = problem.missing
        self._traffic = Traffic(problem)
        for time, device, row in problem.later:
            self._traffic.at(time).arrivals.append((device, 1 << self._names[row]))
        levels = levels_of(problem, rule.halves) if rule.halves else []
        self._urgency = Urgency(levels, self._held_ever(problem), self._need, count)
        self._level = [sum(level.slowest <= slowest for level in levels) for slowest in self._lanes.slowest]
        self._wire(len(problem.have), problem.conditions.task.network.link_count)
        self._fresh = rule.fresh
        self._classes = len(levels)
        firsts = [links[0] for links in self._lanes.links]
        self._shared = bool(levels) or len(set(firsts)) < len(firsts)
        self._duties = [0] * len(problem.have)
        self._found = Found([], [], [], 0)
        self._end = 0

    def _renamed(self, sets: list[int]) -> list[int]:
        return [sum(1 << self._names[row] for row in members_of(bits)) for bits in sets]

    def _held_ever(self, problem: SwarmProblem) -> list[int]:
        held = list(self._have)
        for _, device, row in problem.later:
            held[device] |= 1 << self._names[row]
        return held

    def _wire(self, devices: int, links: int) -> None:
        """For each receiver its last links and lanes, with the fastest class; who looks when something changes."""
        lanes = self._lanes
        ports: list[dict[int, list[int]]] = [{} for _ in range(devices)]
        self._fed: list[set[int]] = [set() for _ in range(devices)]
        self._users: list[set[int]] = [set() for _ in range(links)]
        for lane, (source, target, path) in enumerate(zip(lanes.source, lanes.target, lanes.links, strict=True)):
            if self._need[target]:
                ports[target].setdefault(path[-1], []).append(lane)
                self._fed[source].add(target)
                for link in path:
                    self._users[link].add(target)
        self._ports = [[(min(self._level[lane] for lane in port), port) for port in rows.values()] for rows in ports]
        self._detours = self._find_detours()

    def _find_detours(self) -> set[int]:
        lanes = self._lanes
        least: dict[tuple[int, int], int] = {}
        for lane, links in enumerate(lanes.links):
            key = links[0], self._level[lane]
            least[key] = min(lanes.total[-1][lane], least.get(key, lanes.total[-1][lane]))
        over, under = DETOUR
        return {
            lane
            for lane, links in enumerate(lanes.links)
            if self._level[lane] and lanes.total[-1][lane] * under > over * least[links[0], self._level[lane]]
        }

    def run(self, stop: Callable[[], bool]) -> Found | None:
        """The lanes that chunks take; None where stopped, stuck, or not within the limit."""
        touched = {v for v, bits in enumerate(self._need) if bits}
        now = 0
        while self._missing:
            for detours in (False, True) if self._detours else (True,):
                for v in sorted(touched, key=self._turn):
                    if self._need[v] and not self._serve(v, now, detours):
                        return None
            coming = None if stop() else self._traffic.next()
            if coming is None:
                break
            now, moment = coming
            touched = self._happen(moment)
        rows = [self._rows[chunk] for chunk in self._found.row]
        return None if self._missing else Found(rows, self._found.lane, self._found.start, self._end)

    def _turn(self, v: int) -> tuple[int, int, int]:
        """Who has the least to pass on to other parts comes first, then who lacks most."""
        if not self._shared:
            return 0, 0, self._rank[v]
        return self._duties[v], -self._need[v].bit_count(), self._rank[v]

    def _happen(self, moment: Moment) -> set[int]:
        """What changes at a moment; the receivers for whom it does."""
        touched: set[int] = set()
        for device, bit in moment.arrivals:
            self._have[device] |= bit
            touched |= self._fed[device]
        for switch, bit in moment.places:
            self._traffic.placed(switch, bit)
            self._have[switch] |= bit
            touched |= self._fed[switch]
        for link in moment.links:
            touched |= self._users[link]
        return touched

    def _serve(self, v: int, now: int, detours: bool) -> bool:
        """Gives a receiver what its free links can bring; False where that would be too late."""
        lacks = [self._need[v]]
        lacks += [lacks[0] & self._urgency.lacking(level, v) for level in range(self._classes)]
        have, sources, levels = self._have, self._lanes.source, self._level
        offers: list[int] = []
        ways: list[list[tuple[int, int]]] = []
        for fastest, port in self._ports[v]:
            if not lacks[fastest]:
                continue
            rows: list[tuple[int, int]] = []
            bits = 0
            for lane in port:
                can = have[sources[lane]] & lacks[levels[lane]]
                if can and (detours or lane not in self._detours):
                    can = self._able(lane, can, v, now)
                    if can:
                        rows.append((lane, can))
                        bits |= can
            if bits:
                offers.append(bits)
                ways.append(rows)
        if not offers:
            return True
        for bit, rows in zip(matched(offers, self._urgency.kinds()), ways, strict=True):
            able = [lane for lane, can in rows if can & bit and self._able(lane, bit, v, now)] if bit else []
            if able and not self._send(min(able, key=self._price), bit, v, now):
                return False
        return True

    def _price(self, lane: int) -> tuple[int, int, int]:
        """The soonest first; of these who has the least else to give."""
        source = self._lanes.source[lane]
        return self._lanes.total[-1][lane], self._have[source].bit_count(), self._rank[source]

    def _able(self, lane: int, chunks: int, v: int, now: int) -> int:
        """Those of some chunks that a lane can take now."""
        level = self._level[lane]
        if level:
            chunks &= self._urgency.lacking(level - 1, v)
            if self._fresh:
                chunks &= ~self._urgency.kept(level - 1, self._lanes.source[lane])
        chunks = self._traffic.open(lane, chunks)
        able = 0
        for size, mask in enumerate(self._sizes):
            part = chunks & mask
            if part and self._traffic.is_free(lane, size, now):
                able |= part
        return able

    def _send(self, lane: int, bit: int, v: int, now: int) -> bool:
        """Starts a chunk on a lane; False where it arrives too late."""
        size = next(size for size, mask in enumerate(self._sizes) if mask & bit)
        arrival = now + self._lanes.total[size][lane]
        wanted = bool(self._wanted[v] & bit)
        if self._limit is not None and arrival > self._limit:
            return not wanted
        self._end = max(self._end, arrival)
        self._found.row.append(bit.bit_length() - 1)
        self._found.lane.append(lane)
        self._found.start.append(now)
        if self._traffic.send(lane, size, bit, now):
            self._have[self._lanes.source[lane]] ^= bit
        self._traffic.at(arrival).arrivals.append((v, bit))
        self._need[v] ^= bit
        self._missing -= wanted
        self._duties[v] += self._urgency.sent(v, bit)
        return True


def matched(offers: list[int], kinds: list[int]) -> list[int]:
    """For each port the bit of a chunk that it offers, or 0: as many as can be, the first kinds before others.

    Chunks that can be matched at once form a matroid, so taking them greedily is best.
    """
    chosen = [0] * len(offers)
    reach = 0
    for offer in offers:
        reach |= offer
    left = len(offers)
    for kind in kinds:
        pool = kind & reach
        while pool and left:
            bit = pool & -pool
            pool ^= bit
            left -= _placed(bit, offers, chosen, set())
        if not left:
            break
    return chosen


def _placed(bit: int, offers: list[int], chosen: list[int], seen: set[int]) -> bool:
    """Whether one more chunk could be matched, others moving to other ports where they must."""
    for port, offer in enumerate(offers):
        if offer & bit and port not in seen:
            seen.add(port)
            if not chosen[port] or _placed(chosen[port], offers, chosen, seen):
                chosen[port] = bit
                return True
    return False
