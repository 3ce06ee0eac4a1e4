"""Picks ways of synthesis by demand and network, tries a few, keeps the best and says why.

- Chunks with many who want them go by matching (tacos), others by search (pccl); where the first
  does not meet the bound and the problem is small, the other is tried too.
- All-Reduces also by balanced trees with both phases pipelined (overlapped).
- What few NPUs hold and many want (broadcast, reduce): spread rarest first (swarm), which also serves switches.
- Networks with switches: search with the switches as they are, and matching with them unwound.
- Rings, tori, hypercubes and the like: the translations of one NPU's schedule, first of all (symmetric).
- Networks of several dimensions: one after another (hierarchical, themis).
- Tiny problems that are above the bound: whether Z3 finds a shorter schedule (exact).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from time import monotonic

import numpy as np

from collc.diagnostics import CollcError, Diagnostic, NoSchedule
from collc.synthesis.bounds import lower_bound, task_bound
from collc.synthesis.compose import has_reductions, join, solve, split
from collc.synthesis.dimensions import find_dimensions
from collc.synthesis.exact import exact, exact_sums
from collc.synthesis.hierarchical import hierarchical
from collc.synthesis.overlapped import overlapped
from collc.synthesis.pccl import pccl
from collc.synthesis.swarm import swarm
from collc.synthesis.symmetric import symmetric
from collc.synthesis.symmetric.way import find_group
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort, Task
from collc.synthesis.themis import themis
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, Schedule
from collc.ten.transform import unwound
from collc.units import format_time

FEW = 2.0
"""Average number of NPUs that want a chunk up to which search is the first choice."""

SMALL = 30_000
"""Chunks x NPUs that want them up to which a second way is tried."""


LARGE = 300_000
"""The same up to which what few hold is spread rarest first."""

DENSE = 2_000
"""The same from which chunks that many want are not searched for one by one where a network has dimensions."""

TINY_NPUS, TINY = 9, 6_000
"""NPUs, and chunks x links x steps, up to which Z3 is asked for something shorter."""

PROOF = 1_000_000
"""What Z3 may spend on each number of steps, about half a second; counted so that all machines find the same."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One way to the whole schedule."""

    name: str
    build: Callable[[], Module]


def auto(module: Module, effort: Effort) -> Module:
    """The module with the best schedule of those tried, its algorithm, and what was tried in the notes.

    What the module's schedule has already is planned round. The network of the result is the unwound
    one where that is better; the notes say so.
    Raises what the ways raise where none finds a schedule, NoSchedule where `effort.stop` asks to stop before.
    """
    tried = _Tried()
    for candidate in chain(_candidates(module, effort, tried), _shorter(module, effort, tried)):
        if effort.stop() or tried.is_optimal():
            break
        began = monotonic()
        tried.take(candidate)
        effort.progress(1.0, f"auto: {candidate.name} after {monotonic() - began:.1f} s")
    if tried.best is None:
        stopped = NoSchedule(Diagnostic("S0201", "stopped before any schedule was found", hint="give it more time"))
        raise tried.failure or stopped
    name, built = tried.best
    why = "meets the bound" if tried.is_optimal() else "is the best of those tried"
    notes = [*module.notes, *tried.notes, f"auto: chose {name}, which {why}"]
    if built.network.unwound and not module.network.unwound:
        notes.append("the switches are unwound: links, schedule and bound are those of the unwound network")
    algorithm = f"{module.algorithm}+{name}" if module.algorithm else name
    return replace(built, algorithm=algorithm, seed=effort.seed, notes=tuple(notes))


@dataclass
class _Tried:
    """What has been tried: the best so far with its name, notes on all, and the first error."""

    best: tuple[str, Module] | None = None
    notes: list[str] = field(default_factory=list[str])
    failure: CollcError | None = None
    _bounds: dict[int, tuple[Network, int, int]] = field(default_factory=dict[int, tuple[Network, int, int]])

    def take(self, candidate: _Candidate) -> None:
        """Builds a candidate and keeps it if it is better."""
        try:
            built = candidate.build()
        except CollcError as error:
            self.failure = self.failure or error
            self.notes.append(f"auto: {candidate.name} found none: {error.diagnostics[0].message}")
            return
        time = _time(built)
        self.notes.append(f"auto: {candidate.name} takes {format_time(time)}")
        if self.best is None or time < _time(self.best[1]):
            self.best = candidate.name, built

    def is_optimal(self) -> bool:
        """Whether the best meets the bound."""
        return self.best is not None and self.meets(self.best[1].network, self.best[1], _time(self.best[1]))

    def meets(self, network: Network, module: Module, time: int) -> bool:
        """Whether nothing is shorter than a time on a network; what was found before is kept."""
        _, bound, asked = self._bounds.get(id(network), (network, 0, 1 << 62))
        if bound < time < asked:
            bound = lower_bound(network, module.demand, module.model, time).time
            self._bounds[id(network)] = network, bound, time
        return time <= bound


