"""Reductions over balanced spanning trees, up and down at the same time.

Each chunk has a tree up to a root near the centre of the NPUs that want it, and another tree down. The trees load all
links about equally, and the chunks follow each other in a pipeline, so that the links into and out of each NPU are busy
at the same time. On asymmetric networks this is faster than a Reduce-Scatter followed by an All-Gather, in which half
of the links of a corner are idle.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule, SourceError
from collc.synthesis.conditions import rates_required
from collc.synthesis.list_schedule import best_starts
from collc.synthesis.overlapped.trees import TreeGrower, interleave_runs, tasks_of
from collc.synthesis.task import Effort
from collc.synthesis.timeline import link_timelines
from collc.ten.arrays import Int32Array
from collc.ten.demand import Demand, Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, RowSchedule, Schedule, Transfers

ATTEMPTS = ((4, 1), (2, 1), (1, 1), (8, 1), (2, 2), (1, 2))
"""(weight, rounds) of each attempt: how much the load of a link counts against its cost, how often trees are grown."""

LIMITS = (200_000, 200_000, 20_000, 20_000, 20_000)
"""Transfers up to which there is a second attempt, a third and so on."""


def overlap_trees(
    network: Network,
    demand: Demand,
    model: LinkModel,
    effort: Effort,
    chunks: Int32Array | None = None,
    reserved: Transfers | None = None,
) -> Schedule:
    """A schedule of reductions, and of copies beside them, over pipelined spanning trees.

    The trees may lead over NPUs that take no part. chunks: which to plan; None: all. reserved: transfers that are
    planned already; they keep their links busy and are not part of the result.
    Raises SourceError if nothing is to be reduced, the network has switches or links without bandwidth, or links do
    not lead to all who take part; NoSchedule if `effort.stop` asks to stop before there is any schedule.
    """
    asked = interleave_runs(demand, np.arange(len(demand.chunks), dtype=np.int32) if chunks is None else chunks)
    _check(network, demand, asked)
    with rates_required():
        clock = Clock.of(network, demand, model)
    intervals = link_timelines(reserved, clock)
    grower = TreeGrower(network, demand, clock)
    best: tuple[int, Transfers] | None = None
    for number, (weight, rounds) in enumerate(ATTEMPTS):
        trees = grower.grow(asked, weight, rounds, effort)
        if trees is None:
            break
        tasks, chunk, reduced = tasks_of(network, clock, trees, asked)
        schedule = best_starts(tasks, intervals, effort)
        if schedule is not None and (best is None or schedule[0] < best[0]):
            real = tasks.link >= 0
            best = schedule[0], Transfers.of(chunk[real], tasks.link[real], schedule[1][real], reduced[real])
        left = sum(len(tasks) <= limit for limit in LIMITS) - number
        effort.progress((number + 1) / max(1, number + 1 + left), f"overlapped: trees by load x {weight}")
        if left <= 0:
            effort.work.finish()
        if left <= 0 or effort.stop() or effort.work.is_used_up:
            break
    if best is None:
        raise NoSchedule(Diagnostic("S0201", "stopped before overlapped had a schedule", hint="give it more time"))
    return RowSchedule(model, best[1])


def overlap(module: Module, effort: Effort) -> Module:
    """The module with all runs planned; `overlap_trees` plans those that were not. Raises what it raises."""
    runs = len(module.demand.runs)
    done = frozenset[int]() if module.schedule is None else module.planned
    done = frozenset(range(runs)) if done is None else done
    first = module.demand.first_chunk
    chunks = [np.arange(first[run], first[run + 1], dtype=np.int32) for run in range(runs) if run not in done]
    asked = np.concatenate([np.empty(0, np.int32), *chunks])
    reserved = None if module.schedule is None else module.schedule.transfers
    own = overlap_trees(module.network, module.demand, module.model, effort, asked, reserved)
    whole = own if reserved is None else RowSchedule(module.model, Transfers.concatenate([reserved, own.transfers]))
    return replace(module, schedule=whole, planned=None)


def _check(network: Network, demand: Demand, chunks: Int32Array) -> None:
    """Raises SourceError if the network has switches or no chunk is reduced."""
    if max(int(network.source.max(initial=-1)), int(network.target.max(initial=-1))) >= network.npu_count:
        message = f"overlapped trees reduce on NPUs over direct links, and {network.name} has switches"
        hint = "write 'on unwound(...)' to replace the switches by direct links, or 'synthesize auto'"
        raise SourceError(Diagnostic("S0302", message, hint=hint))
    if bool((demand.chunks.op[chunks] == Op.COPY).all()):
        message = "overlapped trees are for reductions, and nothing is to be reduced"
        raise SourceError(Diagnostic("S0302", message, hint="use tacos() or pccl()"))
