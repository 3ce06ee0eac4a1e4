"""Throughput-optimal All-Gather and broadcast on any network (Zhao et al., "ForestColl", arXiv 2402.06787, 2024).

Each chunk has one spanning tree, such that the busiest links carry as few trees as any schedule must
(graph/throughput.py). Reduce-Scatter and reduce are the inverse. All-Reduce is both one after the other, or uses trees
in both directions if this allows more throughput.
"""

from __future__ import annotations

from dataclasses import replace

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.synthesis.conditions import conditions_of
from collc.synthesis.forest.candidates import gather_candidates
from collc.synthesis.forest.counts import tree_counts
from collc.synthesis.forest.portfolio import Portfolio
from collc.synthesis.forest.problem import forest_problem, not_served
from collc.synthesis.forest.summed import summed
from collc.synthesis.reductions.compose import join, solve
from collc.synthesis.task import Effort, Task
from collc.ten.module import Module
from collc.ten.schedule import RowSchedule, Schedule, Transfers

FLOW_WORK, MOST_FLOW_WORK = 5, 100_000
"""Work of the flows that bound the number of trees, for each link and NPU, and at most."""


def plan_forest(module: Module, effort: Effort) -> Module:
    """The module with a schedule, or with solved phases. Raises what forest raises."""
    both = summed(module, effort)
    if both is None:
        return solve(module, lambda task: forest(task, effort))
    best = replace(module, schedule=both, planned=None)
    if effort.stop():
        return best
    apart = join(solve(module, lambda task: forest(task, effort)))
    return min(best, apart, key=Module.collective_time)


def forest(task: Task, effort: Effort) -> Schedule:
    """A schedule of copies along trees.

    Raises SourceError if chunks are not all wanted by all members, have unlike sizes or several holders, if switches
    have limited buffers, if other transfers are planned already, or if no path leads to a member; NoSchedule if it is
    stopped before the first schedule.
    """
    conditions = conditions_of(task)
    if not len(conditions):
        return RowSchedule(task.model, Transfers.concatenate([]))
    problem = forest_problem(conditions)
    effort.progress(0.0, "forest: trees")
    effort.work.add_setup(min(MOST_FLOW_WORK, FLOW_WORK * task.network.link_count * len(problem.members)))
    try:
        counts = tree_counts(problem)
    except ValueError as error:
        message = f"forest finds no trees on {task.network.name}: {error}"
        raise SourceError(Diagnostic("S0103", message, hint="add links, or leave NPUs out of the group")) from error
    except OverflowError as error:
        raise not_served("the rates of its links differ too much") from error
    portfolio = Portfolio(problem, effort, counts[0].time * problem.unit)
    portfolio.run(gather_candidates(problem, counts, effort.stop))
    if portfolio.best is None:
        raise NoSchedule(Diagnostic("S0201", "forest was stopped before it had a schedule", hint="give it more time"))
    return RowSchedule(task.model, portfolio.best[1])
