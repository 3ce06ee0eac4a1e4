"""What is planned for one NPU of a Cayley graph, and moved to all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Times = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Plan:
    """What is done with what NPU 0 sends, one row a transfer, in any order.

    end: steps in all, or picoseconds. start: when, in the same unit. generator: over which. sender: the NPU that it
    leaves.
    chunk: which of NPU 0's: 0 .. chunks - 1 in an All-Gather, NPU * chunks + c for the one to an NPU in an All-to-All.
    half: -1: what all NPUs do; 0, 1: what only those do whose index along `axis` is even, or odd. None: all do all.
    """

    end: int
    start: Ints | Times
    generator: Ints
    sender: Ints
    chunk: Ints
    half: Ints | None = None
    axis: int = 0
