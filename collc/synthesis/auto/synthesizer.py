"""Runs the candidates in turns with growing budgets of counted work, and keeps the best schedule.

No decision needs an estimate of work or a clock, so that the choice is the same on all machines. A turn of a candidate
begins no attempt after its limit, and is given up at GROWTH times that. Its next limit is GROWTH times as much, as
long as it has no schedule, or its last turn made one shorter that takes at most NEAR times as long as the best. The
candidate with the least next limit has the next turn. Those that are likely the best for the kind of problem (kinds.py)
are a turn ahead, and so are those on the network as it is, if others are on direct links in the place of its switches.
Each turn begins anew, so that all turns of a candidate together take a third more than its last one.

Nothing is tried that could not be shorter: the search ends at the lower bound. From the turn on that finds the first
schedule, all candidates together take at most three times the work in which the best one was found, and SPARE_WORK;
less if that is near its bound, and the search that leads, and those likely the best, GROWTH^2 times SPARE_WORK. The
notes say what was given up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from time import monotonic
from typing import Final

from collc.base.diagnostics import CollcError, Diagnostic, NoSchedule
from collc.base.interrupts import OutOfTime
from collc.base.units import format_time
from collc.synthesis.auto.bundles import Bundles
from collc.synthesis.auto.candidates import GIVEN_UP, Candidate, candidates
from collc.synthesis.auto.group_parts import by_group
from collc.synthesis.auto.record import Synthesizer
from collc.synthesis.bounds import lower_bound
from collc.synthesis.endpoints import refuse_buffers
from collc.synthesis.task import MAX_TRANSFERS, Effort, Experience, WorkMeter, check_transfer_count
from collc.ten.module import Module

FIRST_WORK: Final = 25_000
"""Limit of the first turn of small problems; a sixteenth of a unit for each pair of a chunk and an NPU that it must
reach if that is more.
"""

GROWTH: Final = 4
"""The limit of a turn as a multiple of that of the one before, and the work at which it is given up of its limit."""

NEAR: Final = 2
"""Searches go on whose schedules take at most this many times as long as the best."""

GAIN: Final = 50
"""A search goes on if its last turn made its schedule shorter by at least 1/GAIN."""

SPARE_WORK: Final = 1_500_000
"""Work beside three times that of the best candidate; chosen on random programs 1 to 40 and 2000 to 2059 of `benchmarks
auto`. Equal chunks are bundled if there are more chunks, and then into FIRST_WORK bundles at most.
"""

LARGE_GAIN: Final = 16
"""If the best schedule could be shorter by less than 1/LARGE_GAIN, less is spared in proportion; chosen on the programs
of SPARE_WORK.
"""

MOST_LISTED_CHUNKS: Final = 5_000_000
"""Chunks up to which synthesizers that list them are tried."""


def choose(module: Module, effort: Effort, synthesizers: Sequence[Synthesizer]) -> Module:
    """The module with the best schedule of those tried, its algorithm, and what was tried in the notes.

    What the module's schedule has already is planned round.
    synthesizers: those to choose among.
    Raises what the synthesizers raise if none finds a schedule, NoSchedule if `effort.stop` asks to stop before.
    """
    if module.network.has_endpoints:
        refuse_buffers(module.network)
    factored = _without_listing(module, effort)
    if factored is not None:
        return factored
    check_transfer_count(module.demand)
    bundles = Bundles.of(module, SPARE_WORK, FIRST_WORK)
    search = _Search(module if bundles is None else bundles.module, effort, synthesizers)
    try:
        search.run()
    except OutOfTime:
        if search.best is None:
            raise
    best, built = search.result()
    name = best.candidate.name
    bound = search.bound()
    why = "meets the bound" if best.time <= bound.time else "is the best of those tried"
    if bundles is not None:  # what bounds the bundles does not bound their chunks
        built, bound = bundles.unpack(built, module.demand), None
        why = f"is the best of those tried for {len(bundles.size):,} bundles of equal chunks"
    notes = [*module.notes, *search.notes, f"auto: chose {name}, which {why}"]
    algorithm = f"{module.algorithm}+{name}" if module.algorithm else name
    return replace(built, algorithm=algorithm, seed=effort.seed, notes=tuple(notes), bound=bound)


def _without_listing(module: Module, effort: Effort) -> Module | None:
    """The module with a schedule by symmetry if it has too many chunks or transfers to list them."""
    chunks = module.demand.chunk_count
    transfers = module.demand.least_transfers
    if (chunks <= MOST_LISTED_CHUNKS and transfers <= MAX_TRANSFERS) or module.schedule is not None:
        return None
    from collc.synthesis.symmetric import factored_schedule

    schedule = factored_schedule(module, effort)
    if schedule is None:
        return None
    note = f"auto: chose symmetric; the others would list at least {transfers:,} transfers"
    notes = (*module.notes, note)
    return replace(module, schedule=schedule, algorithm="symmetric", seed=effort.seed, notes=notes)


@dataclass(eq=False, slots=True)
class Turns:
    """The turns of a candidate.

    limit: work after which its next turn begins no attempt. built: its best schedule. time: picoseconds of that.
    useful: the work of the turn that found it. in_vain: work in which it was given up without one. reason: why there is
    none. is_open: whether another turn may find a schedule, or a shorter one. is_spare: whether it has turns only as
    long as none has a schedule that is not.
    """

    candidate: Candidate
    limit: int
    built: Module | None = None
    time: int = 0
    useful: int = 0
    in_vain: int = 0
    reason: str = ""
    is_open: bool = True
    is_spare: bool = False

    def take(self, meter: WorkMeter) -> None:
        """Take a turn. Raises CollcError if it finds no schedule."""
        self.limit *= GROWTH
        try:
            built = self.candidate.build(meter)
            time = time_of(built)
        except CollcError as error:
            self.is_open = meter.is_exceeded and self.built is None
            self.reason = GIVEN_UP.message if self.is_open else error.diagnostics[0].message
            self.in_vain = meter.spent - meter.setup if self.is_open else 0
            raise
        self.limit = max(self.limit, GROWTH * (meter.spent - meter.setup))
        improved = self.built is None or GAIN * time <= (GAIN - 1) * self.time
        self.is_open = improved and (meter.is_used_up or meter.is_exceeded)
        if self.built is None or time < self.time:
            self.built, self.time, self.useful = built, time, meter.spent


def time_of(module: Module) -> int:
    """Picoseconds that a module's schedule takes. Raises NoSchedule if there is none."""
    if module.schedule is None:
        raise NoSchedule(Diagnostic("S0201", "nothing was planned"))
    return module.collective_time()


