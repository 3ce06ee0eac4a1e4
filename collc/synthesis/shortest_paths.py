"""Chunks along shortest paths, one message after another: the schedule for those who have no time for a better one.

Each chunk follows the tree of shortest paths from its holders. An NPU passes on what it has; through switches, every
message goes on its own and without a pause, so that it holds on any switch: whatever its buffer, without multicast, and
backwards for reductions. Messages are sent in rounds, in which NPU i sends to NPU i + d, and start when all their links
are free. A chunk takes a few microseconds of plain Python for each link, whatever the demand.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.graph.paths import shortest_path_tree
from collc.synthesis.conditions import Conditions, conditions_of
from collc.synthesis.task import Task
from collc.ten.schedule import RowSchedule, Schedule, Transfers

BATCH: Final = 4096
"""Messages between two calls of `stop`."""

Message = tuple[int, int, int, tuple[int, ...]]
"""(NPUs that it comes after, distance of the two NPUs in numbers, row of the conditions, links)."""


def along_shortest_paths(task: Task, stop: Callable[[], bool] = lambda: False) -> Schedule:
    """A schedule of copies on any network. Raises SourceError where no path leads to a device that wants a chunk, and
    NoSchedule where `stop` returns True before the end.
    """
    conditions = conditions_of(task)
    messages = sorted(_messages(conditions, stop))
    links = _Links(conditions)
    rows: list[tuple[int, int, int]] = []
    for number, (_, _, row, path) in enumerate(messages):
        if number % BATCH == 0:
            _check(stop)
        chunk = int(conditions.chunk[row])
        rows += [(chunk, link, start) for link, start in links.send(row, path)]
    table = np.array(rows, np.int64).reshape(-1, 3)
    return RowSchedule(
        task.model, Transfers.of(table[:, 0].astype(np.int32), table[:, 1].astype(np.int32), table[:, 2])
    )


def _check(stop: Callable[[], bool]) -> None:
    if stop():
        raise NoSchedule(Diagnostic("S0201", "stopped before there was any schedule", hint="give it more time"))


def _messages(conditions: Conditions, stop: Callable[[], bool]) -> Iterator[Message]:
    """The messages of all chunks, from NPU to NPU, each once."""
    npus = conditions.task.network.npu_count
    near = [_neighbours(conditions, column) for column in range(conditions.clock.total.shape[1])]
    trees: dict[tuple[int, tuple[int, ...]], dict[int, tuple[int, int]]] = {}
    for row in range(len(conditions)):
        if row % BATCH == 0:
            _check(stop)
        holders: list[int]
        wanting: list[int]
        holders, wanting = (devices.tolist() for devices in conditions.row(row))
        column = int(conditions.column[row])
        key = column, tuple(holders)
        if key not in trees:
            _check(stop)
            trees[key] = shortest_path_tree(near[column].__getitem__, dict.fromkeys(holders, 0)).before
        before = trees[key]
        level = dict.fromkeys(holders, 0)
        for target in wanting:
            path: list[int] = []
            hops: list[tuple[int, int, tuple[int, ...]]] = []
            device, head = target, target
            while device not in level:
                if device not in before:
                    conditions.farthest(conditions.times_to(column))  # raises: no path leads there
                device, link = before[device]
                path.append(link)
                if device < npus:
                    hops.append((device, head, tuple(reversed(path))))
                    head, path = device, []
            for tail, head, links in reversed(hops):
                level[head] = level[tail] + 1
                yield level[head], (head - tail) % npus, row, links


def _neighbours(conditions: Conditions, column: int) -> list[list[tuple[int, int, int]]]:
    """By device, (target, picoseconds, link) of its links out. column: of the clock, for chunks of one size."""
    network = conditions.task.network
    lengths = np.maximum(conditions.clock.total[network.kind, column], 1)
    found = [list[tuple[int, int, int]]() for _ in range(network.device_count)]
    sources: list[int] = network.source.tolist()
    targets: list[int] = network.target.tolist()
    times: list[int] = lengths.tolist()
    for link, (source, target, time) in enumerate(zip(sources, targets, times, strict=True)):
        found[source].append((target, time, link))
    return found


@dataclass(eq=False)
class _Links:
    """When links, and slots of switches, are free. Messages are put behind what is there already.

    ready: when an NPU has the chunk of a row, or a switch has sent it on for the last time.
    """

    conditions: Conditions
    busy: list[list[int]] = field(init=False)
    total: list[list[int]] = field(init=False)
    free: list[int] = field(init=False)
    ready: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict[tuple[int, int], int](int))
    slots: dict[int, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        task, clock = self.conditions.task, self.conditions.clock
        network = task.network
        self.busy, self.total = clock.busy[network.kind].T.tolist(), clock.total[network.kind].T.tolist()
        self.source: list[int] = network.source.tolist()
        self.target: list[int] = network.target.tolist()
        self.column: list[int] = self.conditions.column.tolist()
        self.release: list[int] = self.conditions.release.tolist()
        first = 0
        if task.reserved is not None and len(task.reserved):
            first = int((task.reserved.start + clock.total_of(task.reserved)).max())
        self.free = [first] * network.link_count
        limited = enumerate(network.buffers.tolist(), network.npu_count)
        self.slots = {switch: [0] * slots for switch, slots in limited if slots >= 0}

    def send(self, row: int, path: tuple[int, ...]) -> list[tuple[int, int]]:
        """(link, start) of a message that starts as early as it can go through without a pause."""
        busy, total = self.busy[self.column[row]], self.total[self.column[row]]
        source, target, free, ready = self.source, self.target, self.free, self.ready
        start = ready.get((row, source[path[0]]), self.release[row])
        offset = 0
        for link in path:
            start = max(start, free[link] - offset)
            offset += total[link]
            switch = target[link]
            if link != path[-1]:
                start = max(start, ready[row, switch] - offset)
                if switch in self.slots:
                    start = max(start, self.slots[switch][0] + busy[link] - offset)
        hops: list[tuple[int, int]] = []
        time = start
        for link in path:
            hops.append((link, time))
            free[link] = time + busy[link]
            if link != path[0]:
                switch = source[link]
                ready[row, switch] = free[link]
                if switch in self.slots:
                    heapq.heapreplace(self.slots[switch], free[link])
            time += total[link]
        ready[row, target[path[-1]]] = time
        return hops
