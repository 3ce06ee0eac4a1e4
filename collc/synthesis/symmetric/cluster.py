"""Collectives on networks with switches whose NPUs are all alike: nodes, rails, pods, fat trees, single switches.

What one NPU sends is planned on one timetable for each class of links. In an All-Gather a chunk enters each pod once,
in each pod each node once, and is then sent to all GPUs of the node. A Reduce-Scatter is the same backwards in time. An
All-Reduce is both, one after the other, or for small buffers one-shot on some levels. In an All-to-All each block takes
the shortest route, also over other NPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.graph.translations import find_translations
from collc.synthesis.symmetric.class_timetable import ClassTimetable
from collc.synthesis.symmetric.damage import is_damaged
from collc.synthesis.symmetric.exchange_plan import plan_exchange
from collc.synthesis.symmetric.level_plan import plan_levels
from collc.synthesis.symmetric.one_shot import plan_one_shot
from collc.synthesis.symmetric.routes import ClassTimes
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.factored_schedule import ChunkNumbers, FactoredSchedule, chunk_size
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Transfers
from collc.ten.translations import Translations


@dataclass(frozen=True, eq=False)
class _Plan:
    """Transfers of what the representative NPU sends. target: int32, the NPU that a block is for, in an All-to-All.

    part: int32, the chunk of a block. link: int32. start: int64, picoseconds.
    """

    part: Int32Array
    target: Int32Array
    link: Int32Array
    start: Int64Array


def cluster_schedule(module: Module) -> FactoredSchedule | None:
    """A schedule of one All-Gather, Reduce-Scatter, All-Reduce or All-to-All over all NPUs; None if this does not
    apply: without switches, where NPUs are not all alike, or where switches hold few chunks or reduce.

    Raises ValueError if links have no bandwidth or latency.
    """
    return _schedule_by(module, _translations(module))


def translated_paths(module: Module) -> FactoredSchedule | None:
    """The same of an All-to-All on a network without switches, along shortest paths: `symmetric` loads its links more
    evenly, but lists all transfers. None if NPUs have limits, or links have no bandwidth or latency.
    """
    network, standard = module.network, module.demand.standard
    kind = "" if standard is None else standard.kind
    if kind != "all_to_all" or network.has_switches or network.has_endpoints:
        return None
    try:
        return _schedule_by(module, _all_alike(module))
    except ValueError:
        return None


def _schedule_by(module: Module, translations: Translations | None) -> FactoredSchedule | None:
    """The schedule by translations, None if there are none."""
    numbers = ChunkNumbers.of(module.demand)
    if numbers is None or translations is None:
        return None
    times = ClassTimes.of(module.network, translations, module.model, chunk_size(module.demand))
    standard = module.demand.standard
    planner = _Planner(module, translations, times, numbers)
    return planner.plan(standard.kind if standard is not None else "")


def is_cluster(module: Module) -> bool:
    """Whether `symmetric_module` is likely to find a schedule; milliseconds, also for thousands of NPUs.

    Clusters that have lost some links or GPUs are served too.
    """
    if _translations(module) is not None:
        return True
    serves = ChunkNumbers.of(module.demand) is not None and module.schedule is None
    return serves and len(module.demand.runs[0].group) == len(module.network.npus) and is_damaged(module.network)


def _translations(module: Module) -> Translations | None:
    """The translations that make all NPUs alike, for a demand and a network with switches that this serves."""
    return _all_alike(module) if module.network.has_switches else None


def _all_alike(module: Module) -> Translations | None:
    """The translations that make all NPUs alike, for a demand and a network that this serves."""
    network, numbers = module.network, ChunkNumbers.of(module.demand)
    if numbers is None or module.schedule is not None:
        return None
    whole = len(numbers.rank) == network.npu_count and bool((numbers.rank >= 0).all())
    if not whole or network.has_limited_buffers or bool(network.reduces.any()):
        return None
    found = find_translations(network)
    return found if found is not None and found.count == network.npu_count else None


class _Planner:
    """Plans the collectives of one module."""

    def __init__(self, module: Module, translations: Translations, times: ClassTimes, numbers: ChunkNumbers) -> None:
        self._module, self._translations, self._times, self._numbers = module, translations, times, numbers
        self._npus = translations.orbits[0]

    def plan(self, kind: str) -> FactoredSchedule | None:
        """The schedule of a collective."""
        network, table = self._module.network, ClassTimetable(self._translations, self._times)
        release = np.zeros(self._numbers.parts, np.int64)
        if kind == "all_to_all":
            exchanged = self._exchange()
            return None if exchanged is None else self._schedule([exchanged], [False])
        if kind == "all_gather":
            gathered = self._gather(network, table, release)
            return None if gathered is None else self._schedule([gathered], [False])
        found = self._gather(network.reversed(), table, release)
        if found is None:
            return None
        reduced, complete = self._mirror(found)
        if kind == "reduce_scatter":
            return self._schedule([reduced], [True])
        table = ClassTimetable(self._translations, self._times)
        table.reserve(reduced.link, reduced.start)
        gathered = self._gather(network, table, complete)
        if gathered is None:
            return None
        return self._one_shot(self._schedule([reduced, gathered], [True, False]))

    def _one_shot(self, found: FactoredSchedule) -> FactoredSchedule:
        """The schedule of an All-Reduce that is one-shot on some levels, if it is shorter than one found."""
        time = found.collective_time(self._module.network, self._module.demand)
        stages = plan_one_shot(self._module.network, self._translations, self._times, self._numbers.parts, time)
        if stages is None:
            return found
        plans = [self._rows(one.hops, one.starts, one.part, np.zeros_like(one.part), one.sender) for one in stages]
        return self._schedule(plans, [one.reduce for one in stages])

    def _gather(self, network: Network, table: ClassTimetable, release: Int64Array) -> _Plan | None:
        """An All-Gather. release: int64[parts], picoseconds from which the representative holds its chunks."""
        levels = plan_levels(network, self._translations, self._times, table, release)
        if levels is None:
            return None
        plans: list[_Plan] = []
        for level in levels:
            shape = level.arrivals.shape
            hops = np.broadcast_to(level.routes[None, :, None], level.starts.shape).reshape(-1, level.routes.shape[1])
            part = np.repeat(np.arange(shape[0], dtype=np.int32), shape[1] * shape[2])
            sender = np.broadcast_to(level.holders, shape).reshape(-1)
            plans.append(self._rows(hops, level.starts.reshape(hops.shape), part, np.zeros_like(part), sender))
        return _join_plans(plans)

    def _exchange(self) -> _Plan | None:
        """An All-to-All."""
        plan = plan_exchange(self._module.network, self._translations, self._times, self._numbers.parts)
        if plan is None:
            return None
        parts, count, width = plan.starts.shape
        hops = np.tile(plan.routes, (parts, 1))
        part = np.repeat(np.arange(parts, dtype=np.int32), count)
        target = np.tile(self._npus[1:], parts)
        return self._rows(hops, plan.starts.reshape(-1, width), part, target, np.zeros_like(part))

    def _rows(
        self, hops: Int32Array, starts: Int64Array, part: Int32Array, target: Int32Array, sender: Int32Array
    ) -> _Plan:
        """One row for each hop of routes that begin at elements `sender`."""
        row, hop = np.nonzero(hops >= 0)
        link = self._translations.moved_links(hops[row, hop], sender[row])
        return _Plan(part[row], target[row], link, starts[row, hop])

    def _mirror(self, plan: _Plan) -> tuple[_Plan, Int64Array]:
        """A plan backwards in time, and when the representative has what each part becomes, int64[parts]."""
        end = int((plan.start + self._times.window[plan.link]).max())
        complete = np.zeros(self._numbers.parts, np.int64)
        np.maximum.at(complete, plan.part, end - plan.start)
        return _Plan(plan.part, plan.target, plan.link, end - plan.start - self._times.window[plan.link]), complete

    def _schedule(self, plans: list[_Plan], reduce: list[bool]) -> FactoredSchedule:
        plan = _join_plans(plans)
        flags: BoolArray = np.repeat(np.array(reduce, np.bool_), [len(one.part) for one in plans])
        block = np.full(len(plan.part), self._npus[0], np.int32)
        chunk = self._numbers.number(block, plan.target if self._numbers.pairs else None, plan.part)
        rows = Transfers.of(chunk, plan.link, plan.start, flags)
        turn = self._times.turn[rows.link]
        return FactoredSchedule(self._module.model, self._translations, self._numbers, rows, turn)


def _join_plans(plans: list[_Plan]) -> _Plan:
    return _Plan(
        np.concatenate([plan.part for plan in plans]),
        np.concatenate([plan.target for plan in plans]),
        np.concatenate([plan.link for plan in plans]),
        np.concatenate([plan.start for plan in plans]),
    )
