"""The check of links: never two transfers at once."""

from __future__ import annotations

import numpy as np

from collc.verification.timed_transfers import TimedTransfers
from collc.verification.verdict import Findings, at

_LISTED = 250


def check_links(transfers: TimedTransfers, findings: Findings, compiled: bool) -> None:
    """Report transfers that start while the one before them still occupies the link, _LISTED of them at most."""
    if compiled:
        from collc.kernels.schedule_check import overlaps

        clock = transfers.clock
        links = len(clock.kind)
        columns = (transfers.chunk, transfers.link, transfers.start)
        count, earlier, later = overlaps(*columns, clock.busy, clock.size_of, clock.kind, links, _LISTED)
        pairs = list(zip(earlier[:count].tolist(), later[:count].tolist(), strict=True))
    else:
        order = np.lexsort((np.arange(len(transfers)), transfers.start, transfers.link))
        link, start = transfers.link[order], transfers.start[order]
        busy, _ = transfers.durations(order)
        overlapping = (link[1:] == link[:-1]) & (start[1:] < start[:-1] + busy[:-1])
        found = np.flatnonzero(overlapping)
        pairs = sorted(zip(order[found].tolist(), order[found + 1].tolist(), strict=True), key=lambda pair: pair[1])
    for first, second in pairs[:_LISTED]:
        busy, _ = transfers.durations(np.array([first]))
        until = int(transfers.start[first]) + int(busy[0])
        start = int(transfers.start[second])
        message = (
            f"{findings.link(int(transfers.link[second]))} is given {findings.chunk(int(transfers.chunk[second]))} "
            f"at {at(start)}, but carries {findings.chunk(int(transfers.chunk[first]))} until {at(until)}"
        )
        findings.add("congestion_free", "V0201", start, message, "one chunk at a time on a link")
