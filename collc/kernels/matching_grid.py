"""Link-chunk matching in steps, where all transfers take equal time.

D devices, L links sorted by target (and by number where that is the same), K chunks in an order that keeps
those of near holders together. A device knows what others had before a step, so the steps of one device need not
wait for those of all others: they are done tile by tile, several steps at a time (collc/synthesis/tacos/sweeps.py).
Everything that a destination changes is its own, so the tiles of a wave may be split among threads.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collc.ten.arrays import Int32Array, Int64Array, UInt8Array

Chunks = NDArray[np.uint16] | NDArray[np.uint32]


class Wires(NamedTuple):
    """What does not change.

    first int32[D + 1]: the links into each device. source, number int32[L]: of each link, as the network has them.
    name uint[K]: what each chunk is called in the result. begin int64[tiles * depth + 1], device int32[D * depth]:
    tile k does step t of a sweep for device[begin[k * depth + t] : begin[k * depth + t + 1]].
    """

    first: Int32Array
    source: Int32Array
    number: Int32Array
    name: Chunks
    begin: Int64Array
    device: Int32Array


class State(NamedTuple):
    """What changes.

    order uint[D, K]: the chunks that each device has, in the order in which it got them. length int32[depth + 1, D]:
    how many it has before step s, in row s mod (depth + 1). closed uint8[D, ceil(K / 8)]: bits of what a device does
    not need any more; have uint8: of what it had before this step (only where the rule asks). cursor int32[L]:
    what lies before it in the source's order is closed for ever, or in the window of the link: uint[L, size], the
    first seen int32[L] of it in that order (only where the rule asks).
    """

    order: Chunks
    length: Int32Array
    closed: UInt8Array
    have: UInt8Array
    cursor: Int32Array
    window: Chunks
    seen: Int32Array


@njit(cache=True, nogil=True)
def fifo_tiles(wires: Wires, state: State, low: int, high: int, start: int, steps: int, grid: Chunks, none: int) -> int:
    """Does `steps` steps of the tiles low .. high - 1: every link takes what its source got first of what its target
    lacks. grid uint[steps, L] gets the chunk that each link takes, from row `start` on, `none` for none.

    How many chunks are taken. What one device does in a step stands here, not apart: a call would cost as much.
    """
    first, source, number, name, begin, devices = wires
    order, length, closed, _, cursor, _, _ = state
    count = 0
    for tile in range(low, high):
        for step in range(start, start + steps):
            before, after = step % len(length), (step + 1) % len(length)
            part = tile * (len(length) - 1) + step - start
            for device in devices[begin[part] : begin[part + 1]]:
                size = length[before, device]
                for link in range(first[device], first[device + 1]):
                    sender, place = source[link], cursor[link]
                    last = length[before, sender]
                    found = none
                    while place < last:
                        chunk = order[sender, place]
                        place += 1
                        if not closed[device, chunk >> 3] & bit_of(chunk):
                            closed[device, chunk >> 3] |= bit_of(chunk)
                            order[device, size] = chunk
                            size += 1
                            found = name[chunk]
                            break
                    cursor[link] = place
                    grid[step, number[link]] = found
                count += size - length[before, device]
                length[after, device] = size
    return count


@njit(cache=True, nogil=True)
def fewest_steps(wires: Wires, state: State, start: int, steps: int, grid: Chunks, none: int) -> int:
    """As fifo_tiles for all devices, but of the first such chunks, as many as a window has, each link takes the one
    that the fewest of the target's links could bring.
    """
    first, source, number, name, _, _ = wires
    order, length, closed, have, cursor, window, seen = state
    count = 0
    for step in range(start, start + steps):
        known, grown = length[step % len(length)], length[(step + 1) % len(length)]
        for device in range(len(first) - 1):
            size = known[device]
            for link in range(first[device], first[device + 1]):
                look(order, known, closed, cursor, window, seen, device, link, source[link])
                best, fewest = -1, 1 << 30
                for chunk in window[link, : seen[link]]:
                    holders = 0
                    for other in range(first[device], first[device + 1]):
                        if have[source[other], chunk >> 3] & bit_of(chunk):
                            holders += 1
                    if holders < fewest:
                        best, fewest = np.int64(chunk), holders
                grid[step, number[link]] = none if best < 0 else name[best]
                if best >= 0:
                    closed[device, best >> 3] |= bit_of(best)
                    order[device, size] = best
                    size += 1
            count += size - known[device]
            grown[device] = size
        for device in range(len(first) - 1):
            for chunk in order[device, known[device] : grown[device]]:
                have[device, chunk >> 3] |= bit_of(chunk)
    return count


@njit(cache=True, nogil=True)
def look(
    order: Chunks,
    known: Int32Array,
    closed: UInt8Array,
    cursor: Int32Array,
    window: Chunks,
    seen: Int32Array,
    device: int,
    link: int,
    sender: int,
) -> None:
    """Takes what is closed out of the window of a link, and fills it up from the source's order."""
    kept = 0
    for chunk in window[link, : seen[link]]:
        if not closed[device, chunk >> 3] & bit_of(chunk):
            window[link, kept] = chunk
            kept += 1
    place = cursor[link]
    while kept < window.shape[1] and place < known[sender]:
        chunk = order[sender, place]
        place += 1
        if not closed[device, chunk >> 3] & bit_of(chunk):
            window[link, kept] = chunk
            kept += 1
    cursor[link] = place
    seen[link] = kept


@njit(cache=True, nogil=True)
def bit_of(chunk: int) -> int:
    """The bit of a chunk in its byte."""
    return np.uint8(1 << (chunk & 7))
