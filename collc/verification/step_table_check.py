"""The check of a large step-by-link table of copies in bounded memory: one bit for each chunk and NPU, step by step."""

from __future__ import annotations

from typing import cast

import numpy as np

from collc.ten.arrays import StepTable
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.schedule import Clock, StepSchedule
from collc.verification.timed_transfers import LATEST
from collc.verification.verdict import Findings, at

LARGE_TABLE = 1 << 24
"""The number of cells below which a table is checked transfer by transfer."""
_BLOCK = 1 << 24
"""Cells that are read at once."""
_LISTED = 200
"""Offenders that are reported of each block."""


def arrival_delay(module: Module, schedule: StepSchedule, clock: Clock) -> int | None:
    """The number of steps after which a chunk that enters a link has arrived; None if this check does not apply.

    It applies to copies between NPUs that all take the same number of steps and free their links within one.
    """
    network, table = module.network, module.demand.chunks
    if schedule.chunk.shape[1] != network.link_count:
        return None
    if schedule.chunk.size < LARGE_TABLE or schedule.reduce_steps or not len(table) or (table.op != Op.COPY).any():
        return None
    ends = np.concatenate([network.source, network.target])
    if (ends >= network.npu_count).any() or not network.present[ends].all() or schedule.step <= 0:
        return None
    if (network.source == network.target).any() or schedule.step * len(schedule.chunk) >= LATEST:
        return None
    if clock.busy.max(initial=0) > schedule.step or clock.total.min(initial=1) <= 0:
        return None
    delays = np.unique(-(-clock.total // schedule.step))
    return int(delays[0]) if len(delays) == 1 and delays[0] <= 64 else None


def check_step_table(module: Module, schedule: StepSchedule, delay: int, findings: Findings) -> None:
    """Check causality and delivery. In a table no link carries two chunks at once."""
    from collc.kernels.step_table_check import run_steps

    network, table = module.network, module.demand.chunks
    chunks = len(table)
    held = np.zeros((network.npu_count, (chunks + 7) // 8), np.uint8)
    for chunk in range(chunks):
        held[table.sets[int(table.pre[chunk])], chunk >> 3] |= np.uint8(1 << (chunk & 7))
    table_rows = schedule.chunk
    legal = np.zeros((delay, network.link_count), np.bool_)
    wrong = np.empty((_LISTED, 2), np.int64)
    size = max(delay, _BLOCK // max(1, network.link_count))
    nothing = np.full((delay, network.link_count), schedule.no_chunk, table_rows.dtype)
    before = cast("StepTable", nothing)
    low = 0
    # `delay` empty steps at the end let the last chunks arrive.
    for block in (*(slice(k, k + size) for k in range(0, len(table_rows), size)), None):
        part = cast("StepTable", np.array(table_rows[block], order="C") if block is not None else nothing)
        count = run_steps(
            held, part, low, before, network.source, network.target, schedule.no_chunk, chunks, legal, wrong
        )
        _report_causality(module, schedule, wrong[:count].tolist(), findings)
        low += len(part)
        before = cast("StepTable", np.concatenate([before, part])[-delay:])
    _check_delivered(module, held, findings)


def _report_causality(module: Module, schedule: StepSchedule, wrong: list[list[int]], findings: Findings) -> None:
    for step, link in wrong:
        chunk, start = int(schedule.chunk[step, link]), step * schedule.step
        who = findings.device(int(module.network.source[link]))
        sent = f"{findings.chunk(chunk)} on {findings.link(link)} at {at(start)}"
        message = f"{sent} is sent by {who}, which does not hold it yet"
        findings.add("causality", "V0101", start, message, "an arrival, or the precondition, at or before the start")


def _check_delivered(module: Module, held: np.ndarray[tuple[int, int], np.dtype[np.uint8]], findings: Findings) -> None:
    from collc.kernels.step_table_check import missing

    table = module.demand.chunks
    for number in np.unique(table.post).tolist():
        chunks = np.flatnonzero(table.post == number)
        count, pairs = missing(held, table.sets[number], chunks, _LISTED)
        for chunk, npu in pairs[:count].tolist():
            message = f"{findings.device(npu)} never gets {findings.chunk(chunk)}"
            findings.add("delivered", "V0301", 0, message, "its postcondition")
