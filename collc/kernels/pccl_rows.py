"""What the compiled searches share: in which order a row's chunk is brought to those who want it."""

from __future__ import annotations

import numpy as np
from numba import njit

from collc.ten.arrays import Int32Array, Int64Array


@njit(cache=True, nogil=True)
def nearest_first(
    wanted: Int32Array, holders: Int32Array | Int64Array, to: Int32Array | Int64Array, target_row: Int32Array
) -> Int32Array:
    """Those who want a chunk, the nearest to any of its holders first. to: [targets, devices]."""
    near = np.full(len(wanted), np.int64(1) << 62)
    for i in range(len(wanted)):
        for holder in holders:
            near[i] = min(near[i], np.int64(to[target_row[wanted[i]], holder]))
    return wanted[np.argsort(near, kind="mergesort")]
