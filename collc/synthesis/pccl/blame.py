"""Better orders from schedules that are there (Joslin and Clements, "Squeaky Wheel Optimization", 1999).

What comes last is to blame for the length of a schedule, and so is all that had no other way than the links which are
taken the longest. It moves ahead in the order, as if it had a hop more to go, and all is planned again: what can go
round finds the links taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from collc.synthesis.conditions import Conditions
from collc.synthesis.pccl.rows import Rows
from collc.ten.arrays import Int64Array
from collc.ten.schedule import Schedule

Stop = Callable[[], bool]


class Chain:
    """Orders of rows, each from the one before and the schedule that came of it."""

    def __init__(self, conditions: Conditions, far: Int64Array, rows: Rows, schedule: Schedule) -> None:
        """far: int64, picoseconds that each row has to go at least. rows: in the first order, with what came of it."""
        clock = conditions.clock
        self._rows, self._last = rows, schedule
        self._conditions, self._far, self._hop = conditions, far, int(clock.total.max())
        self._end = int(clock.total[:, np.unique(conditions.column)].min())
        self._blame = np.zeros(len(conditions), np.int64)
        self._best = 1 << 62
        self._row = np.zeros(len(conditions.task.demand.chunks), np.int32)
        self._row[conditions.chunk] = np.arange(len(conditions))
        self._place = np.empty(len(conditions), np.int32)
        self._place[rows.order] = np.arange(len(rows.order), dtype=np.int32)

    def searched(self, search: Callable[[Rows, Stop], Schedule | None]) -> Callable[[Rows, Stop], Schedule | None]:
        """The search with the next order in place of the rows that it is given."""

        def again(_rows: Rows, stop: Stop) -> Schedule | None:
            found = search(self._next(), stop)
            self._last = self._last if found is None else found
            return found

        return again

    def _next(self) -> Rows:
        transfers = self._last.transfers
        ends = transfers.start + self._conditions.clock.total_of(transfers)
        self._best = min(self._best, int(ends.max(initial=0)))
        late = ends > self._best - self._end
        crowded = np.zeros(self._conditions.task.network.link_count, np.bool_)
        crowded[transfers.link[late]] = True
        row = self._row[transfers.chunk]
        bound = np.ones(len(self._blame), np.bool_)
        bound[row[~crowded[transfers.link]]] = False
        bound[row[late]] = True
        self._blame += bound
        order = np.lexsort((self._place, -(self._far + self._blame * self._hop))).astype(np.int32)
        self._rows = replace(self._rows, order=order)
        return self._rows
