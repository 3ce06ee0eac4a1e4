"""Demands with reductions: split into copy-only phases, solved one after another, and joined again.

Each reduced chunk has a root. First the contributions are reduced to the roots: the copies from the
roots to the contributors on reversed links, inverted. Then what the roots hold is copied to the
holders of the postcondition, together with the chunks that are plain copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from collc.base.diagnostics import CollcError, NoSchedule
from collc.synthesis.reductions.invert import invert_schedule
from collc.synthesis.task import Task
from collc.ten.arrays import BoolArray, Int32Array
from collc.ten.demand import ChunkTable, Demand, HolderSets, Op, Run, Standard
from collc.ten.module import Module, Phase
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule, Schedule, StepSchedule, Transfers

ROUNDS = 4
"""How often the horizon of reductions planned round others is guessed."""

SMALL = 20_000
"""Transfers up to which copies are also planned to start before the last reduction ends."""


def has_reductions(demand: Demand) -> bool:
    """Whether any chunk must be reduced."""
    return any(bool(_reduced(table).any()) for table in demand.tables)


def split(module: Module) -> tuple[Phase, ...]:
    """The copy-only phases of a module: the inverted reductions, then the copies; where not needed, they are left out.

    Chunks keep their numbers in each phase; a chunk that a phase has nothing to do with stays where it is.
    Runs that are planned already stay out of both. Without reductions there is one phase, not inverted.
    """
    todo = _open_runs(module)
    runs = module.demand.runs
    roots = [_roots(run, table) for run, table in zip(runs, module.demand.tables, strict=True)]
    tables = module.demand.tables
    phases: list[Phase] = []
    rows = list(zip(runs, tables, roots, strict=True))
    if any(bool(_reduced(table).any()) for table in (tables[run] for run in todo)):
        spread = Demand(tuple(_spread(*row, open_=k in todo) for k, row in enumerate(rows)))
        phases.append(Phase(replace(module, network=_reversed(module.network), demand=spread, schedule=None), True))
    copied = Demand(tuple(_copied(*row, open_=k in todo) for k, row in enumerate(rows)))
    if not phases or len(_moving(copied)):
        phases.append(Phase(replace(module, demand=copied, schedule=None), False))
    return tuple(phases)


def solve(module: Module, way: Callable[[Task], Schedule]) -> Module:
    """The module with its phases solved, each by `way`; `join` makes one schedule of them.

    What is in the module's schedule already is planned round.
    """
    phases = list(split(module))
    fixed = module.schedule.transfers if module.schedule is not None else None
    for number, phase in enumerate(phases):
        if phase.inverted:
            phases[number] = _solve_inverted(phase, way, fixed)
        else:
            phases[number] = _solve_copies(module, tuple(phases[:number]), phase, way, fixed)
    return replace(module, phases=tuple(phases))


def join(module: Module) -> Module:
    """The module with the one schedule that its solved phases make, together with what it had already."""
    grids = [_forward(phase) for phase in module.phases]
    schedule: Schedule | None = None if module.schedule is not None else _joined_grid(module, grids)
    if schedule is None:
        parts = [_rows(grid, phase.start) for grid, phase in zip(grids, module.phases, strict=True)]
        if module.schedule is not None:
            parts.append(module.schedule.transfers)
        schedule = RowSchedule(module.model, Transfers.joined(parts))
    return replace(module, schedule=schedule, phases=(), planned=None)


def _solve_inverted(phase: Phase, way: Callable[[Task], Schedule], fixed: Transfers | None) -> Phase:
    """Plans reductions. Round what is fixed, the end must be guessed, since time runs backwards."""
    module = phase.module
    wanted = _moving(module.demand)
    task = Task(module.network, module.demand, module.model, wanted, inverted=True, relays=module.relays)
    schedule = way(task)
    free = replace(phase, module=replace(module, schedule=schedule))
    if fixed is None or not len(fixed):
        return free
    clock = Clock.of(module.network, module.demand, module.model)
    horizon = schedule.collective_time(module.network, module.demand)
    for _ in range(ROUNDS):
        mirrored = _mirrored(fixed, clock, horizon)
        try:
            schedule = way(replace(task, reserved=mirrored))
        except NoSchedule:
            break  # stopped, or switches have no room: after the others, then
        end = schedule.collective_time(module.network, module.demand)
        if end <= horizon:
            return replace(phase, module=replace(module, schedule=schedule), start=horizon - end)
        horizon = end
    last = int((fixed.start + clock.total_of(fixed)).max())
    return replace(free, start=last)


def _mirrored(rows: Transfers, clock: Clock, horizon: int) -> Transfers:
    """Transfers as time running backwards from a horizon sees them; those that have begun by then are cut off."""
    start = horizon - rows.start - clock.total_of(rows)
    seen = start + clock.total_of(rows) > 0
    return Transfers.of(rows.chunk[seen], rows.link[seen], start[seen], rows.reduce[seen])


def _solve_copies(
    module: Module, before: tuple[Phase, ...], phase: Phase, way: Callable[[Task], Schedule], fixed: Transfers | None
) -> Phase:
    """Plans copies: after the reductions, or round them where that is better."""
    inner = phase.module
    task = Task(inner.network, inner.demand, inner.model, _moving(inner.demand), relays=inner.relays)
    if not before:
        schedule = way(task if fixed is None else replace(task, reserved=fixed))
        return replace(phase, module=replace(inner, schedule=schedule))
    reduced = _rows(_forward(before[0]), before[0].start)
    clock = Clock.of(inner.network, module.demand, module.model)
    arrivals = reduced.start + clock.total_of(reduced)
    end = int(arrivals.max(initial=0))
    after: Phase | None = None
    if fixed is None:
        schedule = way(task)
        after = replace(phase, module=replace(inner, schedule=schedule), start=end)
        if len(reduced) + len(schedule) > SMALL:
            return after
    release = np.zeros(len(inner.demand.chunks), np.int64)
    np.maximum.at(release, reduced.chunk, arrivals)
    reserved = Transfers.joined([reduced] if fixed is None else [reduced, fixed])
    try:
        schedule = way(replace(task, release=release, reserved=reserved))
    except CollcError:
        # Some ways need links that are free from the start.
        if after is None:
            raise
        return after
    early = replace(phase, module=replace(inner, schedule=schedule))
    return early if after is None or _end(early) < _end(after) else after


def _end(phase: Phase) -> int:
    schedule = phase.module.schedule
    assert schedule is not None
    return phase.start + schedule.collective_time(phase.module.network, phase.module.demand)


def _forward(phase: Phase) -> Schedule:
    """The schedule of a solved phase on the links as they are."""
    inner = phase.module
    if inner.schedule is None:
        raise ValueError("a phase has no schedule yet")
    if phase.inverted:
        return invert_schedule(inner.schedule, inner.network, inner.demand)
    return inner.schedule


def _rows(schedule: Schedule, start: int) -> Transfers:
    rows = schedule.transfers
    return Transfers(rows.chunk, rows.link, rows.start + start, rows.reduce)


def _joined_grid(module: Module, parts: list[Schedule]) -> Schedule | None:
    """One grid, where the phases are grids that follow each other without a gap."""
    grids = [part for part in parts if isinstance(part, StepSchedule)]
    if not grids or len(grids) < len(parts) or len({grid.step for grid in grids}) > 1:
        return None
    begin = 0
    for grid, phase in zip(grids, module.phases, strict=True):
        if phase.start != begin * grid.step:
            return None
        begin += len(grid.chunk)
    if len(grids) == 1:
        return grids[0]
    narrow = all(grid.chunk.dtype == np.uint16 for grid in grids)
    shape = begin, module.network.link_count
    chunks = np.full(shape, 0xFFFF, np.uint16) if narrow else np.full(shape, 0xFFFFFFFF, np.uint32)
    row = 0
    for grid in grids:
        part = chunks[row : row + len(grid.chunk)]
        np.copyto(part, grid.chunk, where=grid.chunk != grid.none, casting="unsafe")
        row += len(grid.chunk)
    return StepSchedule(module.model, chunks, grids[0].step, sum(grid.reduce_steps for grid in grids))


def _open_runs(module: Module) -> frozenset[int]:
    """The runs that are still to be planned."""
    everything = frozenset(range(len(module.demand.runs)))
    if module.schedule is None:
        return everything
    return everything - (everything if module.planned is None else module.planned)


def _reversed(network: Network) -> Network:
    """A switch that reduces is, backwards, one that multicasts; no other may."""
    return replace(network.reversed(), multicast=network.reduces)


def _reduced(table: ChunkTable) -> BoolArray:
    """bool[chunks]: which have more than one contribution to combine."""
    return (table.op != Op.COPY) & (table.sets.sizes[table.pre] > 1)


def _moving(demand: Demand) -> Int32Array:
    """The chunks that are not everywhere yet where they should be."""
    table = demand.chunks
    return np.flatnonzero((table.pre != table.post) & (table.sets.sizes[table.post] > 0)).astype(np.int32)


def _roots(run: Run, table: ChunkTable) -> Int32Array:
    """int32[chunks]: where each reduced chunk comes together; -1 for the others.

    It is the holder of the postcondition, or one of several so that all get about equal shares.
    """
    reduced = _reduced(table)
    roots = np.full(len(table), -1, np.int32)
    if run.standard is not None and run.standard.kind == "all_reduce":
        owners = np.repeat(run.group, run.standard.chunks)
        roots[reduced] = owners[reduced]
        return roots
    loads: dict[int, int] = {}
    for chunk in np.flatnonzero(reduced).tolist():
        post = table.sets[int(table.post[chunk])].tolist()
        holders = set(table.sets[int(table.pre[chunk])].tolist())
        root = min(post, key=lambda npu: (npu not in holders, loads.get(npu, 0), npu)) if post else -1
        loads[root] = loads.get(root, 0) + int(table.size[chunk])
        roots[chunk] = root
    return roots


def _spread(run: Run, table: ChunkTable, roots: Int32Array, open_: bool) -> Run:
    """The inverse of a run's reductions: each chunk from its root to all contributors."""
    kinds = {"reduce_scatter": "all_gather", "all_reduce": "all_gather", "reduce": "broadcast"}
    moving = (roots >= 0) & open_
    return _copies(run, roots, np.where(moving, table.pre, -1), kinds)


