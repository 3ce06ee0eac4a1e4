"""Which link each generator of a Cayley graph is at each NPU.

Written for arrays; the caller compiles it (collc/kernels/compiled.py).
"""

from __future__ import annotations

from collc.ten.arrays import Int32Array


def match_generators(
    source: Int32Array,
    target: Int32Array,
    kind: Int32Array,
    successors: Int32Array,
    kind_of_generator: Int32Array,
    link: Int32Array,
) -> bool:
    """Fills link int32[generators, npus]; whether every link is a generator at its NPU.

    source, target, kind: int32[links], as many as generators x NPUs. successors: int32[generators, npus], the NPU that
    a generator leads to. Parallel links of one kind go to generators in order of number.
    """
    generators = len(kind_of_generator)
    link[:] = -1
    for number in range(len(source)):
        npu, there = source[number], target[number]
        generator = 0
        while generator < generators and (
            successors[generator, npu] != there
            or kind_of_generator[generator] != kind[number]
            or link[generator, npu] >= 0
        ):
            generator += 1
        if generator == generators:
            return False
        link[generator, npu] = number
    return True
