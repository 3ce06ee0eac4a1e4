"""The hot loops of the check of large step-by-link tables: who holds what, one bit for each chunk and NPU.

held: uint8[npus, chunks / 8], bit `chunk % 8` of held[npu, chunk // 8]. Rows of a table: a chunk number for each link,
`none` for no chunk.
"""

import numpy as np

from collc.kernels.cached_jit import jit
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, StepTable, UInt8Array


@jit()
def mark_arrivals(held: UInt8Array, row: StepTable, legal: BoolArray, target: Int32Array, none: int) -> None:
    """Set the bits of the chunks that were sent in a step, as far as they were legal."""
    for link in range(len(row)):
        chunk = row[link]
        if chunk != none and legal[link]:
            held[target[link], chunk >> 3] |= np.uint8(1) << np.uint8(chunk & 7)


@jit()
def check_sends(held: UInt8Array, row: StepTable, legal: BoolArray, source: Int32Array, none: int, chunks: int) -> int:
    """Set `legal` for each transfer of a step whose source holds the chunk; the first link if it does not, or -1."""
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


@jit()
def run_steps(
    held: UInt8Array,
    table: StepTable,
    first: int,
    before: StepTable,
    source: Int32Array,
    target: Int32Array,
    none: int,
    chunks: int,
    legal: BoolArray,
    wrong: Int64Array,
) -> int:
    """Replay a block of steps; returns the number of offenders, whose (step, link) are written to `wrong`.

    first: the number of the first step. before: the `delay` rows before the block. legal: bool[delay, links], a ring
    buffer: whether each transfer of the last `delay` steps was legal. At most one offender a step is reported.
    """
    delay = len(legal)
    count = 0
    for step in range(len(table)):
        slot = (first + step) % delay
        arriving = table[step - delay] if step >= delay else before[step]
        if first + step >= delay:
            mark_arrivals(held, arriving, legal[slot], target, none)
        link = check_sends(held, table[step], legal[slot], source, none, chunks)
        if link >= 0 and count < len(wrong):
            wrong[count, 0], wrong[count, 1] = first + step, link
            count += 1
    return count


@jit()
def missing(held: UInt8Array, npus: Int32Array, chunks: Int64Array, limit: int) -> tuple[int, Int64Array]:
    """(count, pairs): the (chunk, NPU) pairs of which the NPU lacks the chunk, at most `limit` of them."""
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
