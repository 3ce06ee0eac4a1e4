"""`verify`: whether a schedule does what its demand asks, on its network, under its link model (docs/verification.md).

Small schedules are carried out exactly, chunk by chunk. Of large ones a compiled loop first sets aside the chunks
that are plainly right (copies that are causal and arrive; reductions along one tree); the exact check sees the rest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from collc.ten.arrays import Int32Array, Int64Array, UInt8Array
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.schedule import StepSchedule
from collc.verification.chunk_check import ChunkCheck
from collc.verification.link_check import check_links
from collc.verification.step_table_check import arrival_delay, check_step_table
from collc.verification.switch_check import check_buffers
from collc.verification.timed_transfers import TimedTransfers, clock_of, valid_transfers
from collc.verification.verdict import Findings, Verdict, nothing_to_check

LARGE = 100_000
"""Transfers or chunks from which on compiled loops pay."""
_ENOUGH = 1000
"""Doubtful chunks that are looked at after the first failure."""


def verify_schedule(module: Module, large: int = LARGE) -> Verdict:
    """Check a module's schedule: causality, congestion_free, delivered, reductions, switches.

    Schedules of at least `large` transfers or chunks take the compiled way, which says the same.
    """
    schedule = module.schedule
    if schedule is None:
        return nothing_to_check()
    findings = Findings(module.network, module.demand)
    clock = clock_of(module, schedule, findings)
    if clock is None:
        return findings.verdict()
    delay = arrival_delay(module, schedule, clock) if isinstance(schedule, StepSchedule) else None
    if isinstance(schedule, StepSchedule) and delay is not None:
        check_step_table(module, schedule, delay, findings)
        return findings.verdict()
    rows = valid_transfers(module, schedule.transfers, clock, findings)
    compiled = max(len(rows), len(module.demand.chunks)) >= large
    check_links(rows, findings, compiled)
    _check_chunks(module, rows, findings, compiled)
    return findings.verdict()


def _check_chunks(module: Module, rows: TimedTransfers, findings: Findings, compiled: bool) -> None:
    check = ChunkCheck(module, rows, findings)
    chunks = len(module.demand.chunks)
    if compiled:
        offsets, order, doubtful, places = _screened(module, rows)
    else:
        offsets = np.zeros(chunks + 1, np.int64)
        np.cumsum(np.bincount(rows.chunk, minlength=chunks), out=offsets[1:])
        order = np.argsort(rows.chunk, kind="stable").astype(np.int32)
        doubtful, places = np.arange(chunks), np.empty((0, 4), np.int64)
    for looked, chunk in enumerate(doubtful.tolist()):
        if looked >= _ENOUGH and findings.any:
            break
        check.check(chunk, order[offsets[chunk] : offsets[chunk + 1]].astype(np.intp))
    found = np.array(check.intervals, np.int64).reshape(-1, 4)
    check_buffers(module.network, np.concatenate([places, found]), findings)


def _screened(module: Module, rows: TimedTransfers) -> tuple[Int64Array, Int32Array, NDArray[np.intp], Int64Array]:
    """TimedTransfers by chunk, the chunks that need the exact check, and places in buffers of the other ones."""
    from collc.kernels.schedule_check import by_chunk, screen
    from collc.kernels.sum_check import rescreen

    network, table = module.network, module.demand.chunks
    offsets, order = by_chunk(rows.chunk, len(table))
    hold = np.full(len(rows) if network.switch_count else 0, -1, np.int64)
    moves = (offsets, order, rows.link, rows.start, rows.reduce, network.source, network.target)
    times = (rows.clock.total, rows.clock.size_of, rows.clock.kind, network.npu_count, network.device_count)
    holders = (table.pre, table.post, table.sets.offsets, table.sets.members)
    flags: UInt8Array = screen(*moves, *times, table.op, *holders, hold)
    sums = np.flatnonzero(flags & (table.op != Op.COPY))
    if len(sums):
        flags[sums] = rescreen(sums, *moves, *times, *holders)
    if module.planned is not None:
        flags[:] = 1
    leaving = np.flatnonzero(hold >= 0)
    leaving = leaving[flags[rows.chunk[leaving]] == 0]
    busy, _ = rows.durations(leaving)
    places = np.stack(
        [network.source[rows.link[leaving]], hold[leaving], rows.start[leaving] + busy, rows.chunk[leaving]], axis=1
    ).astype(np.int64)
    return offsets, order, np.flatnonzero(flags), places
