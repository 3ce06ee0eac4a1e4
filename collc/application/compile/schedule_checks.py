"""Checks of a request before anything is planned, comparisons of `verify` statements, and places of messages."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from collc.base.diagnostics import Diagnostic, Note, Outcome, SourceError
from collc.base.units import decimal, format_time, serialization_time
from collc.source.program import CheckRequest, ScheduleRequest
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
    """Raise SourceError C0204 if a path through all devices could take longer than MAX_PATH."""
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
    """Raise SourceError S0203 if every schedule of the request has more than MAX_TRANSFERS transfers."""
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


_COMPARE: Final[dict[str, Callable[[Fraction, Fraction], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


@dataclass(frozen=True, slots=True)
class ScheduleLength:
    """How long a schedule is, and its lower bound.

    time_ps, bound_ps: picoseconds. bound: what sets the lower bound. steps: None if there are no steps.
    """

    time_ps: int
    bound_ps: int
    bound: str
    steps: int | None


def check_limit(request: CheckRequest, length: ScheduleLength) -> tuple[Outcome, Diagnostic | None]:
    """Whether the comparison holds for a schedule, and the message (C0101, C0102) if it does not."""
    if request.name == "steps" and length.steps is None:
        message = "'steps' cannot be checked: links, chunks or their times differ, so this schedule has no steps"
        return "failed", Diagnostic("C0101", message, request.span, hint="ask for a time: 'verify time <= 100us'")
    if request.name == "steps":
        actual, limit, shown, noun = Fraction(length.steps or 0), request.limit, str, "the number of steps"
    else:
        base = length.bound_ps if request.of_bound else 1
        actual, limit, shown, noun = Fraction(length.time_ps), request.limit * base, format_time, f"the {request.name}"
    if _COMPARE[request.operator](actual, limit):
        return "ok", None
    bound = format_time(length.bound_ps)
    comparison = f"{shown(int(actual))} is not {request.operator} {shown(limit)}"
    if request.of_bound:
        comparison += f" ({decimal(request.limit)} x the bound of {bound})"
    message = f"{noun} violates its limit: {comparison}"
    note = Note(f"no schedule can take less than {bound} ({length.bound})")
    return "failed", Diagnostic("C0102", message, request.span, (note,), _hint(request, length, limit))


def _hint(request: CheckRequest, length: ScheduleLength, limit: Fraction) -> str:
    """What to try; it depends on whether any schedule can meet the limit."""
    if request.operator in (">", ">=", "!="):
        return "relax the limit"
    least = Fraction(length.bound_ps)
    if request.name == "steps":
        least = Fraction(-(-length.bound_ps * (length.steps or 0) // max(1, length.time_ps)))
    if least > limit or (least == limit and request.operator == "<"):
        return "no schedule can meet it: allow more time or steps, less data, or faster links"
    return "try more trials or another synthesizer, or relax the limit"


_HINTS_FOR_ALGORITHMS: Final = {
    "congestion_free": "give each message on a link a step of its own, use another algorithm, or leave out 'using'",
    "": "check what the algorithm says, and the values of its parameters; without 'using' collc plans the run itself",
}
"""What to try if an algorithm that the program gives with `using` fails a check, by check; "" for all others."""


def placed_at_algorithms(request: ScheduleRequest, messages: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The messages; if algorithms are written by hand, the first of each code with a place and a hint."""
    by_hand = [run for run in request.runs if run.moves is not None]
    if not by_hand:
        return list(messages)
    span = by_hand[0].span if len(by_hand) == 1 else request.span
    placed: list[Diagnostic] = []
    seen: set[str] = set()
    for message in messages:
        if message.code in seen:
            placed.append(message)
            continue
        seen.add(message.code)
        hint = _HINTS_FOR_ALGORITHMS.get(message.message.partition(":")[0], _HINTS_FOR_ALGORITHMS[""])
        placed.append(replace(message, span=message.span or span, hint=message.hint or hint))
    return placed
