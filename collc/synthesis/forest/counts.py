"""How many trees begin at each member: one for each chunk, or fewer that carry several chunks each."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from collc.graph.throughput import tree_capacities
from collc.synthesis.forest.problem import ForestProblem
from collc.ten.arrays import Int64Array

NEAR = Fraction(23, 20)
"""Numbers of trees whose links need more than so many times the least time are left out."""


@dataclass(frozen=True, eq=False)
class TreeCount:
    """How many trees, and their load.

    demand: by member, trees that begin there. carried: by pair of devices, trees that it can carry. tree_time: of one
    tree on a pair of capacity 1. time: until the busiest pair has carried all chunks, in units of 1 / capacity.
    """

    demand: list[int]
    carried: Int64Array
    tree_time: Fraction
    time: Fraction


def tree_counts(problem: ForestProblem) -> list[TreeCount]:
    """One tree for each chunk, for two, four and so on; those with the least load first.

    Left out are those that need no fewer trees than others with as little load. The time of the first one is a lower
    bound of all schedules of these chunks. Raises ValueError where no path leads from a member with chunks to another,
    OverflowError as tree_capacities does.
    """
    found: list[TreeCount] = []
    pieces = 1
    while pieces < 2 * max(problem.demand):
        demand = [-(-chunks // pieces) for chunks in problem.demand]
        carried, time = tree_capacities(problem.graph, problem.capacity, problem.members.tolist(), demand)
        found.append(TreeCount(demand, carried, time, time * pieces))
        pieces *= 2
    found.sort(key=lambda count: (count.time, sum(count.demand)))
    kept: list[TreeCount] = []
    for count in found:
        if count.time <= NEAR * found[0].time and (not kept or sum(count.demand) < sum(kept[-1].demand)):
            kept.append(count)
    return kept
