"""Picks synthesizers by demand and network, tries what is promising for its work, keeps the best schedule and says why.

Each synthesizer says whether it applies, and estimates the work of its first schedule (estimates.py). All decisions
count work, so that the choice is the same on all machines:

1. Runs over groups that share nothing are planned one by one on the links of their own NPUs (group_parts.py).
2. Each candidate makes one schedule, the most promising for their work first; on networks with switches also on direct
   links in the place of the switches. Then the textbook algorithms do.
3. If links are pipelined, the best schedule for links that are busy until arrival is retimed.
4. Searches that came near the best go on in turns, and the one with the best as long as it finds shorter ones.
5. Z3 looks for something shorter if the problem is tiny.

Nothing is tried that could not be shorter: the search ends at the lower bound, and long searches end near it. What is
tried beside the candidate with the best schedule may take twice as much work as that one, and SPARE_WORK more;
candidates that take more are left out, and the notes say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from time import monotonic

import numpy as np

from collc.base.diagnostics import CollcError, Diagnostic, NoSchedule
from collc.base.interrupts import OutOfTime
from collc.base.units import format_time
from collc.synthesis.auto.candidates import RETIMING_WORK, candidates, textbook_candidates
from collc.synthesis.auto.estimates import WORK_PER_SECOND, Candidate, Estimate, KnownBounds
from collc.synthesis.auto.group_parts import by_group
from collc.synthesis.auto.record import Synthesizer
from collc.synthesis.endpoints import refuse_buffers, retimed_for_endpoints
from collc.synthesis.exact import NoShorter, exact, exact_sums
from collc.synthesis.reductions.compose import join, solve, split
from collc.synthesis.retiming import retime
from collc.synthesis.symmetric import is_cluster, symmetric_module
from collc.synthesis.task import Effort, WorkMeter
from collc.ten.factored_schedule import FactoredSchedule
from collc.ten.limited import Ports
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel

# All numbers of work are in the units of WorkMeter, about a microsecond of plain Python, and were fitted on the 300
# random programs of `python -m benchmarks auto` (docs/synthesis.md, Measurements).

SPARE_WORK = 800_000
"""Work beside that of the best candidate."""

FIRST_WORK = 30_000
"""Work in which a candidate may make further attempts at once."""

GIVE_UP_FACTOR = 4
"""A first schedule is given up at GIVE_UP_FACTOR times its estimate and FIRST_WORK."""

SMALL_NPUS, MOST_WORK, MOST_WORK_LARGE = 64, 7_000_000, 50_000_000
"""All work up to SMALL_NPUS NPUs, and above: about 10 and 60 seconds with what is not counted."""

HOPELESS = 1.1
"""A schedule is far from the best if it takes this multiple of the time of the best."""

NEAR = 8
"""A search goes on if its schedule is longer than the best by at most 1/NEAR."""

TURN_FACTOR = 8
"""The work with which a search goes on, as a multiple of the work that it has had."""

TINY_NPUS, TINY_TERMS, TINY_TERMS_WITH_SUMS = 9, 6_000, 2_000
"""NPUs, and chunks x links x steps without and with sums, up to which Z3 is asked for something shorter."""

PROOF_WORK = 1_000_000
"""What Z3 may spend on each number of steps, about 0.6 s."""

MOST_LISTED_CHUNKS = 5_000_000
"""Chunks up to which synthesizers that list them are tried."""

GAIN = 200
"""A search goes on in the end if its last run made the schedule shorter by at least 1/GAIN."""

NEARLY_DONE = ((Fraction(101, 100), 20_000), (Fraction(103, 100), 200_000))
"""(multiple of the lower bound, work): up to this time of the best, the most work that is spent on a shorter one."""

STOPPED = Diagnostic("S0201", "stopped before any schedule was found", hint="give it more time")


def choose(module: Module, effort: Effort, synthesizers: Sequence[Synthesizer]) -> Module:
    """The module with the best schedule of those tried, its algorithm, and what was tried in the notes.

    What the module's schedule has already is planned round. The network of the result is the unwound
    one if that is better; the notes say so, and also if Z3 proves that nothing is shorter.
    synthesizers: those to choose among, which have estimates.
    Raises what the synthesizers raise if none finds a schedule, NoSchedule if `effort.stop` asks to stop before.
    """
    if module.network.has_endpoints:
        refuse_buffers(module.network)
    factored = _without_listing(module, effort)
    if factored is not None:
        return factored
    search = _Search(module, effort, synthesizers)
    tried = search.tried
    try:
        search.run()
    except OutOfTime:
        if tried.best is None:
            raise
    if effort.earlier is not None and tried.best is not None:
        for known, attempt in tried.attempts.items():
            effort.earlier.setdefault(known, []).append(attempt.time / max(1, time_of(tried.best[1])))
    if tried.best is None:
        raise (None if effort.stop() else tried.failure) or NoSchedule(STOPPED)
    name, built = tried.best
    why = "meets the bound" if tried.is_met(built.network) else "is the best of those tried"
    if tried.proved:
        why = "is optimal: nothing is shorter, as Z3 has shown"
    notes = [*module.notes, *tried.notes.values(), f"auto: chose {name}, which {why}"]
    if built.network.unwound and not module.network.unwound:
        notes.append(UNWOUND)
    algorithm = f"{module.algorithm}+{name}" if module.algorithm else name
    return replace(built, algorithm=algorithm, seed=effort.seed, notes=tuple(notes))


def _without_listing(module: Module, effort: Effort) -> Module | None:
    """The module with a schedule by symmetry if it has more than MOST_LISTED_CHUNKS chunks and needs no list."""
    chunks = sum(len(run.pattern) for run in module.demand.runs)
    if chunks <= MOST_LISTED_CHUNKS or module.schedule is not None or not is_cluster(module):
        return None
    planned = symmetric_module(module, effort)
    if not isinstance(planned.schedule, FactoredSchedule):
        return None
    note = f"auto: chose symmetric; the others would list all of the {chunks:,} chunks"
    return replace(planned, algorithm="symmetric", seed=effort.seed, notes=(*module.notes, note))


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
    """What has been tried: the best on each network so far with its name, the last run of each, notes, the
    first error.

    own: the network as it is declared. A schedule on it that meets its bound is chosen before one on direct links in
    the place of switches; else the shorter one is. proved: on it nothing is shorter than the best, as Z3 has shown.
    spent: all work so far. bounds: the lower bounds of networks.
    """

    own: Network
    proved: bool = False
    spent: int = 0
    attempts: dict[str, Attempt] = field(default_factory=dict[str, Attempt])
    notes: dict[str, str] = field(default_factory=dict[str, str])
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
            self.notes[name] = f"auto: {name} found none: {error.diagnostics[0].message}"
            self.proved |= isinstance(error, NoShorter)
            return
        spent = meter.spent or candidate.estimate.work
        work = max(1, spent - meter.setup)
        self.spent += spent
        unfinished = candidate.estimate.searches and meter.is_used_up
        time = time_of(built)
        if before is None or time < before.time:
            improved = before is None or GAIN * time <= (GAIN - 1) * before.time
            self.attempts[name] = Attempt(time, work, meter.setup, spent, unfinished, improved)
            self.notes[name] = f"auto: {name} takes {format_time(time)}"
        else:
            self.attempts[name] = replace(before, work=work, setup=meter.setup, unfinished=unfinished, improved=False)
        best = self._best.get(id(network))
        if best is None or time < time_of(best[1]):
            self._best[id(network)] = name, built

    def leave_out(self, *candidates: Candidate) -> None:
        """Notes that candidates would take too much work together."""
        if candidates:
            names = ", ".join(candidate.name for candidate in candidates)
            seconds = sum(candidate.estimate.work for candidate in candidates) / WORK_PER_SECOND
            self.notes[names] = (
                f"auto: left out {names}: an estimated {seconds:.{1 if seconds >= 0.05 else 2}f} s of work, "
                "more than the search has left"
            )

    def is_met(self, network: Network) -> bool:
        """Whether the best on a network meets its bound."""
        return id(network) in self._best and self._is_within(Fraction(1), network, self._best[id(network)][1])

    def is_done(self, network: Network, factor: Fraction = Fraction(1)) -> bool:
        """Whether nothing on a network can be chosen before the best, or be shorter than the best by some factor."""
        best = self._best.get(id(self.own))
        if best is not None and self._is_within(factor, self.own, best[1]):
            return True
        if network is self.own and factor == 1:  # a schedule that meets the bound there would be chosen
            return False
        return any(self._is_within(factor, network, module) for _, module in self._best.values())

    def is_worth(self, network: Network, work: int) -> bool:
        """Whether a schedule on a network may be so much shorter than the best that some work is worth while."""
        return not any(work > most and self.is_done(network, factor) for factor, most in NEARLY_DONE)

    def _is_within(self, factor: Fraction, network: Network, module: Module) -> bool:
        """Whether nothing on a network is shorter than the schedule of a module by such a factor."""
        return time_of(module) <= self.bound(network, module) * factor

    def bound(self, network: Network, module: Module) -> int:
        """The lower bound of a module on a network; counts its work."""
        self.spent += self.bounds.work(network, module)
        return self.bounds.of(network, module)


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
        applicable = candidates(module, effort, self.tried.bounds, synthesizers)
        self._candidates = [one for one in applicable if not self._is_hopeless(one.name)] or applicable
        most = MOST_WORK if len(module.network.npus) <= SMALL_NPUS else MOST_WORK_LARGE
        self.most = int(effort.trials * effort.work_part * most)
        self.spare = effort.trials * SPARE_WORK
        if effort.time_limit is not None:
            self.most = self.spare = int(effort.time_limit * WORK_PER_SECOND)

    def _is_hopeless(self, name: str) -> bool:
        """Whether a candidate was far from the best with the last two numbers of chunks, and came no nearer."""
        known = (self._effort.earlier or {}).get(name, [])
        return len(known) > 1 and known[-1] >= max(HOPELESS, known[-2])

    def run(self) -> None:
        """Tries all candidates, as long as something shorter is possible."""
        self.by_group()
        self.first_schedules()
        if self.tried.best is None:
            return
        self.textbook()
        self.store()
        self.longer_searches()
        self.shorter()

    def by_group(self) -> None:
        """Plans each group on the links of its own NPUs, as a problem of its own."""
        candidate = None if self._effort.stop() else by_group(self._module, self._planned_part)
        if candidate is not None:
            self._take(candidate)

    def _planned_part(self, module: Module, parts: int) -> tuple[Module, int]:
        """A part with its best schedule, and the work of that. parts: how many there are. Raises what candidates do."""
        effort = replace(self._effort, time_limit=None, unwinds=False, earlier=None)
        nested = _Search(module, effort, self._synthesizers)
        nested.most, nested.spare = self._all_left() // (2 * parts), self.spare // (2 * parts)
        nested.run()
        if nested.tried.best is None:
            raise nested.tried.failure or NoSchedule(STOPPED)
        return nested.tried.best[1], nested.tried.spent

    def first_schedules(self) -> None:
        """One schedule of each candidate; if all would take too much work, of the one that takes least."""
        for candidate in self._candidates:
            if not self._is_wanted(candidate):
                continue
            work = candidate.estimate.work
            if work <= (self._all_left() if candidate.estimate.near_ideal else self._left()):
                self._take(candidate, FIRST_WORK, GIVE_UP_FACTOR * (work + FIRST_WORK))
            else:
                self.tried.leave_out(candidate)
        for candidate in sorted(self._candidates, key=lambda candidate: candidate.estimate.work):
            if self.tried.best is not None or self._effort.stop() or self._effort.earlier:
                return
            if candidate.name not in self.tried.attempts:
                self._take(candidate, FIRST_WORK)

    def textbook(self) -> None:
        """The algorithms of the library, as long as there is some work left."""
        standards = {run.standard.kind if run.standard is not None else "" for run in self._module.demand.runs}
        library = self._effort.library
        if library is None or len(standards) > 1 or "" in standards:
            return
        wanted = [one for one in textbook_candidates(self._module, library) if self._is_wanted(one)]
        for number, candidate in enumerate(wanted):
            if candidate.estimate.work > self._left():
                self.tried.leave_out(*wanted[number:])
                return
            self._take(candidate)

    def longer_searches(self) -> None:
        """More work for the searches that came near the best, in turns, as long as there is some left.

        The search that found the best then goes on as long as it finds shorter ones.
        """
        attempts = self.tried.attempts
        while True:
            left = self._left()
            near = [candidate for candidate in self._candidates if self._is_near(candidate)]
            affordable = [candidate for candidate in near if self._may_go_on(candidate, left)]
            if not affordable and self.tried.best is not None:
                name, left = self.tried.best[0], self._all_left()
                leading = [candidate for candidate in near if candidate.name == name and attempts[name].improved]
                affordable = [candidate for candidate in leading if self._may_go_on(candidate, left)]
            if not affordable:
                return
            candidate = min(affordable, key=lambda candidate: attempts[candidate.name].work)
            attempt = attempts[candidate.name]
            self._take(candidate, min(TURN_FACTOR * attempt.work, left - attempt.setup))

    def _is_near(self, candidate: Candidate) -> bool:
        """Whether the search of a candidate came near the best of all, and could still find a better one."""
        attempt, best = self.tried.attempts.get(candidate.name), self.tried.best
        if attempt is None or best is None or not attempt.unfinished:
            return False
        return NEAR * attempt.time <= (NEAR + 1) * time_of(best[1]) and self._is_wanted(candidate)

    def _may_go_on(self, candidate: Candidate, left: int) -> bool:
        """Whether the work that is left is much more than what the last run of a candidate took."""
        attempt = self.tried.attempts[candidate.name]
        return 3 * attempt.work <= 2 * (left - attempt.setup)

    def store(self) -> None:
        """Takes the best schedule for link model store, which is valid as it is, with its transfers retimed."""
        tried = self.tried
        pipelined = self._module.model is LinkModel.PIPELINED and self._module.schedule is None
        if not pipelined or tried.best is None or tried.is_met(self._module.network) or self._effort.stop():
            return
        alike = _retimed_candidate(*tried.best)  # a schedule for store has about as many transfers
        if alike.estimate.work > self._left():
            tried.leave_out(alike)
            return
        module = replace(self._module, model=LinkModel.STORE)
        effort = replace(self._effort, library=None, time_limit=None)
        nested = _Search(module, effort, self._synthesizers)
        nested.most = nested.spare = min(self.spare // 2, self._left())
        nested.run()
        tried.spent += nested.tried.spent
        if nested.tried.best is not None:
            self._take(_retimed_candidate(*nested.tried.best))

    def shorter(self) -> None:
        """Asks Z3 if that is a small question."""
        for candidate in _exact_candidates(self._module, self._effort, self.tried):
            if not self._effort.stop() and not self.tried.is_done(candidate.network):
                self._take(candidate)

    def _left(self) -> int:
        """The work that may still be spent."""
        beside_best = self.spare + 2 * self.tried.work_of_best - self.tried.spent
        return self._all_left() if self.tried.best is None else min(self._all_left(), beside_best)

    def _all_left(self) -> int:
        """The work that may be spent on what is likely to be near the best possible schedule."""
        return self.most - self.tried.spent

    def _is_wanted(self, candidate: Candidate) -> bool:
        """Whether the candidate could still be chosen, and is worth its work."""
        if self._effort.stop() or self.tried.is_done(candidate.network):
            return False
        attempt = self.tried.attempts.get(candidate.name)
        work = candidate.estimate.work if attempt is None else TURN_FACTOR * attempt.work
        return self.tried.is_worth(candidate.network, work)

    def _take(self, candidate: Candidate, limit: int | None = None, most: int | None = None) -> None:
        began = monotonic()
        self._effort.progress(0.0, f"auto: {candidate.name}")
        self.tried.take(candidate, limit, most)
        self._effort.progress(1.0, f"auto: {candidate.name} after {monotonic() - began:.1f} s")


def _retimed_candidate(name: str, stored: Module) -> Candidate:
    """A schedule for `store`, retimed. name: that of its synthesizer."""
    transfers = 0 if stored.schedule is None else len(stored.schedule)
    estimate = Estimate(RETIMING_WORK * transfers)
    return Candidate(f"{name} for link model store, retimed", stored.network, estimate, lambda _: _retime(stored))


def _retime(module: Module) -> Module:
    """A module with a schedule for `store`, with its transfers as early as pipelined links and limits of NPUs allow."""
    moved = retime(module)
    return retimed_for_endpoints(moved, moved.network) if len(Ports.of(moved.network)) else moved


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
    most, estimate = time // step - 1, Estimate(PROOF_WORK)
    if not sums:

        def build() -> Module:
            return join(solve(module, lambda task: exact(task, effort, most=most, work=PROOF_WORK)))
    else:

        def build() -> Module:
            return replace(module, schedule=exact_sums(module, effort, most, 2 * PROOF_WORK))

    yield Candidate("exact", network, estimate, lambda _: build())
