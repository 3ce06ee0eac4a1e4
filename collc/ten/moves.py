"""An algorithm written by hand, before it is laid out on the links of a network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Moves:
    """The statements `send x from a to b at s` and `reduce ...` of one run, in order of declaration.

    chunk: int32, numbers of the demand. source, target: int32, NPU numbers. step: int32, the logical
    step, -1 where none is given. reduce: bool.
    """

    chunk: Ints
    source: Ints
    target: Ints
    step: Ints
    reduce: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.chunk)
