"""The multicommodity flow as a linear program, whose dual gives the best prices of links (Clarabel)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network

FloatArray = NDArray[np.float64]

MOST_FLOWS: Final = 6_000
"""Targets x links up to which the program is solved."""

PRICE_LEVELS: Final = 1 << 16
"""The levels to which prices are rounded, so that the last bits of the solver do not matter."""


@dataclass(frozen=True, eq=False)
class _Columns:
    """A sparse matrix column by column, with the attributes that Clarabel reads of one of SciPy.

    indptr: int32[columns + 1]. indices, data: the row and the value of each entry, by column and row.
    """

    shape: tuple[int, int]
    indptr: Int32Array
    indices: Int32Array
    data: FloatArray
    has_sorted_indices: bool = True
    has_canonical_format: bool = True

    @property
    def nnz(self) -> int:
        """Entries."""
        return len(self.data)

    @staticmethod
    def of(entries: Sequence[tuple[Int64Array, Int64Array, float]], shape: tuple[int, int]) -> _Columns:
        """Entries are lists of rows and columns with one value; no two are at the same position."""
        if not entries:
            empty = np.empty(0, np.int32)
            return _Columns(shape, np.zeros(shape[1] + 1, np.int32), empty, np.empty(0))
        row, column = (np.concatenate([entry[k] for entry in entries]) for k in (0, 1))
        value = np.repeat([entry[2] for entry in entries], [len(entry[0]) for entry in entries])
        order = np.lexsort((row, column))
        offsets = np.searchsorted(column[order], np.arange(shape[1] + 1))
        return _Columns(shape, offsets.astype(np.int32), row[order].astype(np.int32), value[order])

    def scaled(self, last: FloatArray) -> _Columns:
        """The matrix with other values in its last column."""
        return replace(self, data=np.concatenate([self.data[: self.nnz - len(last)], last]))


def flow_prices(network: Network, capacity: Int64Array, targets: Int32Array, volume: Int64Array) -> FloatArray | None:
    """float64[links], at most 1: prices under which the cheapest paths of all bytes cost as much as all links can carry
    in the time of the best flow. None where the solver finds none.

    Minimizes the time T for flows of at least 0: for each target, what leaves a device less what enters it is what it
    has for the target, and a link carries at most capacity x T. The prices are the multipliers of the latter rows.

    capacity: int64[links]. volume: int64[targets, devices], bytes from each device to each target.
    """
    import clarabel as package

    clarabel = cast("Any", package)
    devices, links = network.device_count, network.link_count
    row, link = np.nonzero(network.source[None, :] != targets[:, None])
    flows, every = np.arange(len(row)), np.arange(links)
    kept = np.ones(len(targets) * devices, np.bool_)
    kept[np.arange(len(targets)) * devices + targets] = False
    number, balance = np.cumsum(kept) - 1, int(kept.sum())
    out, into = row * devices + network.source[link], row * devices + network.target[link]
    enters = kept[into]
    entries = [
        (number[out], flows, 1.0),
        (number[into[enters]], flows[enters], -1.0),
        (balance + link, flows, 1.0),
        (balance + links + flows, flows, -1.0),
        (balance + every, np.full(links, len(flows)), -1.0),
    ]
    size = len(flows) + 1
    table = _Columns.of(entries, (balance + links + len(flows), size)).scaled(-capacity / capacity.max())
    limits, cost = np.zeros(table.shape[0]), np.zeros(size)
    limits[:balance] = volume.reshape(-1)[kept] / max(1, int(volume.max()))
    cost[-1] = 1
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    cones = [clarabel.ZeroConeT(balance), clarabel.NonnegativeConeT(links + len(flows))]
    nothing = _Columns.of([], (size, size))
    answer = clarabel.DefaultSolver(nothing, cost, table, limits, cones, settings).solve()
    price = np.maximum(np.array(answer.z, np.float64)[balance : balance + links], 0)
    most = float(price.max(initial=0.0))
    if not np.isfinite(most) or most <= 0:
        return None
    return np.rint(price / most * PRICE_LEVELS) / PRICE_LEVELS
