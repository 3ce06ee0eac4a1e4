"""Collectives on a cluster that has lost some links or GPUs: the plan of the whole cluster, patched.

Transfers over missing parts, and all transfers that depend on them, are dropped. All-Gather and All-to-All each have a
patch of their own, which plans the chunks of the dropped transfers again.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from collc.synthesis.symmetric.class_timetable import ClassTimetable
from collc.synthesis.symmetric.damage import LEVELS, Damage, damaged_task
from collc.synthesis.symmetric.exchange_plan import plan_exchange
from collc.synthesis.symmetric.level_plan import plan_levels
from collc.synthesis.symmetric.patched_exchange import ExchangePatch
from collc.synthesis.symmetric.patched_gather import GatherPatch
from collc.synthesis.symmetric.patched_sum import SumPatch
from collc.synthesis.symmetric.routes import ClassTimes
from collc.synthesis.task import Task
from collc.ten.arrays import Int32Array
from collc.ten.factored_schedule import ChunkNumbers, chunk_size
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import RowSchedule, Transfers
from collc.ten.translations import Translations

MOST_EXCHANGED: Final = 30_000_000
"""Transfers up to which the plan of an All-to-All is patched."""


def patched(task: Task) -> RowSchedule | None:
    """A schedule of one All-Gather or All-to-All over all NPUs that are there; None if this does not apply.

    Raises ValueError if links have no bandwidth or latency.
    """
    found = _damage(task)
    if found is None:
        return None
    damage, times, numbers, network, translations = found
    if numbers.pairs:
        patch = _exchange_patch(damage, network, translations, times, numbers)
    else:
        patch = GatherPatch(damage, translations, times, numbers)
    rows = None if patch is None else patch.rows()
    return None if rows is None else RowSchedule(task.model, rows)


def patched_sums(module: Module) -> RowSchedule | None:
    """A schedule of one All-Reduce over all NPUs that are there, whose sums are formed where this saves a damaged node
    traffic; None if this does not apply, or may take longer than a Reduce-Scatter and an All-Gather.

    Raises ValueError if links have no bandwidth or latency.
    """
    standard = module.demand.standard
    if standard is None or standard.kind != "all_reduce" or module.schedule is not None:
        return None
    opposite = _opposite_links(module.network)
    found = _damage(Task(module.network, module.demand, module.model, np.empty(0, np.int32)))
    if opposite is None or found is None:
        return None
    damage, times, numbers, _, translations = found
    patch = SumPatch(damage, translations, times, numbers)
    rows = patch.rows()
    if rows is None:
        return None
    arrival = rows.start + times.window[rows.link]
    end = int(arrival.max())
    if end >= patch.least_gather():
        return None
    sums = Transfers.of(rows.chunk, opposite[rows.link], end - arrival, True)
    chunk, link = np.concatenate([sums.chunk, rows.chunk]), np.concatenate([sums.link, rows.link])
    start, reduce = np.concatenate([sums.start, rows.start + end]), np.concatenate([sums.reduce, rows.reduce])
    return RowSchedule(module.model, Transfers(chunk, link, start, reduce))  # all sums start before `end`


def _damage(task: Task) -> tuple[Damage, ClassTimes, ChunkNumbers, Network, Translations] | None:
    """What a cluster has lost, times on the whole cluster, numbers of chunks, the whole cluster and its translations;
    None if the plan of the whole cluster cannot be patched.
    """
    found = damaged_task(task)
    if found is None:
        return None
    numbers, network, translations = found
    times = ClassTimes.of(network, translations, task.model, chunk_size(task.demand))
    release = np.zeros(1 if numbers.pairs else numbers.parts, np.int64)
    levels = plan_levels(network, translations, times, ClassTimetable(translations, times), release)
    if levels is None or len(levels) > LEVELS:
        return None
    damage = Damage(task.network, translations, levels)
    return (damage, times, numbers, network, translations) if damage.is_outside_of_nodes(times) else None


def on_opposite_links(task: Task, inverse: Task, schedule: RowSchedule) -> RowSchedule | None:
    """The schedule of the copies of an All-Reduce, given that of its inverse on the reversed network: the same
    transfers, each on the link in the other direction. None if the network has not all links in both directions, or
    the demands differ.
    """
    one, other = task.demand, inverse.demand
    alike = one.standard is not None and one.standard == other.standard
    if not alike or not np.array_equal(one.runs[0].group, other.runs[0].group):
        return None
    if task.reserved is not None or (task.release is not None and bool(task.release.any())):
        return None
    opposite = _opposite_links(task.network)
    if opposite is None:
        return None
    rows = schedule.transfers
    return RowSchedule(task.model, Transfers.of(rows.chunk, opposite[rows.link], rows.start))


def _opposite_links(network: Network) -> Int32Array | None:
    """int32[links]: a link of the same kind in the other direction for each, None if some have none."""
    source, target = network.source.astype(np.int64), network.target.astype(np.int64)
    devices, kinds = network.device_count, len(network.kinds)
    forth, back = (source * devices + target) * kinds + network.kind, (target * devices + source) * kinds + network.kind
    one, other = np.argsort(forth, kind="stable"), np.argsort(back, kind="stable")
    if not np.array_equal(forth[one], back[other]):
        return None
    found = np.empty(network.link_count, np.int32)
    found[other] = one
    return found


def _exchange_patch(
    damage: Damage, network: Network, translations: Translations, times: ClassTimes, numbers: ChunkNumbers
) -> ExchangePatch | None:
    """None if the plan is too large, or two translations of a transfer share a link. network: the whole cluster."""
    plan = plan_exchange(network, translations, times, numbers.parts)
    if plan is None or plan.starts.size * translations.count > MOST_EXCHANGED:
        return None
    if bool(times.turn[plan.routes[plan.routes >= 0]].any()):
        return None
    return ExchangePatch(damage, translations, times, numbers, plan)
