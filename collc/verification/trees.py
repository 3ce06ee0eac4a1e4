"""Whether chunks spread, and sums form, along trees: then a few sorts of all transfers show that a schedule is right.

What is no tree, such as a one-shot sum, is left to the replay, which follows the contributions to each chunk one by
one: this takes as many bits as there are NPUs for each NPU.
"""

from __future__ import annotations

import numpy as np

from collc.ten.arrays import MOST_KEYS, BoolArray, Int32Array, Int64Array, find_keys, ranges
from collc.ten.demand import ChunkTable, Op
from collc.ten.module import Module
from collc.ten.schedule import Clock, RowSchedule


def trees_are_right(module: Module) -> bool:
    """Whether the rows of a schedule deliver all chunks along trees; if False, they may do so otherwise.

    Switches must pass on as many copies as reach them, the n-th after the n-th has come, and all transfers take time.

    A copy leaves a device that holds the whole value: a holder of the precondition, the root of a finished sum, or a
    device that another copy has reached. By induction over time, all copies are then right. Of the partials of a chunk,
    each contributor but one, the root, sends one, after all that it receives; so each contribution ends at the root,
    and no other copies of it exist. Copies begin when the sum is complete.
    """
    network, table = module.network, module.demand.chunks
    assert isinstance(module.schedule, RowSchedule)
    rows, devices = module.schedule.rows, network.device_count
    if len(table) * devices >= MOST_KEYS or int(rows.start.min(initial=0)) < 0:
        return False
    source, target = network.source[rows.link], network.target[rows.link]
    there = (source != target) & network.present[source] & network.present[target]
    reduced, chunk = table.op != Op.COPY, rows.chunk.astype(np.int64)
    if not there.all() or (rows.reduce & ~reduced[chunk]).any():
        return False
    arrival = rows.start + Clock.of(network, module.demand, module.model).total_of(rows)
    into, out = chunk * devices + target, chunk * devices + source
    copied, added = np.flatnonzero(~rows.reduce), np.flatnonzero(rows.reduce)
    last, first = np.zeros(len(table), np.int64), np.full(len(table), np.iinfo(np.int64).max)
    np.maximum.at(last, chunk[added], arrival[added])
    np.minimum.at(first, chunk[copied], rows.start[copied])
    if (last > first).any():
        return False
    partials = into[added], out[added], rows.start[added], arrival[added]
    roots = _roots(*partials, _members(table, table.pre, reduced, devices), reduced, network.npu_count, devices)
    if roots is None:
        return False
    held = _members(table, table.pre, ~reduced, devices)
    key = np.concatenate([held, roots, into[copied]])
    since = np.concatenate([np.zeros(len(held), np.int64), last[roots // devices], arrival[copied]])
    order = np.lexsort((since, key))
    key, position = np.unique(key[order], return_index=True)
    since = since[order][position]
    return _has(key, since, out[copied], rows.start[copied]) and _has(
        key, since, _members(table, table.post, np.ones_like(reduced), devices), None
    )


def _members(table: ChunkTable, column: Int32Array, chosen: BoolArray, devices: int) -> Int64Array:
    """int64: chunk * devices + NPU, for each NPU in the set of each chosen chunk. column: int32[chunks], the sets."""
    chunk = np.flatnonzero(chosen)
    sets, size = column[chunk], table.sets.sizes[column[chunk]]
    member = ranges(table.sets.offsets[sets], table.sets.offsets[sets + 1])
    return np.repeat(chunk, size) * devices + table.sets.members[member]


def _has(key: Int64Array, since: Int64Array, wanted: Int64Array, by: Int64Array | None) -> bool:
    """Whether each wanted key is among the ascending ones, and not later than `by`."""
    position, there = find_keys(key, wanted)
    return bool(there.all()) and (by is None or bool((since[position] <= by).all()))


def _roots(
    into: Int64Array,
    out: Int64Array,
    start: Int64Array,
    arrival: Int64Array,
    contributors: Int64Array,
    reduced: BoolArray,
    npus: int,
    devices: int,
) -> Int64Array | None:
    """int64: the root of each chunk that is reduced, as keys chunk * devices + NPU; None if partials form no tree.

    into, out, start, arrival: int64, of each partial: where it comes to and from, as keys; when it is sent, and
    arrives. contributors: keys, ascending by chunk. reduced: bool[chunks].
    """
    contributors = np.sort(contributors)
    at_switch, from_switch = into % devices >= npus, out % devices >= npus
    came, left = np.flatnonzero(at_switch), np.flatnonzero(from_switch)
    came = came[np.lexsort((arrival[came], into[came]))]
    left = left[np.lexsort((start[left], out[left]))]
    if not np.array_equal(into[came], out[left]) or (start[left] < arrival[came]).any():
        return None
    sent, number = np.unique(out[~from_switch], return_index=True)
    if len(sent) < int((~from_switch).sum()):
        return None
    begins = start[~from_switch][number]
    ends = into[~at_switch]
    if not _has(contributors, contributors, sent, None) or not _has(contributors, contributors, ends, None):
        return None
    position, sends = find_keys(sent, ends)
    if (arrival[~at_switch][sends] > begins[position[sends]]).any():
        return None
    roots = np.setdiff1d(contributors, sent, assume_unique=True)
    return roots if np.array_equal(roots // devices, np.flatnonzero(reduced)) else None
