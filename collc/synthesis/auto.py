"""Picks ways of synthesis by demand and network, tries a few, keeps the best and says why.

- Chunks with many who want them go by matching (tacos), others by search (pccl); where the first
  does not meet the bound and the problem is small, the other is tried too.
- All-Reduces also by balanced trees with both phases pipelined (overlapped).
- Networks with switches: search with the switches as they are, and matching with them unwound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic

from collc.diagnostics import CollcError, Diagnostic, NoSchedule
from collc.synthesis.bounds import lower_bound, task_bound
from collc.synthesis.compose import has_reductions, join, solve
from collc.synthesis.overlapped import overlapped
from collc.synthesis.pccl import pccl
from collc.synthesis.tacos import tacos
from collc.synthesis.task import Effort, Task
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Schedule
from collc.ten.transform import unwound
from collc.units import format_time

FEW = 2.0
"""Average number of NPUs that want a chunk up to which search is the first choice."""

SMALL = 30_000
"""Chunks x NPUs that want them up to which a second way is tried."""


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
    best: tuple[int, _Candidate, Module] | None = None
    notes: list[str] = []
    failure: CollcError | None = None
    for candidate in _candidates(module, effort):
        if effort.stop() or (best is not None and best[0] <= _bound(best[2])):
            break
        began = monotonic()
        try:
            built = candidate.build()
        except CollcError as error:
            failure = failure or error
            notes.append(f"auto: {candidate.name} found none: {error.diagnostics[0].message}")
            continue
        time = _time(built)
        effort.progress(1.0, f"auto: {candidate.name} after {monotonic() - began:.1f} s")
        notes.append(f"auto: {candidate.name} takes {format_time(time)}")
        if best is None or time < best[0]:
            best = time, candidate, built
    if best is None:
        stopped = NoSchedule(Diagnostic("S0201", "stopped before any schedule was found", hint="give it more time"))
        raise failure or stopped
    why = "meets the bound" if best[0] <= _bound(best[2]) else "is the best of those tried"
    notes.append(f"auto: chose {best[1].name}, which {why}")
    if best[2].network.unwound and not module.network.unwound:
        notes.append("the switches are unwound: links, schedule and bound are those of the unwound network")
    name = f"{module.algorithm}+{best[1].name}" if module.algorithm else best[1].name
    return replace(best[2], algorithm=name, seed=effort.seed, notes=(*module.notes, *notes))


def _bound(module: Module) -> int:
    return lower_bound(module.network, module.demand, module.model).time


def _time(module: Module) -> int:
    if module.schedule is None:
        raise NoSchedule(Diagnostic("S0201", "nothing was planned"))
    return module.schedule.collective_time(module.network, module.demand)


def _candidates(module: Module, effort: Effort) -> Iterator[_Candidate]:
    switches = _has_switches(module.network)
    search_first = switches or _average_wanting(module) <= FEW
    work = _work(module)
    ways = [("pccl", _way(pccl, effort)), ("tacos", _way(tacos, effort))]
    for name, way in ways if search_first else reversed(ways):
        heavy = work > SMALL and (name == "pccl") != search_first
        if not heavy and not (switches and name == "tacos"):
            yield _Candidate(name, lambda way=way: join(solve(module, way)))
    free = module.schedule is None
    if switches and free:
        with suppress(ValueError):  # not all switches can be unwound
            flat = replace(module, network=unwound(module.network))
            for candidate in _candidates(flat, effort):
                yield replace(candidate, name=f"{candidate.name} on unwound switches")
    elif has_reductions(module.demand) and free and _is_all_reduce(module):
        yield _Candidate("overlapped", lambda: _overlapped(module, effort))


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


def _is_all_reduce(module: Module) -> bool:
    standards = [run.standard for run in module.demand.runs]
    return len(standards) == 1 and standards[0] is not None and standards[0].kind == "all_reduce"
