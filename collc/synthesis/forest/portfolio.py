"""The search of forest: several numbers of trees, each scheduled in several orders; the shortest schedule is kept.

Few trees load the links less evenly than many, but are fewer unlike trees, which schedule better: All-Gather of 1 GiB
in 256 chunks on two nodes of A100 reaches 0.984 of the optimum with 256 trees a root, and 0.997 with 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from collc.graph.throughput import tree_capacities
from collc.kernels.compiled import is_compiled
from collc.kernels.tree_pipeline import run_trees
from collc.synthesis.forest.pipeline import list_schedule, shared_out, tree_transfers
from collc.synthesis.forest.problem import ForestProblem
from collc.synthesis.forest.trees import TreeBatch, forest_trees
from collc.synthesis.task import Effort
from collc.ten.arrays import Int64Array
from collc.ten.schedule import Transfers

FIRST_STEPS = 64
"""The steps (see list_schedule) in which each number of trees is scheduled first."""

OTHER_STEPS = (1 << 20, 256, 128, 32, 16, 8, 4, 1)
"""Those in which the best number of trees is scheduled then."""

NEAR = Fraction(23, 20)
"""Numbers of trees whose links need more than so many times the least time are not scheduled."""

WORK = 2_500_000
"""Transfers that are scheduled at most for each trial, beyond the first schedule."""

COMPILED = 20_000
"""Transfers from which schedules are made by compiled code."""


@dataclass(frozen=True, eq=False)
class TreeCount:
    """demand: by member, trees that begin there. carried: by pair of devices, trees that it can carry. time: until the
    busiest pair has carried all chunks, in units of 1 / capacity.
    """

    demand: list[int]
    carried: Int64Array
    time: Fraction


def tree_counts(problem: ForestProblem) -> list[TreeCount]:
    """One tree for each chunk, for two, four and so on; those with the least load first.

    Raises ValueError where no path leads from a member with chunks to another.
    """
    found: list[TreeCount] = []
    pieces = 1
    while pieces < 2 * max(problem.demand):
        demand = [-(-chunks // pieces) for chunks in problem.demand]
        carried, time = tree_capacities(problem.graph, problem.capacity, problem.members.tolist(), demand)
        found.append(TreeCount(demand, carried, time * pieces))
        pieces *= 2
    found.sort(key=lambda count: (count.time, sum(count.demand)))
    return [count for count in found if count.time <= NEAR * found[0].time]


class Portfolio:
    """The shortest schedule of those that were made."""

    def __init__(self, problem: ForestProblem, effort: Effort) -> None:
        self._problem, self._effort = problem, effort
        self._work = WORK * effort.trials
        self._compiled = False
        self._seen = set[tuple[tuple[TreeBatch, ...], int]]()
        self.best: tuple[int, Transfers] | None = None

    def run(self, counts: list[TreeCount]) -> None:
        """Schedules trees of all numbers, then the best ones in other orders, until the work or the time is used up.

        Raises SourceError as forest_trees does.
        """
        leader: tuple[TreeBatch, ...] = ()
        for count in counts:
            if self._ended() or (self.best is not None and count.time * self._problem.unit >= self.best[0]):
                break
            trees = forest_trees(self._problem, count.demand, count.carried)
            batches = tuple(shared_out(trees, self._problem.demand))
            if self._schedule(batches, FIRST_STEPS):
                leader = batches
        for steps in OTHER_STEPS:
            if self._ended():
                break
            self._schedule(leader, steps)

    def _ended(self) -> bool:
        """Whether the search is over; not before there is a schedule, unless it is stopped."""
        return self._effort.stop() or (self.best is not None and self._work <= 0)

    def _schedule(self, batches: tuple[TreeBatch, ...], steps: int) -> bool:
        """Whether batches of trees that were not scheduled before give the shortest schedule so far."""
        if (batches, steps) in self._seen:
            return False
        self._seen.add((batches, steps))
        transfers = tree_transfers(self._problem, batches)
        self._compiled = self._compiled or is_compiled(run_trees) or len(transfers) >= COMPILED
        self._work -= len(transfers)
        found, end = list_schedule(self._problem, transfers, steps, self._compiled)
        if self.best is not None and self.best[0] <= end:
            return False
        self.best = end, found
        self._effort.progress(max(0.0, 1 - self._work / (WORK * self._effort.trials)), "forest: schedules")
        return True
