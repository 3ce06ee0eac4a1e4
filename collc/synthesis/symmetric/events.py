"""All-Gather on a small Cayley graph whose generators take unlike times, in plain Python.

When generators are free, as many as can be are matched to targets, those with the fewest informed in-neighbours first.
A generator that is slower than others takes only what they cannot bring: chunks that are not yet in the coset of its
target (which the faster ones join) nor on their way into it, unless these could not deliver the rest before a deadline.
"""

from __future__ import annotations

import heapq
import random

import numpy as np

from collc.synthesis.symmetric.group import Group
from collc.ten.arrays import Int32Array, Int64Array

Row = tuple[int, int, int, int]


class Events:
    """A search event by event; a target is the number chunk * NPUs + NPU.

    busy, total: int64[generators], picoseconds that a link is taken, and until the chunk is there. coset: int32
    [generators, npus], which NPUs the cheaper generators join. ties: makes them random.
    """

    def __init__(
        self,
        group: Group,
        chunks: int,
        busy: Int64Array,
        total: Int64Array,
        coset: Int32Array,
        deadline: int,
        ties: random.Random | None,
    ) -> None:
        self._count, self._deadline, self._ties = group.count, deadline, ties
        self._ahead: list[list[int]] = group.ahead.tolist()
        self._behind: list[list[int]] = group.behind.tolist()
        self._busy, self._total = busy.tolist(), total.tolist()
        self._coset: list[list[int]] = coset.tolist()
        self._cheaper = [np.flatnonzero(total < own).tolist() for own in total.tolist()]
        self._known = bytearray(self._count * chunks)
        self._informed = [0] * (self._count * chunks)
        self._inside: list[set[tuple[int, int]]] = [set() for _ in self._ahead]
        self._open: dict[int, None] = {}
        self._closed: set[int] = set()
        self._left = (self._count - 1) * chunks
        self._free = [0] * len(self._ahead)
        for chunk in range(chunks):
            self._close(chunk * self._count)
            self._settle(chunk * self._count)

    def run(self) -> tuple[int, list[Row]]:
        """The end, and rows of (start, generator, sender, chunk)."""
        rows: list[Row] = []
        moments: list[tuple[int, int]] = [(0, -1)]
        end = 0
        while moments and self._left:
            now = moments[0][0]
            while moments and moments[0][0] == now:
                _, target = heapq.heappop(moments)
                if target >= 0:
                    self._settle(target)
            for generator, target in self._matched(now):
                chunk, npu = divmod(target, self._count)
                rows.append((now, generator, self._behind[generator][npu], chunk))
                self._close(target)
                self._left -= 1
                self._free[generator] = now + self._busy[generator]
                end = max(end, now + self._total[generator])
                heapq.heappush(moments, (self._free[generator], -1))
                heapq.heappush(moments, (now + self._total[generator], target))
        return end, rows

    def _close(self, target: int) -> None:
        """A chunk is on its way to a target."""
        chunk, npu = divmod(target, self._count)
        self._closed.add(target)
        self._open.pop(target, None)
        for inside, coset in zip(self._inside, self._coset, strict=True):
            inside.add((chunk, coset[npu]))

    def _settle(self, target: int) -> None:
        """A target holds its chunk."""
        self._known[target] = 1
        npu = target % self._count
        for ahead in self._ahead:
            there = target - npu + ahead[npu]
            self._informed[there] += 1
            if there not in self._closed:
                self._open[there] = None

    def _matched(self, now: int) -> list[tuple[int, int]]:
        """Free generators with their targets."""
        free = [generator for generator, when in enumerate(self._free) if when <= now]
        held = {
            generator for generator in free if self._cheaper[generator] and self._left <= self._room(generator, now)
        }
        order = list(self._open)
        if self._ties is not None:
            self._ties.shuffle(order)
        order.sort(key=self._informed.__getitem__)
        taken: dict[int, int] = {}
        for target in order:
            if self._augment(target, free, held, taken, set()) and len(taken) == len(free):
                break
        return sorted(taken.items())

    def _room(self, generator: int, now: int) -> int:
        """What the cheaper generators can deliver before the deadline."""
        room = 0
        for other in self._cheaper[generator]:
            begin = max(now, self._free[other]) + self._total[other]
            room += max(0, (self._deadline - begin) // self._busy[other] + 1)
        return room

    def _augment(self, target: int, free: list[int], held: set[int], taken: dict[int, int], seen: set[int]) -> bool:
        """Whether a target finds a generator, others making room."""
        chunk, npu = divmod(target, self._count)
        for generator in free:
            if generator in seen or not self._known[target - npu + self._behind[generator][npu]]:
                continue
            if generator in held and (chunk, self._coset[generator][npu]) in self._inside[generator]:
                continue
            seen.add(generator)
            if generator not in taken or self._augment(taken[generator], free, held, taken, seen):
                taken[generator] = target
                return True
        return False
