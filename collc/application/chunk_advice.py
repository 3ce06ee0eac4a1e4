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

UNWOUND: Final = ", with direct links in place of switches"
"""What is added to a bound of a network whose switches are unwound."""

INSIDE: Final = ", between members of the group only"
"""What is added to a bound of a network without the NPUs and links that a file for a runtime cannot use."""


def network_of_bound(request: ScheduleRequest, module: Module) -> str:
    """What is added to the name of a bound of a network that is not that of the request; "" where it is."""
    if module.network.unwound:
        return UNWOUND
    return "" if module.network is request.network else INSIDE


def chunk_advice(request: ScheduleRequest, module: Module, bound: Bound, ideal: Bound) -> str:
    """What to try where the number of chunks, not the network, decides the bound; "" elsewhere.

    bound: of the module's chunks. ideal: of any number. Both are those of the module's network.
    """
    choice = request.choice
    network = module.network
    if choice is None or choice.automatic:
        return ""
    numbers = {run.standard.chunks for run in module.demand.runs if run.standard is not None}
    if len(numbers) != 1 or ideal.time >= (1 - LEAST_GAIN) * bound.time:
        return ""
    given = numbers.pop()
    others = [number for number in _tried(choice.numbers) if number != given]
    if not others:
        return ""
    least_time = f"{format_time(bound.time)}{network_of_bound(request, module)}"
    if len(network.npus) * network.link_count > MOST_WORK:
        return (
            f"no schedule with {plural(given, 'chunk')} per block takes less than {least_time}; the bound for any "
            f"number of chunks is {_less(ideal.time, bound)}: try chunks: auto"
        )
    bounds = {number: _bound(choice.request(number), module, ideal) for number in others}
    least = min(bounds.values())
    if least >= (1 - LEAST_GAIN) * bound.time:
        return ""
    number = min(number for number, time in bounds.items() if time <= NEAR_LEAST * least)
    return (
        f"no schedule with {plural(given, 'chunk')} per block takes less than {least_time}, but with "
        f"{number} the bound is {format_time(bounds[number])} ({_less(bounds[number], bound)}): try chunks: {number} "
        "or chunks: auto"
    )


def _less(time: int, bound: Bound) -> str:
    return f"{int(100 * (1 - time / bound.time))} % less"


def _bound(request: ScheduleRequest, module: Module, ideal: Bound) -> int:
    from collc.synthesis.bounds import lower_bound

    return lower_bound(module.network, request.demand, module.model, ideal=ideal).time


def _tried(numbers: tuple[int, ...]) -> list[int]:
    """The largest numbers up to 1, 2, 4, ..., each once."""
    powers = (max((number for number in numbers if number <= 2**power), default=0) for power in range(9))
    return sorted({number for number in powers if number})
