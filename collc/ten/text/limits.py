"""Limits of the text form. Larger schedules are written in the binary form (`collc.ten.binary`)."""

from __future__ import annotations

from typing import Final

from collc.ten.schedule import Schedule, StepSchedule

FEW: Final = 100_000
"""Devices and steps that any file may have, however short."""
MOST_LETTERS: Final = 1000
"""Characters of a name: every device, link and chunk has a label that repeats it."""
MOST_DEVICES: Final = 10_000_000
MOST_LINKS: Final = 10_000_000
MOST_CHUNKS: Final = 10_000_000
MOST_MEMBERS: Final = 100_000_000
"""Members of all holder sets of a run together, and of the groups of all runs."""
MOST_TRANSFERS: Final = 200_000_000
MOST_CELLS: Final = 1 << 28
"""Steps x links of a step-by-link table."""


def too_large_for_text(schedule: Schedule) -> str:
    """Why the text of a schedule would exceed the limits of the reader; "" if it does not."""
    if isinstance(schedule, StepSchedule) and schedule.chunk.size > MOST_CELLS:
        steps, links = schedule.chunk.shape
        return f"a schedule of {steps} steps on {links} links is too large for the text form"
    if len(schedule) > MOST_TRANSFERS:
        return f"a schedule of {len(schedule)} transfers is too large for the text form"
    return ""
