"""How many trees begin at each member: one for each chunk, or fewer that carry several chunks each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from collc.graph.distances import distances_to
from collc.graph.throughput import tree_capacities
from collc.synthesis.forest.problem import ForestProblem
from collc.ten.arrays import Int64Array

NEAR = Fraction(23, 20)
"""Numbers of trees whose links need more than this multiple of the least time are left out."""

MOST_SUMMED = 1024
"""Trees at most that are used up and down."""

SUMMED = 4
"""Numbers of such trees that are tried."""


@dataclass(frozen=True, eq=False)
class TreeCount:
    """How many trees, and their load.

    demand: by member, trees that begin there. carried: by pair of devices, trees that it can carry. duration, time:
    until the busiest pair has carried a chunk for each tree, and all chunks, in units of 1 / capacity.
    """

    demand: list[int]
    carried: Int64Array
    duration: Fraction
    time: Fraction


def tree_counts(problem: ForestProblem) -> list[TreeCount]:
    """One tree for each chunk, for two, four and so on; those with the least load first.

    Left out are those that need no fewer trees than others with as little load. The time of the first one is a lower
    bound of all schedules of these chunks. Raises ValueError if no path leads from a member with chunks to another,
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


def summed_counts(problem: ForestProblem, rate: Fraction) -> list[TreeCount]:
    """Trees that are used up and down, at most MOST_SUMMED, rooted at the members with the shortest paths to all.

    rate: of the buffer, see reduce_rate. Numbers near that of the members come first: many trees share the load evenly,
    but each has fewer chunks to pass on one after another.
    """
    total, members = sum(problem.demand), len(problem.members)
    roots = _central(problem)
    found: list[TreeCount] = []
    pieces = 1
    while pieces < 2 * total:
        trees = -(-total // pieces)
        if trees <= MOST_SUMMED:
            duration = Fraction(trees) / rate
            carried = np.array([-(-width * duration.numerator // duration.denominator) for width in problem.capacity])
            demand = np.bincount(roots[np.arange(trees) % len(roots)], minlength=members).tolist()
            found.append(TreeCount(demand, carried.astype(np.int64), duration, duration * pieces))
        pieces *= 2
    return sorted(found, key=lambda count: abs(math.log2(sum(count.demand) / members)))[:SUMMED]


def _central(problem: ForestProblem) -> Int64Array:
    """Numbers of the members with the least time from the farthest member."""
    time = problem.total[problem.links[1][problem.links[0][:-1]]]
    farthest = distances_to(problem.graph, np.maximum(1, time), problem.members).max(axis=0)[problem.members]
    return np.flatnonzero(farthest == farthest.min())
