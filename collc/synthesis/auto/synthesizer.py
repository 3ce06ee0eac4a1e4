"""Tries the synthesizers that apply in turns, with growing budgets of counted work, and keeps the best schedule.

No decision needs an estimate of work or a clock, so that the choice is the same on all machines:

1. Runs over groups that share nothing are planned one by one on the links of their own NPUs (group_parts.py).
2. The candidates get budgets in turns, GROWTH times as much in each, until they have a schedule. Those whose schedules
   take at most twice as long as the best then get turns of 2 GROWTH times the work of the last one, as long as they
   find shorter ones. Those that are likely the best for the kind of problem (kinds.py) are a turn ahead, and so are
   those on the network as it is, if others are on direct links in the place of its switches. Each turn begins anew, so
   that all turns of a candidate together take little more than its last one.
3. The textbook algorithms of the library are laid out.
4. If links are pipelined, the synthesizer with the best schedule plans for links that are busy until arrival, and its
   transfers are then started earlier.
5. Z3 looks for something shorter if the problem is tiny.

Nothing is tried that could not be shorter: the search ends at the lower bound. All together take at most the work of
the candidate with the best schedule, and twice that and SPARE_WORK; less if the best is near its bound, more of those
that are likely the best. The notes say what was given up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from time import monotonic

import numpy as np

from collc.base.diagnostics import CollcError, Diagnostic, NoSchedule
from collc.base.interrupts import OutOfTime
from collc.base.units import format_time
from collc.synthesis.auto.candidates import (
    GIVEN_UP,
    Candidate,
    KnownBounds,
    candidates,
    textbook_candidates,
)
from collc.synthesis.auto.group_parts import by_group
from collc.synthesis.auto.kinds import ProblemKind
from collc.synthesis.auto.record import Synthesizer
from collc.synthesis.endpoints import refuse_buffers, retimed_for_endpoints
from collc.synthesis.reductions.compose import join, solve, split
from collc.synthesis.retiming import retime
from collc.synthesis.task import MAX_TRANSFERS, Effort, WorkMeter, check_transfer_count
from collc.ten.limited import Ports
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel

WORK_PER_SECOND = 1_000_000
"""Work that is done in a second, about."""

FIRST_WORK = 25_000
"""Budget of the first turn of small problems, in which a candidate may make further attempts at once; a quarter of a
unit for each pair of a chunk and an NPU that it must reach if that is more.
"""

GROWTH = 4
"""The budget of a turn as a multiple of that of the one before."""

SPARE_WORK, MOST_WORK = 1_500_000, 20_000_000
"""Work beside that of the best candidate, and of those that are likely the best; chosen on random programs 1 to 40 and
2000 to 2059 of `benchmarks auto`, not tried on others.
"""

LARGE_GAIN = 16
"""If the best schedule could be shorter by less than 1/LARGE_GAIN, less is spared in proportion; chosen on the programs
of SPARE_WORK.
"""

TINY_NPUS, TINY_TERMS, TINY_TERMS_WITH_SUMS = 9, 6_000, 2_000
"""NPUs, and chunks x links x steps without and with sums, up to which Z3 is asked for something shorter."""

PROOF_WORK = 1_000_000
"""What Z3 may spend on each number of steps, about 0.6 s."""

MOST_LISTED_CHUNKS = 5_000_000
"""Chunks up to which synthesizers that list them are tried."""

GAIN = 200
"""A search goes on in the end if its last run made the schedule shorter by at least 1/GAIN."""

STOPPED = Diagnostic("S0201", "stopped before any schedule was found", hint="give it more time")


def choose(module: Module, effort: Effort, synthesizers: Sequence[Synthesizer]) -> Module:
    """The module with the best schedule of those tried, its algorithm, and what was tried in the notes.

    What the module's schedule has already is planned round. The network of the result is the unwound
    one if that is better; the notes say so, and also if Z3 proves that nothing is shorter.
    synthesizers: those to choose among.
    Raises what the synthesizers raise if none finds a schedule, NoSchedule if `effort.stop` asks to stop before.
    """
    if module.network.has_endpoints:
        refuse_buffers(module.network)
    factored = _without_listing(module, effort)
    if factored is not None:
        return factored
    check_transfer_count(module.demand)
    search = _Search(module, effort, synthesizers)
    tried = search.tried
    try:
        search.run()
    except OutOfTime:
        if tried.best is None:
            raise
    if tried.best is None:
        raise (None if effort.stop() else tried.failure) or NoSchedule(STOPPED)
    name, built = tried.best
    why = "meets the bound" if tried.is_met(built.network) else "is the best of those tried"
    if tried.proved:
        why = "is optimal: nothing is shorter, as Z3 has shown"
    notes = [*module.notes, *tried.notes(), f"auto: chose {name}, which {why}"]
    if built.network.unwound and not module.network.unwound:
        notes.append(UNWOUND)
    algorithm = f"{module.algorithm}+{name}" if module.algorithm else name
    return replace(built, algorithm=algorithm, seed=effort.seed, notes=tuple(notes))


def _without_listing(module: Module, effort: Effort) -> Module | None:
    """The module with a schedule by symmetry if it has too many chunks or transfers to list them."""
    chunks = sum(len(run.pattern) for run in module.demand.runs)
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


UNWOUND = (
    "the switches are unwound: links, schedule, time and bound are those of the unwound network, "
    "on which direct links stand for the switches; 'synthesize pccl()' plans for the switches as they are"
)


@dataclass(slots=True)
class Attempt:
    """The runs of a candidate: picoseconds of its best schedule, work of the last run without what came before the
    search, that of what came before, all work of the one that found this schedule, whether more could find a shorter
    one, and whether the last run made it shorter.
    """

    time: int
    work: int
    setup: int
    useful_work: int
    unfinished: bool
    improved: bool = True


@dataclass
class TriedCandidates:
    """What has been tried: the best on each network so far with its name, the last run of each, why the others have no
    schedule and which of them find none with any work, the first error.

    own: the network as it is declared. A schedule on it that meets its bound is chosen before one on direct links in
    the place of switches; else the shorter one is. proved: on it nothing is shorter than the best, as Z3 has shown.
    spent: all work so far. bounds: the lower bounds of networks.
    """

    own: Network
    proved: bool = False
    spent: int = 0
    attempts: dict[str, Attempt] = field(default_factory=dict[str, Attempt])
    failed: set[str] = field(default_factory=set[str])
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    failure: CollcError | None = None
    bounds: KnownBounds = field(default_factory=KnownBounds)
    _best: dict[int, tuple[str, Module]] = field(default_factory=dict[int, tuple[str, Module]])

    @property
    def best(self) -> tuple[str, Module] | None:
        """The schedule to choose, and how it was found; None if there is none."""
        if self.is_met(self.own):
            return self._best[id(self.own)]
        by_own_first = sorted(self._best.items(), key=lambda item: item[0] != id(self.own))
        return min((named for _, named in by_own_first), key=lambda named: time_of(named[1]), default=None)

    @property
    def work_of_best(self) -> int:
        """The work in which a candidate found the best schedule; 0 if there is none."""
        best = self.best
        return 0 if best is None or best[0] not in self.attempts else self.attempts[best[0]].useful_work

    def take(self, candidate: Candidate, limit: int | None, most: int | None = None) -> None:
        """Builds a candidate and keeps it if it is the best on its network. limit, most: of its work, see WorkMeter."""
        meter = WorkMeter(limit, most=most)
        name, network = candidate.name, candidate.network
        before = self.attempts.get(name)
        try:
            built = candidate.build(meter)
        except CollcError as error:
            self.spent += meter.spent
            self.failure = self.failure or error
            if meter.is_exceeded and before is None:
                self.reasons[name] = GIVEN_UP.message
            elif before is None:
                self.failed.add(name)
                self.reasons[name] = error.diagnostics[0].message
            else:
                self.attempts[name] = replace(before, unfinished=False)
            return
        work = max(1, meter.spent - meter.setup)
        self.spent += meter.spent
        unfinished = meter.is_used_up or meter.is_exceeded
        time = time_of(built)
        if before is None or time < before.time:
            improved = before is None or GAIN * time <= (GAIN - 1) * before.time
            self.attempts[name] = Attempt(time, work, meter.setup, meter.spent, unfinished, improved)
            self.reasons.pop(name, None)
        else:
            self.attempts[name] = replace(before, work=work, setup=meter.setup, unfinished=unfinished, improved=False)
        best = self._best.get(id(network))
        if best is None or time < time_of(best[1]):
            self._best[id(network)] = name, built

    def notes(self) -> list[str]:
        """The time of each schedule, the shortest first; then those without one, by the reason.

        Reasons that differ in the names of devices and chunks only are shown once.
        """
        by_time = sorted(self.attempts.items(), key=lambda item: item[1].time)
        notes = ["auto: " + ", ".join(f"{name} takes {format_time(attempt.time)}" for name, attempt in by_time)]
        alike: dict[str, list[str]] = {}
        for name, reason in self.reasons.items():
            alike.setdefault(re.sub(r"[^\s\[]*\[[^]]*\]", "", reason), []).append(name)
        for names in alike.values():
            done = "gave up" if self.reasons[names[0]] == GIVEN_UP.message else "no schedule by"
            notes.append(f"auto: {done} {', '.join(names)}: {self.reasons[names[0]]}")
        return notes

    def is_met(self, network: Network) -> bool:
        """Whether the best on a network meets its bound."""
        return id(network) in self._best and self._is_within_bound(network, self._best[id(network)][1])

    def is_done(self, network: Network) -> bool:
        """Whether nothing on a network can be chosen before the best."""
        if network is self.own or self.is_met(self.own):  # there, a schedule that meets the bound would be chosen
            return self.is_met(self.own)
        return any(self._is_within_bound(network, module) for _, module in self._best.values())

    def gain(self, network: Network) -> Fraction:
        """The part of the time of the best schedule by which one on a network could be shorter, at most.

        On the own network, only the best there counts: one that meets the bound would be chosen before shorter ones.
        """
        named = self._best.get(id(network)) if network is self.own else self.best
        if named is None:
            return Fraction(1)
        built = named[1]
        return 1 - Fraction(self.bounds.of(network, built), max(1, time_of(built)))

    def _is_within_bound(self, network: Network, module: Module) -> bool:
        """Whether nothing on a network is shorter than the schedule of a module."""
        return time_of(module) <= self.bounds.of(network, module)


def time_of(module: Module) -> int:
    """Picoseconds that a module's schedule takes. Raises NoSchedule if there is none."""
    if module.schedule is None:
        raise NoSchedule(Diagnostic("S0201", "nothing was planned"))
    return module.collective_time()


