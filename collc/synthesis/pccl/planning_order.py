"""The order in which conditions are planned, and that of the targets of one condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from collc.synthesis.conditions import Conditions
from collc.ten.arrays import Int32Array, Int64Array

BATCH = 4096
"""Targets at most that are planned between two calls of `stop`."""

VISITS = 100_000_000
"""The same, times the links of the network, all of which a search for a path may look at."""


@dataclass(frozen=True, eq=False)
class PlanningOrder:
    """Conditions in the order in which they are planned.

    order: int32[conditions]. tie_seeds: int64[conditions], which of several equal paths each condition takes.
    """

    order: Int32Array
    tie_seeds: Int64Array

    def batches(self, conditions: Conditions) -> Iterator[Int32Array]:
        """The order in parts of about BATCH targets, or fewer on a network of many links."""
        targets = max(1, min(BATCH, VISITS // max(1, conditions.task.network.link_count)))
        number = np.cumsum(np.diff(conditions.wanting_offsets)[self.order]) // targets
        yield from np.split(self.order, np.flatnonzero(np.diff(number)) + 1)


def farthest_first(conditions: Conditions, distance: Int64Array, rng: np.random.Generator, rotated: bool) -> Int32Array:
    """int32: conditions by falling distance `distance`; among equals at random or, rotated, in rounds.

    All sends of equal distance from NPU i to NPU i + d (modulo the number of NPUs) are one round, so in a round every
    NPU sends once and receives once. This suits switches and full connection.
    """
    ties = rng.random(len(conditions))
    if not rotated:
        return np.lexsort((ties, -distance)).astype(np.int32)
    rank = np.zeros(conditions.task.network.device_count, np.int64)
    members = np.unique(np.concatenate([conditions.holders, conditions.wanting]))
    rank[members] = np.arange(len(members))
    first = conditions.holders[conditions.holder_offsets[:-1]]
    ahead = (rank[conditions.wanting] - rank[first]) % len(members)
    return np.lexsort((ties, rng.permutation(len(members))[ahead], -distance)).astype(np.int32)


def nearest_targets_first(conditions: Conditions, to: Mapping[int, Int64Array]) -> Int32Array:
    """int32: who wants the chunk of each condition, as in `conditions.wanting`, those nearest to a holder first.

    to: int64[targets, devices], distances by column of the clock.
    """
    if conditions.one_target_each:
        return conditions.wanting
    result = conditions.wanting.copy()
    for number, column in enumerate(conditions.column.tolist()):
        holders, wanting = conditions.row(number)
        near = to[column][conditions.target_row[wanting][:, None], holders].min(axis=1)
        first = int(conditions.wanting_offsets[number])
        result[first : first + len(wanting)] = wanting[np.argsort(near, kind="stable")]
    return result
