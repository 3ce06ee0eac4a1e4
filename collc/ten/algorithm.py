"""An algorithm written by hand, before it is laid out on the links of a network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.ten.arrays import BoolArray, Int32Array


@dataclass(frozen=True, eq=False)
class AlgorithmSends:
    """The statements `send x from a to b at s` and `reduce ...` of one run, one row each, in order of declaration.

    chunk: int32, chunk numbers of the demand. source, target: int32, NPU numbers. step: int32, the logical
    step, -1 if the statement has no `at`. reduce: bool, True for `reduce`.
    """

    chunk: Int32Array
    source: Int32Array
    target: Int32Array
    step: Int32Array
    reduce: BoolArray

    def __len__(self) -> int:
        return len(self.chunk)

    def renumber(self, group: Int32Array, first_chunk: int) -> AlgorithmSends:
        """The statements of a run, from its ranks and own chunk numbers to NPUs and chunk numbers of the demand.

        group: int32[ranks], NPU numbers. first_chunk: the number of the run's first chunk.
        """
        chunk = (self.chunk + first_chunk).astype(np.int32)
        return AlgorithmSends(chunk, group[self.source], group[self.target], self.step, self.reduce)
