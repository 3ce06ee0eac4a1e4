"""Schedules with the fewest steps, by Z3, for small problems (Cai et al., SCCL, PPoPP 2021).

For each number of steps, from the lower bound up, Z3 is asked for a schedule. The first one that exists has the fewest
steps, since every smaller number was refuted.
"""

from __future__ import annotations

from time import monotonic

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.graph.digraph import Digraph
from collc.graph.distances import distances_to
from collc.smt.script import Undecided
from collc.synthesis.bounds import task_bound
from collc.synthesis.conditions import Conditions, conditions_of, equal_transfers
from collc.synthesis.exact.search import StepSearch, allowed
from collc.synthesis.task import Effort, Task
from collc.ten.schedule import RowSchedule, Schedule, Transfers


class NoShorter(NoSchedule):
    """Z3 has shown that no schedule has as few steps as requested."""


def exact(
    task: Task, effort: Effort, timeout: float | None = None, most: int | None = None, work: int | None = None
) -> Schedule:
    """A schedule that is proved to have the fewest steps.

    timeout: seconds for the whole search; None: the time limit of the effort, or a minute. most: the largest number of
    steps to try. work: Z3's resource limit for each number of steps (see SolverLimits). Raises SourceError if transfers
    take different times, links are reserved, chunks are available late, or the network has switches; NoSchedule at the
    time limit; NoShorter if more than `most` steps are needed.
    """
    conditions = conditions_of(task)
    if not len(conditions):
        return RowSchedule(task.model, Transfers.joined([]))
    require_steps(conditions)
    step = int(conditions.clock.total.max())
    farthest_hops(conditions)
    end = monotonic() + (allowed(effort) if timeout is None else timeout)
    search = StepSearch.of(conditions, effort)
    steps = max(1, -(-task_bound(task).time // step))
    while most is None or steps <= most:
        effort.progress(0.0, f"exact: looking for {steps} steps")
        try:
            found = search.ask(steps, end, work)
        except Undecided as why:
            within = f"within {timeout:g} s" if timeout is not None and monotonic() >= end else str(why)
            message = f"no schedule was found {within}; none exists with fewer than {steps} steps"
            hint = "give it more time, or use another synthesizer"
            raise NoSchedule(Diagnostic("S0201", message, hint=hint)) from why
        if found is not None:
            return RowSchedule(task.model, found)
        steps += 1
    raise NoShorter(Diagnostic("S0201", f"there is no schedule of {most} steps: it takes at least {steps}"))


def farthest_hops(conditions: Conditions) -> int:
    """The largest number of hops from the nearest holder of a chunk to an NPU that must receive it.

    Raises SourceError if there is no path.
    """
    network = conditions.task.network
    one = np.ones(network.link_count, np.int64)
    return int(conditions.farthest(distances_to(Digraph.of(network), one, conditions.targets)).max())


def require_steps(conditions: Conditions) -> None:
    """Raise SourceError unless transfers take equal time, links are direct, and links and chunks are free at 0."""
    task = conditions.task
    network = task.network
    reason = ""
    if not equal_transfers(conditions):
        reason = "links and chunks that all take equal time, with link model 'store'"
    elif network.has_switches:
        reason = "direct links; unwind the switches"
    elif conditions.release.any() or (task.reserved is not None and len(task.reserved)):
        reason = "all links and chunks free from the start"
    if reason:
        raise SourceError(Diagnostic("S0304", f"exact search needs {reason}", hint="use auto, tacos or pccl instead"))
