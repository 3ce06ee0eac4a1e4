"""The synthesizers that can serve a demand on a network, cheap ones first.

The first candidates give a schedule within about a second if any synthesizer does. Later ones are tried only while they
can still win; those that take long, only if their first schedule is near the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from collc.base.diagnostics import CollcError, Diagnostic, NoSchedule
from collc.base.units import format_time
from collc.synthesis.bounds import lower_bound, task_bound
from collc.synthesis.by_dimension.dimensions import find_dimensions
from collc.synthesis.by_dimension.hierarchical import hierarchical
from collc.synthesis.by_dimension.themis import themis
from collc.synthesis.exact import NoShorter
from collc.synthesis.exchange import exchange
from collc.synthesis.exchange.synthesizer import obstacle
from collc.synthesis.in_network.synthesizer import has_reducing_switch, in_network
from collc.synthesis.overlapped import overlap
from collc.synthesis.pccl import pccl
from collc.synthesis.reductions.compose import has_reductions, join, solve
from collc.synthesis.swarm import swarm
from collc.synthesis.symmetric import find_group, is_cluster, symmetric_module
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort, Task
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Schedule
from collc.ten.transform import unwound

FEW = 2.0
"""Average number of NPUs that want a chunk up to which search is the first choice."""

SMALL = 30_000
"""Work up to which a second synthesizer is tried. Work, here and below: chunks x NPUs that want them."""

LARGE = 300_000
"""Work up to which `swarm` is tried for chunks that few NPUs hold, and `overlapped` for reductions that are no
All-Reduce."""

DENSE = 2_000
"""Work above which `pccl` is not tried for chunks that many NPUs want in a network with dimensions."""

QUICK = 100
"""Work up to which `pccl` always plans through switches to its end."""

NEAR = 8
"""A long search goes on if its first schedule is longer than the best by at most 1/NEAR of its time."""

AT_ONCE = 1 << 62
"""A bound that every schedule meets, so that the first one is taken."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A synthesizer of the whole schedule. network: the one whose links it uses."""

    name: str
    network: Network
    build: Callable[[], Module]


