"""The order in which conditions are planned, and that of the targets of one condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from collc.kernels.compiled import BATCH
from collc.synthesis.conditions import Conditions
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.schedule import Schedule


@dataclass(frozen=True, eq=False)
class PlanningOrder:
    """Conditions in the order in which they are planned.

    order: int32[conditions]. tie_seeds: int64[conditions], which of several equal paths each condition takes.
    """

    order: Int32Array
    tie_seeds: Int64Array

    def batches(self, conditions: Conditions) -> Iterator[Int32Array]:
        """The order in parts in which about BATCH links are looked at."""
        targets = 1 + BATCH // max(1, conditions.task.network.link_count)
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


class RaisedOrders:
    """A chain of planning orders, each made from the one before and the schedule that it led to.

    "Squeaky Wheel" Optimization (Joslin and Clements 1999): conditions that are planned last get the capacity that the
    others leave. After a schedule, the priority of two kinds of conditions is raised: those that arrive in its last
    part, and those all of whose links carry such late transfers. Each raise moves a condition forward in the planning
    order as if its path were one hop longer. Then all conditions are planned again; conditions that have other paths
    find the critical links occupied and use these paths.
    """

    def __init__(self, conditions: Conditions, distance: Int64Array, order: PlanningOrder, schedule: Schedule) -> None:
        """distance: int64, picoseconds that each condition takes at least. schedule: what came of the first order."""
        clock = conditions.clock
        self._order, self._last = order, schedule
        self._conditions, self._distance, self._hop = conditions, distance, int(clock.total.max())
        self._late_span = int(clock.total[:, np.unique(conditions.column)].min())
        self._raises = np.zeros(len(conditions), np.int64)
        self._best = 1 << 62
        self._condition_of = np.zeros(len(conditions.task.demand.chunks), np.int32)
        self._condition_of[conditions.chunk] = np.arange(len(conditions))
        self._first_position = np.empty(len(conditions), np.int32)
        self._first_position[order.order] = np.arange(len(order.order), dtype=np.int32)

    def note_schedule(self, schedule: Schedule) -> None:
        """Notes the schedule that came of the last order."""
        self._last = schedule

    def next(self) -> PlanningOrder:
        """The next order of the chain."""
        transfers = self._last.transfers
        ends = transfers.start + self._conditions.clock.total_of(transfers)
        self._best = min(self._best, int(ends.max(initial=0)))
        late = ends > self._best - self._late_span
        critical = np.zeros(self._conditions.task.network.link_count, np.bool_)
        critical[transfers.link[late]] = True
        condition = self._condition_of[transfers.chunk]
        raised = np.ones(len(self._raises), np.bool_)
        raised[condition[~critical[transfers.link]]] = False
        raised[condition[late]] = True
        self._raises += raised
        priority = self._distance + self._raises * self._hop
        self._order = replace(self._order, order=np.lexsort((self._first_position, -priority)).astype(np.int32))
        return self._order
