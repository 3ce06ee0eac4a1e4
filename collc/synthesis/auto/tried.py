"""What the candidates have found so far.

Long searches that wait until the best number of chunks is known (`chunks: auto`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from collc.base.diagnostics import CollcError, Diagnostic, NoSchedule
from collc.base.units import format_time
from collc.synthesis.auto.estimates import WORK_PER_SECOND, Candidate, bound_work
from collc.synthesis.bounds import lower_bound
from collc.synthesis.exact import NoShorter
from collc.synthesis.experience import Experience
from collc.synthesis.task import WorkMeter
from collc.ten.module import Module
from collc.ten.network import Network

HELD_BACK: Final = 8
"""A search that is held back takes at most 1/HELD_BACK of the work of one number of chunks,"""

HELD_TO: Final = 4
"""or this many times the work of its first schedule."""

BEFORE_LAST: Final = Fraction(7, 8)
"""Until the best number is known, all searches take at most such a share of their work."""


class HeldBackSearches:
    """Which searches for one number of chunks are held back, and after how much work.

    any_held: whether one was. goes_on: whether the best number is known, so that searches go on to their ends.
    """

    def __init__(self, experience: Experience | None, most: int, limited_in_time: bool) -> None:
        """most: work of one number of chunks. limited_in_time: nothing is held back then."""
        self.any_held = self.goes_on = False
        self._experience = experience
        self._holds = experience is not None and not experience.is_last and not limited_in_time
        self._most = most // HELD_BACK
        self._first_work: dict[str, int] = {}

    def go_on(self) -> None:
        """Holds nothing back any more."""
        self._holds, self.any_held, self.goes_on = False, False, True

    def add_first(self, name: str, work: int) -> None:
        """Notes the work of the first schedule of a candidate."""
        self._first_work.setdefault(name, work)

    def may_begin(self, name: str, work: int) -> bool:
        """Whether a candidate was the best with the last number of chunks, and takes little work."""
        return self._experience is not None and self._experience.best == name and work <= self._most

    def limit(self, name: str, spent: int, limit: int) -> int:
        """The work with which the search of a candidate may go on; 0: none for now.

        spent: its work so far. limit: what it may take if it is not held back.
        """
        if not self._holds:
            return limit
        held = min(limit, max(self._most, HELD_TO * self._first_work[name]))
        if spent < held and not (self._experience is not None and self._experience.was_longer(name)):
            return held
        self.any_held = True
        return 0


NEAR = 8
"""A search goes on if its schedule is longer than the best by at most 1/NEAR of its time."""

SMALL_PART, NEAR_IF_SMALL = 4, 2
"""A search that has had less than 1/SMALL_PART of the work that is left goes on up to NEAR_IF_SMALL times the best."""

NEAR_IF_LIMITED = 3
"""The same if NPUs have limits, for which transfers are started anew: that makes first schedules more unlike."""

VERY_LONG, NEAR_IF_VERY_LONG = 2, 3
"""Where the best schedule takes at least VERY_LONG times the lower bound, a search that has had such a small part goes
on up to NEAR_IF_VERY_LONG times the best.
"""

GAIN = 200
"""A search goes on in the end if its last run made the schedule shorter by at least 1/GAIN."""

LOOSE = Fraction(11, 10)
"""A schedule that was likely to be near the best possible one, and takes at least this multiple of the bound, may be
far from it after all."""

LEAST_TIME_WORK = 15_000
"""Work of the least time of a candidate that knows it before, about."""

LONG = Fraction(13, 10)
"""Where the best schedule takes at least this multiple of the lower bound, more work is spent on others."""

NEARLY_DONE = ((Fraction(101, 100), 20_000), (Fraction(103, 100), 200_000))
"""(multiple of the lower bound, work): up to this time of the best, the most work that is spent on a shorter one."""


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
class KnownBounds:
    """The lower bounds of one module on several networks, each computed once for all that ask."""

    _found: dict[int, tuple[Network, int]] = field(default_factory=dict[int, tuple[Network, int]])

    def work(self, network: Network, module: Module) -> int:
        """The work of asking: none if the bound is known."""
        return 0 if id(network) in self._found else bound_work(network, module.demand)

    def of(self, network: Network, module: Module) -> int:
        """Picoseconds that no schedule of the module takes less than on a network."""
        if id(network) not in self._found:
            self._found[id(network)] = network, lower_bound(network, module.demand, module.model).time
        return self._found[id(network)][1]


@dataclass
class TriedCandidates:
    """What has been tried: the best on each network so far with its name, the last run of each, notes, the
    first error, those that failed.

    own: the network as it is declared. A schedule on it that meets its bound is chosen before one on direct links in
    the place of switches; else the shorter one is. proved: on it nothing is shorter than the best, as Z3 has shown.
    spent: all work so far. bounds: the lower bounds of networks. near_ideal: whether any schedule was likely
    to be near the best possible one.
    """

    own: Network
    proved: bool = False
    spent: int = 0
    attempts: dict[str, Attempt] = field(default_factory=dict[str, Attempt])
    notes: dict[str, str] = field(default_factory=dict[str, str])
    failure: CollcError | None = None
    failed: set[str] = field(default_factory=set[str])
    bounds: KnownBounds = field(default_factory=KnownBounds)
    near_ideal: bool = False
    _best: dict[int, tuple[str, Module]] = field(default_factory=dict[int, tuple[str, Module]])

    @property
    def best(self) -> tuple[str, Module] | None:
        """The schedule to choose, and how it was found; None if there is none."""
        found = self._best.get(id(self.own))
        if found is not None and self.is_met(self.own):
            return found
        both = [*([found] if found is not None else []), *(b for b in self._best.values() if b is not found)]
        return min(both, key=lambda named: time_of(named[1]), default=None)

    @property
    def work_of_best(self) -> int:
        """The work in which a candidate found the best schedule; 0 if there is none."""
        best = self.best
        return 0 if best is None or best[0] not in self.attempts else self.attempts[best[0]].useful_work

    def ratios(self) -> dict[str, Fraction | None]:
        """The time of each candidate by that of the best, None if it found no schedule."""
        shortest = 1 if self.best is None else max(1, time_of(self.best[1]))
        return dict.fromkeys(sorted(self.failed)) | {
            name: Fraction(found.time, shortest) for name, found in self.attempts.items()
        }

    def take(self, candidate: Candidate, limit: int | None, most: int | None = None) -> None:
        """Builds a candidate and keeps it if it is the best on its network. limit, most: of its work, see WorkMeter."""
        meter = WorkMeter(limit, most=most)
        name, network = candidate.name, candidate.network
        before = self.attempts.get(name)
        try:
            built = candidate.build(meter)
        except CollcError as error:
            self.spent += max(meter.spent, candidate.estimate.failing)
            self.failure = self.failure or error
            self.failed.add(name)
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
        self.near_ideal |= candidate.estimate.near_ideal
        best = self._best.get(id(network))
        if best is None or time < time_of(best[1]):
            self._best[id(network)] = name, built

    def shorten_best(self, shortened: Callable[[Module], Module]) -> None:
        """Shortens the best on each network if that is possible. shortened: raises NoSchedule if it is not."""
        for key, (name, built) in self._best.items():
            with suppress(NoSchedule):
                found = shortened(built)
                if time_of(found) < time_of(built):
                    self._best[key] = name, found
                    self.attempts[name] = replace(self.attempts[name], time=time_of(found))
                    self.notes[name] = f"auto: {name} takes {format_time(time_of(found))}"

    def leave_out(self, *candidates: Candidate) -> None:
        """Notes that candidates would take too much work together."""
        if candidates:
            names = ", ".join(one.name for one in candidates)
            seconds = sum(one.estimate.work for one in candidates) / WORK_PER_SECOND
            self.notes[names] = (
                f"auto: left out {names}: an estimated {seconds:.{1 if seconds >= 0.05 else 2}f} s of work, "
                "more than the search has left"
            )

    def pass_over(self, candidate: Candidate) -> None:
        """Notes that a candidate did badly with other numbers of chunks."""
        self.notes[candidate.name] = f"auto: left out {candidate.name}, which was not competitive with fewer chunks"

    def is_longer(self, candidate: Candidate) -> bool:
        """Whether a candidate is known to take as long as the best at least; notes it."""
        if candidate.least is None or self.best is None:
            return False
        self.spent += LEAST_TIME_WORK
        try:
            least = candidate.least()
        except CollcError as error:
            self.failed.add(candidate.name)
            self.notes[candidate.name] = f"auto: {candidate.name} found none: {error.diagnostics[0].message}"
            return True
        if least < time_of(self.best[1]):
            return False
        self.notes[candidate.name] = f"auto: left out {candidate.name}, which takes at least {format_time(least)}"
        return True

    def is_met(self, network: Network) -> bool:
        """Whether the best on a network meets its bound."""
        return id(network) in self._best and self._is_within(Fraction(1), network, self._best[id(network)][1])

    def is_done(self, network: Network) -> bool:
        """Whether nothing on a network can be chosen before the best."""
        return self._is_done(network, Fraction(1))

    def is_nearly_done(self, network: Network, work: int) -> bool:
        """Whether nothing on a network can be so much shorter than the best that some work is worth while."""
        return any(work > most and self._is_done(network, factor) for factor, most in NEARLY_DONE)

    def may_gain_much(self, network: Network) -> bool:
        """Whether the best so far may be far from the best possible schedule."""
        return not self.near_ideal or not self._is_done(network, LOOSE)

    def is_long(self, network: Network) -> bool:
        """Whether the best so far takes at least LONG times the bound."""
        return not self._is_done(network, LONG)

    def _is_done(self, network: Network, factor: Fraction) -> bool:
        found = self._best.get(id(self.own))
        if found is not None and self._is_within(factor, self.own, found[1]):
            return True
        if network is self.own and factor == 1:  # a schedule that meets the bound there would be chosen
            return False
        return any(self._is_within(factor, network, module) for _, module in self._best.values())

    def _is_within(self, factor: Fraction, network: Network, module: Module) -> bool:
        """Whether nothing on a network is shorter than the schedule of a module by such a factor."""
        return time_of(module) <= self.bound(network, module) * factor

    def bound(self, network: Network, module: Module) -> int:
        """The lower bound of a module on a network; counts its work."""
        self.spent += self.bounds.work(network, module)
        return self.bounds.of(network, module)

    def is_near(self, candidate: Candidate, left: int) -> bool:
        """Whether the search of a candidate could go on, and came near the best of all.

        left: the work that may still be spent; a search that has had a small part of it need not be so near.
        """
        attempt = self.attempts.get(candidate.name)
        if attempt is None or self.best is None or not attempt.unfinished:
            return False
        best = time_of(self.best[1])
        if attempt.work * SMALL_PART > left - attempt.setup:
            return attempt.time <= best * (NEAR + 1) // NEAR
        if attempt.time <= best * (NEAR_IF_LIMITED if self.own.has_endpoints else NEAR_IF_SMALL):
            return True
        return attempt.time <= NEAR_IF_VERY_LONG * best and not self._is_done(candidate.network, Fraction(VERY_LONG))


def time_of(module: Module) -> int:
    """Picoseconds that a module's schedule takes. Raises NoSchedule if there is none."""
    if module.schedule is None:
        raise NoSchedule(Diagnostic("S0201", "nothing was planned"))
    return module.collective_time()
