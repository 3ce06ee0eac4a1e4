"""Checks of a request before anything is planned: its durations fit 64 bits, and its transfers are not too many."""

from __future__ import annotations

from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.units import format_time, serialization_time
from collc.source.program import ScheduleRequest
from collc.ten.demand import Run

MAX_TIME: Final = 2**62
"""Picoseconds that a schedule may take: times are 64-bit integers."""

MAX_PATH: Final = 2**60
"""Picoseconds that a path may take: from these on, synthesizers take a device for one that cannot be reached."""

MAX_TRANSFERS: Final = 5_000_000_000
"""Transfers that a schedule may have; schedules by symmetry of clusters do not list theirs."""

LISTED: Final = 100_000
"""Chunks of a standard collective up to which they are listed for this."""

_HINT: Final = "look at the units of bandwidths, latencies and sizes"


def check_durations(request: ScheduleRequest) -> None:
    """Raise SourceError C0204 where a path through all devices could take longer than MAX_PATH."""
    network = request.network
    largest = max((_largest(run) for run in request.demand.runs), default=0)
    used: list[int] = np.unique(network.kind).tolist()
    durations = [
        kind.latency + serialization_time(largest, kind.bandwidth)
        for kind in map(network.kinds.__getitem__, used)
        if kind.latency is not None and kind.bandwidth is not None
    ]
    longest = max(durations, default=0)
    if longest * network.device_count >= MAX_PATH:
        message = (
            f"a chunk takes {format_time(longest)} on a link of '{network.name}': paths over its "
            f"{network.device_count:,} devices may take longer than {MAX_PATH // 10**12 // 86400} days"
        )
        raise SourceError(Diagnostic("C0204", message, request.span, hint=_HINT))


def check_transfer_count(request: ScheduleRequest) -> None:
    """Raise SourceError S0203 where every schedule of the request has more than MAX_TRANSFERS transfers."""
    least = 0
    for run in request.demand.runs:
        to_all = run.standard is not None and run.standard.shape.phases > 0
        least += len(run.pattern) * (len(run.group) - 1 if to_all else 1)
    if least > MAX_TRANSFERS:
        message = f"a schedule needs at least {least:,} transfers, more than the limit of {MAX_TRANSFERS:,}"
        hint = "use fewer NPUs or chunks: if a large network repeats itself, a part of it gives the same information"
        raise SourceError(Diagnostic("S0203", message, request.span, hint=hint))


def _largest(run: Run) -> int:
    """Bytes of the largest chunk of a run; of a large pattern of equal blocks, of the largest block."""
    if run.standard is not None and len(run.pattern) > LISTED:
        return -(-run.standard.size // len(run.group))
    return int(run.pattern.expand().size.max(initial=0))


def too_long(request: ScheduleRequest) -> SourceError:
    """The error C0204 for a schedule that takes longer than MAX_TIME."""
    message = f"transfers on '{request.network.name}' take longer than {MAX_TIME // 10**12 // 86400} days"
    return SourceError(Diagnostic("C0204", message, request.span, hint=_HINT))
