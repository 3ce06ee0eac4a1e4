"""All-Gather on a Cayley graph: how the chunks of NPU 0 spread, with each generator used at most once in a step.

In each step the generators are matched to targets. The more predecessors of a target hold the chunk, the longer the
target can wait, so targets with the fewest such predecessors come first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, distances_from
from collc.graph.matching import greedy_matching
from collc.kernels.compiled import compiled
from collc.kernels.symmetric_gather import gather_by_steps
from collc.synthesis.symmetric.group import Group
from collc.synthesis.symmetric.representative_plan import RepresentativePlan
from collc.synthesis.task import Effort

COMPILED = 500
"""Pairs of a chunk and an NPU from which there is a compiled search, which looks at the first few targets only."""

MATCHED = 10_000
"""The same, up to which generators are matched to as many targets as possible."""

WINDOWS = (1, 4, 16, 64)
"""Of how many targets the compiled search chooses one."""

ROUNDS = 8
"""Rounds with random ties while the bound is not met."""

Priority = Callable[[int, int], tuple[int, ...]]
"""Priority of a target, as a function of (predecessors that hold the chunk, hops from NPU 0); lowest first."""

PRIORITIES: tuple[Priority, ...] = (
    lambda informed, _depth: (informed,),
    lambda informed, depth: (informed, -depth),
    lambda informed, depth: (-depth, informed),
    lambda informed, depth: (informed, depth),
)


def plan_all_gather(group: Group, chunks: int, effort: Effort) -> RepresentativePlan:
    """The best plan of several searches; they end where the bound is met.

    Raises SourceError where the generators do not lead to all NPUs.
    """
    depth = _depths(group) if group.count * chunks <= MATCHED else [0]
    bound = max(-(-(group.count - 1) * chunks // len(group.successors)), *depth)
    best: RepresentativePlan | None = None
    for plan in _plans(group, chunks, depth, effort):
        if best is None or plan.end < best.end:
            best = plan
            effort.progress(min(1.0, bound / max(1, best.end)), "symmetric")
        if best.end <= bound or effort.stop():
            break
    assert best is not None
    return best


def _plans(group: Group, chunks: int, depth: list[int], effort: Effort) -> Iterator[RepresentativePlan]:
    pairs = group.count * chunks
    if pairs >= COMPILED:
        yield from (_by_window(group, chunks, window, None) for window in WINDOWS)
    if pairs <= MATCHED:
        yield from (_by_matching(group, chunks, depth, priority, None) for priority in PRIORITIES)
    for number in range(max(ROUNDS, effort.trials)):
        seed = effort.seed * 1_000_003 + number
        if pairs >= COMPILED:
            yield from (_by_window(group, chunks, window, seed) for window in WINDOWS)
        else:
            for priority in PRIORITIES:
                yield _by_matching(group, chunks, depth, priority, random.Random(seed))


def _by_window(group: Group, chunks: int, window: int, seed: int | None) -> RepresentativePlan:
    """By the compiled kernel; a seed shuffles the generators."""
    order = np.arange(len(group.successors))
    successors = group.successors
    if seed is not None:
        order = np.random.default_rng(seed).permutation(order)
        successors = np.ascontiguousarray(successors[order])
    rows = np.empty((4, (group.count - 1) * chunks), np.int32)
    end = int(compiled(gather_by_steps)(successors, chunks, window, rows))
    if end < 0:
        raise unreachable()
    return RepresentativePlan(end, rows[0], order.astype(np.int32)[rows[1]], rows[2], rows[3])


def _by_matching(
    group: Group, chunks: int, depth: list[int], priority: Priority, ties: random.Random | None
) -> RepresentativePlan:
    """With maximum matchings; `ties` makes the order of equal targets random."""
    rows = np.array(_MatchedSteps(group, chunks, depth, priority, ties).run(), np.int32).reshape(-1, 4).T
    return RepresentativePlan(int(rows[0].max(initial=-1)) + 1, rows[0], rows[1], rows[2], rows[3])


class _MatchedSteps:
    """Spreads chunks step by step. A target is a chunk and an NPU, the number chunk * NPUs + NPU."""

    def __init__(
        self, group: Group, chunks: int, depth: list[int], priority: Priority, ties: random.Random | None
    ) -> None:
        self._count = group.count
        self._successors: list[list[int]] = group.successors.tolist()
        self._predecessors: list[list[int]] = group.predecessors.tolist()
        self._depth, self._priority, self._ties = depth, priority, ties
        self._known = bytearray(self._count * chunks)
        self._informed = [0] * (self._count * chunks)
        self._left = (self._count - 1) * chunks
        self._open: set[int] = set()
        for chunk in range(chunks):
            self._arrive(chunk * self._count)

    def run(self) -> list[tuple[int, int, int, int]]:
        """Rows of (step, generator, sender, chunk). Raises SourceError if links do not lead from each NPU to all
        others.
        """
        rows: list[tuple[int, int, int, int]] = []
        step = 0
        while self._left:
            matched = self._matched()
            if not matched:
                raise unreachable()
            for generator, target in matched:
                chunk, npu = divmod(target, self._count)
                rows.append((step, generator, self._predecessors[generator][npu], chunk))
            for _, target in matched:
                self._arrive(target)
            self._left -= len(matched)
            step += 1
        return rows

    def _arrive(self, target: int) -> None:
        """A target holds its chunk."""
        self._known[target] = 1
        self._open.discard(target)
        npu = target % self._count
        for successors in self._successors:
            there = target - npu + successors[npu]
            self._informed[there] += 1
            if not self._known[there]:
                self._open.add(there)

    def _matched(self) -> list[tuple[int, int]]:
        """Generators with their targets in a step: as many as possible, and those of the first priority if possible."""
        order = sorted(self._open)
        if self._ties is not None:
            self._ties.shuffle(order)
        order.sort(key=lambda target: self._priority(self._informed[target], self._depth[target % self._count]))

        def generators(target: int) -> Iterator[int]:
            npu = target % self._count
            for generator, predecessors in enumerate(self._predecessors):
                if self._known[target - npu + predecessors[npu]]:
                    yield generator

        return sorted(greedy_matching(order, generators, len(self._successors)).items())


def _depths(group: Group) -> list[int]:
    """Hops from NPU 0 to each NPU; -1 where the generators do not lead."""
    source = np.tile(np.arange(group.count, dtype=np.int32), len(group.successors))
    graph = Digraph(group.count, source, group.successors.reshape(-1))
    start = np.full(group.count, UNREACHABLE)
    start[0] = 0
    depth = distances_from(graph, np.ones(graph.edge_count, np.int64), start)
    return np.where(depth < UNREACHABLE, depth, -1).tolist()


def unreachable() -> SourceError:
    """The error where the generators do not lead to all NPUs."""
    return SourceError(
        Diagnostic("S0303", "links do not lead from each NPU to all others", hint="add links, or use smaller groups")
    )
