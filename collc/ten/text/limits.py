"""Limits of the text form, for networks and schedules. What is larger has the binary form."""

from __future__ import annotations

from typing import Final

from collc.ten.schedule import Schedule, StepSchedule

MOST_DEVICES: Final = 10_000_000
MOST_LINKS: Final = 10_000_000
MOST_CHUNKS: Final = 10_000_000
MOST_MEMBERS: Final = 100_000_000
"""Members of all holder sets of a run together."""
MOST_TRANSFERS: Final = 200_000_000
MOST_CELLS: Final = 1 << 28
"""Steps x links of a step-by-link table."""


def too_large_for_text(schedule: Schedule) -> str:
    """Why a schedule cannot be written as text that can be read again; "" where it can."""
    if isinstance(schedule, StepSchedule) and schedule.chunk.size > MOST_CELLS:
        steps, links = schedule.chunk.shape
        return f"a schedule of {steps} steps on {links} links is too large for the text form"
    if len(schedule) > MOST_TRANSFERS:
        return f"a schedule of {len(schedule)} transfers is too large for the text form"
    return ""
