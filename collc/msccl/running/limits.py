"""What `collc run` can't run: buffers that do not fit into memory."""

from __future__ import annotations

from typing import Final

from collc.base.diagnostics import Diagnostic, UsageError

MOST_BYTES: Final = 2**30
"""Of all buffers of all gpus together; results, messages and what is compared take up to five times as much again."""


def check_size(slots: int, elements: int, itemsize: int, unit: int) -> None:
    """Raise UsageError where buffers of so many slots, with so many elements in each, are too large.

    unit: what the user counts for one element in each slot.
    """
    needed = slots * elements * itemsize
    if needed <= MOST_BYTES:
        return
    most = MOST_BYTES // (slots * itemsize) * unit
    message = f"the buffers of all ranks would take {needed / 2**30:,.1f} GiB, and 'collc run' takes {MOST_BYTES >> 30}"
    hint = f"--count {most} at most, or a smaller --dtype"
    raise UsageError(Diagnostic("X0205", message, hint=hint))
