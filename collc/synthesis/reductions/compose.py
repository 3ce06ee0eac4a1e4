"""Demands with reductions: split into copy-only phases, solved one after another, and joined again.

Each reduced chunk has a root. The first phase reduces the contributions to the roots; it is solved as the inverse,
copies from the roots to the contributors on reversed links. The second phase copies the sums from the roots to the
devices of the postcondition, together with the chunks that are only copied.

If a chunk spreads from its root over a tree of links, the same transfers backwards in time, on the reversed links, are
a reduction to the root (PCCL, section 4.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from collc.base.diagnostics import CollcError, NoSchedule
from collc.synthesis.task import Task, check_transfer_count
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import ChunkTable, Demand, HolderSets, Op, Run, Standard
from collc.ten.module import Module, Phase
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule, Schedule, StepSchedule, Transfers


def invert_schedule(schedule: Schedule, network: Network, demand: Demand) -> Schedule:
    """The reductions that the copies of a schedule become backwards in time.

    network, demand: those that the copies were planned for, with the links reversed. Link numbers stay, so that the
    result belongs to the network with its links as they are. Copies that arrive a second time, or that nobody needs,
    are left out, so that each contribution counts once.
    A transfer that starts at s and ends at e becomes one that starts at horizon - e and ends at horizon - s, in both
    link models: the intervals for which transfers occupy a link stay disjoint, since all of its transfers have the
    same latency.
    """
    if isinstance(schedule, StepSchedule):
        return StepSchedule(schedule.model, schedule.chunk[::-1].copy(), schedule.step, len(schedule.chunk))
    clock = Clock.of(network, demand, schedule.model)
    rows = as_trees(schedule.transfers, network, demand, clock)
    ends = rows.start + clock.total_of(rows)
    horizon = int(ends.max(initial=0))
    return RowSchedule(schedule.model, Transfers.of(rows.chunk, rows.link, horizon - ends, True))


def as_trees(rows: Transfers, network: Network, demand: Demand, clock: Clock) -> Transfers:
    """The transfers that are needed: first arrivals of a chunk at devices that want it or pass it on.

    A chunk may come to a switch several times, once for each departure; all arrivals of a chunk that leaves the switch
    are kept.
    """
    if not len(rows):
        return rows
    ends = rows.start + clock.total_of(rows)
    devices = network.device_count
    target, table = network.target[rows.link], demand.chunks
    into = rows.chunk.astype(np.int64) * devices + target
    out = rows.chunk.astype(np.int64) * devices + network.source[rows.link]
    kept = _first_arrivals(into, ends) | (target >= network.npu_count)
    kept &= ~table.sets.contain(table.pre[rows.chunk], target)
    wanted = table.sets.contain(table.post[rows.chunk], target)
    while True:
        useful = kept & (wanted | np.isin(into, out[kept]))
        if bool((useful == kept).all()):
            break
        kept = useful
    return rows.select(kept)


def _first_arrivals(keys: Int64Array, ends: Int64Array) -> BoolArray:
    """bool[n]: for each key the one with the least end."""
    order = np.lexsort((ends, keys))
    first = np.ones(len(keys), np.bool_)
    first[1:] = keys[order][1:] != keys[order][:-1]
    kept = np.zeros(len(keys), np.bool_)
    kept[order[first]] = True
    return kept


ROUNDS: Final = 4
"""Guesses of the horizon if reductions are planned around reserved transfers."""

OVERLAP_TRANSFERS: Final = 20_000
"""Transfers up to which copies are also planned to start before the last reduction ends."""


MOST_RELAYED_IN_FILES: Final = 128
"""Chunks x NPUs up to which partials are kept apart and relayed if files for runtimes are wanted."""


def has_reductions(demand: Demand) -> bool:
    """Whether any chunk must be reduced."""
    runs = (run for run in demand.runs if run.standard is None or run.standard.shape.reduces)
    return any(bool(_are_reduced(run.pattern.expand()).any()) for run in runs)


def obstacle_to_shared_sums(module: Module) -> str:
    """Why a synthesizer of sums that all contributors receive does not fit a module; "" if it fits."""
    if module.schedule is not None:
        return "plans all runs of a schedule, and some are planned already"
    copies = any(run.standard is not None and not run.standard.shape.reduces for run in module.demand.runs)
    table = None if copies else module.demand.chunks  # copies need not be listed
    if table is None or not len(table) or bool((table.op == Op.COPY).any()) or bool((table.pre != table.post).any()):
        return "is only for demands in which all contributors receive the sum, as in an All-Reduce"
    return ""


def split(module: Module) -> tuple[Phase, ...]:
    """The copy-only phases of a module: the inverted reductions, then the copies. Phases without chunks are left out.

    Chunks keep their numbers in each phase; a chunk without a part in a phase stays where it is. So do all chunks of
    runs that are planned already. Without reductions there is one phase, not inverted.
    """
    unplanned = _unplanned_runs(module)
    runs = module.demand.runs
    roots = [_roots(run, table) for run, table in zip(runs, module.demand.tables, strict=True)]
    tables = module.demand.tables
    phases: list[Phase] = []
    rows = list(zip(runs, tables, roots, strict=True))
    if any(bool(_are_reduced(table).any()) for table in (tables[run] for run in unplanned)):
        inverse = Demand(tuple(_invert_run(*row, active=k in unplanned) for k, row in enumerate(rows)))
        phases.append(
            Phase(replace(module, network=_reverse_network(module.network), demand=inverse, schedule=None), True)
        )
    copied = Demand(tuple(_copy_run(*row, active=k in unplanned) for k, row in enumerate(rows)))
    if not phases or len(_moving_chunks(copied)):
        phases.append(Phase(replace(module, demand=copied, schedule=None), False))
    return tuple(phases)


def solve(module: Module, synthesize: Callable[[Task], Schedule]) -> Module:
    """The module with its phases, each solved by `synthesize`; `join` makes one schedule of them.

    Transfers of the module's schedule are reserved in all phases. Raises SourceError S0203 if there would be more
    transfers than can be listed.
    """
    check_transfer_count(module.demand.least_transfers)
    phases = list(split(module))
    reserved = module.schedule.transfers if module.schedule is not None else None
    for number, phase in enumerate(phases):
        if phase.inverted:
            solved = _solve_inverted(phase, synthesize, reserved)
            phases[number] = replace(solved, forward=_forward(solved))
        else:
            phases[number] = _solve_copies(module, tuple(phases[:number]), phase, synthesize, reserved)
    return replace(module, phases=tuple(phases))


def join(module: Module) -> Module:
    """The module with one schedule of its solved phases and the transfers that it has already."""
    if not module.phases and module.schedule is not None:
        return replace(module, planned=None)
    forward = [_forward(phase) for phase in module.phases]
    schedule: Schedule | None = None if module.schedule is not None else _joined_steps(module, forward)
    if schedule is None:
        parts = [_delay(part, phase.start) for part, phase in zip(forward, module.phases, strict=True)]
        if module.schedule is not None:
            parts.append(module.schedule.transfers)
        schedule = RowSchedule(module.model, Transfers.concatenate(parts))
    return replace(module, schedule=schedule, phases=(), planned=None)


def _solve_inverted(phase: Phase, synthesize: Callable[[Task], Schedule], reserved: Transfers | None) -> Phase:
    """Plans reductions. If transfers are reserved, the end must be guessed, since the search runs backwards."""
    module = phase.module
    wanted = _moving_chunks(module.demand)
    task = Task(module.network, module.demand, module.model, wanted, inverted=True, relays=module.relays)
    schedule = synthesize(task)
    alone = replace(phase, module=replace(module, schedule=schedule))
    if reserved is None or not len(reserved):
        return alone
    clock = Clock.of(module.network, module.demand, module.model)
    horizon = schedule.collective_time(module.network, module.demand)
    for _ in range(ROUNDS):
        mirrored = _mirror(reserved, clock, horizon)
        try:
            schedule = synthesize(replace(task, reserved=mirrored))
        except NoSchedule:
            break  # stopped, or the buffers of switches are full: start when all reserved transfers have ended
        end = schedule.collective_time(module.network, module.demand)
        if end <= horizon:
            return replace(phase, module=replace(module, schedule=schedule), start=horizon - end)
        horizon = end
    last = int((reserved.start + clock.total_of(reserved)).max())
    return replace(alone, start=last)


def _mirror(rows: Transfers, clock: Clock, horizon: int) -> Transfers:
    """Transfers backwards in time from a horizon, without those that start after it."""
    start = horizon - rows.start - clock.total_of(rows)
    kept = start + clock.total_of(rows) > 0
    return Transfers.of(rows.chunk[kept], rows.link[kept], start[kept], rows.reduce[kept])


def _solve_copies(
    module: Module,
    before: tuple[Phase, ...],
    phase: Phase,
    synthesize: Callable[[Task], Schedule],
    reserved: Transfers | None,
) -> Phase:
    """Plans copies: after the reductions, or at the same time where that ends earlier."""
    inner = phase.module
    task = Task(inner.network, inner.demand, inner.model, _moving_chunks(inner.demand), relays=inner.relays)
    if not before:
        schedule = synthesize(task if reserved is None else replace(task, reserved=reserved))
        return replace(phase, module=replace(inner, schedule=schedule))
    reduced = _delay(_forward(before[0]), before[0].start)
    clock = Clock.of(inner.network, module.demand, module.model)
    arrivals = reduced.start + clock.total_of(reduced)
    end = int(arrivals.max(initial=0))
    after: Phase | None = None
    if reserved is None:
        schedule = synthesize(task)
        after = replace(phase, module=replace(inner, schedule=schedule), start=end)
        if len(reduced) + len(schedule) > OVERLAP_TRANSFERS:
            return after
    release = np.zeros(len(inner.demand.chunks), np.int64)
    np.maximum.at(release, reduced.chunk, arrivals)
    occupied = reduced if reserved is None else Transfers.concatenate([reduced, reserved])
    try:
        schedule = synthesize(replace(task, release=release, reserved=occupied))
    except CollcError:
        # Some synthesizers need links that are free from the start.
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
    """The schedule of a solved phase forwards in time, on the links as they are."""
    inner = phase.module
    if phase.forward is not None:
        return phase.forward
    if inner.schedule is None:
        raise ValueError("a phase has no schedule yet")
    if phase.inverted:
        return invert_schedule(inner.schedule, inner.network, inner.demand)
    return inner.schedule


def _delay(schedule: Schedule, start: int) -> Transfers:
    """The transfers of a schedule that begins at `start`."""
    rows = schedule.transfers
    return replace(rows, start=rows.start + start)


def _joined_steps(module: Module, parts: list[Schedule]) -> Schedule | None:
    """One step-by-link table of all phases; None if they have none, or do not follow each other without a gap."""
    tables = [part for part in parts if isinstance(part, StepSchedule)]
    if not tables or len(tables) < len(parts) or len({table.step for table in tables}) > 1:
        return None
    steps = 0
    for table, phase in zip(tables, module.phases, strict=True):
        if phase.start != steps * table.step:
            return None
        steps += len(table.chunk)
    if len(tables) == 1:
        return tables[0]
    narrow = all(table.chunk.dtype == np.uint16 for table in tables)
    shape = steps, module.network.link_count
    chunks = np.full(shape, 0xFFFF, np.uint16) if narrow else np.full(shape, 0xFFFFFFFF, np.uint32)
    row = 0
    for table in tables:
        part = chunks[row : row + len(table.chunk)]
        np.copyto(part, table.chunk, where=table.chunk != table.no_chunk, casting="unsafe")
        row += len(table.chunk)
    return StepSchedule(module.model, chunks, tables[0].step, sum(table.reduce_steps for table in tables))


def _unplanned_runs(module: Module) -> frozenset[int]:
    """The runs that are still to be planned."""
    everything = frozenset(range(len(module.demand.runs)))
    if module.schedule is None:
        return everything
    return everything - (everything if module.planned is None else module.planned)


def _reverse_network(network: Network) -> Network:
    """The network of the inverse problem: a switch that reduces has multicast there, and no other switch."""
    return replace(network.reverse(), multicast=network.reduces)


def _are_reduced(table: ChunkTable) -> BoolArray:
    """bool[chunks]: whether more than one contribution is combined."""
    return (table.op != Op.COPY) & (table.sets.sizes[table.pre] > 1)


def _moving_chunks(demand: Demand) -> Int32Array:
    """int32: the chunks whose postcondition differs from their precondition."""
    table = demand.chunks
    return np.flatnonzero((table.pre != table.post) & (table.sets.sizes[table.post] > 0)).astype(np.int32)


def _roots(run: Run, table: ChunkTable) -> Int32Array:
    """int32[chunks]: the root of each reduced chunk, -1 for the others.

    The root is a device of the postcondition; if there are several, roots share the bytes about equally.
    """
    reduced = _are_reduced(table)
    roots = np.full(len(table), -1, np.int32)
    if run.standard is not None and run.standard.shape.phases == 2:
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


def _invert_run(run: Run, table: ChunkTable, roots: Int32Array, active: bool) -> Run:
    """The inverse of a run's reductions: copies of each chunk from its root to all contributors."""
    moving = (roots >= 0) & active
    kind = run.standard.shape.inverse if run.standard and run.standard.shape.reduces else ""
    return _copies(run, roots, np.where(moving, table.pre, -1), kind)


