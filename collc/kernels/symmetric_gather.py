"""How the chunks of one NPU spread over a Cayley graph in steps, each generator used at most once in a step.

Written for arrays; the caller compiles it (collc/kernels/compiled.py).
"""

from __future__ import annotations

import numpy as np

from collc.ten.arrays import Int32Array


def gather_by_steps(successors: Int32Array, chunks: int, window: int, rows: Int32Array) -> int:
    """Fills rows int32[4, (npus - 1) * chunks]: step, generator, sender, chunk; returns the steps, -1 if some get none.

    successors: int32[generators, npus], the NPU that a generator leads to. In each step every generator takes, of the
    first `window` pairs of holder and chunk that it could use, one whose target has the fewest predecessors that hold
    the chunk. Pairs are in the order in which the holders got the chunk.
    """
    generators, count = successors.shape
    assigned = np.zeros((chunks, count), np.bool_)  # the target has the chunk, or will have it after this step
    informed = np.zeros((chunks, count if window > 1 else 1), np.int32)  # predecessors that hold the chunk
    holder = np.zeros(chunks * count, np.int32)
    held = np.zeros(chunks * count, np.int32)
    cursor = np.zeros(generators, np.int64)  # the targets of all pairs before it are assigned
    step, before, known = -1, 0, chunks
    for chunk in range(chunks):
        held[chunk] = chunk
        assigned[chunk, 0] = True
    while known < len(holder):
        if known == before:
            return -1
        if window > 1:
            for pair in range(before, known):
                for generator in range(generators):
                    informed[held[pair], successors[generator, holder[pair]]] += 1
        before = grown = known
        step += 1
        for turn in range(generators):
            generator = (turn + step) % generators
            pair = cursor[generator]
            while pair < known and assigned[held[pair], successors[generator, holder[pair]]]:
                pair += 1
            cursor[generator] = pair
            best, fewest, seen = -1, 1 << 30, 0
            while pair < known and seen < window and fewest > 1:
                target = successors[generator, holder[pair]]
                if not assigned[held[pair], target]:
                    seen += 1
                    others = informed[held[pair], target] if window > 1 else 1
                    if others < fewest:
                        best, fewest = pair, others
                pair += 1
            if best >= 0:
                chunk = held[best]
                target = successors[generator, holder[best]]
                assigned[chunk, target] = True
                holder[grown], held[grown] = target, chunk
                row = grown - chunks
                rows[0, row], rows[1, row], rows[2, row], rows[3, row] = step, generator, holder[best], chunk
                grown += 1
        known = grown
    return step + 1