class _Search:
    """The search of one module.

    tried: what it has found. most: all work that it may take. spare: work beside that of the best candidate.
    """

    def __init__(self, module: Module, effort: Effort, synthesizers: Sequence[Synthesizer]) -> None:
        self._module, self._effort, self._synthesizers = module, effort, synthesizers
        self.tried = TriedCandidates(module.network)
        self._candidates = candidates(module, effort, self.tried.bounds, synthesizers, self._search_sums)
        first = max(FIRST_WORK, ProblemKind(module).pairs // 4)
        self._budgets = {candidate.name: first * GROWTH**candidate.ahead for candidate in self._candidates}
        self._first = first
        self.most = int(effort.trials * effort.work_part * MOST_WORK)
        self.spare = effort.trials * SPARE_WORK
        self._divided = False
        if effort.time_limit is not None:
            self.most = self.spare = int(effort.time_limit * WORK_PER_SECOND)

    def run(self) -> None:
        """Tries all candidates, as long as something shorter is possible."""
        self.by_group()
        while (turn := self._next_turn()) is not None:
            self._take(*turn)
        if self.tried.best is None:
            return
        self.textbook()
        self.store()
        self.shorter()

    def by_group(self) -> None:
        """Plans each group on the links of its own NPUs, as a problem of its own."""
        candidate = None if self._effort.stop() else by_group(self._module, self._plan_part)
        if candidate is not None:
            self._divided = candidate.ahead > 1
            self._take(candidate)

    def _plan_part(self, module: Module, parts: int) -> tuple[Module, int]:
        """A part with its best schedule, and the work of that. parts: how many there are. Raises what candidates do."""
        effort = replace(self._effort, time_limit=None, unwinds=False)
        return self._best_of_module(
            module, effort, (self.most - self.tried.spent) // (2 * parts), self.spare // (2 * parts)
        )

    def _search_sums(self, module: Module, meter: WorkMeter) -> Module:
        """A module of sums among nodes with its best schedule; counts its work. Raises what candidates do."""
        effort = replace(self._effort.with_work(meter), library=None, time_limit=None, unwinds=False)
        most = self.most if meter.remainder is None else meter.remainder
        planned, work = self._best_of_module(module, effort, most, most)
        meter.add_setup(work)
        return planned

    def _best_of_module(self, module: Module, effort: Effort, most: int, spare: int) -> tuple[Module, int]:
        nested = _Search(module, effort, self._synthesizers)
        nested.most, nested.spare = most, spare
        nested.run()
        if nested.tried.best is None:
            raise nested.tried.failure or NoSchedule(STOPPED)
        return nested.tried.best[1], nested.tried.spent

    def _next_turn(self) -> tuple[Candidate, int, int] | None:
        """The next turn: who, the work after which no further attempt begins, and the most work.

        Of the candidates that may have a turn, it is that of the one with the least work in the last turn for how
        likely it is.
        """
        for candidate in sorted(self._candidates, key=lambda one: self._last_work(one) / GROWTH**one.ahead):
            if self._is_wanted(candidate) and candidate.name not in self.tried.failed:
                attempt = self.tried.attempts.get(candidate.name)
                turn = self._first_turn(candidate) if attempt is None else self._longer_turn(candidate, attempt)
                if turn is not None:
                    return turn
        return None

    def _last_work(self, candidate: Candidate) -> int:
        """The work of the last turn of a candidate."""
        attempt = self.tried.attempts.get(candidate.name)
        if attempt is not None:
            return attempt.work
        return self._budgets[candidate.name] // GROWTH if candidate.name in self.tried.reasons else 0

    def _first_turn(self, candidate: Candidate) -> tuple[Candidate, int, int] | None:
        """A turn of a candidate without a schedule; None if hardly more work is left than the last one took."""
        budget = self._budgets[candidate.name]
        left = budget if self.tried.best is None else self._work_left(candidate)
        if GROWTH * left <= budget:
            return None
        self._budgets[candidate.name] = GROWTH * budget
        return candidate, self._first, min(budget, left)

    def _longer_turn(self, candidate: Candidate, attempt: Attempt) -> tuple[Candidate, int, int] | None:
        """A turn of a candidate with a schedule; None if no shorter one than the best is to be expected."""
        left = self._work_left(candidate) - attempt.setup
        named = self.tried.best
        is_near = named is not None and attempt.time <= 2 * time_of(named[1])
        if not is_near or not attempt.unfinished or not attempt.improved or 2 * left < 3 * attempt.work:
            return None
        limit = min(2 * GROWTH * attempt.work, left)
        return candidate, limit, GROWTH * limit + attempt.setup

    def textbook(self) -> None:
        """The algorithms of the library, as long as there is some work left."""
        standards = {run.standard.kind if run.standard is not None else "" for run in self._module.demand.runs}
        library = self._effort.library
        if library is None or len(standards) > 1 or "" in standards:
            return
        for candidate in textbook_candidates(self._module, library):
            if self._is_wanted(candidate):
                self._take(candidate, None, max(0, self._work_left(candidate)))

    def store(self) -> None:
        """The synthesizer of the best schedule for links that are busy until arrival, which is valid, and retimed."""
        best, module = self.tried.best, replace(self._module, model=LinkModel.STORE)
        if best is None or self._module.model is LinkModel.STORE or module.schedule is not None:
            return
        schedule = best[1].schedule
        if schedule is not None and schedule.row_count < len(schedule):  # then it takes too long to list them
            return
        for candidate in candidates(module, self._effort, KnownBounds(), self._synthesizers, self._search_sums):
            if candidate.name == best[0] and self._is_wanted(candidate):
                work = self.tried.work_of_best
                self._take(_retime_candidate(candidate), work, 2 * work)

    def shorter(self) -> None:
        """Asks Z3 if that is a small question."""
        for candidate in _exact_candidates(self._module, self._effort, self.tried):
            if not self._effort.stop() and not self.tried.is_done(candidate.network):
                self._take(candidate)

    def _work_left(self, candidate: Candidate) -> int:
        """The work that may still be spent on a candidate; less if the best is near the bound."""
        tried, all_left = self.tried, self.most - self.tried.spent
        gain, attempt = tried.gain(candidate.network), tried.attempts.get(candidate.name)
        leads = tried.best is not None and tried.best[0] == candidate.name and attempt is not None and attempt.improved
        share = min(Fraction(1), LARGE_GAIN * max(gain, Fraction(0)))
        if share == 1 and not self._divided and (leads or (candidate.ahead > 1 and attempt is None)):
            return all_left
        return min(all_left, tried.work_of_best + int(share * (self.spare + 2 * tried.work_of_best)) - tried.spent)

    def _is_wanted(self, candidate: Candidate) -> bool:
        """Whether the candidate could still be chosen."""
        return not self._effort.stop() and not self.tried.is_done(candidate.network)

    def _take(self, candidate: Candidate, limit: int | None = None, most: int | None = None) -> None:
        began = monotonic()
        self._effort.progress(0.0, f"auto: {candidate.name}")
        self.tried.take(candidate, limit, most)
        self._effort.progress(1.0, f"auto: {candidate.name} after {monotonic() - began:.1f} s")


def _retime_candidate(candidate: Candidate) -> Candidate:
    """A candidate for link model `store`, with its transfers as early as pipelined links and limits of NPUs allow."""

    def build(meter: WorkMeter) -> Module:
        moved = retime(candidate.build(meter))
        return retimed_for_endpoints(moved, moved.network) if len(Ports.of(moved.network)) else moved

    return replace(candidate, name=f"{candidate.name} for link model store, retimed", build=build)


def _is_tiny(module: Module) -> bool:
    """Whether Z3 may be asked for something shorter: few NPUs, and all transfers take equal time."""
    network, sizes = module.network, np.unique(module.demand.chunks.size)
    alike = module.model is LinkModel.STORE and len(np.unique(network.kind)) == 1 and len(sizes) == 1
    few = len(network.npus) <= TINY_NPUS and not network.has_switches
    return alike and few and module.schedule is None and not network.has_endpoints


def _exact_candidates(module: Module, effort: Effort, tried: TriedCandidates) -> Iterator[Candidate]:
    """Exact search for a schedule that is shorter than the best so far, if that is a small question."""
    network = module.network
    if tried.best is None or not _is_tiny(module):
        return
    time = time_of(tried.best[1])
    step = int(Clock.of(network, module.demand, module.model).total[network.kind[0], 0])
    sums = len(split(module)) > 1
    if len(module.demand.chunks) * network.link_count * (time // step) > (TINY_TERMS_WITH_SUMS if sums else TINY_TERMS):
        return
    most = time // step - 1

    def build() -> Module:
        from collc.synthesis.exact import NoShorter, exact, exact_sums

        try:
            if sums:
                return replace(module, schedule=exact_sums(module, effort, most, 2 * PROOF_WORK))
            return join(solve(module, lambda task: exact(task, effort, most=most, work=PROOF_WORK)))
        except NoShorter:
            tried.proved = True
            raise

    yield Candidate("exact", network, lambda _: build())
