"""What the compiled searches share: in which order a row's chunk is brought to those who want it."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Times = NDArray[np.int64]


@njit(cache=True, nogil=True)
def nearest_first(wanted: Ints, holders: Ints | Times, to: Ints | Times, target_row: Ints) -> Ints:
    """Those who want a chunk, the nearest to any of its holders first. to: [targets, devices]."""
    near = np.full(len(wanted), np.int64(1) << 62)
    for i in range(len(wanted)):
        for holder in holders:
            near[i] = min(near[i], np.int64(to[target_row[wanted[i]], holder]))
    return wanted[np.argsort(near, kind="mergesort")]
