"""Sorting of large tables by whole numbers, digit by digit, in pieces between which a search can be stopped.

Written for plain Python on lists and for Numba on arrays (collc/kernels/compiled.py).
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Final

DIGIT: Final = 11
"""Bits of a digit: more rows to write to at a time than caches have lines take longer than another pass."""

MASK: Final = (1 << DIGIT) - 1


def count_digits(keys: Sequence[int], shift: int, counts: MutableSequence[int], low: int, high: int) -> None:
    """Count the keys from `low` to `high` by the digit that begins at bit `shift`. counts: [2^DIGIT + 1], one on."""
    for k in range(low, high):
        counts[(keys[k] >> shift & MASK) + 1] += 1


def move_by_digit(
    keys: Sequence[int],
    values: Sequence[int],
    shift: int,
    next_row: MutableSequence[int],
    keys_to: MutableSequence[int],
    values_to: MutableSequence[int],
    low: int,
    high: int,
) -> None:
    """Put keys and values from `low` to `high` in order of a digit. next_row: [2^DIGIT + 1], where the next goes."""
    for k in range(low, high):
        digit = keys[k] >> shift & MASK
        place = next_row[digit]
        next_row[digit] = place + 1
        keys_to[place], values_to[place] = keys[k], values[k]
