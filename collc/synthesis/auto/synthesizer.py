"""Runs the candidates in turns with growing budgets of counted work, and keeps the best schedule.

No decision needs an estimate of work or a clock, so that the choice is the same on all machines. A turn of a candidate
begins no attempt after its limit, and is given up at GROWTH times that. Its next limit is GROWTH times as much, as
long as it has no schedule, or its last turn made one shorter. The candidate with the least next limit has the next
turn; some begin with more (`Candidate.ahead`). Each turn begins anew, so that all turns of a candidate together take a
third more than its last one.

A turn takes at most `most_in_vain` as long as there is no schedule, so that the search ends on any network: with chunks
along shortest paths if all others are given up.

Nothing is tried that could not be shorter: the search ends at the lower bound. From the turn on that finds the first
schedule, all candidates together take at most three times the work in which the best one was found, and SPARE_WORK;
less if that is near its bound. After that, the search that leads, and those likely the best that have no schedule yet,
take up to GROWTH^2 times SPARE_WORK; so do all others on the network as it is if the best schedule is far from its
bound. The notes say what was given up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property
from time import monotonic
from typing import Final

from collc.base.diagnostics import CollcError, Diagnostic, NoSchedule
from collc.base.interrupts import OutOfTime
from collc.base.units import format_time
from collc.synthesis.auto.bundles import Bundles
from collc.synthesis.auto.candidates import GIVEN_UP, LAST_RESORT, Candidate, candidates
from collc.synthesis.auto.group_parts import by_group
from collc.synthesis.auto.kinds import ProblemKind
from collc.synthesis.auto.record import Synthesizer
from collc.synthesis.bounds import lower_bound
from collc.synthesis.endpoints import refuse_buffers
from collc.synthesis.least_transfers import least_transfers
from collc.synthesis.task import Effort, Experience, WorkMeter, check_transfer_count
from collc.ten.module import Module

FIRST_WORK: Final = 25_000
"""Limit of the first turn; 1/GROWTH^2 for each pair of a chunk and an NPU that it must reach if that is more."""

GROWTH: Final = 4
"""The limit of a turn as a multiple of that of the one before, and the work at which it is given up of its limit."""

GAIN: Final = 50
"""A search goes on if its last turn made its schedule shorter by at least 1/GAIN."""

SPARE_WORK: Final = 1_500_000
"""Work beside three times that of the best candidate; chosen on random programs 1 to 40 and 2000 to 2059 of `benchmarks
auto`. Equal chunks are bundled if there are more chunks, and then into FIRST_WORK bundles at most.
"""

MOST_LISTED_CHUNKS: Final = 5_000_000
"""Chunks up to which synthesizers that list them are tried."""


def choose(module: Module, effort: Effort, synthesizers: Sequence[Synthesizer]) -> Module:
    """The module with the best schedule of those tried, its algorithm, and what was tried in the notes; by symmetry if
    it has too many chunks or transfers to list them. What the module's schedule has already is planned round.

    Raises what the synthesizers raise if none finds a schedule, NoSchedule if `effort.stop` asks to stop before.
    """
    if module.network.has_endpoints:
        refuse_buffers(module.network)
    bundles = Bundles.of(module, SPARE_WORK, FIRST_WORK)
    search = _Search(module if bundles is None else bundles.module, effort, synthesizers)
    many = search.is_too_long or module.demand.chunk_count > MOST_LISTED_CHUNKS
    if many and ProblemKind(module).is_symmetric:
        from collc.synthesis.symmetric import factored_schedule

        schedule = factored_schedule(module, effort)
        if schedule is not None:
            notes = (*module.notes, f"auto: chose symmetric; the others would list at least {search.least:,} transfers")
            return replace(module, schedule=schedule, algorithm="symmetric", seed=effort.seed, notes=notes)
        check_transfer_count(search.least, most_listed(effort))
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


@dataclass(eq=False, slots=True)
class Turns:
    """The turns of a candidate.

    limit: work after which its next turn begins no attempt. built: its best schedule. time: picoseconds of that.
    useful: the work of the turn that found it. in_vain: work in which it was given up without one. failure: why there
    is none. is_open: whether another turn may find a schedule, or a shorter one. is_spare: whether it has turns only as
    long as none has a schedule that is not. compiles: whether a turn has loaded compiled code, so that it is there.
    """

    candidate: Candidate
    limit: int
    is_spare: bool = False
    built: Module | None = None
    time: int = 0
    useful: int = 0
    in_vain: int = 0
    failure: CollcError | None = None
    is_open: bool = True
    compiles: bool = False

    def take(self, meter: WorkMeter) -> None:
        """Take a turn, which may find no schedule."""
        self.limit *= GROWTH
        try:
            meter.compiles = self.compiles
            built = self.candidate.build(meter)
            time = time_of(built)
        except CollcError as error:
            self.is_open = meter.is_exceeded and self.built is None
            self.failure = NoSchedule(GIVEN_UP) if self.is_open else error
            self.in_vain = meter.spent - meter.setup if self.is_open else 0
            return
        finally:
            self.compiles = meter.compiles
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


def most_in_vain(effort: Effort) -> int:
    """Work that a turn may take as long as there is no schedule, so that the search ends on any network."""
    return GROWTH**2 * max(SPARE_WORK * effort.trials, int(10**6 * (effort.time_limit or 0)))


def most_listed(effort: Effort) -> int:
    """The most transfers that a turn may list: none lists more than GROWTH in a unit of work."""
    return GROWTH * most_in_vain(effort)


@dataclass(eq=False)
class _Search:
    """The search of one module.

    most: all work that it may take when it has a schedule; None: any. spent: all work so far. in_vain: that before the
    turn that found the first schedule. is_cut: whether a turn had less work because of `most`.
    """

    module: Module
    effort: Effort
    synthesizers: Sequence[Synthesizer]
    most: int | None = None
    spent: int = 0
    in_vain: int = 0
    is_cut: bool = False
    _turns: list[Turns] = field(default_factory=list[Turns])

    def __post_init__(self) -> None:
        given = self.module
        self.bound = cache(lambda: lower_bound(given.network, given.demand, given.model))

    @cached_property
    def least(self) -> int:
        """The least number of transfers of a schedule, as far as it matters."""
        return least_transfers(self.module.network, self.module.demand, most_listed(self.effort))

    @property
    def is_too_long(self) -> bool:
        """Whether no turn can list the transfers of a schedule."""
        return self.least > most_listed(self.effort)

    def run(self) -> None:
        """Tries all candidates, as long as something shorter is possible; if none can list a schedule, those that need
        not.
        """
        demand, last = self.module.demand, self.effort.experience or Experience()
        most, given = 2, (self.module, self.effort, self.bound, self.synthesizers, self._plan_part)
        known = candidates(*given, self.least)
        if self.is_too_long:
            known = [candidate for candidate in known if candidate.name == "symmetric"]
        divided = by_group(self.module, self._plan_part)
        if divided is not None:  # if its parts share nothing, nothing else is likely
            known, most = [divided, *known], 0 if divided.ahead else 2
        first = max(FIRST_WORK, demand.pair_count // GROWTH**2)
        hopeless, behind = last.left_out(demand), last.behind(demand)
        for candidate in known:
            name, least = candidate.name, last.least_work(candidate.name, demand)
            likely = 2 if candidate is divided else most
            ahead = min(candidate.ahead, -1 if name in hopeless else 1 if name in behind else likely)
            limit = max(min(int(first * Fraction(GROWTH) ** ahead), most_in_vain(self.effort)), least)
            is_spare = name in {*hopeless, LAST_RESORT}
            self._turns.append(Turns(replace(candidate, ahead=ahead), limit, is_spare))
        while not self.effort.stop() and (chosen := self._next()) is not None:
            turns, meter = chosen
            name, began = turns.candidate.name, monotonic()
            self.effort.progress(0.0, f"auto: {name}")
            if self.best is None:
                self.in_vain = self.spent
            turns.take(meter)
            assert meter.most is not None
            self.spent += min(meter.spent, meter.most)  # no more was done
            self.effort.progress(1.0, f"auto: {name} after {monotonic() - began:.1f} s")
        in_vain = {turns.candidate.name: turns.in_vain for turns in self._turns if turns.in_vain}
        last.note(demand, {turns.candidate.name: turns.time for turns in self._turns if turns.built}, in_vain)

    def result(self) -> tuple[Turns, Module]:
        """The best schedule, and the turns that found it. Raises what a candidate raised if there is none."""
        if self.best is None or self.best.built is None:
            check_transfer_count(self.least, most_listed(self.effort))
            failures = [turns.failure for turns in self._turns if turns.failure and not self.effort.stop()]
            failures.sort(key=lambda failure: not isinstance(failure, NoSchedule))  # the others do not apply
            stopped = Diagnostic("S0201", "stopped before any schedule was found", hint="give it more time")
            raise failures[0] if failures else NoSchedule(stopped)
        return self.best, self.best.built

    @property
    def notes(self) -> list[str]:
        """The time of each schedule, the shortest first; then who has none, by reason."""
        by_time = sorted((turns for turns in self._turns if turns.built is not None), key=lambda turns: turns.time)
        notes = ["auto: " + ", ".join(f"{turns.candidate.name} takes {format_time(turns.time)}" for turns in by_time)]
        names: dict[str, list[str]] = {}
        for turns in self._turns:
            if turns.failure and turns.built is None:
                names.setdefault(turns.failure.diagnostics[0].message, []).append(turns.candidate.name)
        for reason, same in names.items():
            done = "gave up" if reason == GIVEN_UP.message else "no schedule by"
            notes.append(f"auto: {done} {', '.join(same)}: {reason}")
        return notes

    @property
    def best(self) -> Turns | None:
        """Those that found the shortest schedule; None if there is none."""
        return min((turns for turns in self._turns if turns.built), key=lambda turns: turns.time, default=None)

    def _next(self) -> tuple[Turns, WorkMeter] | None:
        """Whose turn is next, and its work: of those that could find something, the one with the least limit for how
        likely it is; only if none is left, of those that get more work.
        """
        best = self.best
        for more in (False, True):
            for turns in sorted(self._turns, key=lambda turns: turns.limit / GROWTH**turns.candidate.ahead):
                left = most_in_vain(self.effort) if best is None else self._work_left(turns, best, more=more)
                if not turns.is_open or left < turns.limit:
                    continue
                left = min(left, GROWTH * turns.limit)
                if best is not None and self.most is not None and self.most - self.spent < left:
                    left, self.is_cut = self.most - self.spent, True
                if left >= turns.limit:
                    return turns, WorkMeter(turns.limit, most=left)
        return None

    def _work_left(self, turns: Turns, best: Turns, *, more: bool) -> int:
        """The work that may still be spent on a candidate: none if nothing can be gained, less if it is little.

        more: whether those that lead, and may lead, get more.
        """
        gain = Fraction(best.time - self.bound().time, max(1, best.time))
        spare = SPARE_WORK * self.effort.trials * self.effort.work_part
        if self.effort.time_limit is not None:  # seconds; work is counted in microseconds
            spare = Fraction(self.effort.time_limit) * 10**6
        others_plan_each_part = turns is not best and best.candidate.parts * best.useful > GROWTH**2 * spare
        if gain <= 0 or others_plan_each_part or turns.is_spare > best.is_spare:
            return 0
        share = min(Fraction(1), GROWTH**2 * gain)
        is_poor = GROWTH * gain >= 1 and not self.module.network.has_endpoints
        may_lead = turns is best or (turns.built is None and turns.candidate.ahead > (0 if is_poor else 1))
        spare *= GROWTH**2 if more and may_lead and share == 1 else 1
        return best.useful + int(share * (2 * best.useful + spare)) + self.in_vain - self.spent

    def _plan_part(self, module: Module, meter: WorkMeter, parts: int = 1) -> Module:
        """A smaller problem with its best schedule; counts the work, and notes if more would be of use. Raises what
        candidates do.

        parts: how many such problems there are, which share the work.
        """
        most = None if meter.remainder is None else meter.remainder // parts
        part = self.effort.work_part / parts
        effort = replace(self.effort, work_part=part, time_limit=None, experience=None)
        nested = _Search(module, effort.with_work(meter), self.synthesizers, most)
        try:
            nested.run()
            return nested.result()[1]
        finally:
            meter.add(nested.spent)
            meter.limit = 0 if nested.is_cut else meter.limit
