"""Hierarchical synthesis, dimension by dimension (Cho et al., "BlueConnect", MLSys 2019).

Chunks spread along the slowest dimension first, so that most copies are sent in the fastest one. A reduction, which is
the inverse, goes along the fastest dimension first and along the slowest one last.
"""

from __future__ import annotations

from collc.synthesis.by_dimension.spread import dimensions_of, slowest_first, spread
from collc.synthesis.conditions import conditions_of
from collc.synthesis.task import Effort, Task
from collc.ten.schedule import Schedule


def hierarchical(task: Task, effort: Effort) -> Schedule:
    """A schedule of copies along the lines of a network of several dimensions; switches stay switches.

    Raises SourceError if the network has fewer than two dimensions or lines do not lead to an NPU that wants a
    chunk, NoSchedule if `effort.stop` returns True before there is a schedule.
    """
    conditions = conditions_of(task)
    dimensions = dimensions_of(conditions, "hierarchical")
    order = slowest_first(conditions, dimensions)
    return spread(conditions, dimensions, [order] * len(conditions), effort.stop)
