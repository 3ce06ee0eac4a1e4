"""The limit of `collc run`: buffers that fit into memory."""

from __future__ import annotations

from typing import Final

from collc.base.diagnostics import Diagnostic, UsageError

MOST_BYTES: Final = 2**30
"""Bytes of the buffers of all gpus; results, messages and the comparison take up to five times as much again."""


def check_size(slots: int, elements: int, itemsize: int, unit: int) -> None:
    """Raise UsageError (X0205) if `slots` slots of `elements` elements of `itemsize` bytes are too large.

    unit: elements of --count for one element in each slot.
    """
    needed = slots * elements * itemsize
    if needed <= MOST_BYTES:
        return
    most = MOST_BYTES // (slots * itemsize) * unit
    message = f"the buffers of all ranks would take {needed / 2**30:,.1f} GiB, and 'collc run' takes {MOST_BYTES >> 30}"
    hint = f"--count {most} at most, or a smaller --dtype"
    raise UsageError(Diagnostic("X0205", message, hint=hint))
