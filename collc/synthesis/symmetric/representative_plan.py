"""The plan for what one NPU of a Cayley graph sends, which translations move to all others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from collc.synthesis.symmetric.group import Group
from collc.ten.arrays import Int32Array, Int64Array


@dataclass(frozen=True, eq=False)
class RepresentativePlan:
    """The transfers of what NPU 0 sends, one a row, in any order.

    end: steps in all, or picoseconds. start: when each transfer starts, in the same unit. generator: its link, as a
    generator. sender: the NPU that it leaves. chunk: which chunk of NPU 0: 0 .. chunks - 1 in an All-Gather,
    NPU * chunks + c for the chunks to an NPU in an All-to-All. half: -1 if the translations to all NPUs do it; 0 or 1
    if only those to NPUs of even or odd index along `axis` do. None: all do all.
    """

    end: int
    start: Int32Array | Int64Array
    generator: Int32Array
    sender: Int32Array
    chunk: Int32Array
    half: Int32Array | None = None
    axis: int = 0


@dataclass(frozen=True, eq=False)
class GeneratorTimes:
    """busy, total: int64[generators], picoseconds (or steps) that a link is busy, and until the chunk arrives."""

    busy: Int64Array
    total: Int64Array

    @staticmethod
    def steps(group: Group) -> GeneratorTimes:
        """One step for each transfer."""
        return GeneratorTimes(*np.ones((2, len(group.generators)), np.int64))

    @property
    def step(self) -> int | None:
        """The time of all transfers if it is the same and links are busy until arrival; else None."""
        step = int(self.total[0])
        return step if bool((self.busy == step).all() and (self.total == step).all()) else None


def started_early(group: Group, plan: RepresentativePlan, times: GeneratorTimes, *, stays: bool) -> RepresentativePlan:
    """A plan in steps with each transfer as early as the order on its generator allows.

    Transfers of both halves of the NPUs on one generator in one step stay together. stays: whether a chunk stays with
    those that pass it on.
    """
    order = np.lexsort((plan.generator, plan.start))
    half = np.full(len(order), -1, np.int32) if plan.half is None else plan.half
    target = group.successors[plan.generator, plan.sender]
    columns = (plan.start, plan.generator, plan.sender if stays else half, plan.chunk, target if stays else half)
    rows: list[tuple[int, ...]] = np.stack([column[order].astype(np.int64) for column in columns], axis=1).tolist()
    busy: list[int] = times.busy.tolist()
    total: list[int] = times.total.tolist()
    free = [0] * len(busy)
    there: dict[tuple[int, int], int] = {}
    start: list[int] = []
    end = 0
    for (_, generator), transfers in groupby(rows, key=lambda row: (row[0], row[1])):
        together = list(transfers)
        now = max(free[generator], *(there.get((at, chunk), 0) for _, _, at, chunk, _ in together))
        free[generator] = now + busy[generator]
        end = max(end, now + total[generator])
        for _, _, _, chunk, to in together:
            there[to, chunk] = now + total[generator]
            start.append(now)
    when = np.empty(len(order), np.int64)
    when[order] = start
    return replace(plan, end=end, start=when)
