"""The hot loops of the check of large grids: who holds what, one bit for each chunk and NPU."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from collc.ten.arrays import BoolArray, Int32Array, Int64Array, UInt8Array

Grid = NDArray[np.uint16 | np.uint32]


@njit(cache=True)
def take_in(held: UInt8Array, row: Grid, legal: BoolArray, target: Int32Array, none: int) -> None:
    """The chunks of a step arrive."""
    for link in range(len(row)):
        chunk = row[link]
        if chunk != none and legal[link]:
            held[target[link], chunk >> 3] |= np.uint8(1) << np.uint8(chunk & 7)


@njit(cache=True)
def send_out(held: UInt8Array, row: Grid, legal: BoolArray, source: Int32Array, none: int, chunks: int) -> int:
    """Mark in `legal` which transfers of a step send what their source holds; the first that does not, or -1."""
    wrong = -1
    for link in range(len(row)):
        chunk = row[link]
        if chunk == none:
            continue
        right = chunk < chunks and (held[source[link], chunk >> 3] >> np.uint8(chunk & 7)) & 1 == 1
        legal[link] = right
        if not right and wrong < 0:
            wrong = link
    return wrong


@njit(cache=True)
def run_steps(
    held: UInt8Array,
    grid: Grid,
    first: int,
    before: Grid,
    source: Int32Array,
    target: Int32Array,
    none: int,
    chunks: int,
    legal: BoolArray,
    wrong: Int64Array,
) -> int:
    """Carry out a block of steps; `before` are the `delay` rows ahead of it, `wrong` gets (step, link) offenders.

    legal: bool[delay, links], a ring of which transfers of the last steps were right. Returns how many are wrong.
    """
    delay = len(legal)
    count = 0
    for step in range(len(grid)):
        slot = (first + step) % delay
        arriving = grid[step - delay] if step >= delay else before[step]
        if first + step >= delay:
            take_in(held, arriving, legal[slot], target, none)
        link = send_out(held, grid[step], legal[slot], source, none, chunks)
        if link >= 0 and count < len(wrong):
            wrong[count, 0], wrong[count, 1] = first + step, link
            count += 1
    return count


@njit(cache=True)
def missing(held: UInt8Array, npus: Int32Array, chunks: Int64Array, limit: int) -> tuple[int, Int64Array]:
    """(chunk, NPU) pairs of a set's NPUs that lack one of its chunks, at most `limit`: (count, pairs)."""
    found = np.empty((limit, 2), np.int64)
    count = 0
    for npu in npus:
        for chunk in chunks:
            if (held[npu, chunk >> 3] >> np.uint8(chunk & 7)) & 1 == 0:
                if count < limit:
                    found[count, 0], found[count, 1] = chunk, npu
                    count += 1
                else:
                    return count, found
    return count, found
