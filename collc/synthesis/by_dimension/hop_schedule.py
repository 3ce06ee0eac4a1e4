"""Times of hops that wait for one another: a list schedule over links and switches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.conditions import Conditions
from collc.synthesis.list_schedule import Tasks, best_starts
from collc.synthesis.task import Effort
from collc.synthesis.timeline import link_timelines
from collc.ten.arrays import Int64Array
from collc.ten.schedule import Transfers


@dataclass(frozen=True, slots=True)
class LineHop:
    """A chunk goes from an NPU to another of its line, over one link, or over several with switches between.

    path: the links. offset: positions from the source to the target along the line, which wraps round. If all NPUs of
    a line send to offset 1, then to offset 2 and so on, each receives from one NPU at a time.
    """

    source: int
    target: int
    path: tuple[int, ...]
    offset: int


def schedule_hops(conditions: Conditions, hops: Sequence[Sequence[LineHop]], effort: Effort) -> Transfers | None:
    """The transfers of the hops of each row, parents first; None if `effort.stop` returns True.

    On each link, the transfer that the longest chain follows goes first; of equals, in one schedule the transfer of the
    first row, in another one that with the least offset along its line. The shorter schedule is kept. In a schedule
    that will be inverted, two copies of a chunk must not be in one switch at a time, since backwards these are two
    partials, which the switch would mix up; if they are, one copy waits for the other.

    Raises NoSchedule if switches with full buffers wait for one another.
    """
    best: tuple[int, Transfers] | None = None
    for nearest_first in (False, True):
        if best is not None and effort.stop():
            break
        plan = _HopTasks(conditions, hops, nearest_first)
        start = _starts_over_switches(conditions, plan, effort)
        if start is None:
            break
        end = int((start + plan.tasks.total).max(initial=0))
        if best is None or end < best[0]:
            chunk, link = conditions.chunk[plan.row], plan.tasks.link
            real = link < conditions.task.network.link_count
            best = end, Transfers.of(chunk[real], link[real], start[real])
    return None if best is None else best[1]


def _starts_over_switches(conditions: Conditions, plan: _HopTasks, effort: Effort) -> Int64Array | None:
    """int64[n]: when each task starts, if switches have room for all and mix up nothing; None if stopped."""
    start = plan.starts(effort)
    if start is None:
        return None
    slots = _free_slots(conditions)
    waits = [*plan.waits_for_slots(start, {switch: slots[switch] for switch in plan.entered & slots.keys()})]
    if waits:
        start = plan.starts(effort, waits)
    if start is not None and conditions.task.inverted and plan.copies_meet(start):  # perhaps only since some wait
        start = plan.starts(effort, [*waits, *plan.waits_for_copies(start)])
    return start


class _HopTasks:
    """The transfers of all hops, the most urgent first; nearest_first: of equals by offset, else by row.

    row: int32[n], of the conditions. A task without a link of the network ends when the chunk of its row is released.
    """

    def __init__(self, conditions: Conditions, hops: Sequence[Sequence[LineHop]], nearest_first: bool) -> None:
        task, clock = conditions.task, conditions.clock
        network = task.network
        rows: list[tuple[int, int, int, int]] = []  # row, link, the task that it waits for, offset
        for row, release in enumerate(conditions.release.tolist()):
            begin = -1
            if release:
                rows.append((row, network.link_count + row, -1, 0))
                begin = len(rows) - 1
            brought: dict[int, int] = {}
            for hop in hops[row]:
                parent = brought.get(hop.source, begin)
                for link in hop.path:
                    rows.append((row, link, parent, hop.offset))
                    parent = len(rows) - 1
                brought[hop.target] = parent
        table = np.array(rows, np.int64).reshape(-1, 4)
        row, link, parent, offset = table.T
        released = link >= network.link_count
        kind = network.kind[np.where(released, 0, link)]
        column = conditions.column[row]
        busy, total = (
            np.where(released, conditions.release[row], times[kind, column]) for times in (clock.busy, clock.total)
        )
        remaining = total.tolist()
        for number, before in zip(range(len(rows) - 1, -1, -1), parent[::-1].tolist(), strict=True):
            if before >= 0:
                remaining[before] = max(remaining[before], int(total[before]) + remaining[number])
        ties = (row, offset) if nearest_first else (offset, row)
        order = np.lexsort((*ties, -np.array(remaining, np.int64)))
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        after = np.flatnonzero(parent >= 0)
        edges = position[parent[after]].astype(np.int32), position[after].astype(np.int32)
        links = network.link_count + len(conditions)
        self.row = row[order]
        self.tasks = Tasks(link[order].astype(np.int32), busy[order], total[order], *edges, links)
        reserved = task.reserved
        self._reserved = link_timelines(reserved, clock)
        # Of each copy that enters a switch: the switch, its entry and its exit.
        target = np.where(released, 0, network.target[np.where(released, 0, link)])
        entry = np.flatnonzero(~released & (target >= network.npu_count))
        self._copies: list[tuple[int, int, int]] = np.stack(
            [target[entry], position[entry], position[entry + 1]], axis=1
        ).tolist()
        self.entered = {switch for switch, _, _ in self._copies}

    def starts(self, effort: Effort, waits: Sequence[tuple[int, int]] = ()) -> Int64Array | None:
        """int64[n]: when each task starts; None if stopped. waits: pairs of a task and one after it."""
        more = np.array(waits, np.int32).reshape(-1, 2)
        before, after = np.append(self.tasks.before, more[:, 0]), np.append(self.tasks.after, more[:, 1])
        best = best_starts(replace(self.tasks, before=before, after=after), self._reserved, effort)
        if best is None:
            return None
        start = best[1]
        if bool((start[after] < start[before] + self.tasks.total[before]).any()):
            message = "switches with full buffers wait for one another"
            raise NoSchedule(Diagnostic("S0201", message, hint="give switches larger buffers, or use pccl"))
        return start

    def waits_for_slots(self, start: Int64Array, slots: dict[int, int]) -> Iterator[tuple[int, int]]:
        """Which exits some entries wait for so that copies are never more than the slots of a switch."""
        groups: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for switch, entry, leave in self._copies:
            if switch in slots:
                groups[switch].append((entry, leave))
        for switch, copies in groups.items():
            yield from _waits(start, copies, slots[switch])

    def waits_for_copies(self, start: Int64Array) -> Iterator[tuple[int, int]]:
        """Which exits some entries wait for so that two copies of a chunk are never in one switch."""
        for copies in self._by_chunk().values():
            yield from _waits(start, copies, 1)

    def copies_meet(self, start: Int64Array) -> bool:
        """Whether two copies of a chunk ever are in one switch, or come into it, at the same time."""
        arrival = start + self.tasks.total
        for copies in self._by_chunk().values():
            inside: list[tuple[int, int, int]] = []
            entering: list[tuple[int, int, int]] = []
            for entry, leave in copies:
                there = int(arrival[entry])
                inside += [(there, 0, 1), (int(start[leave]), 1, -1)]
                entering += [(there - int(self.tasks.busy[entry]), 1, 1), (there, 0, -1)]
            if len(copies) > 1 and (_exceed_one(inside) or _exceed_one(entering)):
                return True
        return False

    def _by_chunk(self) -> dict[Hashable, list[tuple[int, int]]]:
        """The entries and exits of the copies of each chunk in each switch."""
        groups: dict[Hashable, list[tuple[int, int]]] = defaultdict(list)
        for switch, entry, leave in self._copies:
            groups[switch, int(self.row[entry])].append((entry, leave))
        return groups


def _waits(start: Int64Array, copies: list[tuple[int, int]], slots: int) -> Iterator[tuple[int, int]]:
    """Pairs of an exit and an entry after it, so that at most `slots` copies are in a switch, in order of entry."""
    ordered = sorted(copies, key=lambda copy: (int(start[copy[0]]), copy))
    slots = max(slots, 0)
    for number in range(slots, len(ordered)):
        yield ordered[number - slots][1], ordered[number][0]


def _exceed_one(changes: list[tuple[int, int, int]]) -> bool:
    """Whether the running sum of changes, as (time, order among equals, change), ever exceeds 1."""
    return bool((np.cumsum([change for _, _, change in sorted(changes)]) > 1).any())


def _free_slots(conditions: Conditions) -> dict[int, int]:
    """By switch with a limited buffer: its slots, less the most that reserved transfers ever occupy at once."""
    network, reserved = conditions.task.network, conditions.task.reserved
    slots: dict[int, int] = {}
    for switch in np.flatnonzero(network.buffers >= 0).tolist():
        slots[network.npu_count + switch] = int(network.buffers[switch])
    if reserved is None:
        return slots
    ends = reserved.start + conditions.clock.total_of(reserved)
    for switch in slots:
        into, out = network.target[reserved.link] == switch, network.source[reserved.link] == switch
        time = np.concatenate([reserved.start[into], ends[out]])
        change = np.repeat(np.array([1, -1], np.int64), [int(into.sum()), int(out.sum())])
        slots[switch] -= int(np.cumsum(change[np.lexsort((change, time))]).max(initial=0))
    return slots
