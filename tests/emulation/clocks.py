"""Happens-before, by vector clocks: which accesses of a cell no rule of the runtime orders.

One run tells for all orders of events: what a threadblock waits for does not depend on the data.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

Clock = NDArray[np.int32]


CALLER = "the caller"


class Cells:
    """The last write and the reads since, by cell: (component, count, who).

    clock: what an access follows with its data. later: what it follows at all (also by relaxed signals and packets),
    which is enough for what overwrites something that is read.
    """

    def __init__(self) -> None:
        self.writes: dict[int, tuple[int, int, object]] = {}
        self.reads: dict[int, dict[int, tuple[int, object]]] = {}
        self.races: list[str] = []

    def _race(self, cell: int, who: object, other: object, what: str) -> None:
        self.races.append(f"cell {cell}: {_name(who)} {what} {_name(other)}")

    def read(self, cell: int, clock: Clock, by: int, count: int, who: object) -> None:
        last = self.writes.get(cell)
        if last is not None and last[2] != who and clock[last[0]] < last[1]:
            self._race(cell, who, last[2], "reads what is written by")
        self.reads.setdefault(cell, {})[by] = count, who

    def write(self, cell: int, clock: Clock, later: Clock, by: int, count: int, who: object) -> None:
        last = self.writes.get(cell)
        if last is not None and last[2] != who and clock[last[0]] < last[1]:
            self._race(cell, who, last[2], "writes what is written by")
        for reader, (at, other) in self.reads.pop(cell, {}).items():
            if later[reader] < at and other != who:
                self._race(cell, who, other, "writes what is read by")
        self.writes[cell] = by, count, who


def _name(who: object) -> str:
    """Who has an access: (component, count, what)."""
    return f"{who[2]} of {who[0]} at {who[1]}" if isinstance(who, tuple) else str(who)


class FileClocks:
    """Clocks of threadblocks. Each has a component for each part of a message: with LL, parts are not ordered."""

    def __init__(self, blocks: int, parts: int) -> None:
        self.parts = parts
        self.clock = [np.zeros(blocks * parts, np.int32) for _ in range(blocks)]
        self.start = [clock.copy() for clock in self.clock]
        self.before_sends = [clock.copy() for clock in self.clock]
        self.told: list[list[tuple[tuple[int, int], Clock]]] = [[] for _ in range(blocks)]
        self.cells = Cells()
        self.races = self.cells.races

    def depend(self, block: int, on: int, goal: tuple[int, int]) -> None:
        told = next(clock for at, clock in self.told[on] if at >= goal)
        np.maximum(self.clock[block], told, out=self.clock[block])
        self.start[block] = self.clock[block].copy()

    def tell(self, block: int, at: tuple[int, int], unsafe: bool) -> None:
        self.told[block].append((at, (self.before_sends if unsafe else self.clock)[block].copy()))

    def part(
        self, block: int, part: int, arrived: object, reads: list[int], write: int, cells: int, in_order: bool
    ) -> Clock:
        """Record what a part of a message reads and writes; returns what its receiver knows."""
        clock = self.clock[block] if in_order else self.start[block].copy()
        if arrived is not None:
            np.maximum(clock, arrived, out=clock)
        by = block * self.parts + part
        clock[by] += 1
        count, who = int(clock[by]), (block, int(clock[by]), f"part {part}")
        for start in reads:
            for cell in range(start, start + cells):
                self.cells.read(cell, clock, by, count, who)
        for cell in range(write, write + cells) if write >= 0 else ():
            self.cells.write(cell, clock, clock, by, count, who)
        if not in_order:
            np.maximum(self.clock[block], clock, out=self.clock[block])
        return clock.copy()

    def join(self, block: int) -> None:
        """All parts of a message are done before the next one."""
        self.start[block] = self.clock[block].copy()

    def end(self, block: int, is_send: bool) -> None:
        if not is_send:
            self.before_sends[block] = self.clock[block].copy()


class PlanClocks:
    """Clocks of threadblocks, proxies and callers: how many segments of each other one are known to be over.

    A clock has two rows: what is known with its data, and what is known to be over. What was known when a program began
    is known with its data to all that hear of it: the end of a program makes all of its writes visible.
    """

    def __init__(self, components: int, initial: Mapping[Hashable, int]) -> None:
        self.clock = [np.zeros((2, components), np.int32) for _ in range(components)]
        self.begun = [clock[0].copy() for clock in self.clock]
        self.released: dict[object, list[Clock]] = {}
        self.acquired: dict[object, int] = {key: -count for key, count in initial.items()}
        self.packets: dict[int, Clock] = {}
        self.cells = Cells()
        self.races = self.cells.races

    def end(self, block: int, knows: Iterable[Clock]) -> None:
        for clock in knows:
            np.maximum(self.clock[block], clock, out=self.clock[block])
        self.tick(block)

    def tick(self, component: int) -> None:
        self.clock[component][:, component] += 1

    def join(self, component: int, other: int) -> None:
        np.maximum(self.clock[component], self.clock[other], out=self.clock[component])

    def begin(self, block: int, caller: int) -> None:
        self.join(block, caller)
        self.begun[block] = self.clock[block][0].copy()

    def learn(self, known: Clock, other: int) -> None:
        np.maximum(known, self.clock[other], out=known)

    def take(self, component: int, known: Clock) -> None:
        np.maximum(self.clock[component], known, out=self.clock[component])

    def meet(self, blocks: list[int]) -> None:
        together = np.maximum.reduce([self.clock[block] for block in blocks])
        for block in blocks:
            self.clock[block] = together.copy()

    def release(self, component: int, key: object, known: Clock, relaxed: bool) -> None:
        """The k-th wait of a counter knows what the first k signals knew; of a relaxed one, not with its data."""
        rows = self.released.setdefault(key, [])
        begun = self.begun[component]
        given = np.stack([begun if relaxed else known[0], known[1], begun])
        rows.append(np.maximum(rows[-1], given) if rows else given)

    def acquire(self, key: object, known: Clock, relaxed: bool) -> None:
        at = self.acquired.get(key, 0)
        self.acquired[key] = at + 1
        rows = self.released.get(key, [])
        if 0 <= at < len(rows):
            np.maximum(known, rows[at][[2 if relaxed else 0, 1]], out=known)

    def access(self, component: int, what: tuple[object, ...], reads: Iterable[int], writes: Iterable[int]) -> None:
        """Part of a move, by the segment that is not over: no other access of it is ordered with this one."""
        clock, later = self.clock[component]
        count = int(clock[component]) + 1
        who = (component, count, *what)
        for cell in reads:
            self.cells.read(cell, clock, component, count, who)
        for cell in writes:
            self.cells.write(cell, clock, later, component, count, who)

    def packets_read(self, component: int, what: tuple[object, ...], cells: Iterable[int], known: Clock) -> None:
        """Packets that have arrived: what their sender had done before is over, but its data need not be there."""
        count = int(self.clock[component][0, component]) + 1
        for cell in cells:
            self.arrive([cell], known)
            self.cells.reads.setdefault(cell, {})[component] = count, (component, count, *what)

    def arrive(self, cells: Iterable[int], known: Clock) -> None:
        for cell in cells:
            np.maximum(known, self.packets[cell], out=known)

    def packets_sent(self, component: int, what: tuple[object, ...], cells: Iterable[int]) -> None:
        later = self.clock[component][1]
        count = int(later[component]) + 1
        sent = np.stack([self.begun[component], later])
        for cell in cells:
            self.cells.write(cell, later, later, component, count, (component, count, *what))
            self.packets[cell] = sent

    def caller_writes(self, component: int, cells: Iterable[int]) -> None:
        self.tick(component)
        clock, later = self.clock[component]
        for cell in cells:
            self.cells.write(cell, clock, later, component, int(clock[component]), CALLER)

    def caller_reads(self, component: int, cells: Iterable[int]) -> None:
        self.tick(component)
        clock = self.clock[component][0]
        for cell in cells:
            self.cells.read(cell, clock, component, int(clock[component]), CALLER)
