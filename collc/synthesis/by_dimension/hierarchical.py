"""Hierarchical synthesis, dimension by dimension (Cho et al., "BlueConnect", MLSys 2019).

Chunks spread along the slowest dimension first, so that most copies are made in the fastest; reductions, which are
this run backwards, are scattered up from the fastest dimension to the slowest.
"""

from __future__ import annotations

from collc.synthesis.by_dimension.spread import dimensions_of, slowest_first, spread
from collc.synthesis.conditions import conditions_of
from collc.synthesis.task import Effort, Task
from collc.ten.schedule import Schedule


def hierarchical(task: Task, effort: Effort) -> Schedule:
    """A schedule of copies along the lines of a network of several dimensions; switches are used as they are.

    Raises SourceError where the network has fewer than two dimensions or a postcondition cannot be reached along
    lines, NoSchedule where `effort.stop` asks to stop before.
    """
    conditions = conditions_of(task)
    dimensions = dimensions_of(conditions, "hierarchical")
    order = slowest_first(conditions, dimensions)
    return spread(conditions, dimensions, [order] * len(conditions), effort.stop)
