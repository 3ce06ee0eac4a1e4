"""A schedule that passed all checks takes no less than any lower bound; otherwise a check or a bound is wrong."""

from __future__ import annotations

from collc.base.units import format_time


class ImpossibleTime(Exception):
    """A fault of collc: a time below a proved lower bound."""


def check_possible(name: str, time: int | None, *bounds: tuple[int | None, object]) -> None:
    """Raise ImpossibleTime if a time (picoseconds) is below one of some bounds, each with what sets it."""
    for least, what in bounds:
        if time is not None and least is not None and time < least:
            found = f"'{name}' passed all checks in {format_time(time)}"
            raise ImpossibleTime(f"{found}, but nothing can take less than {format_time(least)} ({what})")
