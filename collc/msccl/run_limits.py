"""What `collc run` can't run: files of another kind, and buffers that do not fit into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from collc.diagnostics import Diagnostic, UsageError

MOST_BYTES: Final = 4 * 2**30
"""Of all buffers of all gpus together; results and messages take about as much again."""

_OTHERS: Final = {
    b"{": ("an MSCCL++ plan", "'collc run' runs plans too, 'run_plan_file' in Python; 'collc verify' checks them"),
    b"ten": ("a schedule, not a program", "write it as a program with 'emit msccl'; 'collc verify' checks it as it is"),
}


def check_kind(path: Path) -> None:
    """Raise UsageError for a plan or a schedule; what can't be opened at all is for the reader to tell."""
    try:
        with path.open("rb") as file:
            head = file.read(256).lstrip()
    except OSError:
        return
    for begin, (what, hint) in _OTHERS.items():
        if head.startswith(begin):
            message = f"{path} is {what}, and no MSCCL XML file"
            raise UsageError(Diagnostic("X0206", message, hint=hint))


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
