"""What a swarm has to bring where: chunks as bit sets, links and switches with what is taken of them."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

from collc.base.diagnostics import Diagnostic, SourceError
from collc.synthesis.conditions import Conditions
from collc.synthesis.swarm.lanes import Lanes, lanes_of

Spans = list[tuple[int, int]]
"""When a link is taken: starts and ends, ascending."""


@dataclass(frozen=True, eq=False)
class SwarmProblem:
    """Chunks are bits, in the order of the rows of conditions.

    have, need: by device, what it holds at the start, and what it is to get, be it only to pass it on. welcome: what it
    may get beside that, since it may pass it on. sizes: by size,
    the chunks that have it. later: (picoseconds, device, chunk) of what holders do not have at once.
    taken: by link. held: by switch with few places, when one is held.
    """

    conditions: Conditions
    lanes: Lanes
    have: list[int]
    need: list[int]
    welcome: list[int]
    sizes: list[int]
    later: list[tuple[int, int, int]]
    taken: dict[int, Spans]
    held: dict[int, Spans]

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
    welcome = [0] * network.device_count
    return SwarmProblem(conditions, lanes, have, need, welcome, sizes, later, _taken(conditions), _held(conditions))


def widened(problem: SwarmProblem) -> SwarmProblem | None:
    """The problem with all NPUs to pass on what they do not want; None where all want everything."""
    everything = (1 << len(problem.conditions)) - 1
    late = [0] * len(problem.have)
    for _, device, row in problem.later:
        late[device] |= 1 << row
    welcome = list(problem.welcome)
    for npu in problem.conditions.task.network.npus.tolist():
        welcome[npu] = everything & ~(problem.have[npu] | problem.need[npu] | late[npu])
    return replace(problem, welcome=welcome) if any(welcome) else None


def _taken(conditions: Conditions) -> dict[int, Spans]:
    """When links are taken by what is planned already."""
    reserved = conditions.task.reserved
    found: dict[int, Spans] = {}
    if reserved is not None:
        ends = (reserved.start + conditions.clock.busy_of(reserved)).tolist()
        for link, *span in zip(reserved.link.tolist(), reserved.start.tolist(), ends, strict=True):
            found.setdefault(link, []).append((span[0], span[1]))
    return found


def _held(conditions: Conditions) -> dict[int, Spans]:
    """When places of switches that have few are held by what is planned already, at most.

    For each arrival of a chunk one place, from when it first comes near to when it has gone; time may run backwards.
    """
    reserved, network = conditions.task.reserved, conditions.task.network
    visits: dict[tuple[int, int], list[int]] = {}
    found: dict[int, Spans] = {}
    if reserved is None:
        return found
    few = {switch for switch, size in enumerate(network.buffers.tolist(), network.npu_count) if size >= 0}
    come = (reserved.start + conditions.clock.total_of(reserved)).tolist()
    sources, targets = network.source[reserved.link].tolist(), network.target[reserved.link].tolist()
    columns = zip(reserved.chunk.tolist(), sources, targets, reserved.start.tolist(), come, strict=True)
    for chunk, source, target, start, end in columns:
        for switch, count in ((target, 1), (source, 0)):
            if switch in few:
                visit = visits.setdefault((switch, chunk), [start, end, 0])
                visit[:] = min(visit[0], start), max(visit[1], end), visit[2] + count
    for (switch, _), (first, last, count) in visits.items():
        found.setdefault(switch, []).extend([(first, last)] * max(1, count))
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
