"""Whether a factored schedule of bundles is right: the path of each chunk of NPU 0 is followed from bundle to bundle.

Times on each class of links are disjoint, so that translations never meet on a link. In a bundle, each link begins
where the one before ends, and no chunk is sent before it has come, since the first and the last chunk are not. So a
bundle takes all its chunks equally far; a chunk must be where its next bundle begins, and at its end where it is
wanted. This is so of all NPUs' chunks, which are the translations of those of NPU 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.bundled_schedule import FactoredBundles
from collc.ten.demand import Op
from collc.ten.factored_schedule import chunk_size
from collc.ten.module import Module
from collc.verification.factored_check import (
    Hops,
    are_translations,
    hops_of,
    is_free_of_congestion,
    is_whole_collective,
)


def bundles_are_right(module: Module, schedule: FactoredBundles) -> bool:
    """Whether it is shown that a schedule of an All-to-All without switches is right."""
    network, standard = module.network, module.demand.standard
    if standard is None or not is_whole_collective(module, schedule) or schedule.model is not module.model:
        return False
    if not schedule.numbers.pairs or standard.shape.reduces or standard.op != Op.COPY:
        return False
    if network.switch_count or not network.present.all() or bool((network.source == network.target).any()):
        return False
    if not _have_ranges(schedule) or schedule.translations.count != network.npu_count:
        return False
    if not are_translations(schedule.translations, network):
        return False
    hops = hops_of(network, schedule, chunk_size(module.demand))
    if hops is None or bool(schedule.rows.reduce.any()) or int(hops.first.min()) < 0:
        return False
    paths = _paths_of(schedule, hops) if is_free_of_congestion(schedule, hops) else None
    return paths is not None and _are_delivered(schedule, paths)


def _have_ranges(schedule: FactoredBundles) -> bool:
    """Whether bundles, chunks and elements are as many and in the ranges that the schedule says."""
    first, chunks, elements, rows = schedule.first, schedule.chunks, schedule.elements, schedule.rows
    if len(first) < 2 or len(rows.chunk) < 1 or int(first[0]) != 0 or not bool((np.diff(first) > 0).all()):
        return False
    if int(first[-1]) != len(chunks) or len(elements) != len(chunks) or len(schedule.turn) != len(rows):
        return False
    return (
        _are_below(rows.chunk, len(first) - 1)
        and _are_below(elements, schedule.translations.count)
        and _are_below(chunks, schedule.translations.count * schedule.numbers.parts)
    )


def _are_below(numbers: Int32Array, count: int) -> bool:
    return bool(((numbers >= 0) & (numbers < count)).all())


@dataclass(frozen=True, eq=False)
class _Paths:
    """For each bundle, its first and last row, and where it takes NPU 0.

    begin, end: int64, when its first chunk is sent, and has come. apart, ends_apart: int64, how much later this is of
    each further chunk. moved: int32, the element of the group.
    """

    begin: Int64Array
    apart: Int64Array
    end: Int64Array
    ends_apart: Int64Array
    moved: Int32Array


def _paths_of(schedule: FactoredBundles, hops: Hops) -> _Paths | None:
    """The paths of bundles; None if one has none, does not begin at NPU 0, has a gap, or a row that is too early."""
    bundle, turn, translations = schedule.rows.chunk, schedule.turn, schedule.translations
    order = np.lexsort((hops.first, bundle))
    first, last = _ends(bundle[order])
    if not np.array_equal(bundle[order[first]], np.arange(len(schedule.first) - 1)):
        return None
    before, after = order[:-1][~last[:-1]], order[1:][~first[1:]]
    joined = hops.target[before] == hops.source[after]
    joined &= (hops.soonest[before] <= hops.first[after]) & (hops.latest[before] <= hops.last[after])
    begin, end = order[first], order[last]
    if not joined.all() or bool((hops.source[begin] != translations.orbits[0, 0]).any()):
        return None
    moved = translations.element_of[hops.target[end]]
    return _Paths(hops.first[begin], turn[begin], hops.soonest[end], turn[end], moved)


def _are_delivered(schedule: FactoredBundles, paths: _Paths) -> bool:
    """Whether each chunk is at NPU 0 first, then where the next of its bundles begins, and last where it is wanted."""
    translations, numbers, size = schedule.translations, schedule.numbers, np.diff(schedule.first)
    bundle = np.repeat(np.arange(len(size)), size)
    position = np.arange(len(bundle)) - schedule.first[bundle]
    sent = paths.begin[bundle] + position * paths.apart[bundle]
    order = np.lexsort((sent, schedule.chunks))
    bundle, position, sent = bundle[order], position[order], sent[order]
    chunk, start = schedule.chunks[order], schedule.elements[order]
    stop = translations.sum(start, paths.moved[bundle])
    come = paths.end[bundle] + position * paths.ends_apart[bundle]
    first, last = _ends(chunk)
    before, after = ~last[:-1], ~first[1:]
    if (start[first] != 0).any() or (start[1:][after] != stop[:-1][before]).any():
        return False
    if (sent[1:][after] < come[:-1][before]).any():
        return False
    target = np.argsort(numbers.rank)[np.arange(translations.count * numbers.parts) // numbers.parts]
    reached = np.zeros(len(target), np.int32)
    reached[chunk[last]] = stop[last]
    return np.array_equal(reached, translations.element_of[target])


def _ends(key: Int32Array) -> tuple[BoolArray, BoolArray]:
    """(bool, bool): whether each of some sorted keys is the first, and the last of its value."""
    changes = key[1:] != key[:-1]
    return np.append(True, changes), np.append(changes, True)
