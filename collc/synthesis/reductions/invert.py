"""Reductions as copies run backwards (PCCL, section 4.4).

A chunk that spreads from its root over a tree of links, turned round in time on reversed links, is a
reduction to the root over the same tree.
"""

from __future__ import annotations

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule, Schedule, StepSchedule, Transfers


def invert_schedule(schedule: Schedule, network: Network, demand: Demand) -> Schedule:
    """The reductions that the copies of a schedule become when time runs backwards.

    network, demand: those that the copies were planned for, the links reversed; link numbers stay, so
    the result belongs to the network with its links as they are. What arrives twice, or is of no use
    to anyone, is left out, so that each contribution counts once.
    A transfer from s to a arrives at the horizon - s, for both link models: the mirror image of the
    time in which it takes its link is free of overlaps, since all transfers of a link have one latency.
    """
    if isinstance(schedule, StepSchedule):
        return StepSchedule(schedule.model, schedule.chunk[::-1].copy(), schedule.step, len(schedule.chunk))
    clock = Clock.of(network, demand, schedule.model)
    rows = as_trees(schedule.transfers, network, demand, clock)
    ends = rows.start + clock.total_of(rows)
    horizon = int(ends.max(initial=0))
    return RowSchedule(schedule.model, Transfers.of(rows.chunk, rows.link, horizon - ends, True))


def as_trees(rows: Transfers, network: Network, demand: Demand, clock: Clock) -> Transfers:
    """The copies that someone needs: the first arrival of a chunk at a device that wants it or passes it on.

    Devices are NPUs or switches. A switch may take a chunk more than once, one arrival for each
    departure; all arrivals at switches that are followed by a departure stay.
    """
    if not len(rows):
        return rows
    ends = rows.start + clock.total_of(rows)
    devices = network.device_count
    into = rows.chunk.astype(np.int64) * devices + network.target[rows.link]
    out = rows.chunk.astype(np.int64) * devices + network.source[rows.link]
    kept = _first_arrivals(into, ends) | (network.target[rows.link] >= network.npu_count)
    kept &= ~_in_sets(into, demand.chunks.pre, demand, devices)
    wanted = _in_sets(into, demand.chunks.post, demand, devices)
    while True:
        useful = kept & (wanted | np.isin(into, out[kept]))
        if bool((useful == kept).all()):
            break
        kept = useful
    return Transfers(rows.chunk[kept], rows.link[kept], rows.start[kept], rows.reduce[kept])


def _first_arrivals(keys: Int64Array, ends: Int64Array) -> BoolArray:
    order = np.lexsort((ends, keys))
    first = np.ones(len(keys), np.bool_)
    first[1:] = keys[order][1:] != keys[order][:-1]
    kept = np.zeros(len(keys), np.bool_)
    kept[order[first]] = True
    return kept


def _in_sets(keys: Int64Array, column: Int32Array, demand: Demand, devices: int) -> BoolArray:
    """For each key chunk * devices + device whether the chunk's set in a column has the device."""
    sets = demand.chunks.sets
    members = np.repeat(np.arange(len(sets), dtype=np.int64), sets.sizes) * devices + sets.members
    asked = column[keys // devices].astype(np.int64) * devices + keys % devices
    place = np.minimum(np.searchsorted(members, asked), max(0, len(members) - 1))
    return members[place] == asked if len(members) else np.zeros(len(keys), np.bool_)
