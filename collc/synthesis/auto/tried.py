"""What the candidates have found so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from collc.base.diagnostics import CollcError, Diagnostic, NoSchedule
from collc.base.units import format_time
from collc.synthesis.auto.estimates import WORK_PER_SECOND, Candidate, bound_work
from collc.synthesis.bounds import lower_bound
from collc.synthesis.exact import NoShorter
from collc.synthesis.task import WorkMeter
from collc.ten.module import Module
from collc.ten.network import Network

GAIN: Final = 200
"""A search goes on in the end if its last run made the schedule shorter by at least 1/GAIN."""

NEARLY_DONE: Final = ((Fraction(101, 100), 20_000), (Fraction(103, 100), 200_000))
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
