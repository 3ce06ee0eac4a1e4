"""Which generator of a Cayley graph each link is."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int32]


@njit(cache=True, nogil=True)
def generator_links(source: Ints, target: Ints, kind: Ints, ahead: Ints, kinds: Ints, link: Ints) -> bool:
    """Fills link int32[generators, npus], -1 before, from source, target, kind int32[links]; whether all links fit.

    ahead: int32[generators, npus], where each generator leads. kinds: int32[generators]. Parallel links are
    taken in order of number. There are as many links as generators times NPUs, so if all fit, none is missing.
    """
    for number in range(len(source)):
        here, there = source[number], target[number]
        generator = 0
        while generator < len(ahead) and not (
            ahead[generator, here] == there and kinds[generator] == kind[number] and link[generator, here] < 0
        ):
            generator += 1
        if generator == len(ahead):
            return False
        link[generator, here] = number
    return True
