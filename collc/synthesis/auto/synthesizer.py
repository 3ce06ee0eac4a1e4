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
from dataclasses import replace
from time import monotonic

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.base.interrupts import OutOfTime
from collc.synthesis.auto.candidates import candidates, textbook_candidates
from collc.synthesis.auto.estimates import WORK_PER_SECOND, Candidate, Estimate
from collc.synthesis.auto.group_parts import by_group
from collc.synthesis.auto.record import Synthesizer
from collc.synthesis.auto.tried import TriedCandidates, time_of
from collc.synthesis.endpoints import refuse_buffers, retimed_for_endpoints
from collc.synthesis.exact import exact, exact_sums
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

SPARE_WORK = 800_000
"""Work beside that of the best candidate."""

SPARE_WORK_FOR_STORE = 300_000
"""The same for schedules for links that are busy until arrival, which are seldom better if links are pipelined."""

RETIMING_WORK = 40
"""Work of starting a transfer anew."""

FIRST_WORK = 30_000
"""Work in which a candidate may make further attempts at once."""

GIVE_UP_FACTOR, LEAST_GIVE_UP_WORK = 4, 200_000
"""A first schedule is given up at GIVE_UP_FACTOR times its estimate, but not below LEAST_GIVE_UP_WORK."""

SMALL_NPUS, MOST_WORK, MOST_WORK_LARGE = 64, 7_000_000, 50_000_000
"""All work up to SMALL_NPUS NPUs, and above: about 10 and 60 seconds with what is not counted."""

NEAR, SMALL_PART, NEAR_IF_SMALL = 8, 4, 3
"""A search goes on if its schedule is longer than the best by at most 1/NEAR; if it has had less than 1/SMALL_PART of
the work that is left, up to NEAR_IF_SMALL times the best."""

TURN_FACTOR, LEADER_FACTOR = 8, 4
"""The work with which a search goes on, as a multiple of the work that it has had; and of the search that found the
best, in the end."""

TINY_NPUS, TINY_TERMS, TINY_TERMS_WITH_SUMS = 9, 6_000, 2_000
"""NPUs, and chunks x links x steps without and with sums, up to which Z3 is asked for something shorter."""

PROOF_WORK, EXACT_WORK = 1_000_000, 400_000
"""What Z3 may spend on each number of steps, about 0.6 s; and the work of asking Z3, about."""

MOST_LISTED_CHUNKS = 5_000_000
"""Chunks up to which synthesizers that list them are tried."""

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


class _Search:
    """The search of one module.

    tried: what it has found. most: all work that it may take. spare: work beside that of the best candidate.
    """

    def __init__(self, module: Module, effort: Effort, synthesizers: Sequence[Synthesizer]) -> None:
        self._module, self._effort, self._synthesizers = module, effort, synthesizers
        self.tried = TriedCandidates(module.network)
        self._candidates = candidates(module, effort, self.tried.bounds, synthesizers)
        part = effort.trials * effort.work_part
        self.most = int(part * (MOST_WORK if len(module.network.npus) <= SMALL_NPUS else MOST_WORK_LARGE))
        self.spare = int(part * SPARE_WORK)
        if effort.time_limit is not None:
            self.most = self.spare = int(effort.time_limit * WORK_PER_SECOND)

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
        nested = _Search(module, replace(self._effort, time_limit=None, unwinds=False), self._synthesizers)
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
                self._take(candidate, FIRST_WORK, max(GIVE_UP_FACTOR * work, LEAST_GIVE_UP_WORK))
            else:
                self.tried.leave_out(candidate)
        for candidate in sorted(self._candidates, key=lambda candidate: candidate.estimate.work):
            if self.tried.best is not None or self._effort.stop() or self._effort.has_other:
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
            near = [one for one in self._candidates if self._is_near(one, left) and self._is_wanted(one)]
            work = {one.name: attempts[one.name].work for one in near}
            search = {one.name: left - attempts[one.name].setup for one in near}  # what is left for the search itself
            affordable = [one for one in near if 3 * work[one.name] <= 2 * search[one.name]]
            if affordable:
                candidate = min(affordable, key=lambda one: (not self._is_near(one, 0), work[one.name]))
                self._take(candidate, min(TURN_FACTOR * work[candidate.name], search[candidate.name]))
                continue
            leader = next((one for one in near if self.tried.best and one.name == self.tried.best[0]), None)
            if leader is None or not attempts[leader.name].improved:
                return
            limit = min(LEADER_FACTOR * work[leader.name], self._all_left() - attempts[leader.name].setup)
            if 2 * work[leader.name] > limit:
                return
            self._take(leader, limit)

    def _is_near(self, candidate: Candidate, left: int) -> bool:
        """Whether the search of a candidate could go on, and came near the best of all. left: work that is left."""
        attempt = self.tried.attempts.get(candidate.name)
        if attempt is None or self.tried.best is None or not attempt.unfinished:
            return False
        best = time_of(self.tried.best[1])
        small = attempt.work * SMALL_PART <= left - attempt.setup
        return attempt.time <= (best * NEAR_IF_SMALL if small else best * (NEAR + 1) // NEAR)

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
        nested = _Search(module, replace(self._effort, library=None, time_limit=None), self._synthesizers)
        nested.most = nested.spare = min(SPARE_WORK_FOR_STORE, self._left())
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
    most, estimate = time // step - 1, Estimate(EXACT_WORK)
    if not sums:

        def build() -> Module:
            return join(solve(module, lambda task: exact(task, effort, most=most, work=PROOF_WORK)))
    else:

        def build() -> Module:
            return replace(module, schedule=exact_sums(module, effort, most, 2 * PROOF_WORK))

    yield Candidate("exact", network, estimate, lambda _: build())
