"""Link-chunk matching in steps, where all transfers take equal time.

Arrays, with D devices, L links sorted by target (and by number where that is the same), K chunks:
first int32[D + 1]: the links into each device. source, number int32[L]. order uint[D, K]: the chunks
that each device has, in the order in which it got them, length of them known now, grown of them with
this step. closed, have uint8[D, ceil(K / 8)]: bits of what a device does not need any more, and of what
it had before this step. cursor int32[L]: what lies before it in the source's order is closed for ever.
row uint[L]: the chunk that each link takes in this step, `none` for none.

Everything that a destination changes is its own, so the destinations may be split among threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Bits = NDArray[np.uint8]
Chunks = NDArray[np.uint16] | NDArray[np.uint32]


@njit(cache=True, nogil=True)
def fifo_step(
    low: int,
    high: int,
    first: Ints,
    source: Ints,
    number: Ints,
    order: Chunks,
    length: Ints,
    grown: Ints,
    closed: Bits,
    cursor: Ints,
    row: Chunks,
    none: int,
) -> int:
    """Each link into the devices low .. high - 1 takes what its source got first of what its target lacks."""
    count = 0
    for device in range(low, high):
        size = length[device]
        for link in range(first[device], first[device + 1]):
            sender = source[link]
            place = cursor[link]
            last = length[sender]
            found = none
            while place < last:
                chunk = order[sender, place]
                place += 1
                bit = np.uint8(1 << (chunk & 7))
                if not closed[device, chunk >> 3] & bit:
                    closed[device, chunk >> 3] |= bit
                    order[device, size] = chunk
                    size += 1
                    count += 1
                    found = chunk
                    break
            cursor[link] = place
            row[number[link]] = found
        grown[device] = size
    return count


@njit(cache=True, nogil=True)
def fewest_step(
    low: int,
    high: int,
    first: Ints,
    source: Ints,
    number: Ints,
    order: Chunks,
    length: Ints,
    grown: Ints,
    closed: Bits,
    have: Bits,
    window: int,
    cursor: Ints,
    row: Chunks,
    none: int,
) -> int:
    """As fifo_step, but of the first `window` such chunks the one that the fewest of the target's links could bring."""
    count = 0
    for device in range(low, high):
        size = length[device]
        begin, end = first[device], first[device + 1]
        for link in range(begin, end):
            sender = source[link]
            place = cursor[link]
            last = length[sender]
            while place < last and closed[device, order[sender, place] >> 3] & (1 << (order[sender, place] & 7)):
                place += 1
            cursor[link] = place
            best, fewest, seen = none, 1 << 30, 0
            while place < last and seen < window and fewest > 1:
                chunk = order[sender, place]
                place += 1
                byte, bit = chunk >> 3, np.uint8(1 << (chunk & 7))
                if closed[device, byte] & bit:
                    continue
                seen += 1
                others = 0
                for other in range(begin, end):
                    if have[source[other], byte] & bit:
                        others += 1
                if others < fewest:
                    fewest, best = others, chunk
            row[number[link]] = best
            if best != none:
                closed[device, best >> 3] |= np.uint8(1 << (best & 7))
                order[device, size] = best
                size += 1
                count += 1
        grown[device] = size
    return count


@njit(cache=True, nogil=True)
def settle(
    low: int,
    high: int,
    order: Chunks,
    length: Ints,
    grown: Ints,
    have: Bits,
) -> None:
    """Books what arrived at the devices low .. high - 1 with a step."""
    for device in range(low, high):
        for place in range(length[device], grown[device]):
            chunk = order[device, place]
            have[device, chunk >> 3] |= np.uint8(1 << (chunk & 7))
        length[device] = grown[device]
