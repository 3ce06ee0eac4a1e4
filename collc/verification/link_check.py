"""Links: never two transfers at once."""

from __future__ import annotations

import numpy as np

from collc.verification.timed_transfers import TimedTransfers
from collc.verification.verdict import Findings, at

_LISTED = 250


def check_links(rows: TimedTransfers, findings: Findings, compiled: bool) -> None:
    """Report transfers that start while the one before is still on the link."""
    if compiled:
        from collc.kernels.schedule_check import overlaps

        clock = rows.clock
        links = len(clock.kind)
        count, earlier, later = overlaps(
            rows.chunk, rows.link, rows.start, clock.busy, clock.size_of, clock.kind, links, _LISTED
        )
        pairs = list(zip(earlier[:count].tolist(), later[:count].tolist(), strict=True))
    else:
        order = np.lexsort((np.arange(len(rows)), rows.start, rows.link))
        link, start = rows.link[order], rows.start[order]
        busy, _ = rows.durations(order)
        meets = (link[1:] == link[:-1]) & (start[1:] < start[:-1] + busy[:-1])
        found = np.flatnonzero(meets)
        pairs = sorted(zip(order[found].tolist(), order[found + 1].tolist(), strict=True), key=lambda pair: pair[1])
    for first, second in pairs[:_LISTED]:
        busy, _ = rows.durations(np.array([first]))
        until = int(rows.start[first]) + int(busy[0])
        start = int(rows.start[second])
        message = (
            f"{findings.link(int(rows.link[second]))} is given {findings.chunk(int(rows.chunk[second]))} "
            f"at {at(start)}, but carries {findings.chunk(int(rows.chunk[first]))} until {at(until)}"
        )
        findings.add("congestion_free", "V0201", start, message, "one chunk at a time on a link")
