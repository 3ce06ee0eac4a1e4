"""The number of chunks: the search for it in runs with `chunks: auto`, and the remark that another one could be better.

The search on the model tries numbers about four times apart first, from few chunks to many, then some round the best.
It counts schedules, never time, so that the same program gives the same number everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

from collc.base.diagnostics import CheckFailed, CollcError, UsageError
from collc.base.units import format_time
from collc.base.wording import plural
from collc.source.program import ChunkChoice, ScheduleRequest
from collc.ten.module import Bound, Module
from collc.ten.schedule import MOST_LISTED, Clock, LinkModel

NEAR_IDEAL: Final = Fraction(99, 100)
"""The search ends with a schedule whose time the ideal reaches to this share. Times that differ by less are alike."""

WORTH: Final = Fraction(97, 100)
"""About four times as many chunks must shorten the schedule to this share, or no more are tried."""

SHORT_PART: Final = Fraction(1, 4)
"""The part of the time limit that each number gets, and of its work that `auto` may spend on each. With all of it, the
best number was at most 1 % shorter, on 17 programs.
"""

ROUND_BEST: Final = (Fraction(2), Fraction(1, 2), Fraction(3, 2), Fraction(3, 4))
"""Multiples of the best number that are tried in the end, or the nearest numbers that divide the sizes."""


@dataclass(frozen=True, eq=False)
class Attempt:
    """A schedule with one number of chunks per block. time: picoseconds."""

    number: int
    request: ScheduleRequest
    module: Module
    time: int

    @cached_property
    def ideal(self) -> Bound:
        """The time that no schedule of the collective can be below, with any number of chunks."""
        return ideal_of(self.request, self.module)


def ideal_of(request: ScheduleRequest, module: Module) -> Bound:
    """The ideal of a schedule; if its network has direct links in place of switches, also of the program's network.

    The smaller of both then: with link model `store`, direct links can take less time than the switches, where a chunk
    occupies two links. Raises ValueError if links have no bandwidth or latency.
    """
    from collc.synthesis.bounds import ideal_bound

    own = ideal_bound(module.network, module.demand, module.model)
    where = network_of_bound(request, module)
    own = replace(own, name=own.name + where)
    if module.network.unwound and not request.network.unwound:
        return min(ideal_bound(request.network, module.demand, module.model), own, key=lambda bound: bound.time)
    return own


@dataclass(eq=False)
class ChunkSearch:
    """The search for one schedule.

    choice: the numbers. synthesize: the module with a schedule for a request and its number of chunks per block; raises
    CheckFailed for a schedule that is wrong, so that its time does not count. stop: whether the search must end now; it
    is asked after the first schedule. listed: whether files need every transfer of a schedule that repeats itself.
    """

    choice: ChunkChoice
    synthesize: Callable[[ScheduleRequest, int], Module]
    stop: Callable[[], bool]
    listed: bool = False
    tried: list[Attempt] = field(default_factory=list[Attempt])
    _skipped: set[int] = field(default_factory=set[int])
    _failed: CheckFailed | None = None

    def best(self) -> Attempt:
        """The shortest schedule found, with the fewest chunks.

        Raises CollcError if the first number has none, CheckFailed if all schedules are wrong.
        """
        self._climb()
        if not self.tried:
            assert self._failed is not None
            raise self._failed
        best = self.shortest().number
        if not self._is_done():
            most = max(*self._skipped, *(attempt.number for attempt in self.tried), 0)
            wanted = [best * factor for factor in ROUND_BEST if best * factor < most]
            self._try_all(min(self.choice.numbers, key=lambda n, w=w: (abs(n - w), n)) for w in wanted)
        return self.shortest()

    def best_below(self, number: int) -> Attempt | None:
        """The shortest schedule found with fewer chunks than `number`; None if there is none."""
        fewer = (attempt for attempt in self.tried if attempt.number < number)
        return min(fewer, key=_by_time, default=None)

    def note(self, taken: Attempt) -> str:
        """What the report says about the search if an attempt is taken."""
        tried = ", ".join(str(attempt.number) for attempt in self.tried)
        best = self.shortest().number
        limits = f"; files with {best} exceed limits of the runtime" if best > taken.number else ""
        return f"chunks: auto chose {taken.number} per block (tried: {tried}{limits})"

    def _climb(self) -> None:
        for number in _rungs(self.choice.numbers):
            before = self.shortest().time if self.tried else 0
            self._try_all([number])
            if not self.tried:
                continue
            counts = self.tried[-1].number == number and len(self.tried) > 2  # searches with few chunks are quick
            if self._is_done() or (counts and self.shortest().time > WORTH * before):
                return

    def shortest(self) -> Attempt:
        """The shortest schedule found so far, with the fewest chunks."""
        return min(self.tried, key=_by_time)

    def _is_done(self) -> bool:
        best = self.shortest()
        return self.stop() or best.ideal.time >= NEAR_IDEAL * best.time

    def _transfers(self) -> int:
        """How many transfers the last schedule lists."""
        schedule = self.tried[-1].module.schedule
        assert schedule is not None
        return len(schedule) if self.listed else schedule.row_count

    def _try_all(self, numbers: Iterable[int]) -> None:
        """Synthesize with each number that was not tried yet and may be of use."""
        for number in numbers:
            if number in self._skipped or any(attempt.number == number for attempt in self.tried):
                continue
            most = MOST_LISTED * self.tried[-1].number if self.tried else 0
            if self.tried and (self._is_done() or self._transfers() * number > most):
                continue
            try:
                request = self.choice.request(number)
                if self._is_hopeless(request):
                    self._skipped.add(number)
                    continue
                module = self.synthesize(request, number)
            except UsageError:
                raise
            except CheckFailed as error:
                self._failed = self._failed or error
                self._skipped.add(number)
                continue
            except CollcError:
                if not self.tried:
                    raise
                self._skipped.add(number)
                continue
            self.tried.append(Attempt(number, request, module, module.collective_time()))

    def _is_hopeless(self, request: ScheduleRequest) -> bool:
        """Whether no schedule with these chunks is shorter than the best so far."""
        from collc.synthesis.bounds import lower_bound

        best = self.shortest() if self.tried else None
        if best is None or best.module.network is not best.request.network:  # direct links in place of switches
            return False
        model = best.module.model
        return lower_bound(request.network, request.demand, model, best.time).time >= best.time


def _by_time(attempt: Attempt) -> tuple[int, int]:
    return attempt.time, attempt.number


def _rungs(numbers: Sequence[int]) -> list[int]:
    """The largest numbers up to 1, 4, 16, ..., each once."""
    rungs: list[int] = []
    limit = 1
    while not rungs or rungs[-1] < numbers[-1]:
        fitting = [number for number in numbers if number <= limit]
        if fitting and fitting[-1] not in rungs:
            rungs.append(fitting[-1])
        limit *= 4
    return rungs


LOWER_BOUND_BY: Final = 0.05
"""The remark is made if the bound, or the estimated time, of another number is lower by more than this share."""

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
    """What to try if the number of chunks, not the network, decides the bound or the time; "" elsewhere.

    bound: of the module's chunks, on its network. ideal: of any number, see `ideal_of`.
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
    of_bounds = _remark_by_bounds(request, module, given, bound, ideal)
    return of_bounds or _remark_by_time(request, module, given, bound, ideal)


