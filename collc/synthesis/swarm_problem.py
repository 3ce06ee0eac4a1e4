"""What a swarm has to bring where: chunks as bit sets, links and switches with what is taken of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.diagnostics import Diagnostic, SourceError
from collc.synthesis.conditions import Conditions
from collc.synthesis.swarm_lanes import Lanes, lanes_of
from collc.ten.schedule import Clock

Spans = list[tuple[int, int]]
"""When a link is taken: starts and ends, ascending."""


@dataclass(frozen=True, eq=False)
class SwarmProblem:
    """Chunks are bits, in the order of the rows of conditions.

    have, need: by device, what it holds at the start, and what it is to get, be it only to pass it on. sizes: by size,
    the chunks that have it. later: (picoseconds, device, chunk) of what holders do not have at once.
    taken: by link. wanted: by row, the NPUs of the postcondition.
    """

    conditions: Conditions
    lanes: Lanes
    have: list[int]
    need: list[int]
    sizes: list[int]
    later: list[tuple[int, int, int]]
    taken: dict[int, Spans]

    @property
    def missing(self) -> int:
        """Chunks to bring to NPUs, over all NPUs."""
        return sum(bits.bit_count() for bits in self.need)


def swarm_problem(conditions: Conditions) -> SwarmProblem:
    """Raises SourceError where no path leads to an NPU, NoSchedule where there are too many lanes."""
    network, clock = conditions.task.network, conditions.clock
    lanes = lanes_of(conditions.task, clock)
    have = [0] * network.device_count
    need = [0] * network.device_count
    later: list[tuple[int, int, int]] = []
    sizes = [0] * clock.total.shape[1]
    relays = _Relays(lanes, conditions)
    release: list[int] = conditions.release.tolist()
    for row, column in enumerate(conditions.column.tolist()):
        bit = 1 << row
        sizes[column] |= bit
        holders, _ = conditions.row(row)
        for device in holders.tolist():
            if release[row]:
                later.append((release[row], device, row))
            else:
                have[device] |= bit
        for device in relays.wanted(row):
            need[device] |= bit
    return SwarmProblem(conditions, lanes, have, need, sizes, later, _taken(conditions, clock))


def _taken(conditions: Conditions, clock: Clock) -> dict[int, Spans]:
    """When links are taken by what is planned already."""
    reserved = conditions.task.reserved
    found: dict[int, Spans] = {}
    if reserved is None:
        return found
    ends = reserved.start + clock.busy_of(reserved)
    order = np.lexsort((reserved.start, reserved.link))
    columns = (reserved.link[order].tolist(), reserved.start[order].tolist(), ends[order].tolist())
    for link, start, end in zip(*columns, strict=True):
        found.setdefault(link, []).append((start, end))
    return found


class _Relays:
    """Finds NPUs that pass a chunk on though they do not want it."""

    def __init__(self, lanes: Lanes, conditions: Conditions) -> None:
        self._conditions = conditions
        self._ahead: list[dict[int, int]] = [{} for _ in range(conditions.task.network.device_count)]
        for source, target, cost in zip(lanes.source, lanes.target, lanes.total[-1], strict=True):
            if source not in lanes.hosts:
                row = self._ahead[source]
                row[target] = min(cost, row.get(target, cost))
        self._known: dict[tuple[bytes, bytes], list[int]] = {}

    def wanted(self, row: int) -> list[int]:
        """Those who want a chunk, and the relays on the way to them."""
        holders, wanting = self._conditions.row(row)
        key = holders.tobytes(), wanting.tobytes()
        if key not in self._known:
            self._known[key] = self._reached(holders.tolist(), wanting.tolist(), row)
        return self._known[key]

    def _reached(self, holders: list[int], wanting: list[int], row: int) -> list[int]:
        """Wave by wave from the holders; where only others lead on, over a shortest path (Takahashi and Matsuyama)."""
        tree, missing, relays = set(holders), set(wanting), set[int]()
        front = list(holders)
        while missing:
            while front:
                device = front.pop()
                for target in self._ahead[device]:
                    if target in missing:
                        missing.discard(target)
                        tree.add(target)
                        front.append(target)
            if missing:
                path = self._nearest(tree, missing, row)
                relays.update(path[:-1])
                tree.update(path)
                missing.discard(path[-1])
                front = path
        return sorted({*wanting, *relays})

    def _nearest(self, tree: set[int], missing: set[int], row: int) -> list[int]:
        """The devices on the way from a tree to the nearest of those missing."""
        import heapq

        best = dict.fromkeys(tree, 0)
        via: dict[int, int] = {}
        heap = [(0, device) for device in sorted(tree)]
        while heap:
            cost, device = heapq.heappop(heap)
            if cost > best[device]:
                continue
            if device in missing:
                path = [device]
                while path[-1] in via:
                    path.append(via[path[-1]])
                return path[-2::-1]
            for target, price in self._ahead[device].items():
                there = cost + price
                if there < best.get(target, there + 1):
                    best[target], via[target] = there, device
                    heapq.heappush(heap, (there, target))
        demand, name = self._conditions.task.demand, self._conditions.task.network.device_name(min(missing))
        chunk = demand.chunk_name(int(self._conditions.chunk[row]))
        raise SourceError(
            Diagnostic("S0103", f"no path of links leads to {name}, which is to get chunk {chunk}", hint="add links")
        )
