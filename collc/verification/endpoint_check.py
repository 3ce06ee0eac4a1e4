"""The check of endpoints: an NPU with a rate sends, or receives, one transfer after another at that rate."""

from __future__ import annotations

from typing import Final

import numpy as np

from collc.base.units import decimal
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.limited import Ports, overlaps
from collc.verification.timed_transfers import TimedTransfers
from collc.verification.verdict import Findings, at

_LISTED: Final = 250


def check_endpoints(transfers: TimedTransfers, findings: Findings) -> None:
    """Report transfers that an NPU cannot send, or receive, beside the one before, _LISTED of each at most.

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
    earlier, later = overlaps(port, begin, taken)
    pairs = sorted(zip(earlier.tolist(), later.tolist(), strict=True), key=lambda p: p[1])
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


def _described(transfers: TimedTransfers, row: int, findings: Findings) -> str:
    return f"{findings.chunk(int(transfers.chunk[row]))} over {findings.link(int(transfers.link[row]))}"
