"""Sorting in time that is proportional to the number of rows, and that can be stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from collc.kernels.compiled import compiled
from collc.ten.arrays import Int32Array, Int64Array

PIECE: Final = 1 << 22
"""Rows between two calls of `check`."""


def sorted_by(keys: Int64Array, values: Int32Array, check: Callable[[], None]) -> tuple[Int64Array, Int32Array]:
    """The keys, ascending, and the value of each; those of equal keys stay in order.

    keys: not negative; both arrays may be overwritten. check: called from time to time, may raise.
    """
    from collc.kernels.radix_sort import DIGIT, count_digits, move_by_digit

    count: Callable[..., None] = compiled(count_digits)
    move: Callable[..., None] = compiled(move_by_digit)
    keys_to, values_to = np.empty_like(keys), np.empty_like(values)
    pieces = [(low, min(low + PIECE, len(keys))) for low in range(0, len(keys), PIECE)]
    for shift in range(0, int(keys.max(initial=0)).bit_length(), DIGIT):
        next_row = np.zeros((1 << DIGIT) + 1, np.int64)
        for low, high in pieces:
            check()
            count(keys, shift, next_row, low, high)
        np.cumsum(next_row, out=next_row)
        for low, high in pieces:
            check()
            move(keys, values, shift, next_row, keys_to, values_to, low, high)
        keys, keys_to, values, values_to = keys_to, keys, values_to, values
    return keys, values