def _copied(run: Run, table: ChunkTable, roots: Int32Array, open_: bool) -> Run:
    """What is left of a run when its reductions are done: each reduced chunk from its root to its holders."""
    if open_ and not table.op.any():
        return run
    gathered = (roots >= 0) & (table.sets.sizes[table.post] == 1)
    return _copies(run, roots, np.where(~gathered & open_, table.post, -1), {"all_reduce": "all_gather"})


def _copies(run: Run, roots: Int32Array, post: Int32Array, kinds: dict[str, str]) -> Run:
    """A run of copies to the sets `post`, from the roots or, where there are none, from the holders.

    A chunk whose post is -1 stays with its holders. kinds: what the standard collectives become.
    """
    table = run.pattern.expand()
    moving = post >= 0
    rooted = moving & (roots >= 0)
    sets, number = _with_singles(table.sets, np.unique(roots[rooted]).tolist())
    pre = table.pre.copy()
    pre[rooted] = [number[root] for root in roots[rooted].tolist()]
    standard = run.standard
    if standard is not None:
        kind = kinds.get(standard.kind)
        whole = kind is not None and bool(rooted.all())
        standard = Standard(kind or "", standard.size, standard.chunks, standard.root) if whole else None
    after = np.where(moving, post, pre).astype(np.int32)
    pattern = replace(table, pre=pre, post=after, op=np.zeros_like(table.op), sets=sets)
    return replace(run, pattern=pattern, standard=standard)


def _with_singles(sets: HolderSets, npus: Iterable[int]) -> tuple[HolderSets, dict[int, int]]:
    """The sets and, behind them, one for each NPU; and the numbers of these."""
    single = list(npus)
    offsets = np.concatenate([sets.offsets, sets.offsets[-1] + np.arange(1, len(single) + 1)])
    members = np.concatenate([sets.members, np.array(single, np.int32)])
    return HolderSets(offsets.astype(np.int64), members), {npu: len(sets) + k for k, npu in enumerate(single)}
