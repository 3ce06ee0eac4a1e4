"""The check of endpoints: an NPU with a rate sends, or receives, one transfer after another at that rate."""

from __future__ import annotations

from typing import Final

import numpy as np

from collc.base.units import decimal
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.limited import Ports
from collc.verification.timed_transfers import TimedTransfers
from collc.verification.verdict import Findings, at

_LISTED: Final = 250


def check_endpoints(transfers: TimedTransfers, findings: Findings) -> None:
    """Report transfers that an NPU cannot send, or receive, beside the one before, _LISTED of each at most.

    A transfer occupies the injection of its source from its start on, and the ejection of its target until its end.
    Where messages queue, they may have waited for their link after the NPU was done with them: then the NPU must have
    been able to send all that left before, from the begin of the schedule on.
    """
    network = findings.network
    ports = Ports.of(network)
    time = ports.occupancy(findings.demand.chunks.size)
    _, total = transfers.durations(slice(None))
    leaving, coming = ports.out[network.source[transfers.link]], ports.into[network.target[transfers.link]]
    taken = time[coming, transfers.chunk]
    sent = time[leaving, transfers.chunk]
    if transfers.messages is None:
        _check(ports, transfers, leaving, transfers.start, sent, findings)
    else:
        _check_totals(ports, transfers, leaving, sent, findings)
    _check(ports, transfers, coming, transfers.start + total - taken, taken, findings)


def _check(
    ports: Ports, transfers: TimedTransfers, port: Int32Array, begin: Int64Array, taken: Int64Array, findings: Findings
) -> None:
    """port: int32[transfers], -1 for none. begin, taken: int64, when and for how long each occupies it."""
    used = np.flatnonzero(port >= 0)
    order = used[np.lexsort((used, begin[used], port[used]))]
    same = port[order[1:]] == port[order[:-1]]
    overlapping = np.flatnonzero(same & (begin[order[1:]] < (begin + taken)[order[:-1]]))
    pairs = sorted(zip(order[overlapping].tolist(), order[overlapping + 1].tolist(), strict=True), key=lambda p: p[1])
    for first, second in pairs[:_LISTED]:
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


def _check_totals(
    ports: Ports, transfers: TimedTransfers, port: Int32Array, taken: Int64Array, findings: Findings
) -> None:
    """Report the first transfer of each NPU that starts before the NPU can have sent what left before it."""
    used: list[int] = np.unique(port[port >= 0]).tolist()
    for number in used:
        rows = np.flatnonzero(port == number)
        rows = rows[np.lexsort((rows, transfers.start[rows]))]
        least: Int64Array = np.cumsum(taken[rows]) - taken[rows]
        early = np.flatnonzero(transfers.start[rows] < least)
        if len(early):
            row = int(rows[early[0]])
            message = (
                f"{findings.device(ports.devices[number])} sends {_described(transfers, row, findings)} from "
                f"{at(int(transfers.start[row]))}, but needs until {at(int(least[early[0]]))} for what it sends before"
            )
            expected = (
                f"no more than the {decimal(ports.rates[number] / 10**9, 3)}GB/s that "
                f"{ports.name(findings.network, number)} allows"
            )
            findings.add("endpoints", "V0202", int(transfers.start[row]), message, expected)


def _described(transfers: TimedTransfers, row: int, findings: Findings) -> str:
    return f"{findings.chunk(int(transfers.chunk[row]))} over {findings.link(int(transfers.link[row]))}"
