"""The search of forest: trees of several kinds and numbers, each scheduled in several orders; the shortest is kept.

Few trees load the links less evenly than many, but are fewer unlike trees, which schedule better: All-Gather of 1 GiB
in 256 chunks on two nodes of A100 reaches 0.984 of the optimum with 256 packed trees a root, and 0.997 with 8. For
small buffers shallow trees are better: 16 MiB on four nodes of H100 0.84 with packed trees, 0.97 with rerouted ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from collc.base.diagnostics import SourceError
from collc.synthesis.forest.counts import TreeCount
from collc.synthesis.forest.pipeline import list_schedule, shared_out, tree_transfers
from collc.synthesis.forest.problem import ForestProblem
from collc.synthesis.forest.rerouting import Rerouting
from collc.synthesis.forest.trees import TreeBatch, forest_trees
from collc.synthesis.task import Effort
from collc.synthesis.translations import find_translations
from collc.ten.schedule import Transfers

FIRST_STEPS = 64
"""The steps (see list_schedule) in which each forest is scheduled first."""

OTHER_STEPS = (16, 1 << 20, 4, 128, 32, 256, 8, 1)
"""Those in which the best one is scheduled then."""

SHALLOW = (1024, 256, 4096)
"""How much latency counts when trees are grown; see Rerouting.trees."""

WORK = 3_000_000
"""Work of each trial, in transfers that are scheduled; about a microsecond each in compiled code."""

FORESTS = Fraction(3, 5)
"""The part of the work after which no more trees are built."""

GROWN = 20
"""Edges that rerouting looks at in the time in which one transfer is scheduled."""

MOST_GROWN = 20_000_000
"""Edges that one rerouting may look at."""

IMPROVED = 3
"""How many of the best schedules are improved at the end, each TURNS times at most."""

TURNS = 3

MET = 1.001
"""The search ends at a schedule that is so many times as long as its links need at least."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """Trees that may be built. time: at least, until the busiest pair has carried all chunks. work: to build them."""

    time: Fraction
    work: int
    translated: bool
    build: Callable[[], tuple[list[TreeBatch], float]]


class Portfolio:
    """The shortest schedule of those that were made."""

    def __init__(self, problem: ForestProblem, effort: Effort) -> None:
        self._problem, self._effort = problem, effort
        self._all = self._work = WORK * effort.trials
        self._seen = set[tuple[tuple[TreeBatch, ...], int, int]]()
        self._runs: list[tuple[int, tuple[TreeBatch, ...], bool, int]] = []
        self._leader: tuple[tuple[TreeBatch, ...], bool] = (), False
        self.best: tuple[int, Transfers] | None = None

    def run(self, counts: Sequence[TreeCount]) -> None:
        """Schedules trees of all numbers, then the best ones in other orders, until the work or the time is used up.

        Raises SourceError where no trees are found.
        """
        unit = self._problem.unit
        least = float(counts[0].time * unit)
        failure: SourceError | None = None
        for candidate in self._candidates(counts):
            if self._ended(least, self._all * (1 - FORESTS)):
                break
            if self.best is not None and (candidate.time * unit >= self.best[0] or candidate.work > self._work):
                continue
            self._spend(candidate.work)
            try:
                trees, time = candidate.build()
            except SourceError as error:
                failure = error
                continue
            if self.best is None or time * unit < self.best[0]:
                batches = tuple(shared_out(trees, self._problem.demand))
                if self._schedule(batches, candidate.translated, FIRST_STEPS):
                    self._leader = batches, candidate.translated
        if self.best is None and failure is not None:
            raise failure
        for steps in OTHER_STEPS:
            if self._ended(least, self._all // 4):
                break
            self._schedule(*self._leader, steps)
        self._runs.sort(key=lambda run: run[0])
        for _, batches, translated, steps in self._runs[:IMPROVED]:
            if self._ended(least, 0):
                break
            self._schedule(batches, translated, steps, TURNS)

    def _candidates(self, counts: Sequence[TreeCount]) -> Iterator[Candidate]:
        """Translated trees, rerouted ones, packed ones; of each kind those with the least load first."""
        translations = find_translations(self._problem.network) if self._problem.is_uniform else None
        if translations is not None:
            grown = Rerouting(self._problem, translations)
            yield from (self._rerouted(grown, count, 1024, True) for count in counts)
        grown = Rerouting(self._problem)
        small = [count for count in counts if grown.work(count) <= MOST_GROWN]
        yield from (self._rerouted(grown, count, SHALLOW[0], False) for count in small)
        yield from (self._packed(count) for count in counts)
        for shallow in SHALLOW[1:]:
            yield from (self._rerouted(grown, count, shallow, False) for count in small)

    def _rerouted(self, grown: Rerouting, count: TreeCount, shallow: int, translated: bool) -> Candidate:
        return Candidate(count.time, grown.work(count) // GROWN, translated, lambda: grown.trees(count, shallow))

    def _packed(self, count: TreeCount) -> Candidate:
        problem = self._problem
        return Candidate(
            count.time,
            problem.graph.vertex_count**4 // 1000,
            False,
            lambda: (forest_trees(problem, count.demand, count.carried), float(count.time)),
        )

    def _spend(self, work: int) -> None:
        self._work -= work

    def _ended(self, least: float, reserve: Fraction | int) -> bool:
        """Whether the search is over; not before there is a schedule, unless it is stopped."""
        if self._effort.stop():
            return True
        return self.best is not None and (self._work <= reserve or self.best[0] <= MET * least)

    def _schedule(self, batches: tuple[TreeBatch, ...], translated: bool, steps: int, turns: int = 0) -> bool:
        """Whether batches of trees that were not scheduled before give the shortest schedule so far."""
        if (batches, steps, turns) in self._seen:
            return False
        self._seen.add((batches, steps, turns))
        transfers = tree_transfers(self._problem, batches, translated=translated)
        self._spend(len(transfers) * (1 + 2 * turns))
        found, end = list_schedule(self._problem, transfers, steps, turns)
        self._runs.append((end, batches, translated, steps))
        self._effort.progress(min(1.0, max(0.0, 1 - self._work / self._all)), "forest: schedules")
        if self.best is not None and self.best[0] <= end:
            return False
        self.best = end, found
        return True
