"""The replay of copies in order of time, block by block: one bit for each chunk and NPU, and what is under way."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collc.kernels.cached_jit import jit
from collc.ten.arrays import Int32Array, Int64Array

UInt64Array = NDArray[np.uint64]


class CopyNetwork(NamedTuple):
    """Links and durations. source, target, kind: int32[links]. busy, total: int64[kinds, sizes], picoseconds.

    size_of: int32[chunks]. npus: devices from this number on are switches.
    """

    source: Int32Array
    target: Int32Array
    kind: Int32Array
    busy: Int64Array
    total: Int64Array
    size_of: Int32Array
    npus: int


class CopyState(NamedTuple):
    """What is known at a time; written.

    held: uint64[chunks, words], a bit for each NPU that holds a chunk. waiting: int32[chunks, switches], how often a
    chunk has arrived at a switch and not left it. free: int64[links], picoseconds from which a link is free.
    Chunks under way are in a ring for each pair of kind and size, in order of arrival: first, after: int64[rings],
    numbers of the first one and of the one after the last. begin: int64[rings + 1], where the slots of each ring
    begin, a power of two for each. slot_chunk, slot_device: int32[slots]. slot_time: int64[slots], arrivals.
    """

    held: UInt64Array
    waiting: Int32Array
    free: Int64Array
    first: Int64Array
    after: Int64Array
    begin: Int64Array
    slot_chunk: Int32Array
    slot_device: Int32Array
    slot_time: Int64Array


@jit()
def arrive(state: CopyState, npus: int, time: int) -> None:
    """Let all that is under way arrive, up to a time."""
    held, waiting, _, first, after, begin, slot_chunk, slot_device, slot_time = state
    for ring in range(len(first)):
        low, mask = begin[ring], begin[ring + 1] - begin[ring] - 1
        position = first[ring]
        while position < after[ring]:
            slot = low + (position & mask)
            if slot_time[slot] > time:
                break
            chunk, device = slot_chunk[slot], slot_device[slot]
            if device < npus:
                held[chunk, device >> 6] |= np.uint64(1) << np.uint64(device & 63)
            else:
                waiting[chunk, device - npus] += 1
            position += 1
        first[ring] = position


@jit()
def replay_copies(
    chunk: Int32Array, link: Int32Array, start: Int64Array, since: int, network: CopyNetwork, state: CopyState
) -> bool:
    """Whether transfers, by start, begin on free links, when their senders hold what they send.

    since: picoseconds, before which nothing starts. Switches pass on each arrival once.
    """
    source, target, kind, busy, total, size_of, npus = network
    held, waiting, free, _, after, begin, slot_chunk, slot_device, slot_time = state
    sizes = busy.shape[1]
    for row in range(len(chunk)):
        what, on, time = chunk[row], link[row], start[row]
        if time < since or time < free[on]:
            return False
        if time > since or row == 0:
            arrive(state, npus, time)
            since = time
        sender = source[on]
        if sender < npus:
            if not (held[what, sender >> 6] >> np.uint64(sender & 63)) & np.uint64(1):
                return False
        elif waiting[what, sender - npus] < 1:
            return False
        else:
            waiting[what, sender - npus] -= 1
        size = size_of[what]
        free[on] = time + busy[kind[on], size]
        ring = kind[on] * sizes + size
        slot = begin[ring] + (after[ring] & (begin[ring + 1] - begin[ring] - 1))
        slot_chunk[slot], slot_device[slot] = what, target[on]
        slot_time[slot] = time + total[kind[on], size]
        after[ring] += 1
    return True