def _time(module: Module) -> int:
    if module.schedule is None:
        raise NoSchedule(Diagnostic("S0201", "nothing was planned"))
    return module.schedule.collective_time(module.network, module.demand)


def _candidates(module: Module, effort: Effort, tried: _Tried) -> Iterator[_Candidate]:
    switches = _has_switches(module.network)
    wanting, work = _average_wanting(module), _work(module)
    search_first = switches or wanting <= FEW
    lines = work <= SMALL and find_dimensions(module.network) is not None
    free = module.schedule is None
    if free and _is_symmetric(module):
        yield _Candidate("symmetric", lambda: join(solve(module, lambda task: symmetric(task, effort))))
    few = wanting > FEW and _few_hold(module)
    spreads = [_Candidate("swarm", lambda: join(solve(module, _way(swarm, effort))))] if wanting > FEW else []
    if few and work <= LARGE:
        yield from spreads
    ways = [("pccl", _way(pccl, effort)), ("tacos", _way(tacos, effort))]
    for name, way in ways if search_first else reversed(ways):
        heavy = work > SMALL and (name == "pccl") != search_first
        heavy |= lines and name == "pccl" and work > DENSE and wanting > FEW
        if not heavy and not (switches and name == "tacos"):
            yield _Candidate(name, lambda way=way: join(solve(module, way)))
    if lines:
        for name, way in (("hierarchical", hierarchical), ("themis", themis)):
            yield _Candidate(name, lambda way=way: join(solve(module, lambda task: way(task, effort))))
        if tried.best is None:  # lines may be broken
            yield _Candidate("pccl", lambda: join(solve(module, _way(pccl, effort))))
    if switches and not few and work <= SMALL:
        yield from spreads
    if switches and free:
        with suppress(ValueError):  # not all switches can be unwound
            flat = replace(module, network=unwound(module.network))
            within = tried.best is None or not tried.meets(flat.network, module, _time(tried.best[1]))
            for candidate in _candidates(flat, effort, tried) if within else ():
                yield replace(candidate, name=f"{candidate.name} on unwound switches")
    elif has_reductions(module.demand) and free and _is_all_reduce(module):
        yield _Candidate("overlapped", lambda: _overlapped(module, effort))


def _shorter(module: Module, effort: Effort, tried: _Tried) -> Iterator[_Candidate]:
    """Exact search for a schedule that is shorter than the best so far, where that is a small question."""
    network, sizes = module.network, np.unique(module.demand.chunks.size)
    steps_alike = module.model is LinkModel.STORE and len(np.unique(network.kind)) == 1 and len(sizes) == 1
    if module.schedule is not None or not steps_alike or _has_switches(network) or len(network.npus) > TINY_NPUS:
        return
    if tried.best is None:
        return
    time = _time(tried.best[1])
    step = int(Clock.of(network, module.demand, module.model).total[network.kind[0], 0])
    if len(module.demand.chunks) * network.link_count * (time // step) > TINY:
        return
    most = time // step - 1
    if len(split(module)) == 1:
        yield _Candidate("exact", lambda: join(solve(module, lambda task: exact(task, effort, most=most, work=PROOF))))
    else:
        yield _Candidate("exact", lambda: replace(module, schedule=exact_sums(module, effort, most, PROOF)))


def _way(solver: Callable[[Task, Effort, int | None], Schedule], effort: Effort) -> Callable[[Task], Schedule]:
    def way(task: Task) -> Schedule:
        return solver(task, effort, task_bound(task).time)

    return way


def _overlapped(module: Module, effort: Effort) -> Module:
    schedule = overlapped(module.network, module.demand, module.model, effort)
    return replace(module, schedule=schedule)


def _has_switches(network: Network) -> bool:
    return bool((network.target >= network.npu_count).any())


def _average_wanting(module: Module) -> float:
    tables = module.demand.tables
    chunks = sum(len(table) for table in tables)
    return sum(int(_spread(module)[k]) for k in range(len(tables))) / max(1, chunks)


def _work(module: Module) -> int:
    return sum(_spread(module))


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
    standards = [run.standard for run in module.demand.runs]
    return len(standards) == 1 and standards[0] is not None and standards[0].kind == "all_reduce"