@dataclass
class TriedCandidates:
    """What has been tried: the best on each network so far with its name, all times, notes on all, the first error.

    own: the network as it is declared. A schedule on it that meets its bound is chosen before one on direct links in
    the place of switches; else the shorter one is. proved: on it nothing is shorter than the best, as Z3 has shown.
    """

    own: Network
    proved: bool = False
    times: dict[str, int] = field(default_factory=dict[str, int])
    notes: list[str] = field(default_factory=list[str])
    failure: CollcError | None = None
    _best: dict[int, tuple[str, Module]] = field(default_factory=dict[int, tuple[str, Module]])
    _bounds: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])

    @property
    def best(self) -> tuple[str, Module] | None:
        """The schedule to choose, and how it was found; None where there is none."""
        found = self._best.get(id(self.own))
        if found is not None and self.is_met(self.own):
            return found
        both = [*([found] if found is not None else []), *(b for b in self._best.values() if b is not found)]
        return min(both, key=lambda named: time_of(named[1]), default=None)

    def take(self, candidate: Candidate) -> None:
        """Builds a candidate and keeps it if it is the best on its network."""
        try:
            built = candidate.build()
        except CollcError as error:
            self.failure = self.failure or error
            self.notes.append(f"auto: {candidate.name} found none: {error.diagnostics[0].message}")
            self.proved |= isinstance(error, NoShorter)
            return
        time = self.times[candidate.name] = time_of(built)
        self.notes.append(f"auto: {candidate.name} takes {format_time(time)}")
        before = self._best.get(id(candidate.network))
        if before is None or time < time_of(before[1]):
            self._best[id(candidate.network)] = candidate.name, built

    def is_met(self, network: Network) -> bool:
        """Whether the best on a network meets its bound."""
        return id(network) in self._best and self._bounds_time_of(network, self._best[id(network)][1])

    def is_done(self, network: Network) -> bool:
        """Whether nothing on a network can be chosen before the best."""
        if self.is_met(self.own) or network is self.own:
            return self.is_met(self.own)
        return any(self._bounds_time_of(network, module) for _, module in self._best.values())

    def _bounds_time_of(self, network: Network, module: Module) -> bool:
        """Whether nothing on a network is shorter than the schedule of a module; the bound is kept."""
        time = time_of(module)
        bound, asked = self._bounds.get(id(network), (0, AT_ONCE))
        if bound < time < asked:
            bound = lower_bound(network, module.demand, module.model, time).time
            self._bounds[id(network)] = bound, time
        return time <= bound

    def is_near(self, name: str) -> bool:
        """Whether a candidate came near the best on the same network, so that more of its search may win."""
        found = self._best.get(id(self.own))
        return name in self.times and (found is None or self.times[name] <= time_of(found[1]) * (NEAR + 1) // NEAR)


def time_of(module: Module) -> int:
    """Picoseconds that a module's schedule takes. Raises NoSchedule where there is none."""
    if module.schedule is None:
        raise NoSchedule(Diagnostic("S0201", "nothing was planned"))
    return module.schedule.collective_time(module.network, module.demand)


def candidates(module: Module, effort: Effort, tried: TriedCandidates) -> Iterator[Candidate]:
    """What to try, in order; what was tried before decides what is worth while after it."""
    own = _NetworkCandidates(module, effort, tried)
    unwound_module = _unwound(module)
    flat = None if unwound_module is None else _NetworkCandidates(unwound_module, effort, tried, " on unwound switches")
    yield from own.symmetric()
    if own.cluster and own.work > SMALL:
        return
    if own.few and own.work <= LARGE:
        yield from own.swarm()
    native_first = bool((module.network.multicast | module.network.reduces).any())
    if flat is not None and not native_first:
        yield from flat.symmetric()
    yield from own.searched()
    if flat is not None:
        if native_first:
            yield from flat.symmetric()
        if not tried.is_done(flat.network):
            yield from flat.searched()


class _NetworkCandidates:
    """The candidates on one network. few: whether few hold what many want; work: chunks x NPUs that want them."""

    def __init__(self, module: Module, effort: Effort, tried: TriedCandidates, where: str = "") -> None:
        self._module, self._effort, self._tried, self._where = module, effort, tried, where
        self.network = module.network
        self._switches = module.network.has_switches
        self.cluster = self._switches and is_cluster(module)
        pairs = sum(_spread(module))
        self.work = pairs
        self._dense = pairs / max(1, sum(len(table) for table in module.demand.tables)) > FEW
        self.few = self._dense and _few_hold(module)

    def symmetric(self) -> Iterator[Candidate]:
        """The translations of one NPU's schedule."""
        if self._module.schedule is None and (self.cluster or _is_symmetric(self._module)):
            name = self._name("symmetric")
            yield Candidate(name, self.network, lambda: join(symmetric_module(self._module, self._effort)))

    def swarm(self) -> Iterator[Candidate]:
        """Rarest first."""
        if self._dense:
            yield self._candidate("swarm", _bounded(swarm, self._effort))

    def searched(self) -> Iterator[Candidate]:
        """All others."""
        lines = self.work <= SMALL and find_dimensions(self.network) is not None
        if self._switches:
            yield from self._sums()
            yield from self._through_switches(lines)
        else:
            yield from self._over_links(lines)
            yield from self._trees()

    def _sums(self) -> Iterator[Candidate]:
        module = self._module
        if (
            has_reductions(module.demand)
            and module.schedule is None
            and not module.relays
            and has_reducing_switch(self.network)
        ):
            yield Candidate(self._name("in-network"), self.network, lambda: in_network(module, self._effort))

    def _trees(self) -> Iterator[Candidate]:
        if self.work <= SMALL and not obstacle(self._module):
            yield Candidate(self._name("exchange"), self.network, self._exchange)
        if has_reductions(self._module.demand) and (self.work <= LARGE or _is_all_reduce(self._module)):
            yield Candidate(self._name("overlapped"), self.network, lambda: overlap(self._module, self._effort))

    def _exchange(self) -> Module:
        return exchange(self._module, self._effort, _bounded(tacos, self._effort))

    def _over_links(self, lines: bool) -> Iterator[Candidate]:
        """Matching and search, the likelier one first, then dimension by dimension."""
        small, by_lines = self.work <= SMALL, lines and self.work > DENSE
        if self._dense:
            yield self._candidate("tacos", _bounded(tacos, self._effort))
            if small and not by_lines:
                yield self._pccl()
        else:
            yield self._pccl()
            if small:
                yield self._candidate("tacos", _bounded(tacos, self._effort))
        if lines:
            yield from self._dimensions()

    def _through_switches(self, lines: bool) -> Iterator[Candidate]:
        """Dimension by dimension, rarest first and search; search to its end only where it is near the best."""
        if not self._dense:
            yield self._pccl()
            if lines:
                yield from self._dimensions()
            return
        if lines:
            yield from self._dimensions()
        if self.work <= QUICK:
            yield self._pccl()
        elif self._tried.best is None:
            yield self._first_of_pccl()
        if not self.few and self.work <= SMALL:
            yield from self.swarm()
        if self.work > QUICK and (self.work <= DENSE or not lines):
            if self._name(FIRST) not in self._tried.times and self.work <= DENSE:
                yield self._first_of_pccl()
            if self._tried.is_near(self._name(FIRST)):
                yield self._pccl()

    def _dimensions(self) -> Iterator[Candidate]:
        for name, solver in (("hierarchical", hierarchical), ("themis", themis)):
            yield self._candidate(name, lambda task, solver=solver: solver(task, self._effort))

    def _pccl(self) -> Candidate:
        return self._candidate("pccl", _bounded(pccl, self._effort))

    def _first_of_pccl(self) -> Candidate:
        return self._candidate(FIRST, lambda task: pccl(task, self._effort, AT_ONCE))

    def _candidate(self, name: str, solver: Callable[[Task], Schedule]) -> Candidate:
        return Candidate(self._name(name), self.network, lambda: join(solve(self._module, solver)))

    def _name(self, name: str) -> str:
        return name + self._where


FIRST = "pccl, first try"
"""The name of pccl where it takes the first schedule that it finds."""


def _unwound(module: Module) -> Module | None:
    """Direct links for the switches; None where something is planned already or a switch has a limited buffer."""
    network = module.network
    if module.schedule is not None or not network.has_switches or bool((network.buffers >= 0).any()):
        return None
    try:
        return replace(module, network=unwound(network))
    except ValueError:  # not all switches can be unwound
        return None


def _bounded(solver: Callable[[Task, Effort, int | None], Schedule], effort: Effort) -> Callable[[Task], Schedule]:
    """A solver that ends where it meets the bound of its task."""

    def bounded(task: Task) -> Schedule:
        return solver(task, effort, task_bound(task).time)

    return bounded


def _spread(module: Module) -> list[int]:
    """For each run, the pairs of a chunk and an NPU that it must reach or be reduced from."""
    result: list[int] = []
    for table in module.demand.tables:
        pre, post = table.sets.sizes[table.pre], table.sets.sizes[table.post]
        reduced = table.op != 0
        result.append(int(post.sum()) + int(pre[reduced].sum()))
    return result


def _few_hold(module: Module) -> bool:
    """Whether twice as many NPUs want something, or contribute to it, as hold it at the start, or get the result."""
    few, many = set[int](), set[int]()
    for table in module.demand.tables:
        for pre, post, op in np.unique(np.stack([table.pre, table.post, table.op], axis=1), axis=0).tolist():
            holders, wanting = (post, pre) if op else (pre, post)
            few.update(table.sets[holders].tolist())
            many.update(table.sets[wanting].tolist())
    return 2 * len(few) <= len(many)


def _is_symmetric(module: Module) -> bool:
    """Whether one collective over all NPUs runs on a Cayley graph."""
    runs = module.demand.runs
    standard = runs[0].standard if len(runs) == 1 else None
    kinds = ("all_gather", "all_to_all", "reduce_scatter", "all_reduce")
    whole = len(runs) == 1 and len(runs[0].group) == module.network.npu_count
    return whole and standard is not None and standard.kind in kinds and find_group(module.network) is not None


def _is_all_reduce(module: Module) -> bool:
    """Whether one All-Reduce is all there is to do."""
    standards = [run.standard for run in module.demand.runs]
    return len(standards) == 1 and standards[0] is not None and standards[0].kind == "all_reduce"
