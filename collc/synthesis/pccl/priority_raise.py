"""Better planning orders from schedules that were found ("Squeaky Wheel" Optimization, Joslin and Clements 1999).

Conditions that are planned last get the capacity that the others leave. After a schedule, the priority of two kinds of
conditions is raised: those that arrive in its last part, and those all of whose links carry such late transfers. Each
raise moves a condition forward in the planning order as if its path were one hop longer. Then all conditions are
planned again; conditions that have other paths find the critical links occupied and use these paths.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from collc.synthesis.conditions import Conditions
from collc.synthesis.pccl.planning_order import PlanningOrder
from collc.ten.arrays import Int64Array
from collc.ten.schedule import Schedule


class RaisedOrders:
    """A chain of planning orders, each made from the one before and the schedule that it led to."""

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

    def found(self, schedule: Schedule) -> None:
        """The schedule that came of the last order."""
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
