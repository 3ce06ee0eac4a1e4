"""All-Gather on a Cayley graph: how what NPU 0 sends spreads to all, each generator used at most once in a step.

In each step the generators are matched to targets: the more in-neighbours a target has that hold the chunk,
the longer it can wait, so targets with the fewest come first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.synthesis.symmetric.group import Group
from collc.synthesis.symmetric.plan import Plan
from collc.synthesis.task import Effort

COMPILED = 500
"""Pairs of a chunk and an NPU from which the search is compiled, and looks at the first few targets only."""

MATCHED = 10_000
"""The same up to which the generators are matched at best."""

WINDOWS = (1, 4, 16, 64)
"""Of how many targets the compiled search picks one."""

ROUNDS = 8
"""Rounds with random ties while the bound is not met."""

Row = tuple[int, int, int, int]
Key = Callable[[int, int], tuple[int, ...]]

RULES: tuple[Key, ...] = (
    lambda informed, _depth: (informed,),
    lambda informed, depth: (informed, -depth),
    lambda informed, depth: (-depth, informed),
    lambda informed, depth: (informed, depth),
)
"""Which targets come first, by how many of their in-neighbours hold the chunk and how far they are from NPU 0."""


def gather(group: Group, chunks: int, effort: Effort) -> Plan:
    """The best plan of a small portfolio; the search ends where the bound is met.

    Raises SourceError where the generators do not lead to all NPUs.
    """
    depth = _depths(group) if group.count * chunks <= MATCHED else [0]
    least = max(-(-(group.count - 1) * chunks // len(group.ahead)), *depth)
    best: Plan | None = None
    for plan in _portfolio(group, chunks, depth, effort):
        if best is None or plan.end < best.end:
            best = plan
        if best.end <= least or effort.stop():
            break
    assert best is not None
    return best


def _portfolio(group: Group, chunks: int, depth: list[int], effort: Effort) -> Iterator[Plan]:
    pairs = group.count * chunks
    rounds = range(max(ROUNDS, effort.trials))
    if pairs >= COMPILED:
        yield from (_spread(group, chunks, window, None) for window in WINDOWS)
    if pairs <= MATCHED:
        yield from (_match(group, chunks, depth, rule, None) for rule in RULES)
    for number in rounds:
        seed = effort.seed * 1_000_003 + number
        if pairs >= COMPILED:
            yield from (_spread(group, chunks, window, seed) for window in WINDOWS)
        else:
            yield from (_match(group, chunks, depth, rule, random.Random(seed)) for rule in RULES)


def _spread(group: Group, chunks: int, window: int, seed: int | None) -> Plan:
    """By the compiled kernel; a seed shuffles the generators."""
    from collc.kernels.symmetric_spread import spread

    order = np.arange(len(group.ahead))
    ahead = group.ahead
    if seed is not None:
        order = np.random.default_rng(seed).permutation(order)
        ahead = np.ascontiguousarray(ahead[order])
    rows = np.empty((4, (group.count - 1) * chunks), np.int32)
    end = int(spread(ahead, chunks, window, rows))
    if end < 0:
        raise unreachable()
    return Plan(end, rows[0], order.astype(np.int32)[rows[1]] if seed is not None else rows[1], rows[2], rows[3])


def _match(group: Group, chunks: int, depth: list[int], rule: Key, ties: random.Random | None) -> Plan:
    """In plain Python, with maximum matchings; `ties` makes them random."""
    search = _Matching(group, chunks, depth, rule, ties)
    rows = np.array(search.run(), np.int32).reshape(-1, 4).T
    return Plan(int(rows[0].max(initial=-1)) + 1, rows[0], rows[1], rows[2], rows[3])


class _Matching:
    """Spreads chunks step by step; a target is the number chunk * NPUs + NPU."""

    def __init__(self, group: Group, chunks: int, depth: list[int], rule: Key, ties: random.Random | None) -> None:
        self._count = group.count
        self._ahead: list[list[int]] = group.ahead.tolist()
        self._behind: list[list[int]] = group.behind.tolist()
        self._depth, self._rule, self._ties = depth, rule, ties
        self._known = bytearray(self._count * chunks)
        self._informed = [0] * (self._count * chunks)
        self._left = (self._count - 1) * chunks
        self._open: set[int] = set()
        for chunk in range(chunks):
            self._settle(chunk * self._count)

    def run(self) -> list[Row]:
        """Rows of (step, generator, sender, chunk)."""
        rows: list[Row] = []
        step = 0
        while self._left:
            chosen = self._step()
            if not chosen:
                raise unreachable()
            for generator, target in chosen:
                chunk, npu = divmod(target, self._count)
                rows.append((step, generator, self._behind[generator][npu], chunk))
            for _, target in chosen:
                self._settle(target)
            self._left -= len(chosen)
            step += 1
        return rows

    def _settle(self, target: int) -> None:
        """Books that a target holds its chunk."""
        self._known[target] = 1
        self._open.discard(target)
        npu = target % self._count
        for ahead in self._ahead:
            there = target - npu + ahead[npu]
            self._informed[there] += 1
            if not self._known[there]:
                self._open.add(there)

    def _step(self) -> list[tuple[int, int]]:
        """Generators with their targets: as many as can be matched, those that the rule puts first if they can be."""
        order = sorted(self._open)
        if self._ties is not None:
            self._ties.shuffle(order)
        order.sort(key=lambda target: self._rule(self._informed[target], self._depth[target % self._count]))
        taken: dict[int, int] = {}
        for target in order:
            if self._augment(target, taken, set()) and len(taken) == len(self._ahead):
                break
        return sorted(taken.items())

    def _augment(self, target: int, taken: dict[int, int], seen: set[int]) -> bool:
        """Whether a target finds a generator, others making room."""
        npu = target % self._count
        for generator, behind in enumerate(self._behind):
            if generator not in seen and self._known[target - npu + behind[npu]]:
                seen.add(generator)
                if generator not in taken or self._augment(taken[generator], taken, seen):
                    taken[generator] = target
                    return True
        return False


def _depths(group: Group) -> list[int]:
    """Hops from NPU 0 to each NPU."""
    ahead: list[list[int]] = group.ahead.tolist()
    depth = [-1] * group.count
    depth[0] = 0
    queue = [0]
    for npu in queue:
        for row in ahead:
            if depth[row[npu]] < 0:
                depth[row[npu]] = depth[npu] + 1
                queue.append(row[npu])
    return depth


def unreachable() -> SourceError:
    """What is raised where the generators do not lead to all NPUs."""
    return SourceError(
        Diagnostic("S0303", "links do not lead from each NPU to all others", hint="add links, or use smaller groups")
    )
