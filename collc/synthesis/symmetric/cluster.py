"""Collectives on networks with switches whose NPUs are all alike: nodes, rails, pods, fat trees, single switches.

What one NPU sends is planned on one timetable for each class of links. In an All-Gather a chunk enters each pod once,
in each pod each node once, and is then sent to all GPUs of the node. A Reduce-Scatter is the same backwards in time. An
All-Reduce is both, one after the other, or for small buffers one-shot on some levels. In an All-to-All each block takes
the shortest route, also over other NPUs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from collc.graph.translations import find_translations
from collc.synthesis.damage import undamaged_network
from collc.synthesis.symmetric.class_timetable import ClassTimes, ClassTimetable
from collc.synthesis.symmetric.level_plan import plan_exchange, plan_levels
from collc.synthesis.symmetric.one_shot import plan_one_shot
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.factored_schedule import ChunkNumbers, FactoredSchedule, Translations, chunk_size
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import LinkModel, Transfers


class _Plan(NamedTuple):
    """Transfers of what the representative NPU sends. target: int32, the NPU that a block is for, in an All-to-All.

    part: int32, the chunk of a block. link: int32. start: int64, picoseconds.
    """

    part: Int32Array
    target: Int32Array
    link: Int32Array
    start: Int64Array


def cluster_schedule(module: Module) -> FactoredSchedule | None:
    """A schedule of one All-Gather, Reduce-Scatter, All-Reduce or All-to-All over all NPUs; None if this does not
    apply: without switches, if NPUs are not all alike, or if switches hold few chunks or reduce.

    Raises ValueError if links have no bandwidth or latency.
    """
    translations = _translations_of(module)
    return None if translations is None else _planner_of(module, translations).schedule(module.demand)


def cluster_copies(
    network: Network, translations: Translations, model: LinkModel, numbers: ChunkNumbers, size: int
) -> Transfers | None:
    """What the representative sends in an All-Gather or All-to-All, as copies; None as in `cluster_schedule`."""
    planner = _Planner(network, translations, model, numbers, size)
    plan = planner.copies()
    return (
        None if plan is None else Transfers.of(numbers.of_representative(plan.target, plan.part), plan.link, plan.start)
    )


def is_cluster(module: Module) -> bool:
    """Whether `symmetric_module` is likely to find a schedule; milliseconds, also for thousands of NPUs.

    Clusters that have lost some links or GPUs count, too.
    """
    if _translations_of(module) is not None:
        return True
    if ChunkNumbers.of(module.demand) is None or module.schedule is not None:
        return False
    return (
        len(module.demand.runs[0].group) == len(module.network.npus) and undamaged_network(module.network) is not None
    )


def _translations_of(module: Module) -> Translations | None:
    """The translations that make all NPUs alike, for a demand and a network with switches that this module supports."""
    network, numbers = module.network, ChunkNumbers.of(module.demand)
    if numbers is None or module.schedule is not None or not network.has_switches:
        return None
    whole = len(numbers.rank) == network.npu_count and bool((numbers.rank >= 0).all())
    if not whole or network.has_limited_buffers or bool(network.reduces.any()):
        return None
    translations = find_translations(network)
    return translations if translations is not None and translations.count == network.npu_count else None


def _planner_of(module: Module, translations: Translations) -> _Planner:
    numbers = ChunkNumbers.of(module.demand)
    assert numbers is not None
    return _Planner(module.network, translations, module.model, numbers, chunk_size(module.demand))


class _Planner:
    """Plans a collective of chunks of a size. Raises ValueError if links have no bandwidth or latency."""

    def __init__(
        self, network: Network, translations: Translations, model: LinkModel, numbers: ChunkNumbers, size: int
    ) -> None:
        self._network, self._model, self._translations, self._numbers = network, model, translations, numbers
        self._times = ClassTimes.of(network, translations, model, size)
        self._npus = translations.orbits[0]

    def copies(self) -> _Plan | None:
        """The plan of an All-Gather or All-to-All; None as in `schedule`."""
        if self._numbers.pairs:
            return self._exchange()
        table = ClassTimetable(self._translations, self._times)
        return self._gather(self._network, table, np.zeros(self._numbers.parts, np.int64))

    def schedule(self, demand: Demand) -> FactoredSchedule | None:
        """The schedule; None if a level cannot be entered, or no route leads to some NPU."""
        network, table = self._network, ClassTimetable(self._translations, self._times)
        standard, release = demand.standard, np.zeros(self._numbers.parts, np.int64)
        assert standard is not None
        if not standard.shape.reduces:
            plan = self.copies()
            return None if plan is None else self._schedule([plan], [False])
        plan = self._gather(network.reverse(), table, release)
        if plan is None:
            return None
        reduced, complete = self._mirror(plan)
        if standard.kind == "reduce_scatter":
            return self._schedule([reduced], [True])
        table = ClassTimetable(self._translations, self._times)
        table.reserve(reduced.link, reduced.start)
        gathered = self._gather(network, table, complete)
        if gathered is None:
            return None
        return self._one_shot_or(self._schedule([reduced, gathered], [True, False]), demand)

    def _one_shot_or(self, schedule: FactoredSchedule, demand: Demand) -> FactoredSchedule:
        """The schedule of an All-Reduce that is one-shot on some levels, if it is shorter than another one."""
        time = schedule.collective_time(self._network, demand)
        stages = plan_one_shot(self._network, self._translations, self._times, self._numbers.parts, time)
        if stages is None:
            return schedule
        plans = [
            self._rows(stage.hops, stage.starts, stage.part, np.zeros_like(stage.part), stage.sender)
            for stage in stages
        ]
        return self._schedule(plans, [stage.reduce for stage in stages])

    def _gather(self, network: Network, table: ClassTimetable, release: Int64Array) -> _Plan | None:
        """An All-Gather. release: int64[parts], picoseconds from which the representative holds its chunks."""
        levels = plan_levels(network, self._translations, self._times, table, release)
        if levels is None:
            return None
        plans: list[_Plan] = []
        for level in levels:
            shape = level.arrivals.shape
            hops = level.routes.reshape(-1, level.routes.shape[-1])
            part = np.repeat(np.arange(shape[0], dtype=np.int32), shape[1] * shape[2])
            sender = np.broadcast_to(level.holders, shape).reshape(-1)
            plans.append(self._rows(hops, level.starts.reshape(hops.shape), part, np.zeros_like(part), sender))
        return _join_plans(plans)

    def _exchange(self) -> _Plan | None:
        """An All-to-All."""
        plan = plan_exchange(self._network, self._translations, self._times, self._numbers.parts)
        if plan is None:
            return None
        parts, count, width = plan.starts.shape
        part = np.repeat(np.arange(parts, dtype=np.int32), count)
        target = np.tile(self._npus[1:], parts)
        hops, starts = plan.routes.reshape(-1, width), plan.starts.reshape(-1, width)
        return self._rows(hops, starts, part, target, np.zeros_like(part))

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
        flags: BoolArray = np.repeat(np.array(reduce, np.bool_), [len(plan.part) for plan in plans])
        plan = _join_plans(plans)
        chunk = self._numbers.of_representative(plan.target, plan.part)
        rows = Transfers.of(chunk, plan.link, plan.start, flags)
        turn = self._times.turn[rows.link]
        return FactoredSchedule(self._model, self._translations, self._numbers, rows, turn)


def _join_plans(plans: list[_Plan]) -> _Plan:
    return _Plan(*(np.concatenate(columns) for columns in zip(*plans, strict=True)))
