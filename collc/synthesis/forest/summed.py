"""All-Reduce over trees that are used up and down at once.

If NPUs differ in bandwidth, a Reduce-Scatter and then an All-Gather leave links idle: the bound of all partitions of
the NPUs (graph/throughput.py, reduce_rate) allows up to twice the rate. Trees that load both directions of their links
alike, used for partials and sums of different chunks at once, come near it (Tutte 1961, Nash-Williams 1961: packing of
undirected spanning trees).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from collc.base.diagnostics import CollcError
from collc.graph.throughput import gather_rate, reduce_rate
from collc.synthesis.conditions import conditions_of
from collc.synthesis.forest.candidates import summed_candidates
from collc.synthesis.forest.counts import summed_counts
from collc.synthesis.forest.portfolio import Portfolio
from collc.synthesis.forest.problem import ForestProblem, forest_problem
from collc.synthesis.reductions.compose import split
from collc.synthesis.task import Effort, Task
from collc.ten.module import Module
from collc.ten.schedule import RowSchedule, Schedule

GAIN = Fraction(51, 50)
"""How many times the rate of Reduce-Scatter and All-Gather the bound must allow."""


def summed(module: Module, effort: Effort) -> Schedule | None:
    """A schedule of one All-Reduce over trees used both ways; None if it promises no gain or does not apply."""
    problem = _problem(module)
    if problem is None:
        return None
    members = problem.members.tolist()
    try:
        apart = gather_rate(problem.graph, problem.capacity, members).rate * len(members) / 2
        together = reduce_rate(problem.graph, problem.capacity, members).rate
    except (ValueError, OverflowError):
        return None
    if together < GAIN * apart:
        return None
    counts = summed_counts(problem, together)
    portfolio = Portfolio(problem, effort, min(count.time for count in counts) * problem.unit, summed=True)
    portfolio.run(summed_candidates(problem, counts, effort.stop))
    return None if portfolio.best is None else RowSchedule(module.model, portfolio.best[1])


def _problem(module: Module) -> ForestProblem | None:
    """The All-Gather of a module that is one All-Reduce, over links that lead both ways at one rate."""
    standards = [run.standard for run in module.demand.runs]
    network = module.network
    one = len(standards) == 1 and standards[0] is not None and standards[0].kind == "all_reduce"
    if not one or module.schedule is not None or bool(network.reduces.any()):
        return None
    copies = split(module)[-1].module
    chunks = np.arange(len(copies.demand.chunks), dtype=np.int32)
    try:
        problem = forest_problem(conditions_of(Task(network, copies.demand, module.model, chunks)))
    except CollcError:
        return None
    if len(problem.members) < len(network.npus):
        return None  # two paths of a tree may lead over an NPU outside the group, which would add up their partials
    lower = problem.undirected
    if bool((lower < 0).any()) or bool((problem.capacity != problem.capacity[lower]).any()):
        return None
    return problem
