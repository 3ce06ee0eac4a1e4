"""The search of forest: trees of several kinds and numbers, each scheduled in several orders; the shortest is kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from collc.base.diagnostics import SourceError
from collc.synthesis.forest.candidates import Candidate
from collc.synthesis.forest.pipeline import list_schedule, shared_out, spread_chunks, tree_transfers
from collc.synthesis.forest.problem import ForestProblem, TreeBatch
from collc.synthesis.list_schedule import COMPILED
from collc.synthesis.task import Effort
from collc.ten.schedule import Transfers
from collc.ten.translations import Translations

FIRST_STEPS = 64
"""The steps (see list_schedule) in which each forest is scheduled first."""

OTHER_STEPS = (16, 1 << 20, 4, 128, 32, 256, 8, 1)
"""Those in which the best one is scheduled then."""

WORK = 3_000_000
"""Work of each trial at most, in transfers that are scheduled by compiled code; each takes about a microsecond."""

WORK_AT_LEAST, WORK_EACH = 600_000, 20
"""Work of each trial for small problems: so much, and so much for each transfer of a schedule."""

PLAIN = 4
"""How many times as long plain Python takes."""

FORESTS = Fraction(3, 5)
"""The part of the work after which no more trees are built."""

IMPROVED = 3
"""How many of the best schedules are improved at the end, each TURNS times at most."""

TURNS = 3

MET = 1.001
"""The search ends at a schedule whose time is at most this multiple of what its links need."""


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
        transfers = sum(problem.demand) * len(problem.members) * (1 + summed)
        self._all = self._work = min(WORK, WORK_AT_LEAST + WORK_EACH * transfers) * effort.trials
        self._seen = set[tuple[Forest, int, int]]()
        self._runs: list[tuple[int, Forest, int]] = []
        self._leader = Forest((), None)
        self.best: tuple[int, Transfers] | None = None

    def run(self, candidates: Iterable[Candidate]) -> None:
        """Schedules all candidates, then the best one in other orders, until the work or the time is used up.

        Raises SourceError if the memory limit leaves no room for the trees of any candidate.
        """
        unit = self._problem.unit
        refused: SourceError | None = None
        for candidate in candidates:
            if self._is_over(self._all * (1 - FORESTS)):
                break
            if self.best is not None and (candidate.time * unit >= self.best[0] or candidate.work > self._work):
                continue
            self._spend(candidate.work)
            try:
                trees, time = candidate.build()
            except SourceError as error:
                refused = error
                continue
            if self.best is None or time * unit < self.best[0]:
                batches = tuple(shared_out(trees, self._chunks_for(trees).demand))
                forest = Forest(batches, candidate.translations)
                if self._schedule(forest, FIRST_STEPS):
                    self._leader = forest
        if self.best is None and refused is not None:
            raise refused
        for steps in OTHER_STEPS:
            if self._is_over(self._all // 4):
                break
            self._schedule(self._leader, steps)
        self._runs.sort(key=lambda run: run[0])
        for _, forest, steps in self._runs[:IMPROVED]:
            if self._is_over(0):
                break
            self._schedule(forest, steps, TURNS)

    def _chunks_for(self, batches: Sequence[TreeBatch]) -> ForestProblem:
        """The problem with chunks at the roots of trees; copies begin where they are held."""
        return spread_chunks(self._problem, batches) if self._summed else self._problem

    def _spend(self, work: int) -> None:
        self._work -= work
        self._effort.work.add(work)

    def _is_over(self, reserve: Fraction | int) -> bool:
        """Whether the search is over; not before there is a schedule, unless it is stopped."""
        if self._effort.stop():
            return True
        used_up = self._work <= reserve or self._effort.work.is_used_up
        return self.best is not None and (used_up or self.best[0] <= MET * self._least)

    def _schedule(self, forest: Forest, steps: int, turns: int = 0) -> bool:
        """Whether trees that were not scheduled so before give the shortest schedule so far."""
        if (forest, steps, turns) in self._seen:
            return False
        self._seen.add((forest, steps, turns))
        problem = self._chunks_for(forest.batches)
        transfers = tree_transfers(problem, forest.batches, forest.translations, summed=self._summed)
        self._spend(len(transfers) * (1 + 2 * turns) * (PLAIN if len(transfers) < COMPILED else 1))
        found, end = list_schedule(problem, transfers, steps, turns)
        self._runs.append((end, forest, steps))
        self._effort.progress(min(1.0, max(0.0, 1 - self._work / self._all)), "forest: schedules")
        if self.best is not None and self.best[0] <= end:
            return False
        self.best = end, found
        return True
