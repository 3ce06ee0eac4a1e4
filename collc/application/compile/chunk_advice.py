"""The remark that another number of chunks could give a shorter schedule."""

from __future__ import annotations

from typing import Final

from collc.base.units import format_time
from collc.base.wording import plural
from collc.source.program import ScheduleRequest
from collc.ten.module import Bound, Module
from collc.ten.schedule import Clock, LinkModel

LEAST_GAIN: Final = 0.05
"""The remark is made if the bound, or the estimated time, of another number is lower by more than this share."""

NEAR_LEAST: Final = 1.01
"""Of several numbers, the smallest is named whose bound is at most this multiple of the least."""

MOST_WORK: Final = 20_000
"""NPUs x links up to which the bounds of other numbers are computed."""

MOST_TIMES: Final = 16
"""With this multiple of the chunks, waits are short enough."""

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
    """What to try if the number of chunks, not the network, decides the bound or the time; "" elsewhere.

    bound: of the module's chunks. ideal: of any number. Both are those of the module's network.
    """
    choice = request.choice
    if choice is None or choice.automatic:
        return ""
    numbers = {run.standard.chunks for run in module.demand.runs if run.standard is not None}
    if len(numbers) != 1:
        return ""
    given = numbers.pop()
    if not any(number != given for number in _powers_of_two(choice.numbers)):
        return ""
    return _by_bounds(request, module, given, bound, ideal) or _by_time(request, module, given, bound, ideal)


def _by_bounds(request: ScheduleRequest, module: Module, given: int, bound: Bound, ideal: Bound) -> str:
    """The remark if no schedule with these chunks can be as short as others; "" elsewhere."""
    choice, network = request.choice, module.network
    if choice is None or ideal.time >= (1 - LEAST_GAIN) * bound.time:
        return ""
    others = [number for number in _powers_of_two(choice.numbers) if number != given]
    least_time = f"{format_time(bound.time)}{network_of_bound(request, module)}"
    if len(network.npus) * network.link_count > MOST_WORK:
        return (
            f"no schedule with {plural(given, 'chunk')} per block takes less than {least_time}; the bound for any "
            f"number of chunks is {_less(ideal.time, bound.time)}: try chunks: auto"
        )
    bounds: dict[int, int] = {}
    least = most = (1 - LEAST_GAIN) * bound.time
    for number in reversed(others):
        bounds[number] = _bound(choice.request(number), module, ideal, int(NEAR_LEAST * least) + 1)
        least = min(least, bounds[number])
    if least >= most:
        return ""
    number = min(number for number, time in bounds.items() if time <= NEAR_LEAST * least)
    return (
        f"no schedule with {plural(given, 'chunk')} per block takes less than {least_time}, but with "
        f"{number} the bound is {format_time(bounds[number])} ({_less(bounds[number], bound.time)}): try chunks: "
        f"{number} or chunks: auto"
    )


def _by_time(request: ScheduleRequest, module: Module, given: int, bound: Bound, ideal: Bound) -> str:
    """The remark if the schedule waits for whole chunks, and would wait less with smaller ones; "" elsewhere.

    With n times as many chunks, this part of the time is an n-th: an estimate, unlike a bound.
    """
    choice, time, network = request.choice, module.collective_time(), module.network
    if choice is None or time <= bound.time or request.is_handwritten:
        return ""
    if len(network.npus) * network.link_count > MOST_WORK:
        return ""
    waiting = min(time - bound.time, _longest_wait(module))
    other, most = time - bound.time - waiting, int((1 - LEAST_GAIN) * time)
    if ideal.time + other >= most:
        return ""
    more = [number for number in _powers_of_two(choice.numbers) if given < number <= MOST_TIMES * given]
    estimates = {
        number: _bound(choice.request(number), module, ideal) + waiting * given // number + other
        for number in more[-2:]
    }
    least = min(estimates.values(), default=most)
    if least >= most:
        return ""
    number = min(number for number, estimate in estimates.items() if estimate <= NEAR_LEAST * least)
    above, estimate = format_time(time - bound.time), estimates[number]
    about = format_time(round(estimate, 3 - len(str(estimate))))
    return (
        f"with {plural(given, 'chunk')} per block the schedule takes {above} more than the bound; "
        f"if that is because devices forward whole chunks, {number} may give about "
        f"{about} ({_less(estimates[number], time)}): try chunks: {number} or chunks: auto"
    )


def _longest_wait(module: Module) -> int:
    """Picoseconds in which a chunk crosses all links of the longest shortest path but one, at the slowest rate."""
    from collc.graph.digraph import Digraph
    from collc.graph.distances import hops_from

    network = module.network
    graph, npus = Digraph.of(network), network.npus
    longest = max(int(hops_from(graph, npu)[npus].max()) for npu in npus.tolist())
    sending = Clock.of(network, module.demand, LinkModel.PIPELINED).busy[network.kind]
    return (longest - 1) * int(sending.max())


def _less(time: int, than: int) -> str:
    return f"{int(100 * (1 - time / than))} % less"


def _bound(request: ScheduleRequest, module: Module, ideal: Bound, most: int | None = None) -> int:
    """The bound of another number of chunks; if that is at least `most`, some number that is."""
    from collc.synthesis.bounds import lower_bound

    return lower_bound(module.network, request.demand, module.model, most, ideal).time


def _powers_of_two(numbers: tuple[int, ...]) -> list[int]:
    """The largest numbers up to 1, 2, 4, ..., each once."""
    powers = (max((number for number in numbers if number <= 2**power), default=0) for power in range(9))
    return sorted({number for number in powers if number})
