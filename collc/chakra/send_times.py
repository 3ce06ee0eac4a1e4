"""When messages leave their NPUs, so that they come to switches in the order in which the schedule lets them leave.

A switch of ASTRA-sim sends on at once what arrives, and traces can hold messages back at NPUs only. So each message
leaves as late as it can without being late at its last link, and messages for one link leave in the order of that link.
Where several messages of an NPU are due together this cannot hold for all of them; then other orders are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from collc.ten.arrays import Int32Array, Int64Array

_MICROSECOND: Final = 1000


@dataclass(frozen=True, eq=False)
class HopTimes:
    """n messages at their first and last links in ASTRA-sim's nanoseconds, in the order of the schedule on each link.

    ready: int64[n], when a message can leave. enter: when it enters its first link. due: when it must at the latest so
    that it enters its last link in time, if it does not wait on the way. busy: how long it occupies its first link.
    first, last: int32[n], links; the last is -1 for messages over a single link. time: until all is done.
    """

    ready: Int64Array
    enter: Int64Array
    due: Int64Array
    busy: Int64Array
    first: Int32Array
    last: Int32Array
    time: int

    def latest(self, key: Int64Array, apart: int) -> Int64Array:
        """int64[n], nanoseconds: when messages leave, planned from the last to the first in order of `key`.

        apart: nanoseconds between messages that go to the same last link.
        """
        columns = self.busy, self.due, self.ready, self.first, self.last
        busy, due, ready, first, last = (_ints(column) for column in columns)
        found = [0] * len(due)
        following: dict[int, int] = {}
        beside: dict[int, int] = {}
        for k in _ints(np.argsort(key, kind="stable")[::-1]):
            time = min(due[k], following.get(first[k], due[k] + busy[k]) - busy[k])
            if last[k] >= 0:
                time = min(time, beside.get(last[k], time + apart) - apart)
            found[k] = following[first[k]] = max(time, ready[k], 0)
            if last[k] >= 0:
                beside[last[k]] = found[k]
        return np.array(found, np.int64)

    def candidates(self) -> Iterator[Int64Array]:
        """Times before which messages do not leave, int64[n], 0: as soon as it can be sent; the likeliest first."""
        for key in (self.due, (self.due + self.enter) // 2, self.enter):
            for apart in (1, 0):
                times = self.latest(key, apart)
                whole = np.maximum(self.ready, times // _MICROSECOND * _MICROSECOND)
                for begin in (whole, times):  # compute nodes take whole microseconds, so that fewer make these
                    yield np.where(begin > self.ready, begin, 0)
                    yield begin


def _ints(column: NDArray[np.integer[Any]]) -> list[int]:
    return column.tolist()
