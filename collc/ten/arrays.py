"""Types of NumPy arrays for the whole package (docstrings give shapes and units), and grouping by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from math import prod
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
Int16Array = NDArray[np.int16]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
UInt8Array = NDArray[np.uint8]
UInt64Array = NDArray[np.uint64]

MOST_KEYS: Final = 2**62
"""Rows of several numbers become keys of 64 bits if fewer different rows are possible."""

Table = TypeVar("Table")
Scalar = TypeVar("Scalar", bound=np.generic)

StepTable = NDArray[np.uint16] | NDArray[np.uint32]
"""[steps, links]: the chunk that each link carries in each step; the largest number of the type for none."""


def join_columns(tables: Sequence[Table]) -> Table:
    """The rows of all tables, one after another; a table is a dataclass whose fields are arrays."""
    columns = [[getattr(table, column.name) for table in tables] for column in fields(cast("Any", tables[0]))]
    return type(tables[0])(*map(np.concatenate, columns))


def select_rows(table: Table, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Table:
    """Some rows of a table, or all in another order; see join_columns."""
    return type(table)(*(getattr(table, column.name)[rows] for column in fields(cast("Any", table))))


def group_positions(keys: Int32Array, count: int) -> tuple[Int32Array, Int32Array]:
    """Positions by key in CSR form: (offsets int32[count + 1], positions int32, ascending for each key).

    keys: int32, each from 0 to count - 1.
    """
    positions = order_of(keys, count).astype(np.int32)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(keys, minlength=count), out=offsets[1:])
    return offsets, positions


def order_of(keys: Int32Array | Int64Array, count: int) -> NDArray[np.intp]:
    """The stable order of numbers from 0 to count - 1. NumPy counts numbers of 16 bits, and compares longer ones."""
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    for shift in range(16, (count - 1).bit_length(), 16):
        digit = (keys >> shift).astype(np.uint16)
        order = order[np.argsort(digit[order], kind="stable")]
    return order


def find_runs(keys: Int64Array, wanted: Int64Array) -> tuple[Int64Array, Int64Array]:
    """(int64[n], int64[n]): the begin and the end of each wanted key among the ascending ones."""
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    number = np.searchsorted(keys[begins], wanted)
    bounds = np.append(begins, [len(keys)] * 2)
    there = np.append(keys[begins], 0)[number] == wanted
    there &= number < len(begins)
    return bounds[number], bounds[number + there]


def ranges(first: Int64Array, after: Int64Array) -> Int64Array:
    """int64: the numbers of each range, one range after another."""
    size = after - first
    return np.arange(int(size.sum()), dtype=np.int64) + np.repeat(first - (np.cumsum(size) - size), size)


def find_keys(keys: Int64Array, wanted: Int64Array) -> tuple[Int64Array, BoolArray]:
    """(int64[n], bool[n]): the position of each wanted key among the ascending ones, and whether it is there."""
    if not len(keys):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    position = np.empty(len(wanted), np.int64)
    # Sorted ones take a fifth of the time if there are millions: a search finds the keys of the last one in the cache.
    order = np.argsort(wanted)
    position[order] = np.minimum(np.searchsorted(keys, wanted[order]), len(keys) - 1)
    return position, keys[position] == wanted


def fits_table(span: int, count: int) -> bool:
    """Whether a table of a byte for each number of a span takes less time than sorting `count` of them, and little
    memory.
    """
    return span <= min(64 * count, 1 << 26)


def distinct(items: NDArray[Scalar]) -> NDArray[Scalar]:
    """The distinct items in ascending order.

    NumPy's `unique` takes six times as long for millions, and 14 ms to load masked arrays.
    """
    if len(items) and items.dtype.kind == "i":
        whole = cast("Int64Array", items)
        low = int(whole.min())
        span = int(whole.max()) - low + 1
        if fits_table(span, len(whole)):
            is_used = np.zeros(span, np.bool_)
            is_used[whole - whole.dtype.type(low)] = True
            return (np.flatnonzero(is_used) + low).astype(items.dtype)
    ordered = np.sort(items)
    kept = np.ones(len(ordered), np.bool_)
    kept[1:] = ordered[1:] != ordered[:-1]
    return ordered[kept]


def count_distinct(items: Int64Array) -> tuple[Int64Array, Int64Array]:
    """(int64, int64): the distinct items, ascending, none of which is negative, and how often each comes."""
    if not fits_table(int(items.max(initial=0)), len(items)):
        return np.unique(items, return_counts=True)
    counts = np.bincount(items)
    different = np.flatnonzero(counts)
    return different, counts[different]


def unique_rows(columns: Sequence[NDArray[np.integer]]) -> tuple[Int64Array, Int64Array]:
    """(int64[rows, columns], int64[n]): the different rows of columns of n numbers, ascending, and the row of each.

    One number for each row is found much faster than rows are sorted, if few rows differ.
    """
    if not len(columns[0]):
        return np.empty((0, len(columns)), np.int64), np.empty(0, np.int64)
    low = [int(column.min()) for column in columns]
    spans = [int(column.max()) - least + 1 for column, least in zip(columns, low, strict=True)]
    if prod(spans) >= MOST_KEYS:
        return _unique_by_hash(np.stack(columns, axis=1).astype(np.int64))
    key = np.zeros(len(columns[0]), np.int64)
    for column, least, span in zip(columns, low, spans, strict=True):
        if span > 1:
            key *= span
            key += column.astype(np.int64, copy=False)
            key -= least
    if prod(spans) <= 4 * len(key):
        used = np.zeros(prod(spans), np.bool_)
        used[key] = True
        keys, number = np.flatnonzero(used), (np.cumsum(used) - 1)[key]
    else:
        keys = np.unique(key)
        number = np.searchsorted(keys, key)
    rest, found = keys, np.empty((len(keys), len(columns)), np.int64)
    for position in range(len(columns) - 1, -1, -1):
        rest, index = np.divmod(rest, spans[position])
        found[:, position] = index + low[position]
    return found, number.astype(np.int64)


def _unique_by_hash(table: Int64Array) -> tuple[Int64Array, Int64Array]:
    """See `unique_rows`."""
    key = np.zeros(len(table), np.int64)
    for column in table.T:
        key = key * np.int64(0x5851F42D4C957F2D) + column  # modulo 2^64
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    rows = table[first]
    if not np.array_equal(rows[number], table):  # two rows have one key
        rows, number = np.unique(table, axis=0, return_inverse=True)
    order = np.lexsort(rows.T[::-1])
    rank = np.empty(len(rows), np.int64)
    rank[order] = np.arange(len(rows))
    return rows[order], rank[number.reshape(-1)]
