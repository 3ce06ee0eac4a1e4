"""The search of forest: trees of several kinds and numbers, each scheduled in several orders; the shortest is kept.

The order decides how much of the throughput of the trees a schedule reaches: which transfer goes first when several
wait for a link. Measured as the share of the optimum, for an All-Gather of 1 GiB in 256 chunks on two nodes of MI250:
0.74 for first come first served; 0.66 for the longest remaining path first; and 0.98 for chunks by their number in
their batch of trees and, among equal numbers, the longest remaining path first.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collc.base.diagnostics import NoSchedule, SourceError
from collc.synthesis.forest.problem import ForestProblem, TreeBatch
from collc.synthesis.forest.trees import ENOUGH, Candidate
from collc.synthesis.list_schedule import TASK_WORK, TURNS, Tasks, best_starts
from collc.synthesis.task import COMPILED_TIMES, TRIAL_WORK, Effort
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.factored_schedule import Translations
from collc.ten.schedule import Transfers

STEPS = (64, 16, 1 << 20, 4, 128, 32, 256, 8, 1)
"""The steps (see list_schedule) in which each forest is scheduled first, and those in which the best ones are then."""

IMPROVED = 3
"""How many of the best schedules are tried in other steps, and then backwards and forwards (see best_starts)."""


@dataclass(frozen=True, slots=True)
class Forest:
    """One tree for each chunk. translations: those that take the trees given to all others; None if all are given."""

    batches: tuple[TreeBatch, ...]
    translations: Translations | None


class Portfolio:
    """The shortest schedule of those that were made.

    least: picoseconds that links need at least. summed: whether chunks are reduced over their trees before they are
    copied.
    """

    def __init__(self, problem: ForestProblem, effort: Effort, least: Fraction, summed: bool = False) -> None:
        self._problem, self._effort, self._least, self._summed = problem, effort, float(least), summed
        self._work = TRIAL_WORK * effort.trials + effort.work.spent - effort.work.setup
        self._seen = set[tuple[Forest, int, int]]()
        self._runs: list[tuple[int, Forest, int]] = []
        self.best: tuple[int, Transfers] | None = None

    def run(self, candidates: Iterable[Candidate]) -> None:
        """Schedules all candidates, then the best one in other orders, until the work or the time is used up.

        Each stage may take half of the work that is left, the last one all. A candidate that takes more is built only
        if all do, and it takes the least. Raises SourceError if the memory limit leaves no room for any trees.
        """
        unit, reserve = self._problem.unit, self._work_left // 2
        refused: SourceError | None = None
        smallest: tuple[int, Candidate] | None = None
        for candidate in candidates:
            if self._is_over(reserve):
                break
            work = candidate[0].work(candidate[1]) // COMPILED_TIMES
            if self.best is not None and candidate[1].time * unit >= self.best[0]:
                continue
            if work > self._work_left:
                smallest = (work, candidate) if smallest is None or work < smallest[0] else smallest
                continue
            refused = self._build(candidate, work) or refused
        if self.best is None and smallest is not None and not self._effort.stop():
            refused = self._build(smallest[1], smallest[0]) or refused
        if self.best is None and refused is not None:
            raise refused
        reserve = self._work_left // 2
        for (_, forest, _), steps in product(self._best_runs(), STEPS[1:]):
            if self._is_over(reserve):
                break
            self._schedule(forest, steps)
        for _, forest, steps in self._best_runs():
            if self._is_over(0):
                break
            self._schedule(forest, steps, TURNS)

    def _best_runs(self) -> list[tuple[int, Forest, int]]:
        return sorted(self._runs, key=lambda run: run[0])[:IMPROVED]

    def _build(self, candidate: Candidate, work: int) -> SourceError | None:
        """Grows the trees of a candidate and schedules them; the error if memory leaves no room for them.

        work: of one series of rounds, about. More counts, but not for how many candidates this search tries.
        """
        grown, count, shallow = candidate
        self._effort.work.add(work)
        if self._effort.work.is_exceeded:
            return None
        try:
            trees, time = grown.trees(count, shallow, self._effort.work.remainder)
        except NoSchedule:
            self._effort.work.add(self._effort.work.remainder or 0)
            return None
        except SourceError as error:
            return error
        others = max(0, grown.spent - work)
        self._work += others
        self._effort.work.add(others)
        if self.best is None or time * self._problem.unit < self.best[0]:
            batches = tuple(shared_out(trees, self._chunks_for(trees).demand))
            self._schedule(Forest(batches, grown.translations), STEPS[0])
        return None

    def _chunks_for(self, batches: Sequence[TreeBatch]) -> ForestProblem:
        """The problem with chunks at the roots of trees; copies begin at their holders."""
        return spread_chunks(self._problem, batches) if self._summed else self._problem

    @property
    def _work_left(self) -> int:
        """The work that is left."""
        return self._work - self._effort.work.spent + self._effort.work.setup

    def _is_over(self, reserve: int) -> bool:
        """Whether the search is over; not before there is a schedule, unless it is stopped."""
        if self._effort.stop():
            return True
        used_up = self._work_left <= reserve or self._effort.work.is_used_up
        return self.best is not None and (used_up or self.best[0] <= ENOUGH * self._least)

    def _schedule(self, forest: Forest, steps: int, turns: int = 0) -> None:
        """Schedules trees, if they were not scheduled so before, and keeps the shortest schedule."""
        if (forest, steps, turns) in self._seen:
            return
        self._seen.add((forest, steps, turns))
        problem = self._chunks_for(forest.batches)
        self._effort.work.add(TASK_WORK * len(forest.batches) * len(problem.members) * (1 + self._summed))
        if self._effort.work.is_exceeded:
            return
        transfers = tree_transfers(problem, forest.batches, forest.translations, summed=self._summed)
        rows, end = list_schedule(problem, transfers, steps, turns, self._effort)
        if not self._effort.work.is_exceeded:
            self._runs.append((end, forest, steps))
            self._effort.progress(min(1.0, max(0.0, 1 - self._work_left / self._work)), "forest: schedules")
            if self.best is None or end < self.best[0]:
                self.best = end, rows


@dataclass(frozen=True, eq=False)
class TreeTransfers:
    """The transfers of all chunks along their trees.

    pair: of devices that each transfer joins; -1 for the sum of a chunk at its root, which is no transfer. reduced:
    whether the receiver adds up. row: of the conditions. progress: which part of its batch comes before the middle of
    the chunk. remaining: picoseconds from the start of the transfer to the last arrival that follows from it. number:
    decides between equals. before, after: int64[edges], transfers that follow each other.
    """

    pair: Int64Array
    reduced: BoolArray
    row: Int64Array
    progress: NDArray[np.float64]
    remaining: Int64Array
    number: Int64Array
    before: Int64Array
    after: Int64Array

    def __len__(self) -> int:
        return len(self.pair)


@dataclass(frozen=True, slots=True)
class OneTree:
    """The transfers of one chunk; each has a higher number than those that it follows.

    pairs: of devices; -1 for the sum. reduced: the number of the first transfers that reduce. edges: (transfer, one
    that follows it).
    """

    pairs: list[int]
    reduced: int
    edges: list[tuple[int, int]]


def tree_transfers(
    problem: ForestProblem,
    batches: Sequence[TreeBatch],
    translations: Translations | None = None,
    *,
    summed: bool = False,
) -> TreeTransfers:
    """The transfers of all chunks.

    batches: one tree for each chunk, for each member in the order of its chunks. translations: take the trees given to
    all others; then each link is best used in the order of the transfers of a tree. summed: whether
    chunks are reduced over their trees before they are copied.
    """
    time = problem.total[problem.fastest].tolist()
    used = [0] * len(problem.members)
    columns: list[tuple[NDArray[Any], ...]] = []
    edges: list[Int64Array] = []
    done = 0
    for batch in batches:
        tree = _one_tree(batch, int(problem.members[batch.root]), problem, summed)
        size, begin = len(tree.pairs), used[batch.root]
        used[batch.root] += batch.amount
        roots, pairs = _images(problem, batch.root, tree.pairs, translations)
        chunks = np.stack([problem.chunks[root][begin : begin + batch.amount] for root in roots])
        count = chunks.size
        progress = (np.arange(batch.amount) + 0.5) / batch.amount
        columns.append((
            np.repeat(pairs, batch.amount, axis=0).ravel(),
            np.tile(np.arange(size) < tree.reduced, count).astype(np.int64),
            np.repeat(chunks.astype(np.int64).ravel(), size),
            np.repeat(np.tile(progress, len(roots)), size),
            np.tile(_remaining_times(tree, time), count),
            done + np.arange(size * count) if translations is None else np.tile(np.arange(size), count),
        ))  # fmt: skip
        first = done + np.arange(count)[:, None, None] * size
        edges.append((np.array(tree.edges, np.int64).reshape(-1, 2) + first).reshape(-1, 2))
        done += size * count
    pair, reduced, row, progress, remaining, number = (np.concatenate(rows) for rows in zip(*columns, strict=True))
    before, after = np.concatenate(edges).T
    return TreeTransfers(pair, reduced.astype(np.bool_), row, progress, remaining, number, before, after)


def _images(
    problem: ForestProblem, root: int, pairs: list[int], translations: Translations | None
) -> tuple[list[int], Int64Array]:
    """The roots of a tree and its translations, and int64[trees, pairs], the pairs of each."""
    if translations is None:
        return [root], np.array([pairs], np.int64)
    roots = np.searchsorted(problem.members, translations.device_images(int(problem.members[root])))
    links = np.stack([translations.link_images(link) for link in problem.fastest[pairs].tolist()], axis=1)
    return roots.tolist(), problem.pair[links].astype(np.int64)


def shared_out(batches: Sequence[TreeBatch], chunks: list[int]) -> Iterator[TreeBatch]:
    """The batches with trees replaced by chunks: the chunks of each member in proportion to its trees."""
    trees, before = [0] * len(chunks), [0] * len(chunks)
    for batch in batches:
        trees[batch.root] += batch.amount
    for batch in batches:
        first = before[batch.root] * chunks[batch.root] // trees[batch.root]
        before[batch.root] += batch.amount
        amount = before[batch.root] * chunks[batch.root] // trees[batch.root] - first
        if amount:
            yield replace(batch, amount=amount)


def spread_chunks(problem: ForestProblem, batches: Sequence[TreeBatch]) -> ForestProblem:
    """The problem with its chunks at the roots of trees, independent of their holders, in proportion to the trees."""
    trees = np.zeros(len(problem.members), np.int64)
    for batch in batches:
        trees[batch.root] += batch.amount
    rows = np.sort(np.concatenate(problem.chunks))
    ends = np.cumsum(trees) * len(rows) // int(trees.sum())
    return replace(problem, chunks=tuple(np.split(rows, ends[:-1])))


def _one_tree(batch: TreeBatch, root: int, problem: ForestProblem, summed: bool) -> OneTree:
    """A chunk is copied from the root to all members; if summed, it is reduced along the tree to the root before.

    An NPU outside the group gets a copy once, even if several paths lead over it; a switch does for each path.
    """
    pairs: list[int] = []
    edges: list[tuple[int, int]] = []
    reached = {root: -1}
    if summed:
        arriving: defaultdict[int, list[int]] = defaultdict(list)
        for path in reversed(batch.paths):
            followed = arriving[path[-1]]
            for end, begin in pairwise(reversed(path)):
                edges += [(before, len(pairs)) for before in followed]
                followed = [len(pairs)]
                pairs.append(problem.pair_number[end, begin])
            arriving[path[0]] += followed
        reached[root] = len(pairs)
        edges += [(before, len(pairs)) for before in arriving[root]]
        pairs.append(-1)
    reduced = max(0, reached[root])
    for path in batch.paths:
        start = max(position for position, device in enumerate(path) if device in reached)
        last = reached[path[start]]
        for begin, end in pairwise(path[start:]):
            if last >= 0:
                edges.append((last, len(pairs)))
            last = len(pairs)
            pairs.append(problem.pair_number[begin, end])
            if end < problem.network.npu_count:
                reached[end] = last
    return OneTree(pairs, reduced, edges)


def _remaining_times(one: OneTree, time: list[int]) -> Int64Array:
    duration = [0 if pair < 0 else time[pair] for pair in one.pairs]
    later = [0] * len(duration)
    for before, after in sorted(one.edges, reverse=True):
        later[before] = max(later[before], later[after] + duration[after])
    return np.array(duration, np.int64) + np.array(later, np.int64)


def list_schedule(
    problem: ForestProblem, transfers: TreeTransfers, steps: int, turns: int, effort: Effort
) -> tuple[Transfers, int]:
    """All transfers as early as their links allow, and when the last chunk arrives, in picoseconds.

    Of the transfers that wait for a link, the one whose chunk is in the first step of its batch goes first, and among
    those of one step the one with the longest remaining path. steps: into how many each batch is divided. turns: how
    often the schedule is improved, backwards and forwards (see best_starts). effort: counts the work.
    """
    step = (transfers.progress * steps).astype(np.int64)
    order = np.lexsort((transfers.number, -transfers.remaining, step))
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    pair, reduced = transfers.pair[order], transfers.reduced[order]
    link = _links(problem, pair)
    moved = link >= 0
    busy, total = (np.where(moved, times[link], 0) for times in (problem.busy, problem.total))
    tasks = Tasks(link, busy, total, rank[transfers.before], rank[transfers.after], len(problem.pair))
    schedule = best_starts(tasks, {}, replace(effort, stop=lambda: False), turns)
    assert schedule is not None
    end, start = schedule
    chunk: Int32Array = problem.conditions.chunk[transfers.row[order]]
    return Transfers.of(chunk[moved], link[moved], start[moved], reduced[moved]), end


def _links(problem: ForestProblem, pair: Int64Array) -> Int32Array:
    """A link for each transfer, -1 for sums; parallel links in turns, the wider the more often."""
    first, links = problem.links
    link_of = np.where(pair >= 0, links[first[np.maximum(pair, 0)]], -1).astype(np.int32)
    for several in np.flatnonzero(np.diff(first) > 1).tolist():
        own = links[first[several] : first[several + 1]].tolist()
        turns = [(int(problem.busy[link]), link, int(problem.busy[link])) for link in own]
        for transfer in np.flatnonzero(pair == several).tolist():
            end, link, busy = turns[0]
            link_of[transfer] = link
            heapq.heapreplace(turns, (end + busy, link, busy))
    return link_of
