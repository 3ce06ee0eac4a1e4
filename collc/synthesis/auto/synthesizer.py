"""Picks synthesizers by demand and network, tries what is promising for its work, keeps the best schedule and says why.

Each synthesizer says whether it applies, and estimates the work of its first schedule (estimates.py). First, each gives
one schedule, those with the most promise for their work first; then those that came near the best go on searching. All
of it is counted work, so that the choice is the same on all machines:

- Nothing is tried that could not be shorter: the search ends at the lower bound, and long searches end near it.
- What is tried beside the synthesizer with the best schedule may take as much work as that one, and SPARE_WORK more.
- Candidates that take more work are left out, and the notes say so.

On networks with switches, direct links in the place of the switches are tried after the switches themselves. If
links are pipelined, the best schedule for links that are busy until arrival is retimed and tried too. Last, Z3 looks
for something shorter if the problem is tiny (exact).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from time import monotonic

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.base.interrupts import OutOfTime
from collc.synthesis.auto.candidates import QUICK, candidates, textbook_candidates
from collc.synthesis.auto.estimates import WORK_PER_SECOND, Candidate, Estimate
from collc.synthesis.auto.group_parts import by_group
from collc.synthesis.auto.record import Synthesizer
from collc.synthesis.auto.tried import BEFORE_LAST, LOOSE, HeldBackSearches, TriedCandidates, time_of
from collc.synthesis.endpoints import refuse_buffers, retimed_for_endpoints
from collc.synthesis.exact import exact, exact_sums
from collc.synthesis.experience import Experience
from collc.synthesis.reductions.compose import join, solve, split
from collc.synthesis.retiming import retimed
from collc.synthesis.symmetric import is_cluster, symmetric_module
from collc.synthesis.task import Effort
from collc.ten.factored_schedule import FactoredSchedule
from collc.ten.limited import Ports
from collc.ten.module import Module
from collc.ten.schedule import Clock, LinkModel

# All numbers of work are in the units of WorkMeter, about a microsecond of plain Python, and were fitted on the 300
# random programs of `python -m benchmarks auto` (docs/synthesis.md, Measurements).

SPARE_WORK, SPARE_WORK_IF_LONG = 700_000, 800_000
"""Work beside that of the best candidate, about 0.7 s; and if that takes much longer than its bound, or there are
several runs, whose bounds are less exact."""

RETIMING_WORK = 40
"""Work of starting a transfer anew."""

LEAST_STORE_PART = 2
"""A schedule for `store` has at least about 1 / LEAST_STORE_PART of the transfers of the best one."""

SPARE_WORK_FOR_FIRST = 100_000
"""The same if only first schedules are made."""

SPARE_WORK_FOR_STORE = 300_000
"""The same for schedules for links that are busy until arrival, which are seldom better if links are pipelined."""

FIRST_WORK = 30_000
"""Work in which a candidate may make further attempts at once."""

GIVE_UP_FACTOR, LEAST_GIVE_UP_WORK = 4, 200_000
"""A first schedule is given up at GIVE_UP_FACTOR times its estimate, but not below LEAST_GIVE_UP_WORK."""

SMALL_NPUS, MOST_WORK, MOST_WORK_LARGE = 64, 7_000_000, 50_000_000
"""All work up to SMALL_NPUS NPUs, and above: about 10 and 60 seconds with what is not counted."""

WORK_FACTOR_OF_ALL_NUMBERS, LEAST_WORK_PART = 2, 8
"""The searches for all numbers of chunks take at most WORK_FACTOR_OF_ALL_NUMBERS times the work of one; each of them at
least 1 / LEAST_WORK_PART of it."""

BEYOND_BUDGET_PART = 4
"""If no work is left, a schedule without a search may still take 1 / BEYOND_BUDGET_PART of the whole limit."""

TURN_FACTOR, LEADER_FACTOR = 8, 4
"""The work with which a search goes on, as a multiple of the work that it has had; and of the search that found the
best, in the end."""

LEAST_LEADER_WORK = 750_000
"""The work with which that search ends at least, if it found nothing shorter before."""

SMALL_TEXTBOOK_PART = 8
"""A textbook algorithm comes before longer searches if it takes at most such a part of the work so far."""

TINY_NPUS, TINY_TERMS, TINY_TERMS_WITH_SUMS = 9, 6_000, 2_000
"""NPUs, and chunks x links x steps without and with sums, up to which Z3 is asked for something shorter."""

PROOF_WORK = 1_000_000
"""What Z3 may spend on each number of steps, about 0.6 s; counted so that all machines find the same."""

MOST_LISTED_CHUNKS = 5_000_000
"""Chunks up to which synthesizers that list them are tried."""

STOPPED = Diagnostic("S0201", "stopped before any schedule was found", hint="give it more time")

EXACT_WORK = 400_000
"""The work of asking Z3, about."""


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
    search = _search_of(module, effort, synthesizers)
    tried, before = search.tried, search.tried.spent
    try:
        search.run()
        if module.network.has_endpoints and not effort.stop():
            tried.shorten_best(lambda built: retimed_for_endpoints(built, built.network))
    except OutOfTime:
        if tried.best is None:
            raise
    if effort.experience is not None:
        effort.experience.add(tried.spent - before, tried.ratios())
        most = search.most_for_all if effort.experience.is_last else BEFORE_LAST * search.most_for_all
        effort.experience.left = int(most) - effort.experience.spent
        effort.experience.is_used_up = effort.experience.left <= 0
        effort.experience.best = effort.experience.best if tried.best is None else tried.best[0]
        if search.held.any_held:
            effort.experience.held_back[_question(module, effort)] = search
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


def _search_of(module: Module, effort: Effort, synthesizers: Sequence[Synthesizer]) -> _Search:
    """A search for a module: one that was held back, which goes on, or a new one."""
    if effort.experience is not None and effort.experience.is_last:
        found = effort.experience.held_back.pop(_question(module, effort), None)
        if isinstance(found, _Search):
            found.go_on(effort.experience)
            return found
    return _Search(module, effort, synthesizers)


def _question(module: Module, effort: Effort) -> Hashable:
    """What a search is for."""
    return module.network, module.demand, module.model, module.relays, module.schedule, effort.unwinds


def _without_listing(module: Module, effort: Effort) -> Module | None:
    """The module with a schedule by symmetry if it has more than MOST_LISTED_CHUNKS chunks and needs no list."""
    chunks = sum(len(run.pattern) for run in module.demand.runs)
    if chunks <= MOST_LISTED_CHUNKS or module.schedule is not None or not is_cluster(module):
        return None
    found = symmetric_module(module, effort)
    if not isinstance(found.schedule, FactoredSchedule):
        return None
    note = f"auto: chose symmetric; the others would list all of the {chunks:,} chunks"
    return replace(found, algorithm="symmetric", seed=effort.seed, notes=(*module.notes, note))


UNWOUND = (
    "the switches are unwound: links, schedule, time and bound are those of the unwound network, "
    "on which direct links stand for the switches; 'synthesize pccl()' plans for the switches as they are"
)


class _Search:
    """The search of one module.

    tried: what it has found. most, most_for_all: all work that it may take, and all numbers of chunks together. spare,
    spare_if_long: work beside that of the best candidate, and if that takes much longer than its bound.
    held: the searches that are held back for other numbers of chunks.
    """

    def __init__(self, module: Module, effort: Effort, synthesizers: Sequence[Synthesizer]) -> None:
        self._module, self._effort, self._synthesizers = module, effort, synthesizers
        self.tried = TriedCandidates(module.network)
        self._candidates = candidates(module, effort, self.tried.bounds, synthesizers)
        small = len(module.network.npus) <= SMALL_NPUS
        self.most = effort.trials * (MOST_WORK if small else MOST_WORK_LARGE)
        self.most_for_all = WORK_FACTOR_OF_ALL_NUMBERS * self.most
        for_z3 = EXACT_WORK if _is_tiny(module) else 0
        self.spare = effort.trials * SPARE_WORK - for_z3
        self.spare_if_long = effort.trials * SPARE_WORK_IF_LONG - for_z3
        self.held = HeldBackSearches(effort.experience, self.most, effort.time_limit is not None)
        self._is_first = effort.experience is None or not effort.experience.best  # else there is a schedule already
        if effort.experience is not None:
            self.most = max(self.most // LEAST_WORK_PART, self.most_for_all - effort.experience.spent)
            self._candidates = self._not_hopeless(effort.experience)
        self._in_time = self.most  # the work of a first schedule that ends before the time limit
        if effort.time_limit is not None:
            self._in_time = int(effort.time_limit * WORK_PER_SECOND)
            self.most = self.spare = self.spare_if_long = max(self.most, self._in_time)

    def go_on(self, experience: Experience) -> None:
        """Lets long searches that were held back take what is left."""
        self.held.go_on()
        self.most = self.tried.spent + self.most_for_all - experience.spent

    def run(self) -> None:
        """Tries all candidates, as long as something shorter is possible."""
        if self.held.goes_on:
            self._near_ideal([one for one in self._candidates if one.estimate.near_ideal and one.estimate.whole])
            self.longer_searches()
            return
        stores_too = self._module.model is LinkModel.PIPELINED and self._module.schedule is None
        if stores_too and self._effort.time_limit is not None:
            self.store()  # it takes less time than what comes next
        self.by_group()
        self.first_schedules()
        if self.tried.best is None and not self._is_first:
            return
        self.textbook(SMALL_TEXTBOOK_PART)
        self.longer_searches()
        self.textbook()
        self.shorter()
        if stores_too and self._effort.time_limit is None:
            self.store()

    def _not_hopeless(self, experience: Experience) -> list[Candidate]:
        """The candidates without those not competitive with other numbers of chunks, unless all were."""
        good = [one for one in self._candidates if not experience.is_hopeless(one.name)]
        for candidate in self._candidates if good else ():
            if candidate not in good:
                self.tried.pass_over(candidate)
        return good or self._candidates

    def by_group(self) -> None:
        """Plans each group on the links of its own NPUs, as a problem of its own."""
        candidate = None if self._effort.stop() else by_group(self._module, self._planned_part)
        if candidate is not None:
            self._take(candidate)

    def _planned_part(self, module: Module, parts: int) -> tuple[Module, int]:
        """A part with its best schedule, and the work of that. parts: how many there are. Raises what candidates do."""
        effort = replace(self._effort, experience=None, time_limit=None, unwinds=False)
        nested = _Search(module, effort, self._synthesizers)
        nested.most = self._all_left() // (2 * parts)
        nested.spare = nested.spare_if_long = self.spare // (2 * parts)
        nested.run()
        if nested.tried.best is None:
            raise nested.tried.failure or NoSchedule(STOPPED)
        return nested.tried.best[1], nested.tried.spent

    def first_schedules(self) -> None:
        """One schedule of each candidate; if all would take too much work, of the one that takes least."""
        waiting: list[Candidate] = []
        for candidate in self._candidates:
            if candidate.estimate.work > QUICK:
                self._near_ideal(waiting)
            if not self._is_wanted(candidate):
                continue
            work, near_ideal = candidate.estimate.work, candidate.estimate.near_ideal
            much = near_ideal and self.tried.may_gain_much(candidate.network)
            sure = much or (near_ideal and work <= self.spare) or self.held.may_begin(candidate.name, work)
            left = self._all_left() if sure else self._left()
            if work <= min(left, self._in_time):
                self._take(candidate, FIRST_WORK, max(GIVE_UP_FACTOR * work, LEAST_GIVE_UP_WORK))
                if much and candidate.estimate.whole:
                    waiting.append(candidate)
            else:
                self.tried.leave_out(candidate)
        self._near_ideal(waiting)
        if self.tried.best is None and not self._effort.stop():
            possible = [one for one in self._candidates if self._may_come_alone(one.estimate)]
            for candidate in sorted(possible, key=lambda one: one.estimate.work):
                if candidate.name not in self.tried.attempts and self.tried.best is None:
                    self._take(candidate, FIRST_WORK)

    def _may_come_alone(self, estimate: Estimate) -> bool:
        """Whether a candidate that takes more work than is left is taken if there is no other.

        Only if no other number of chunks has a schedule, and for one that needs no search to be near the best.
        """
        beyond = self.most_for_all // BEYOND_BUDGET_PART if estimate.near_ideal and not estimate.searches else 0
        return self._is_first or estimate.work <= max(beyond, self._all_left())

    def _near_ideal(self, waiting: list[Candidate]) -> None:
        """The whole searches of candidates that are likely to come near the best schedule of all; empties the list."""
        while waiting:
            candidate = waiting.pop(0)
            attempt = self.tried.attempts.get(candidate.name)
            left = self._all_left() - (0 if attempt is None else attempt.setup)
            if self.tried.is_near(candidate, 0) and self._is_wanted(candidate) and left > QUICK:
                self._take_long(candidate, left)

    def longer_searches(self) -> None:
        """More work for the searches that came near the best, in turns, as long as there is some left.

        The search that found the best then goes on as long as it finds shorter ones.
        """
        attempts = self.tried.attempts
        while True:
            left, all_left = self._left(), self._all_left()
            near = [one for one in self._candidates if self.tried.is_near(one, left) and self._is_wanted(one)]
            work = {one.name: attempts[one.name].work for one in near}
            search = {one.name: left - attempts[one.name].setup for one in near}  # what is left for the search itself
            affordable = [one for one in near if 3 * work[one.name] <= 2 * search[one.name]]
            leading = [one for one in near if self._leads(one)]
            if affordable:
                candidate = min(affordable, key=lambda one: (not self.tried.is_near(one, 0), work[one.name]))
                self._take(candidate, min(TURN_FACTOR * work[candidate.name], search[candidate.name]))
                continue
            if not leading or not self._goes_further(leading[0], all_left):
                break

    def _goes_further(self, leader: Candidate, all_left: int) -> bool:
        """Lets the search that found the best go on; whether it did. If its last run found nothing shorter, it takes
        no more than is left beside it, or LEAST_LEADER_WORK.
        """
        attempt = self.tried.attempts[leader.name]
        limit = min(max(self._left(), LEAST_LEADER_WORK), all_left) - attempt.setup
        if attempt.improved:
            limit = min(max(limit, LEADER_FACTOR * attempt.work), all_left - attempt.setup)
        if (1 if self.held.goes_on else 2) * attempt.work > limit:
            return False
        return self._take_long(leader, limit)

    def textbook(self, part: int = 1) -> None:
        """The algorithms of the library, as long as there is some work left.

        part: only those that take at most such a part of the work so far; the others wait.
        """
        if self._effort.stop():
            return
        waiting: list[Candidate] = []
        for candidate in self._textbook:
            work = candidate.estimate.work
            if not self._is_wanted(candidate):
                continue
            if work <= self._left() and (part == 1 or part * work <= self.tried.spent):
                if not self.tried.is_longer(candidate):
                    self._take(candidate)
            else:
                waiting.append(candidate)
        self._textbook = waiting
        if part == 1:
            self.tried.leave_out(*waiting)

    @cached_property
    def _textbook(self) -> list[Candidate]:
        standards = {run.standard.kind if run.standard is not None else "" for run in self._module.demand.runs}
        library = self._effort.library
        if library is None or len(standards) > 1 or "" in standards:
            return []
        return textbook_candidates(self._module, library)

    def store(self) -> None:
        """Takes the best schedule for link model store, which is valid as it is, with its transfers retimed.

        Where it cannot be shorter as it stands, only first schedules are made; if it would have to become much
        shorter by being retimed, none.
        """
        tried = self.tried
        if tried.is_met(self._module.network) or self._effort.stop():
            return
        if tried.best is not None:
            alike = _retimed_candidate(*tried.best)  # a schedule for store has about as many transfers
            if alike.estimate.work > LEAST_STORE_PART * max(SPARE_WORK_FOR_FIRST, self._left()):
                tried.leave_out(alike)
                return
        module = replace(self._module, model=LinkModel.STORE)
        nested = _Search(module, replace(self._effort, experience=None, library=None), self._synthesizers)
        if self._effort.time_limit is None:
            nested.most = max(SPARE_WORK_FOR_FIRST, min(SPARE_WORK_FOR_STORE, self._left()))
            nested.spare = nested.spare_if_long = nested.most
        bound = nested.tried.bound(module.network, module)
        if tried.best is None or bound < time_of(tried.best[1]):
            nested.run()
        elif bound <= LOOSE * time_of(tried.best[1]):
            nested.spare = nested.spare_if_long = min(nested.spare, SPARE_WORK_FOR_FIRST)
            nested.first_schedules()
        stored = nested.tried
        if stored.best is not None:
            tried.spent += stored.spent
            found = _retimed_candidate(*stored.best)
            if found.estimate.work <= max(SPARE_WORK_FOR_FIRST, self._left()):
                self._take(found)
            else:
                tried.leave_out(found)

    def shorter(self) -> None:
        """Asks Z3 if that is a small question."""
        for candidate in _exact_candidates(self._module, self._effort, self.tried):
            if not self._effort.stop() and not self.tried.is_done(candidate.network):
                self._take(candidate)

    def _left(self) -> int:
        """The work that may still be spent."""
        tried = self.tried
        left = self._all_left()
        if tried.best is None:
            return left
        is_long = len(self._module.demand.runs) > 1 or tried.is_long(self._module.network)
        spare = self.spare_if_long if is_long else self.spare
        return min(left, spare + 2 * tried.work_of_best - tried.spent)

    def _all_left(self) -> int:
        """The work that may be spent on what is likely to be near the best possible schedule."""
        return self.most - self.tried.spent

    def _leads(self, candidate: Candidate) -> bool:
        """Whether a candidate found the best schedule and could search on."""
        best = self.tried.best
        return best is not None and best[0] == candidate.name and self.tried.attempts[best[0]].unfinished

    def _is_wanted(self, candidate: Candidate) -> bool:
        """Whether the candidate could still be chosen, and is worth its work."""
        tried = self.tried
        if self._effort.stop() or tried.is_done(candidate.network):
            return False
        attempt = tried.attempts.get(candidate.name)
        work = candidate.estimate.work if attempt is None else TURN_FACTOR * attempt.work
        return not tried.is_nearly_done(candidate.network, work)

    def _take_long(self, candidate: Candidate, limit: int) -> bool:
        """As much of a long search as is not held back; whether that was any."""
        held = self.held.limit(candidate.name, self.tried.attempts[candidate.name].work, limit)
        if not held:
            return False
        self._take(candidate, held)
        self.held.any_held |= held < limit and self.tried.attempts[candidate.name].unfinished
        return True

    def _take(self, candidate: Candidate, limit: int | None = None, most: int | None = None) -> None:
        began = monotonic()
        self._effort.progress(0.0, f"auto: {candidate.name}")
        self.tried.take(candidate, limit, most)
        if candidate.name in self.tried.attempts:
            self.held.add_first(candidate.name, self.tried.attempts[candidate.name].work)
        self._effort.progress(1.0, f"auto: {candidate.name} after {monotonic() - began:.1f} s")


def _retimed_candidate(name: str, stored: Module) -> Candidate:
    """A schedule for `store`, retimed. name: that of its synthesizer."""
    transfers = 0 if stored.schedule is None else len(stored.schedule)
    estimate = Estimate(RETIMING_WORK * transfers, 1.0)
    return Candidate(f"{name} for link model store, retimed", stored.network, estimate, lambda _: _retimed(stored))


def _retimed(module: Module) -> Module:
    """A module with a schedule for `store`, with its transfers as early as pipelined links and limits of NPUs allow."""
    moved = retimed(module)
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
    most, estimate = time // step - 1, Estimate(EXACT_WORK, 1.0, failing=EXACT_WORK)
    if not sums:

        def build() -> Module:
            return join(solve(module, lambda task: exact(task, effort, most=most, work=PROOF_WORK)))
    else:

        def build() -> Module:
            return replace(module, schedule=exact_sums(module, effort, most, 2 * PROOF_WORK))

    yield Candidate("exact", network, estimate, lambda _: build())
