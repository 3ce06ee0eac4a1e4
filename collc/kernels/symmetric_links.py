"""Which generator of a Cayley graph each link is."""

from __future__ import annotations

from numba import njit

from collc.ten.arrays import Int32Array


@njit(cache=True, nogil=True)
def generator_links(
    source: Int32Array, target: Int32Array, kind: Int32Array, ahead: Int32Array, kinds: Int32Array, link: Int32Array
) -> bool:
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
