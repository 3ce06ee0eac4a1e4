"""The search for the number of chunks of runs with `chunks: auto`.

A short search on the model: numbers about four times apart first, from few chunks to many, then some round the best.
It counts schedules, never time, so that the same program gives the same number everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Final

from collc.base.diagnostics import CheckFailed, CollcError, UsageError
from collc.source.program import ChunkChoice, ScheduleRequest
from collc.ten.factored_schedule import FactoredSchedule
from collc.ten.module import Bound, Module

NEAR_IDEAL: Final = Fraction(99, 100)
"""The search ends with a schedule whose time the ideal reaches to this share."""

USELESS: Final = 2
"""This many consecutive numbers that shorten the schedule by less than LEAST_GAIN end the search among larger ones."""

LEAST_GAIN: Final = Fraction(1, 200)

MOST_TRANSFERS: Final = 4_000_000
"""No number is tried that would give more transfers to list, in proportion to those of the last schedule."""

SHORT_PART: Final = Fraction(1, 4)
"""The part of its work that `auto` may spend on each number; in the end it searches with the best one in full."""

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
        from collc.synthesis.bounds import ideal_bound

        return ideal_bound(self.module.network, self.module.demand, self.module.model)


@dataclass(eq=False)
class ChunkSearch:
    """The search for one schedule.

    choice: the numbers. synthesize: the module with a schedule for a request and its number of chunks per block, with a
    part of the work; raises CheckFailed for a schedule that is wrong, so that its time does not count. stop: whether
    the search must end now; it is asked after the first schedule. listed: whether files need every transfer of a
    schedule that repeats itself. in_parts: whether the synthesizer counts its work, so that short searches find the
    best numbers, and full ones follow.
    """

    choice: ChunkChoice
    synthesize: Callable[[ScheduleRequest, int, Fraction], Module]
    stop: Callable[[], bool]
    listed: bool = False
    in_parts: bool = False
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
            wanted = [best * factor for factor in ROUND_BEST]
            self._try_all(min(self.choice.numbers, key=lambda n, w=w: (abs(n - w), n)) for w in wanted)
        if self.in_parts and not self._is_done():
            self._search_in_full(self.shortest())
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
        useless = 0
        for number in _rungs(self.choice.numbers):
            before = self.shortest().time if self.tried else 0
            self._try_all([number])
            if not self.tried:
                continue
            useless = 0 if self.shortest().time * (1 + LEAST_GAIN) <= before or not before else useless + 1
            if useless == USELESS or self._is_done():
                return

    def _search_in_full(self, best: Attempt) -> None:
        """Search with the best number again, with all work."""
        with suppress(CollcError):
            module = self.synthesize(best.request, best.number, Fraction(1))
            if (time := module.collective_time()) < best.time:
                self.tried[self.tried.index(best)] = replace(best, module=module, time=time)

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
        return len(schedule.rows if isinstance(schedule, FactoredSchedule) and not self.listed else schedule)

    def _try_all(self, numbers: Iterable[int]) -> None:
        """Synthesize with each number that was not tried yet and may be of use."""
        for number in numbers:
            if number in self._skipped or any(attempt.number == number for attempt in self.tried):
                continue
            most = MOST_TRANSFERS * self.tried[-1].number if self.tried else 0
            if self.tried and (self._is_done() or self._transfers() * number > most):
                continue
            try:
                request = self.choice.request(number)
                if self._is_hopeless(request):
                    self._skipped.add(number)
                    continue
                module = self.synthesize(request, number, SHORT_PART if self.in_parts else Fraction(1))
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
        if best is None or best.module.network is not request.network:  # direct links in place of switches
            return False
        model = best.module.model
        return lower_bound(request.network, request.demand, model, best.time).time >= best.time


def _by_time(attempt: Attempt) -> tuple[int, int]:
    return attempt.time, attempt.number


def _rungs(numbers: Sequence[int]) -> list[int]:
    """The largest numbers up to 1, 4, 16, ..., each once."""
    found: list[int] = []
    limit = 1
    while not found or found[-1] < numbers[-1]:
        fitting = [number for number in numbers if number <= limit]
        if fitting and fitting[-1] not in found:
            found.append(fitting[-1])
        limit *= 4
    return found