def _copy_run(run: Run, table: ChunkTable, roots: Int32Array, active: bool) -> Run:
    """A run without its reductions: copies of each reduced chunk from its root to the devices of its postcondition."""
    if active and not table.op.any():
        return run
    gathered = (roots >= 0) & (table.sets.sizes[table.post] == 1)
    kind = run.standard.shape.inverse if run.standard and run.standard.shape.phases == 2 else ""
    return _copies(run, roots, np.where(~gathered & active, table.post, -1), kind)


def _copies(run: Run, roots: Int32Array, post: Int32Array, kind: str) -> Run:
    """A run of copies to the sets `post`, from the roots or, for chunks without one, from the holders.

    A chunk whose post is -1 stays with its holders. kind: the standard collective that
    the run becomes, "" for none.
    """
    table = run.pattern.expand()
    moving = post >= 0
    rooted = moving & (roots >= 0)
    sets, number = _with_singles(table.sets, np.unique(roots[rooted]).tolist())
    pre = table.pre.copy()
    pre[rooted] = [number[root] for root in roots[rooted].tolist()]
    standard = run.standard
    if standard is not None:
        whole = bool(kind) and bool(rooted.all())
        standard = Standard(kind, standard.size, standard.chunks, standard.root) if whole else None
    after = np.where(moving, post, pre).astype(np.int32)
    pattern = replace(table, pre=pre, post=after, op=np.zeros_like(table.op), sets=sets)
    return replace(run, pattern=pattern, standard=standard)


def _with_singles(sets: HolderSets, npus: Iterable[int]) -> tuple[HolderSets, dict[int, int]]:
    """(the sets followed by one set for each of some NPUs, the numbers of these sets by NPU)."""
    single, first = list(npus), len(sets)
    offsets = np.concatenate([sets.offsets, sets.offsets[-1] + np.arange(1, len(single) + 1)])
    members = np.concatenate([sets.members, np.array(single, np.int32)])
    return HolderSets(offsets.astype(np.int64), members), dict(
        zip(single, range(first, first + len(single)), strict=True)
    )
