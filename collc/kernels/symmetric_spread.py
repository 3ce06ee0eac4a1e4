"""How the chunk of one NPU spreads over a Cayley graph, each generator used at most once in a step.

Plain Python on plain arrays; the caller compiles it (Numba) where that pays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]


def spread(ahead: Ints, chunks: int, window: int, rows: Ints) -> int:
    """Fills rows int32[(elements - 1) * chunks, 4]: (step, generator, element that sends, chunk); returns the steps.

    ahead: int32[generators, elements], the element that a generator leads to. Each generator takes, of the
    first `window` chunks that it could bring somewhere, one whose target has the fewest informed in-neighbours.
    """
    generators, elements = ahead.shape
    closed = np.zeros((chunks, elements), np.bool_)
    informed = np.zeros((chunks, elements), np.int32)
    order = np.zeros((chunks * elements, 2), np.int32)
    cursor = np.zeros(generators, np.int64)
    known = chunks
    for chunk in range(chunks):
        order[chunk, 1] = chunk
        closed[chunk, 0] = True
        for generator in range(generators):
            informed[chunk, ahead[generator, 0]] += 1
    step = 0
    while known < len(order):
        grown = known
        for turn in range(generators):
            generator = (turn + step) % generators
            place = cursor[generator]
            while place < known and closed[order[place, 1], ahead[generator, order[place, 0]]]:
                place += 1
            cursor[generator] = place
            best, fewest, seen = -1, 1 << 30, 0
            while place < known and seen < window:
                sender, chunk = order[place, 0], order[place, 1]
                target = ahead[generator, sender]
                if not closed[chunk, target]:
                    seen += 1
                    if informed[chunk, target] < fewest:
                        best, fewest = place, informed[chunk, target]
                place += 1
            if best >= 0:
                sender, chunk = order[best, 0], order[best, 1]
                target = ahead[generator, sender]
                closed[chunk, target] = True
                order[grown, 0], order[grown, 1] = target, chunk
                row = rows[grown - chunks]
                row[0], row[1], row[2], row[3] = step, generator, sender, chunk
                grown += 1
        if grown == known:
            return -1
        for place in range(known, grown):
            for generator in range(generators):
                informed[order[place, 1], ahead[generator, order[place, 0]]] += 1
        known = grown
        step += 1
    return step
