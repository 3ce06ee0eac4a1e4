"""How long messages wait for links in a schedule that allows congestion."""

from __future__ import annotations

import numpy as np

from collc.base.units import format_time
from collc.base.wording import plural
from collc.ten.module import Module


def queueing_note(module: Module) -> str:
    """A remark on the queues of links; "" if no message waits."""
    assert module.schedule is not None
    rows = module.schedule.transfers
    if rows.messages is None:
        return ""
    waited = np.where(rows.messages.number >= 0, rows.start - rows.messages.ready, 0)
    if not waited.any():
        return ""
    links = len(np.unique(rows.link[waited > 0]))
    longest = format_time(int(waited.max()))
    total = format_time(int(waited.sum()))
    return f"congestion: messages queue at {plural(links, 'link')}, the longest for {longest}, all together for {total}"
