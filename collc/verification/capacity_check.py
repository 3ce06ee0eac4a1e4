"""The checks of capacities: links, what NPUs send and receive, and the buffers of switches.

A link carries one transfer at a time, an NPU with a rate sends, and receives, one at a time, and a buffer never holds
more chunks than it has slots.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from collc.base.units import decimal
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.limited import Ports, overlaps
from collc.ten.network import Network
from collc.verification.timed_transfers import TimedTransfers
from collc.verification.verdict import Findings, at

MAX_LISTED: Final = 250
"""Offenders of a check of links or endpoints that are reported to the findings."""


def check_links(transfers: TimedTransfers, findings: Findings, compiled: bool) -> None:
    """Report transfers that start while the one before them still occupies the link, MAX_LISTED of them at most."""
    if compiled:
        from collc.kernels.schedule_check import overlaps as first_overlaps

        clock = transfers.clock
        links = len(clock.kind)
        columns = (transfers.chunk, transfers.link, transfers.start)
        count, earlier, later = first_overlaps(*columns, clock.busy, clock.size_of, clock.kind, links, MAX_LISTED)
        pairs = list(zip(earlier[:count].tolist(), later[:count].tolist(), strict=True))
    else:
        busy, _ = transfers.durations(slice(None))
        pairs = _overlapping_pairs(transfers.link, transfers.start, busy)
    for first, second in pairs[:MAX_LISTED]:
        busy, _ = transfers.durations(np.array([first]))
        until = int(transfers.start[first]) + int(busy[0])
        start = int(transfers.start[second])
        message = (
            f"{findings.link(int(transfers.link[second]))} is given {findings.chunk(int(transfers.chunk[second]))} "
            f"at {at(start)}, but carries {findings.chunk(int(transfers.chunk[first]))} until {at(until)}"
        )
        findings.add("congestion_free", "V0201", start, message, "one chunk at a time on a link")


def _overlapping_pairs(user: Int32Array, begin: Int64Array, taken: Int64Array) -> list[tuple[int, int]]:
    """The rows of `overlaps`, by the later one."""
    earlier, later = overlaps(user, begin, taken)
    return sorted(zip(earlier.tolist(), later.tolist(), strict=True), key=lambda pair: pair[1])


def check_endpoints(transfers: TimedTransfers, findings: Findings) -> None:
    """Report transfers that an NPU cannot send, or receive, beside the one before, MAX_LISTED of each at most.

    A transfer occupies the injection of its source from its start on, or where messages queue from when it is injected,
    after which it may wait for its link; and the ejection of its target until its end.
    """
    network = findings.network
    ports = Ports.of(network)
    time = ports.occupancy(findings.demand.chunks.size)
    _, total = transfers.durations(slice(None))
    leaving, coming = ports.out[network.source[transfers.link]], ports.into[network.target[transfers.link]]
    taken = time[coming, transfers.chunk]
    sent = time[leaving, transfers.chunk]
    queued = transfers.messages
    injected = transfers.start if queued is None else np.where(queued.number >= 0, queued.injected, transfers.start)
    _check(ports, transfers, leaving, injected, sent, findings)
    _check(ports, transfers, coming, transfers.start + total - taken, taken, findings)


def _check(
    ports: Ports, transfers: TimedTransfers, port: Int32Array, begin: Int64Array, taken: Int64Array, findings: Findings
) -> None:
    """port: int32[transfers], -1 for none. begin, taken: int64, when and for how long each occupies it."""
    for first, second in _overlapping_pairs(port, begin, taken)[:MAX_LISTED]:
        number = int(port[second])
        does = "sends" if ports.sends[number] else "receives"
        message = (
            f"{findings.device(ports.devices[number])} {does} {_described(transfers, second, findings)} from "
            f"{at(int(begin[second]))}, but {does} {_described(transfers, first, findings)} until "
            f"{at(int(begin[first] + taken[first]))}"
        )
        expected = (
            f"one transfer after another, at the {decimal(ports.rates[number] / 10**9, 3)}GB/s that "
            f"{ports.name(findings.network, number)} allows"
        )
        findings.add("endpoints", "V0202", int(begin[second]), message, expected)


def _described(transfers: TimedTransfers, row: int, findings: Findings) -> str:
    return f"{findings.chunk(int(transfers.chunk[row]))} over {findings.link(int(transfers.link[row]))}"


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
