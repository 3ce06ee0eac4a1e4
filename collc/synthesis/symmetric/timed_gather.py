"""All-Gather on a small Cayley graph whose generators take different times, event by event.

When generators are free, as many as possible are matched to targets, those with the fewest predecessors that hold the
chunk first. A slow generator takes only chunks that faster generators cannot bring: chunks that are neither in the
coset of its target (the NPUs that the faster generators join to it) nor being sent into it. It takes any chunk if the
faster generators could not deliver the rest by a deadline.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator

import numpy as np

from collc.graph.matching import greedy_matching
from collc.synthesis.symmetric.group import Group
from collc.ten.arrays import Int32Array, Int64Array

TransferRow = tuple[int, int, int, int]
"""Start, generator, sender and chunk."""


class TimedGather:
    """One search. A target is a chunk and an NPU, the number chunk * NPUs + NPU.

    busy, total: int64[generators], picoseconds that a link is busy, and until the chunk arrives. coset:
    int32[generators, npus], labels of the cosets of the faster generators. ties: makes the order of equal targets
    random.
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
        self._successors: list[list[int]] = group.successors.tolist()
        self._predecessors: list[list[int]] = group.predecessors.tolist()
        self._busy, self._total = busy.tolist(), total.tolist()
        self._coset: list[list[int]] = coset.tolist()
        self._faster = [np.flatnonzero(total < own).tolist() for own in total.tolist()]
        self._known = bytearray(self._count * chunks)
        self._informed = [0] * (self._count * chunks)
        self._in_coset: list[set[tuple[int, int]]] = [set() for _ in self._successors]
        self._open: dict[int, None] = {}
        self._assigned: set[int] = set()
        self._left = (self._count - 1) * chunks
        self._free = [0] * len(self._successors)
        for chunk in range(chunks):
            self._assign(chunk * self._count)
            self._arrive(chunk * self._count)

    def run(self) -> tuple[int, list[TransferRow]]:
        """The end in picoseconds, and all transfers."""
        rows: list[TransferRow] = []
        events: list[tuple[int, int]] = [(0, -1)]
        end = 0
        while events and self._left:
            now = events[0][0]
            while events and events[0][0] == now:
                _, target = heapq.heappop(events)
                if target >= 0:
                    self._arrive(target)
            for generator, target in self._matched(now):
                chunk, npu = divmod(target, self._count)
                rows.append((now, generator, self._predecessors[generator][npu], chunk))
                self._assign(target)
                self._left -= 1
                self._free[generator] = now + self._busy[generator]
                end = max(end, now + self._total[generator])
                heapq.heappush(events, (self._free[generator], -1))
                heapq.heappush(events, (now + self._total[generator], target))
        return end, rows

    def _assign(self, target: int) -> None:
        """Notes that a chunk is being sent to a target."""
        chunk, npu = divmod(target, self._count)
        self._assigned.add(target)
        self._open.pop(target, None)
        for in_coset, coset in zip(self._in_coset, self._coset, strict=True):
            in_coset.add((chunk, coset[npu]))

    def _arrive(self, target: int) -> None:
        """A target holds its chunk."""
        self._known[target] = 1
        npu = target % self._count
        for successors in self._successors:
            there = target - npu + successors[npu]
            self._informed[there] += 1
            if there not in self._assigned:
                self._open[there] = None

    def _matched(self, now: int) -> list[tuple[int, int]]:
        """Free generators with their targets."""
        free = [generator for generator, when in enumerate(self._free) if when <= now]
        restricted = {
            generator for generator in free if self._faster[generator] and self._left <= self._room(generator, now)
        }
        order = list(self._open)
        if self._ties is not None:
            self._ties.shuffle(order)
        order.sort(key=self._informed.__getitem__)

        def generators(target: int) -> Iterator[int]:
            chunk, npu = divmod(target, self._count)
            for generator in free:
                if self._known[target - npu + self._predecessors[generator][npu]] and not (
                    generator in restricted and (chunk, self._coset[generator][npu]) in self._in_coset[generator]
                ):
                    yield generator

        return sorted(greedy_matching(order, generators, len(free)).items())

    def _room(self, generator: int, now: int) -> int:
        """How many chunks the faster generators can deliver by the deadline."""
        room = 0
        for other in self._faster[generator]:
            begin = max(now, self._free[other]) + self._total[other]
            room += max(0, (self._deadline - begin) // self._busy[other] + 1)
        return room
