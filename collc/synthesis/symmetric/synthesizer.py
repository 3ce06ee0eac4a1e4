"""Synthesis on Cayley graphs: a plan for what one NPU sends, and its translations to all others.

If the plan uses each generator at most once in a step, its translations never meet on a link.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.synthesis.bounds import task_bound
from collc.synthesis.conditions import rates_required
from collc.synthesis.reductions.compose import solve
from collc.synthesis.symmetric.all_gather import plan_all_gather
from collc.synthesis.symmetric.all_to_all import plan_all_to_all
from collc.synthesis.symmetric.cluster import cluster_schedule, is_cluster
from collc.synthesis.symmetric.group import Group, find_group
from collc.synthesis.symmetric.repaired import is_repairable, repaired_schedule
from collc.synthesis.symmetric.representative_plan import GeneratorTimes, RepresentativePlan, expand_plan
from collc.synthesis.symmetric.translated import translated_schedule
from collc.synthesis.task import Effort, Task
from collc.ten.demand import Standard
from collc.ten.module import Module
from collc.ten.schedule import Schedule

__all__ = [
    "factored_schedule",
    "find_group",
    "is_repairable",
    "is_symmetric",
    "representative",
    "symmetric",
    "symmetric_module",
]


def symmetric_module(module: Module, effort: Effort) -> Module:
    """The module with a schedule of all of it if its network has switches, or else with its phases solved.

    Raises SourceError if neither network nor demand is symmetric.
    """
    schedule = factored_schedule(module, effort)
    solved = (
        solve(module, lambda task: symmetric(task, effort)) if schedule is None else replace(module, schedule=schedule)
    )
    effort.work.finish()
    return solved


def factored_schedule(module: Module, effort: Effort) -> Schedule | None:
    """A schedule that lists the transfers of one NPU only, or those of a damaged network; None if there is none, or the
    network is small, whole and has no switches.

    Raises SourceError if links have no bandwidth or latency, or do not lead to all NPUs.
    """
    with rates_required():
        return cluster_schedule(module) or translated_schedule(module, effort) or repaired_schedule(module, effort)


def is_symmetric(module: Module) -> bool:
    """Whether one collective over all NPUs runs on a network whose NPUs are all alike, but for what is missing or slow
    in a cluster (`is_repairable` says it of other networks).
    """
    network, standard, runs = module.network, module.demand.standard, module.demand.runs
    if network.has_switches:
        return is_cluster(module)
    if module.schedule is not None or standard is None or len(runs[0].group) < network.npu_count:
        return False
    return standard.shape.without_root and find_group(network) is not None


def symmetric(task: Task, effort: Effort) -> Schedule:
    """A schedule of one All-Gather or All-to-All over all NPUs of a Cayley graph.

    Raises SourceError if the network, the demand or what is planned before has no such symmetry.
    """
    group = find_group(task.network)
    standard = _standard(task)
    if group is None or standard is None:
        raise SourceError(
            Diagnostic(
                "S0303",
                f"{task.network.name} or its demand is not symmetric",
                hint="'synthesize auto' chooses another synthesizer; symmetric supports one All-Gather, "
                "Reduce-Scatter, All-Reduce or All-to-All over a whole ring, torus, hypercube or fully connected "
                "network, or a cluster of equal nodes whose switches hold any number of chunks",
            )
        )
    size = standard.size // (group.count * standard.chunks)
    with rates_required():
        times = GeneratorTimes.of(task.network, task.model, group, size)
    if times.step is not None:
        plan = representative(group, standard, effort)
    elif standard.kind == "all_gather":
        plan = plan_all_gather(group, standard.chunks, times, task_bound(task).time, effort)
    else:
        plan = plan_all_to_all(group, standard.chunks, times, effort)
    return expand_plan(group, task.demand.runs[0], standard, plan, task.model, times.step)


def representative(group: Group, standard: Standard, effort: Effort) -> RepresentativePlan:
    """The plan in steps for what NPU 0 sends in an All-Gather or All-to-All, if all transfers take equal time."""
    steps = GeneratorTimes.steps(group)
    if standard.kind == "all_to_all":
        return plan_all_to_all(group, standard.chunks, steps, effort)
    bound = -(-(group.count - 1) * standard.chunks // len(group.generators))
    return plan_all_gather(group, standard.chunks, steps, max(bound, int(group.span()[1].max())), effort)


def _standard(task: Task) -> Standard | None:
    """The collective of the only run, if it is symmetric and begins at time 0 with nothing reserved."""
    runs = task.demand.runs
    if len(runs) != 1 or task.reserved is not None or (task.release is not None and bool(task.release.any())):
        return None
    standard, whole = runs[0].standard, np.arange(task.network.npu_count)
    if standard is None or standard.kind not in ("all_gather", "all_to_all"):
        return None
    count = len(whole) * standard.chunks * (1 if standard.kind == "all_gather" else len(whole) - 1)
    return standard if np.array_equal(np.sort(runs[0].group), whole) and len(task.chunks) >= count else None
