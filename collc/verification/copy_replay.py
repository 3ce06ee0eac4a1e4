"""The check of many copies in bounded memory: transfers are replayed in order of time, a block at a time.

The check of a large step-by-link table of copies in bounded memory: one bit for each chunk and NPU, step by step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from collc.kernels.copy_replay import CopyNetwork, CopyState, UInt64Array, arrive, replay_copies
from collc.ten.arrays import BoolArray, Int32Array, Int64Array, StepTable
from collc.ten.demand import HolderSets, Op
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, Schedule, StepSchedule, Transfers
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

    table, planned = module.demand.chunks, module.planned
    wanted = np.ones(len(table), np.bool_)
    if planned is not None:
        runs = np.searchsorted(module.demand.first_chunk, np.arange(len(table)), "right") - 1
        wanted = np.isin(runs, list(planned))
    for number in np.unique(table.post[wanted]).tolist():
        chunks = np.flatnonzero((table.post == number) & wanted)
        count, pairs = missing(held, table.sets[number], chunks, _LISTED)
        for chunk, npu in pairs[:count].tolist():
            message = f"{findings.device(npu)} never gets {findings.chunk(chunk)}"
            findings.add("delivered", "V0301", 0, message, "its postcondition")


MOST_HELD: Final = 1 << 33
"""Chunks times devices up to which a bit is kept for each pair."""

MOST_RINGS: Final = 64
"""Pairs of a kind of link and a size of chunks up to which what is under way is kept in order."""

MOST_SLOTS: Final = 1 << 26
"""Transfers under way at once up to which this is kept."""


def copies_are_right(module: Module, schedule: Schedule, clock: Clock) -> bool:
    """Whether a replay in order of time shows that a schedule of copies is right.

    False decides nothing: another check must find errors. Switches of limited size, those that reduce
    or send one arrival on several times, relays, messages that queue, and runs that are not planned yet are left to it.
    """
    replay = _Replay.of(module, clock)
    if replay is None:
        return False
    return all(replay.holds(block) for block in schedule.blocks()) and replay.is_delivered()


@dataclass(eq=False)
class _Replay:
    """A replay, and the time of the last transfer."""

    module: Module
    usable: BoolArray
    network: CopyNetwork
    state: CopyState
    now: int = 0

    @staticmethod
    def of(module: Module, clock: Clock) -> _Replay | None:
        """A replay in which nothing was sent yet; None if it does not apply."""
        network, table = module.network, module.demand.chunks
        bits = len(table) * max(network.device_count, 32 * network.switch_count)
        rings = clock.total.size
        if not len(table) or (table.op != Op.COPY).any() or bits > MOST_HELD or not 0 < rings <= MOST_RINGS:
            return None
        plain = not network.has_limited_buffers and not network.reduces.any() and not network.has_endpoints
        if not plain or module.planned is not None or int(clock.busy.min()) <= 0:
            return None
        if int(_slots(network, clock).sum()) > MOST_SLOTS:
            return None
        usable = (network.source != network.target) & network.present[network.source] & network.present[network.target]
        links = CopyNetwork(
            network.source,
            network.target,
            network.kind,
            clock.busy,
            clock.total,
            clock.size_of,
            network.npu_count,
        )
        return _Replay(module, usable, links, _first_state(module, network, clock))

    def holds(self, rows: Transfers) -> bool:
        """Whether the next transfers are right, after those before."""
        if not len(rows):
            return True
        if rows.relayed is not None or rows.messages is not None or bool(rows.reduce.any()) or rows.kept is not None:
            return False
        known = int(rows.chunk.min()) >= 0 and int(rows.chunk.max()) < len(self.network.size_of)
        known &= int(rows.link.min()) >= 0 and int(rows.link.max()) < len(self.usable)
        if not known or int(rows.start.max()) >= LATEST or not bool(self.usable[rows.link].all()):
            return False
        right = replay_copies(rows.chunk, rows.link, rows.start, self.now, self.network, self.state)
        self.now = int(rows.start[-1])
        return bool(right)

    def is_delivered(self) -> bool:
        """Whether all NPUs hold what they want when all has arrived."""
        arrive(self.state, self.network.npus, int(np.iinfo(np.int64).max))
        table = self.module.demand.chunks
        wanted = _bits(table.sets, self.state.held.shape[1])
        return all(
            bool(((self.state.held[chunks] & wanted[post]) == wanted[post]).all())
            for post, chunks in _by_set(table.post)
        )


def _first_state(module: Module, network: Network, clock: Clock) -> CopyState:
    table = module.demand.chunks
    held = np.zeros((len(table), -(-network.npu_count // 64)), np.uint64)
    given = _bits(table.sets, held.shape[1])
    for pre, chunks in _by_set(table.pre):
        held[chunks] = given[pre]
    slots = _slots(network, clock)
    begin = np.concatenate([[0], np.cumsum(slots)]).astype(np.int64)
    empty: Int32Array = np.zeros(int(begin[-1]), np.int32)
    return CopyState(
        held,
        np.zeros((len(table), max(1, network.switch_count)), np.int32),
        np.zeros(network.link_count, np.int64),
        np.zeros(len(slots), np.int64),
        np.zeros(len(slots), np.int64),
        begin,
        empty,
        empty.copy(),
        np.zeros(int(begin[-1]), np.int64),
    )


def _slots(network: Network, clock: Clock) -> Int64Array:
    """int64: the most transfers of each kind and size that are under way together, if links carry one at once."""
    links = np.bincount(network.kind, minlength=len(network.kinds))
    return np.maximum(1, (clock.total // clock.busy + 2) * links[:, None]).reshape(-1)


def _bits(sets: HolderSets, words: int) -> UInt64Array:
    """uint64[sets, words]: a bit for each NPU of each set."""
    row = np.repeat(np.arange(len(sets)), sets.sizes)
    found = np.zeros((len(sets), words * 64), np.uint8)
    found[row, sets.members] = 1
    return np.packbits(found, axis=1, bitorder="little").view(np.uint64)


def _by_set(column: Int32Array) -> list[tuple[int, Int64Array]]:
    """Each set that a column names, with its chunks."""
    order = np.argsort(column, kind="stable")
    sets, first = np.unique(column[order], return_index=True)
    return list(zip(sets.tolist(), np.split(order, first[1:]), strict=True))
