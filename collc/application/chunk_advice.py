"""The remark that another number of chunks could give a shorter schedule."""

from __future__ import annotations

from typing import Final

from collc.base.units import format_time
from collc.base.wording import plural
from collc.source.program import ScheduleRequest
from collc.ten.module import Bound, Module

LEAST_GAIN: Final = 0.05
"""The remark is made where the bound of another number of chunks is lower by more than this share."""

NEAR_LEAST: Final = 1.01
"""Of several numbers, the smallest is named whose bound is at most this multiple of the least."""

MOST_WORK: Final = 20_000
"""NPUs x links up to which the bounds of other numbers are computed."""


def chunk_advice(request: ScheduleRequest, module: Module, bound: Bound, ideal: Bound) -> str:
    """What to try where the number of chunks, not the network, decides the bound; "" elsewhere.

    bound: of the module's chunks. ideal: of any number.
    """
    choice = request.choice
    network = request.network
    too_large = len(network.npus) * network.link_count > MOST_WORK
    if choice is None or choice.automatic or module.network is not network or too_large:
        return ""
    numbers = {run.standard.chunks for run in module.demand.runs if run.standard is not None}
    if len(numbers) != 1 or ideal.time >= (1 - LEAST_GAIN) * bound.time:
        return ""
    given = numbers.pop()
    others = [number for number in _tried(choice.numbers) if number != given]
    bounds = {number: _bound(choice.request(number), module, ideal) for number in others}
    least = min(bounds.values(), default=bound.time)
    if least >= (1 - LEAST_GAIN) * bound.time:
        return ""
    number = min(number for number, time in bounds.items() if time <= NEAR_LEAST * least)
    less = int(100 * (1 - bounds[number] / bound.time))
    return (
        f"no schedule with {plural(given, 'chunk')} per block takes less than {format_time(bound.time)}, but with "
        f"{number} the bound is {format_time(bounds[number])} ({less} % less): try chunks: {number} or chunks: auto"
    )


def _bound(request: ScheduleRequest, module: Module, ideal: Bound) -> int:
    from collc.synthesis.bounds import lower_bound

    return lower_bound(request.network, request.demand, module.model, ideal=ideal).time


def _tried(numbers: tuple[int, ...]) -> list[int]:
    """The largest numbers up to 1, 2, 4, ..., each once."""
    powers = (max((number for number in numbers if number <= 2**power), default=0) for power in range(9))
    return sorted({number for number in powers if number})