def _remark_by_bounds(request: ScheduleRequest, module: Module, given: int, bound: Bound, ideal: Bound) -> str:
    """The remark if no schedule with these chunks can be as short as others; "" elsewhere."""
    choice, network = request.choice, module.network
    if choice is None or ideal.time >= (1 - LOWER_BOUND_BY) * bound.time:
        return ""
    others = [number for number in _powers_of_two(choice.numbers) if number != given]
    least_time = f"{format_time(bound.time)}{network_of_bound(request, module)}"
    if len(network.npus) * network.link_count > MOST_WORK:
        return (
            f"no schedule with {plural(given, 'chunk')} per block takes less than {least_time}; the bound for any "
            f"number of chunks is {_less(ideal.time, bound.time)}: try chunks: auto"
        )
    bounds = {number: _bound(choice.request(number), module, ideal) for number in others}
    least = min(bounds.values())
    if least >= (1 - LOWER_BOUND_BY) * bound.time:
        return ""
    number = min(number for number, time in bounds.items() if NEAR_IDEAL * time <= least)
    return (
        f"no schedule with {plural(given, 'chunk')} per block takes less than {least_time}, but with "
        f"{number} the bound is {format_time(bounds[number])} ({_less(bounds[number], bound.time)}): try chunks: "
        f"{number} or chunks: auto"
    )


def _remark_by_time(request: ScheduleRequest, module: Module, given: int, bound: Bound, ideal: Bound) -> str:
    """The remark if the schedule waits for whole chunks, and would wait less with smaller ones; "" elsewhere.

    With n times as many chunks, this part of the time is an n-th: an estimate, unlike a bound.
    """
    choice, time, network = request.choice, module.collective_time(), module.network
    if choice is None or time <= bound.time or request.is_handwritten:
        return ""
    if len(network.npus) * network.link_count > MOST_WORK:
        return ""
    waiting = min(time - bound.time, _longest_wait(module))
    other, most = time - bound.time - waiting, int((1 - LOWER_BOUND_BY) * time)
    if ideal.time + other >= most:
        return ""
    estimates = {
        number: _bound(choice.request(number), module, ideal) + waiting * given // number + other
        for number in _powers_of_two(choice.numbers)
        if number > given
    }
    least = min(estimates.values(), default=most)
    if least >= most:
        return ""
    number = min(number for number, estimate in estimates.items() if NEAR_IDEAL * estimate <= least)
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


def _bound(request: ScheduleRequest, module: Module, ideal: Bound) -> int:
    from collc.synthesis.bounds import lower_bound

    return lower_bound(module.network, request.demand, module.model, ideal=ideal).time


def _powers_of_two(numbers: tuple[int, ...]) -> list[int]:
    """The largest numbers up to 1, 2, 4, ..., each once."""
    largest = 1 + max(numbers).bit_length()
    powers = (max((number for number in numbers if number <= 2**power), default=0) for power in range(largest))
    return sorted({number for number in powers if number})
