"""Matching driven by events, for links, sizes or link models that differ: plain Python, for small networks.

collc/synthesis/tacos/compiled.py does the same for large ones.

Whenever a link becomes free or a chunk arrives, the destinations concerned share out what their idle
links could bring. A link takes only what its source holds at that very time, so every schedule is
causal.

Component rule: for a link, take the components of the graph of all cheaper links. The link brings
only chunks that are neither in nor on their way into its target's component: the rest comes to the
target over cheaper links. It helps out where these could not deliver all that the target lacks by a
deadline.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from collc.synthesis.conditions import members_of
from collc.synthesis.tacos.problem import CopyProblem
from collc.ten.arrays import Int32Array, Int64Array

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EventRule:
    """Which chunk an idle link takes.

    fifo: the one that its source got first; else the one that the fewest incoming links of the target
    could bring, ties to the rarest. deadline: picoseconds, see above. seed: renumbers the chunks
    where it is given.
    """

    fifo: bool
    deadline: int
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class Levels:
    """Links by cost. level: for each link, the rank of its cost. component: for each level, the component of each
    device in the graph of all links of lower levels.
    """

    level: list[int]
    component: list[list[int]]


@dataclass(frozen=True, slots=True)
class Rows:
    """Transfers in the order in which they were planned (chunks as the problem numbers them), and their end."""

    chunk: list[int] | Int32Array
    link: list[int] | Int32Array
    start: list[int] | Int64Array
    end: int


def levels_of(problem: CopyProblem) -> Levels:
    """Levels by the time that the largest chunk takes."""
    network = problem.network
    kinds = np.unique(network.kind)
    costs, rank = np.unique(problem.total[kinds, -1], return_inverse=True)
    by_kind = np.zeros(len(network.kinds), np.int32)
    by_kind[kinds] = rank.reshape(-1)
    level = by_kind[network.kind]
    component: list[list[int]] = []
    for bound in range(len(costs)):
        kept = level < bound
        component.append(_components(problem.devices, network.source[kept].tolist(), network.target[kept].tolist()))
    return Levels(level.tolist(), component)


def _components(count: int, sources: list[int], targets: list[int]) -> list[int]:
    """Number of the strongly connected component of each device (Kosaraju)."""
    ahead: list[list[int]] = [[] for _ in range(count)]
    behind: list[list[int]] = [[] for _ in range(count)]
    for source, target in zip(sources, targets, strict=True):
        ahead[source].append(target)
        behind[target].append(source)
    order: list[int] = []
    seen = bytearray(count)
    for root in range(count):
        if seen[root]:
            continue
        seen[root] = 1
        stack = [(root, iter(ahead[root]))]
        while stack:
            device, rest = stack[-1]
            there = next((d for d in rest if not seen[d]), -1)
            if there < 0:
                order.append(device)
                stack.pop()
            else:
                seen[there] = 1
                stack.append((there, iter(ahead[there])))
    component = [-1] * count
    number = 0
    for root in reversed(order):
        if component[root] >= 0:
            continue
        component[root] = number
        pending = [root]
        while pending:
            for there in behind[pending.pop()]:
                if component[there] < 0:
                    component[there] = number
                    pending.append(there)
        number += 1
    return component


def event_rows(problem: CopyProblem, levels: Levels, rule: EventRule, limit: int | None = None) -> Rows | None:
    """Plans all transfers; None where that takes more than `limit` picoseconds."""
    engine = _Engine(problem, levels, rule)
    return engine.run(limit)


class _Engine:
    """The state of the devices and links while time goes on."""

    def __init__(self, problem: CopyProblem, levels: Levels, rule: EventRule) -> None:
        self._problem = problem
        self._levels = levels
        self._rule = rule
        self._lenient = False
        self._left = problem.missing
        self._names = list(range(problem.count))
        if rule.seed is not None:
            random.Random(rule.seed).shuffle(self._names)
        self._prepare_chunks()
        self._prepare_links()

    def _prepare_chunks(self) -> None:
        problem, names = self._problem, self._names
        self._have = [0] * problem.devices
        self._order: list[list[int]] = [[] for _ in range(problem.devices)]
        self._need = [0] * problem.devices
        self._spread = [0] * problem.count
        self._rare = [0] * (problem.devices + 2)
        self._rare[0] = (1 << problem.count) - 1
        self._kinds = self._rare[:1]
        _, need = problem.bits()
        by_name = sorted(range(problem.count), key=names.__getitem__)
        self._back = by_name
        for device, bits in enumerate(need):
            self._need[device] = sum(1 << names[c] for c in members_of(bits))
        self._times: list[int] = []
        self._arrivals: dict[int, list[tuple[int, int]]] = {}
        self._freed: dict[int, list[int]] = {}
        sizes = problem.size_of.tolist()
        self._size = [sizes[c] for c in by_name]
        component = self._levels.component
        self._inside: list[dict[int, int]] = [{} for _ in component]
        for chunk in range(problem.count):
            old = by_name[chunk]
            for device in problem.sets[int(problem.pre[old])].tolist():
                self._at(self._arrivals, int(problem.release[old]), (device, chunk))
                self._enter(device, 1 << chunk)

    def _prepare_links(self) -> None:
        problem = self._problem
        network = problem.network
        kinds = network.kind.tolist()
        busy, total = problem.busy.tolist(), problem.total.tolist()
        self._busy = [busy[kind] for kind in kinds]
        self._total = [total[kind] for kind in kinds]
        self._free = [0] * network.link_count
        self._cursor = [[0] * network.link_count, [0] * network.link_count]
        level = self._levels.level
        self._sources = [sorted(links, key=lambda pair: (level[pair[0]], pair[0])) for links in problem.sources()]
        self._targets: list[list[int]] = [[] for _ in range(problem.devices)]
        starts: list[int] = network.source.tolist()
        ends: list[int] = network.target.tolist()
        for source, target in dict.fromkeys(zip(starts, ends, strict=True)):
            self._targets[source].append(target)

    def _at(self, events: dict[int, list[T]], time: int, event: T) -> None:
        if time not in self._arrivals and time not in self._freed:
            heapq.heappush(self._times, time)
        events.setdefault(time, []).append(event)

    def _enter(self, device: int, bit: int) -> None:
        """Notes that a chunk is in, or on its way into, the components of a device."""
        for level, component in enumerate(self._levels.component):
            inside = self._inside[level]
            number = component[device]
            inside[number] = inside.get(number, 0) | bit

    def run(self, limit: int | None) -> Rows | None:
        """Lets time go on until every device has what it wants."""
        rows: list[tuple[int, int, int]] = []
        end = now = 0
        while self._left:
            if self._times:
                now = heapq.heappop(self._times)
                concerned = self._settle(now)
            elif self._lenient:
                raise AssertionError("a wanted chunk cannot be reached")
            else:
                self._lenient = True
                concerned = set(range(self._problem.devices))
            for device in sorted(concerned):
                if self._need[device]:
                    end = max(end, self._share_out(device, now, rows))
            if limit is not None and end > limit:
                return None
        chunk, link, start = ([row[k] for row in rows] for k in range(3))
        return Rows([self._back[c] for c in chunk], link, start, end)

    def _settle(self, now: int) -> set[int]:
        """Books what arrives and becomes free now; the destinations that this concerns."""
        concerned: set[int] = set(self._freed.pop(now, ()))
        for device, chunk in self._arrivals.pop(now, ()):
            bit = 1 << chunk
            self._have[device] |= bit
            self._order[device].append(chunk)
            spread = self._spread[chunk]
            self._rare[spread] ^= bit
            self._rare[spread + 1] |= bit
            self._spread[chunk] = spread + 1
            concerned.update(self._targets[device])
        self._kinds = [mask for mask in self._rare if mask]
        return concerned

    def _share_out(self, device: int, now: int, rows: list[tuple[int, int, int]]) -> int:
        """Gives the idle links into a device chunks to bring; when the last of them will have come."""
        sources = self._sources[device]
        exact = [] if self._rule.fifo else self._alternatives(device)
        end = 0
        for link, source in sources:
            if self._free[link] > now or not self._have[source] & self._need[device]:
                continue
            chunk = self._pick(link, source, device, now, exact)
            if chunk < 0:
                continue
            busy = self._busy[link][self._size[chunk]]
            blocked = self._blocked(link, now, busy)
            if blocked:
                self._free[link] = blocked
                self._at(self._freed, blocked, device)
                continue
            bit = 1 << chunk
            self._need[device] ^= bit
            self._left -= 1
            self._enter(device, bit)
            self._free[link] = now + busy
            arrival = now + self._total[link][self._size[chunk]]
            self._at(self._freed, now + busy, device)
            self._at(self._arrivals, arrival, (device, chunk))
            rows.append((chunk, link, now))
            end = max(end, arrival)
        return end

    def _alternatives(self, device: int) -> list[int]:
        """The chunks that a device lacks by how many of its links could bring them: sets for 1, 2, ..."""
        lacks = self._need[device]
        sources = self._sources[device]
        at_least = [0] * (len(sources) + 2)
        for seen, (_, source) in enumerate(sources):
            held = self._have[source] & lacks
            for count in range(seen + 1, 1, -1):
                at_least[count] |= at_least[count - 1] & held
            at_least[1] |= held
        return [at_least[count] & ~at_least[count + 1] for count in range(1, len(sources) + 1)]

    def _pick(self, link: int, source: int, device: int, now: int, exact: list[int]) -> int:
        """The chunk that a link takes, or -1."""
        level = self._levels.level[link]
        if not self._lenient:
            inside = self._inside[level].get(self._levels.component[level][device], 0)
            chunk = self._best(link, source, self._need[device] & ~inside, exact, 0)
            if chunk >= 0 or not self._late(level, device, now):
                return chunk
        return self._best(link, source, self._need[device], exact, 1)

    def _best(self, link: int, source: int, wanted: int, exact: list[int], cursor: int) -> int:
        """The chunk of the source that is best by the rule, among the wanted ones, or -1."""
        free = self._have[source] & wanted
        if not free:
            return -1
        if self._rule.fifo:
            queue, places = self._order[source], self._cursor[cursor]
            place = places[link]
            while not free >> queue[place] & 1:
                place += 1
            places[link] = place
            return queue[place]
        best = next((mask for mask in (free & mask for mask in exact) if mask), free)
        rarest = next(mask for mask in (best & mask for mask in self._kinds) if mask)
        return (rarest & -rarest).bit_length() - 1

    def _late(self, level: int, device: int, now: int) -> bool:
        """Whether the cheaper links into a device cannot bring all that it lacks by the deadline."""
        lacks = self._need[device].bit_count()
        for link, _ in self._sources[device]:
            if self._levels.level[link] >= level:
                break
            busy, total = self._busy[link][-1], self._total[link][-1]
            lacks -= max(0, (self._rule.deadline - max(now, self._free[link]) - total + busy) // busy)
            if lacks <= 0:
                return False
        return True

    def _blocked(self, link: int, start: int, busy: int) -> int:
        """When the reservation ends that keeps a link from a transfer, or 0."""
        for low, high in self._problem.reserved.get(link, ()):
            if low < start + busy and start < high:
                return high
            if low >= start + busy:
                break
        return 0
