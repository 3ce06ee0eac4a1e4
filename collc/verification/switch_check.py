"""The check of switch buffers: never more chunks than slots."""

from __future__ import annotations

import numpy as np

from collc.ten.arrays import Int64Array
from collc.ten.network import Network
from collc.verification.verdict import Findings, at


def check_buffers(network: Network, intervals: Int64Array, findings: Findings) -> None:
    """Report arrivals that overfill a buffer, 100 of each switch at most.

    intervals: int64[slots, 4]: switch, from and until (excluded) in picoseconds, chunk.
    """
    if not len(intervals):
        return
    limits = network.buffers[intervals[:, 0] - network.npu_count]
    intervals = intervals[limits >= 0]
    for switch in np.unique(intervals[:, 0]).tolist():
        limit = int(network.buffers[switch - network.npu_count])
        here = intervals[intervals[:, 0] == switch]
        # A slot that becomes free at a time can be filled at that time: ends sort before beginnings.
        time = np.concatenate([here[:, 1], here[:, 2]])
        change = np.repeat(np.array([1, -1], np.int64), len(here))
        order = np.lexsort((change, time))
        held = np.cumsum(change[order])
        over = (held > limit) & (change[order] > 0)
        for event in np.flatnonzero(over)[:100].tolist():
            row = int(order[event])
            message = (
                f"{findings.chunk(int(here[row, 3]))} reaches {findings.device(switch)} at {at(int(time[row]))}, "
                f"the buffer of which then holds {int(held[event])} chunks"
            )
            findings.add("switches", "V0502", int(time[row]), message, f"{limit} at most")
