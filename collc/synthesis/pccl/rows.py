"""The rows that a search plans, and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from collc.synthesis.conditions import Conditions
from collc.ten.arrays import Int32Array, Int64Array

BATCH = 4096
"""Targets between two questions whether to stop."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Conditions in the order in which to plan them.

    order: int32. salt: int64, one for each row, for ties. holder_*, wanting_*: CSR of the rows.
    """

    order: Int32Array
    salt: Int64Array
    holder_offsets: Int64Array
    holders: Int32Array
    wanting_offsets: Int64Array
    wanting: Int32Array

    @cached_property
    def _lists(self) -> tuple[list[int], list[int], list[int], list[int]]:
        return (
            self.holder_offsets.tolist(),
            self.holders.tolist(),
            self.wanting_offsets.tolist(),
            self.wanting.tolist(),
        )

    def of(self, k: int) -> tuple[list[int], list[int]]:
        """Holders and wanting of a row."""
        first, holders, start, wanting = self._lists
        return holders[first[k] : first[k + 1]], wanting[start[k] : start[k + 1]]

    def each(self, plan: Callable[[int], None], stop: Callable[[], bool]) -> bool:
        """Plans the rows one after another; whether all are, or False where asked to stop."""
        for part in self.batches():
            if stop():
                return False
            for k in part.tolist():
                plan(k)
        return True

    def batches(self) -> Iterator[Int32Array]:
        """The order in parts of about so many targets that a search can ask in between whether to stop."""
        number = np.cumsum(np.diff(self.wanting_offsets)[self.order]) // BATCH
        yield from np.split(self.order, np.flatnonzero(np.diff(number)) + 1)


def in_order(conditions: Conditions, far: Int64Array, rng: np.random.Generator, rotated: bool) -> Int32Array:
    """The farthest first; among equals at random or, rotated, by how far the target's number is ahead of the source's.

    Where all sends of one distance are planned together, every NPU sends once and receives once: what
    switches and full connection suit.
    """
    ties = rng.random(len(conditions))
    if not rotated:
        return np.lexsort((ties, -far)).astype(np.int32)
    devices = conditions.task.network.device_count
    rank = np.zeros(devices, np.int64)
    members = np.unique(np.concatenate([conditions.holders, conditions.wanting]))
    rank[members] = np.arange(len(members))
    first = conditions.holders[conditions.holder_offsets[:-1]]
    ahead = (rank[conditions.wanting] - rank[first]) % len(members)
    return np.lexsort((ties, rng.permutation(len(members))[ahead], -far)).astype(np.int32)
