"""How the chunks of one NPU spread over a Cayley graph, each generator used at most once in a step."""

from __future__ import annotations

import numpy as np
from numba import njit

from collc.ten.arrays import Int32Array


@njit(cache=True, nogil=True)
def spread(ahead: Int32Array, chunks: int, window: int, rows: Int32Array) -> int:
    """Fills rows int32[4, (npus - 1) * chunks]: step, generator, sender, chunk; returns the steps, -1 if some get none.

    ahead: int32[generators, npus], the NPU that a generator leads to. Each generator takes, of the first
    `window` chunks that it could bring somewhere, one whose target has the fewest informed in-neighbours.
    """
    generators, count = ahead.shape
    closed = np.zeros((chunks, count), np.bool_)
    informed = np.zeros((chunks, count if window > 1 else 1), np.int32)
    holder = np.zeros(chunks * count, np.int32)
    held = np.zeros(chunks * count, np.int32)
    cursor = np.zeros(generators, np.int64)
    step, before, known = -1, 0, chunks
    for chunk in range(chunks):
        held[chunk] = chunk
        closed[chunk, 0] = True
    while known < len(holder):
        if known == before:
            return -1
        if window > 1:
            for place in range(before, known):
                for generator in range(generators):
                    informed[held[place], ahead[generator, holder[place]]] += 1
        before = grown = known
        step += 1
        for turn in range(generators):
            generator = (turn + step) % generators
            place = cursor[generator]
            while place < known and closed[held[place], ahead[generator, holder[place]]]:
                place += 1
            cursor[generator] = place
            best, fewest, seen = -1, 1 << 30, 0
            while place < known and seen < window and fewest > 1:
                target = ahead[generator, holder[place]]
                if not closed[held[place], target]:
                    seen += 1
                    others = informed[held[place], target] if window > 1 else 1
                    if others < fewest:
                        best, fewest = place, others
                place += 1
            if best >= 0:
                chunk = held[best]
                target = ahead[generator, holder[best]]
                closed[chunk, target] = True
                holder[grown], held[grown] = target, chunk
                row = grown - chunks
                rows[0, row], rows[1, row], rows[2, row], rows[3, row] = step, generator, holder[best], chunk
                grown += 1
        known = grown
    return step + 1
