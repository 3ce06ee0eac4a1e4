"""Messages about algorithms that a program gives with `using`: their place, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from collc.base.diagnostics import Diagnostic
from collc.source.program import ScheduleRequest

_HINTS: Final = {
    "congestion_free": "give each message on a link a step of its own, use another algorithm, or leave out 'using'",
    "": "check what the algorithm says, and the values of its parameters; without 'using' collc plans the run itself",
}
"""What to try if such an algorithm fails a check, by check; "" for all others."""


def has_handwritten(request: ScheduleRequest) -> bool:
    """Whether an algorithm of the program, not a synthesizer, plans one of the runs."""
    return any(run.moves is not None for run in request.runs)


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
        hint = _HINTS.get(message.message.partition(":")[0], _HINTS[""])
        placed.append(replace(message, span=message.span or span, hint=message.hint or hint))
    return placed
