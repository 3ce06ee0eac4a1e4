"""Reductions as the inverse of copies (PCCL, section 4.4).

If a chunk spreads from its root over a tree of links, the same transfers backwards in time, on the reversed links,
are a reduction to the root.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule, Schedule, StepSchedule, Transfers

TABLE: Final = 8
"""Keys up to this multiple of their number are counted in a table before they are sorted."""


def invert_schedule(schedule: Schedule, network: Network, demand: Demand) -> Schedule:
    """The reductions that the copies of a schedule become backwards in time.

    network, demand: those that the copies were planned for, with the links reversed. Link numbers stay, so that the
    result belongs to the network with its links as they are. Copies that arrive a second time, or that nobody needs,
    are left out, so that each contribution counts once.
    A transfer that starts at s and ends at e becomes one that starts at horizon - e and ends at horizon - s, in both
    link models: the intervals for which transfers occupy a link stay disjoint, since all of its transfers have the
    same latency.
    """
    if isinstance(schedule, StepSchedule):
        return StepSchedule(schedule.model, schedule.chunk[::-1].copy(), schedule.step, len(schedule.chunk))
    clock = Clock.of(network, demand, schedule.model)
    rows = as_trees(schedule.transfers, network, demand, clock)
    ends = rows.start + clock.total_of(rows)
    horizon = int(ends.max(initial=0))
    return RowSchedule(schedule.model, Transfers.of(rows.chunk, rows.link, horizon - ends, True))


def as_trees(rows: Transfers, network: Network, demand: Demand, clock: Clock) -> Transfers:
    """The transfers that are needed: first arrivals of a chunk at devices that want it or pass it on.

    A chunk may come to a switch several times, once for each departure; all arrivals of a chunk that leaves the switch
    are kept.
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
    return rows.select(kept)


def _first_arrivals(keys: Int64Array, ends: Int64Array) -> BoolArray:
    """bool[n]: for each key the one with the least end."""
    if int(keys.max(initial=0)) <= TABLE * len(keys) and int(np.bincount(keys).max(initial=0)) <= 1:
        return np.ones(len(keys), np.bool_)
    order = np.lexsort((ends, keys))
    first = np.ones(len(keys), np.bool_)
    first[1:] = keys[order][1:] != keys[order][:-1]
    kept = np.zeros(len(keys), np.bool_)
    kept[order[first]] = True
    return kept


def _in_sets(keys: Int64Array, column: Int32Array, demand: Demand, devices: int) -> BoolArray:
    """bool[n]: for each key chunk * devices + device, whether the set of the chunk in a column contains the device."""
    sets = demand.chunks.sets
    members = np.repeat(np.arange(len(sets), dtype=np.int64), sets.sizes) * devices + sets.members
    asked = column[keys // devices].astype(np.int64) * devices + keys % devices
    position = np.minimum(np.searchsorted(members, asked), max(0, len(members) - 1))
    return members[position] == asked if len(members) else np.zeros(len(keys), np.bool_)
