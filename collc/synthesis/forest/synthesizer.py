"""Throughput-optimal All-Gather and broadcast on any network (Zhao et al., "ForestColl", arXiv 2402.06787, 2024).

Each chunk has one spanning tree, such that the busiest links carry as few trees as any schedule must
(graph/throughput.py). Reduce-Scatter and reduce are the inverse. All-Reduce is both one after the other, or uses trees
in both directions if this allows more throughput: if NPUs differ in bandwidth, a Reduce-Scatter and then an All-Gather
leave links idle, and the bound of all partitions of the NPUs (reduce_rate) allows up to twice the rate. Trees that load
both directions of their links alike, used for partials and sums of different chunks at once, come near it (Tutte 1961,
Nash-Williams 1961: packing of undirected spanning trees).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from collc.base.diagnostics import CollcError, Diagnostic, NoSchedule, SourceError
from collc.graph.throughput import gather_rate, reduce_rate
from collc.synthesis.conditions import conditions_of
from collc.synthesis.forest.problem import ForestProblem, forest_problem, not_served
from collc.synthesis.forest.schedules import Portfolio
from collc.synthesis.forest.trees import gather_candidates, least_work, summed_candidates, summed_counts, tree_counts
from collc.synthesis.reductions.compose import join, solve, split
from collc.synthesis.task import COMPILED_TIMES, Effort, Task
from collc.ten.module import Module
from collc.ten.schedule import RowSchedule, Schedule, Transfers


def plan_forest(module: Module, effort: Effort) -> Module:
    """The module with a schedule, or with solved phases. Raises what forest raises."""
    both = plan_summed(module, effort)
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
    pairs = task.network.link_count * len(problem.members)
    effort.work.add_setup(pairs // COMPILED_TIMES)
    least = least_work(problem) // COMPILED_TIMES
    if effort.work.remainder is not None and least >= effort.work.remainder:
        effort.work.add(least)
    if effort.stop():
        raise _no_schedule()
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
        raise _no_schedule()
    return RowSchedule(task.model, portfolio.best[1])


def _no_schedule() -> NoSchedule:
    return NoSchedule(Diagnostic("S0201", "forest was stopped before it had a schedule", hint="give it more time"))


def plan_summed(module: Module, effort: Effort) -> Schedule | None:
    """A schedule of one All-Reduce over trees used both ways; None if it promises no gain or does not apply."""
    problem = _problem(module)
    if problem is None:
        return None
    members = problem.members.tolist()
    effort.work.add_setup(len(problem.capacity) * len(members) // COMPILED_TIMES)
    if effort.stop():
        raise _no_schedule()
    try:
        apart = gather_rate(problem.graph, problem.capacity, members).rate * len(members) / 2
        together = reduce_rate(problem.graph, problem.capacity, members).rate
    except (ValueError, OverflowError):
        return None
    if together <= apart:
        return None
    counts = summed_counts(problem, together)
    portfolio = Portfolio(problem, effort, min(count.time for count in counts) * problem.unit, summed=True)
    portfolio.run(summed_candidates(problem, counts, effort.stop))
    return None if portfolio.best is None else RowSchedule(module.model, portfolio.best[1])


def _problem(module: Module) -> ForestProblem | None:
    """The All-Gather of a module that is one All-Reduce, over links that lead both ways at one rate."""
    standards = [run.standard for run in module.demand.runs]
    network = module.network
    is_all_reduce = len(standards) == 1 and standards[0] is not None and standards[0].kind == "all_reduce"
    if not is_all_reduce or module.schedule is not None or bool(network.reduces.any()):
        return None
    copies = split(module)[-1].module
    chunks = np.arange(len(copies.demand.chunks), dtype=np.int32)
    try:
        problem = forest_problem(conditions_of(Task(network, copies.demand, module.model, chunks)))
    except CollcError:
        return None
    if len(problem.members) < len(network.npus):
        return None  # two paths of a tree may lead over an NPU outside the group, which would add up their partials
    lower = problem.undirected_pair
    if bool((lower < 0).any()) or bool((problem.capacity != problem.capacity[lower]).any()):
        return None
    return problem