@dataclass(eq=False)
class _Search:
    """The search of one module.

    most: all work that it may take when it has a schedule; None: any. spent: all work so far. counted: that from the
    turn on that found the first schedule. failure: the first error.
    """

    module: Module
    effort: Effort
    synthesizers: Sequence[Synthesizer]
    most: int | None = None
    spent: int = 0
    counted: int = 0
    failure: CollcError | None = None
    _turns: list[Turns] = field(default_factory=list[Turns])

    def __post_init__(self) -> None:
        given = self.module
        self.bound = cache(lambda: lower_bound(given.network, given.demand, given.model))

    def run(self) -> None:
        """Tries all candidates, as long as something shorter is possible."""
        known = candidates(self.module, self.effort, self.bound, self.synthesizers, self._plan_part)
        divided = by_group(self.module, self._plan_part)
        if divided is not None:  # if its parts share nothing, nothing else is likely
            most = 0 if divided.ahead else 2
            known = [divided, *(replace(candidate, ahead=min(most, candidate.ahead)) for candidate in known)]
        first = max(FIRST_WORK, self.module.demand.pair_count // GROWTH**2)
        last, demand = self.effort.experience or Experience(), self.module.demand
        hopeless, behind = last.left_out(demand), last.behind(demand)
        for each in known:
            most = -1 if each.name in hopeless else 1 if each.name in behind else each.ahead
            candidate = replace(each, ahead=min(most, each.ahead))
            limit = max(int(first * Fraction(GROWTH) ** candidate.ahead), last.least_work(each.name, demand))
            self._turns.append(Turns(candidate, limit, is_spare=each.name in hopeless))
        while not self.effort.stop() and (chosen := self._next()) is not None:
            self._take(*chosen)
        in_vain = {turns.candidate.name: turns.in_vain for turns in self._turns if turns.in_vain}
        last.note(demand, {turns.candidate.name: turns.time for turns in self._turns if turns.built}, in_vain)

    def _take(self, turns: Turns, meter: WorkMeter) -> None:
        """A turn, and what it costs."""
        name, began = turns.candidate.name, monotonic()
        self.effort.progress(0.0, f"auto: {name}")
        if self.best is None:
            self.counted = 0
        try:
            turns.take(meter)
        except CollcError as error:
            self.failure = self.failure or error
        self.spent += meter.spent
        self.counted += meter.spent
        self.effort.progress(1.0, f"auto: {name} after {monotonic() - began:.1f} s")

    def result(self) -> tuple[Turns, Module]:
        """The best schedule, and the turns that found it. Raises what the first candidate raised if there is none."""
        if self.best is None or self.best.built is None:
            raise (None if self.effort.stop() else self.failure) or NoSchedule(STOPPED)
        return self.best, self.best.built

    @property
    def notes(self) -> list[str]:
        """The time of each schedule, the shortest first; then those without one, by the reason.

        Reasons that differ in the names of devices and chunks only are shown once.
        """
        by_time = sorted((turns for turns in self._turns if turns.built is not None), key=lambda turns: turns.time)
        notes = ["auto: " + ", ".join(f"{turns.candidate.name} takes {format_time(turns.time)}" for turns in by_time)]
        alike: dict[str, list[Turns]] = {}
        for turns in self._turns:
            if turns.reason and turns.built is None:
                alike.setdefault(re.sub(r"[^\s\[]*\[[^]]*\]", "", turns.reason), []).append(turns)
        for same in alike.values():
            done = "gave up" if same[0].reason == GIVEN_UP.message else "no schedule by"
            notes.append(f"auto: {done} {', '.join(turns.candidate.name for turns in same)}: {same[0].reason}")
        return notes

    @property
    def best(self) -> Turns | None:
        """Those that found the shortest schedule; None if there is none."""
        return min((turns for turns in self._turns if turns.built), key=lambda turns: turns.time, default=None)

    def _next(self) -> tuple[Turns, WorkMeter] | None:
        """Whose turn is next, and its work: of those that could find something, the one with the least limit for how
        likely it is.
        """
        best = self.best
        for turns in sorted(self._turns, key=lambda turns: turns.limit / GROWTH**turns.candidate.ahead):
            exceeds = best is not None and turns.built is not None and turns.time > NEAR * best.time
            ends = exceeds or (turns.is_spare and best is not None and not best.is_spare)
            if turns.is_open and not ends and (left := self._work_left(turns, best)) >= turns.limit:
                return turns, WorkMeter(turns.limit, most=min(GROWTH * turns.limit, left))
        return None

    def _work_left(self, turns: Turns, best: Turns | None) -> int:
        """The work that may still be spent on a candidate: none if nothing can be gained, less if it is little."""
        if best is None:
            return GROWTH * turns.limit
        gain = Fraction(best.time - self.bound().time, max(1, best.time))
        spare, more = self._spare, Fraction(2 * best.useful)
        others_plan_each_part = turns is not best and best.candidate.parts * best.useful > GROWTH**2 * spare
        if gain <= 0 or others_plan_each_part:
            return 0
        if LARGE_GAIN * gain < 1:
            spare, more = LARGE_GAIN * gain * spare, LARGE_GAIN * gain * more
        elif turns is best or turns.candidate.ahead > 1:
            spare *= GROWTH**2
        left = best.useful + int(more + spare) - self.counted
        return left if self.most is None else min(left, self.most - self.spent)

    @property
    def _spare(self) -> Fraction:
        """Work beside that of the best candidate: about all of the time limit if there is one."""
        if self.effort.time_limit is not None:
            return Fraction(self.effort.time_limit) * 10**6  # microseconds
        return SPARE_WORK * self.effort.trials * self.effort.work_part

    def _plan_part(self, module: Module, meter: WorkMeter, parts: int = 1) -> Module:
        """A smaller problem with its best schedule; counts the work. Raises what candidates do.

        parts: how many such problems there are, which share the work.
        """
        most = None if meter.remainder is None else meter.remainder // parts
        part = self.effort.work_part / parts
        effort = replace(self.effort, work_part=part, library=None, time_limit=None, experience=None)
        nested = _Search(module, effort.with_work(meter), self.synthesizers, most)
        try:
            nested.run()
            return nested.result()[1]
        finally:
            meter.add(nested.spent)


STOPPED: Final = Diagnostic("S0201", "stopped before any schedule was found", hint="give it more time")
