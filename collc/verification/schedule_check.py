"""`verify`: whether a schedule meets its demand, on its network, under its link model (docs/verification.md).

A factored schedule is proved from its representatives, and a joined one from its parts; if that fails, the transfers
are checked as any others are.
Small schedules are replayed exactly, chunk by chunk. In large ones a compiled replay first finds the chunks that are
right if switches pass on what arrives, the oldest first; the exact check replays the others. Large schedules of nothing
but copies are replayed first in order of time, in blocks (`copy_replay.py`): All-Gather of 8,192 GPUs, 134 million
transfers, in 0.5 GB.

Capacities are checked for all transfers together: a link carries one transfer at a time, an NPU with a rate sends, and
receives, one at a time, and a buffer never holds more chunks than it has slots.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from collc.base.units import decimal, format_time
from collc.kernels.compiled import BATCH, MOST_PLAIN, STEP_TIME
from collc.ten.arrays import Int32Array, Int64Array, UInt8Array
from collc.ten.bundled_schedule import FactoredBundles
from collc.ten.factored_schedule import FactoredSchedule
from collc.ten.joined_schedule import JoinedSchedule
from collc.ten.limited import Ports, overlaps
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.repaired_schedule import RepairedSchedule
from collc.ten.schedule import Clock, Schedule, Transfers
from collc.verification.bundles_check import bundles_are_right
from collc.verification.chunk_check import ChunkCheck
from collc.verification.factored_check import representatives_of
from collc.verification.joined_check import is_joined_right
from collc.verification.repaired_check import is_repaired_right
from collc.verification.trees import trees_are_right
from collc.verification.valid_transfers import clock_of, valid_transfers
from collc.verification.verdict import MOST_KEPT, Findings, Verdict, at, uniform_verdict


def check_links(transfers: Transfers, clock: Clock, findings: Findings, compiled: bool) -> None:
    """Report transfers that start while the one before them still occupies the link, MOST_KEPT of them at most."""
    if compiled:
        from collc.kernels.schedule_check import overlaps as first_overlaps

        links = len(clock.kind)
        columns = (transfers.chunk, transfers.link, transfers.start)
        count, earlier, later = first_overlaps(*columns, clock.busy, clock.size_of, clock.kind, links, MOST_KEPT)
        pairs = list(zip(earlier[:count].tolist(), later[:count].tolist(), strict=True))
    else:
        pairs = _overlapping_pairs(transfers.link, transfers.start, clock.busy_of(transfers))
    for first, second in pairs[:MOST_KEPT]:
        until = int(transfers.start[first]) + int(clock.busy_of(transfers.select(np.array([first])))[0])
        start = int(transfers.start[second])
        message = (
            f"{findings.link(int(transfers.link[second]))} is given {findings.chunk(int(transfers.chunk[second]))} "
            f"at {at(start)}, but carries {findings.chunk(int(transfers.chunk[first]))} until {at(until)}"
        )
        findings.add("congestion_free", "V0201", start, message, "one chunk at a time on a link")


def _overlapping_pairs(user: Int32Array, begin: Int64Array, taken: Int64Array) -> list[tuple[int, int]]:
    """The rows of `overlaps`, by the later one."""
    earlier, later = overlaps(user, begin, taken)
    return sorted(zip(earlier.tolist(), later.tolist(), strict=True), key=lambda pair: pair[1])


def check_endpoints(transfers: Transfers, clock: Clock, findings: Findings) -> None:
    """Report transfers that an NPU cannot send, or receive, beside the one before, MOST_KEPT of each at most.

    A transfer occupies the injection of its source from its start on, or if messages queue from when it is injected,
    after which it may wait for its link; and the ejection of its target until its end. Either has an overhead.
    """
    network = findings.network
    ports = Ports.of(network)
    time = ports.occupancy(findings.demand.chunks.size)
    total = clock.total_of(transfers)
    leaving, coming = ports.out[network.source[transfers.link]], ports.into[network.target[transfers.link]]
    taken = time[coming, transfers.chunk]
    sent = time[leaving, transfers.chunk]
    queued = transfers.messages
    injected = transfers.start if queued is None else np.where(queued.number >= 0, queued.injected, transfers.start)
    _check_ports(ports, transfers, leaving, injected, sent, findings)
    _check_ports(ports, transfers, coming, transfers.start + total - taken, taken, findings)


def _check_ports(
    ports: Ports, transfers: Transfers, port: Int32Array, begin: Int64Array, taken: Int64Array, findings: Findings
) -> None:
    """port: int32[transfers], -1 for none. begin, taken: int64, when and for how long each occupies it."""
    for first, second in _overlapping_pairs(port, begin, taken)[:MOST_KEPT]:
        number = int(port[second])
        does = "sends" if ports.sends[number] else "receives"
        message = (
            f"{findings.device(ports.devices[number])} {does} {_description(transfers, second, findings)} from "
            f"{at(int(begin[second]))}, but {does} {_description(transfers, first, findings)} until "
            f"{at(int(begin[first] + taken[first]))}"
        )
        rate, overhead = ports.rates[number], ports.overheads[number]
        taken_by = [f"the {decimal(rate / 10**9, 3)}GB/s"] if rate is not None else []
        taken_by += [f"the overhead of {format_time(overhead)}"] if overhead else []
        expected = (
            f"one transfer after another, at {' and '.join(taken_by)} that "
            f"{ports.name(findings.network, number)} allows"
        )
        findings.add("endpoints", "V0202", int(begin[second]), message, expected)


def _description(transfers: Transfers, row: int, findings: Findings) -> str:
    return f"{findings.chunk(int(transfers.chunk[row]))} over {findings.link(int(transfers.link[row]))}"


def check_buffers(network: Network, intervals: Int64Array, findings: Findings) -> None:
    """Report arrivals that overfill a buffer, 100 of each switch at most.

    intervals: int64[slots, 4]: switch, from and until (excluded) in picoseconds, chunk.
    """
    if not len(intervals):
        return
    limits = network.buffers[intervals[:, 0] - network.npu_count]
    intervals = intervals[limits >= 0]
    for switch in np.unique(intervals[:, 0]).tolist():
        limit = int(network.buffers[switch - network.npu_count])
        here = intervals[intervals[:, 0] == switch]
        # A slot that becomes free at a time can be filled at that time: ends sort before beginnings.
        time = np.concatenate([here[:, 1], here[:, 2]])
        change = np.repeat(np.array([1, -1], np.int64), len(here))
        order = np.lexsort((change, time))
        held = np.cumsum(change[order])
        over = (held > limit) & (change[order] > 0)
        for event in np.flatnonzero(over)[:100].tolist():
            row = int(order[event])
            message = (
                f"{findings.chunk(int(here[row, 3]))} reaches {findings.device(switch)} at {at(int(time[row]))}, "
                f"the buffer of which then holds {int(held[event])} chunks"
            )
            findings.add("switches", "V0502", int(time[row]), message, f"{limit} at most")


LARGE = MOST_PLAIN // STEP_TIME
"""The number of transfers or chunks from which compiled loops are faster."""
MOST_STATES = 1 << 29
"""Representatives' chunks x devices up to which they are replayed."""


def verify_schedule(module: Module, large: int = LARGE) -> Verdict:
    """Check a module's schedule: causality, congestion_free, delivered, reductions, switches, and endpoints if limited.

    Schedules of at least `large` transfers or chunks are checked by compiled loops, with the same outcomes.
    """
    schedule = module.schedule
    if schedule is None:
        return uniform_verdict(module.network, "skipped")
    limited = module.network.has_endpoints and len(Ports.of(module.network)) > 0
    if not limited and is_proved(module, schedule):
        return uniform_verdict(module.network, "ok")
    findings = Findings(module.network, module.demand)
    clock = clock_of(module, schedule, findings)
    if clock is None:
        return findings.verdict(reached=False)
    if len(schedule) >= large:
        from collc.verification.copy_replay import copies_are_right

        if copies_are_right(module, schedule, clock):
            return uniform_verdict(module.network, "ok")
    transfers = valid_transfers(module, schedule.transfers, clock, findings)
    compiled = max(len(transfers), len(module.demand.chunks)) >= large
    check_links(transfers, clock, findings, compiled)
    messages = transfers.messages
    if limited:
        check_endpoints(transfers, clock, findings)
    _check_chunks(module, transfers, clock, findings, compiled)
    queued = messages is not None and bool((messages.ready < transfers.start)[messages.number >= 0].any())
    return findings.verdict(queued)


def is_proved(module: Module, schedule: Schedule) -> bool:
    """Whether a schedule is right because the chunks of its representatives are, or the parts that it is joined of."""
    if isinstance(schedule, JoinedSchedule):
        return is_joined_right(module, schedule, _is_right)
    if isinstance(schedule, RepairedSchedule):
        return is_repaired_right(module, schedule)
    if isinstance(schedule, FactoredBundles):
        return bundles_are_right(module, schedule)
    representatives = representatives_of(module, schedule) if isinstance(schedule, FactoredSchedule) else None
    if representatives is None:
        return False
    if trees_are_right(representatives):
        return True
    # A replay keeps what each device has of each chunk, and of each contribution to it.
    table = representatives.demand.chunks
    states = max(len(table), len(table.sets)) * module.network.device_count
    return states <= MOST_STATES and verify_schedule(representatives).ok


def _is_right(part: Module) -> bool:
    """Whether a part of a schedule is right, and none of its messages queue."""
    return set(verify_schedule(part).checks.values()) == {"ok"}


def _check_chunks(module: Module, transfers: Transfers, clock: Clock, findings: Findings, compiled: bool) -> None:
    check = ChunkCheck(module, transfers, clock, findings)
    chunks = len(module.demand.chunks)
    if compiled:
        offsets, order, doubtful, slots = _screen_chunks(module, transfers, clock)
    else:
        offsets = np.zeros(chunks + 1, np.int64)
        np.cumsum(np.bincount(transfers.chunk, minlength=chunks), out=offsets[1:])
        order = np.argsort(transfers.chunk, kind="stable").astype(np.int32)
        doubtful, slots = np.arange(chunks), np.empty((0, 4), np.int64)
    for count, chunk in enumerate(doubtful.tolist()):
        if count >= MOST_KEPT and findings.has_offenders:
            break
        check.check(chunk, order[offsets[chunk] : offsets[chunk + 1]].astype(np.intp))
    found = np.array(check.intervals, np.int64).reshape(-1, 4)
    check_buffers(module.network, np.concatenate([slots, found]), findings)


def _pieces(offsets: Int64Array) -> list[tuple[int, int]]:
    """Ranges of chunks that have about BATCH transfers together. offsets: int64[chunks + 1]."""
    ends = np.flatnonzero(np.diff(offsets[1:] // BATCH)) + 1
    cuts = [0, *ends.tolist(), len(offsets) - 1]
    return [(low, high) for low, high in pairwise(cuts) if low < high]


def _screen_chunks(
    module: Module, transfers: Transfers, clock: Clock
) -> tuple[Int64Array, Int32Array, NDArray[np.intp], Int64Array]:
    """Rows by chunk (offsets, order), the chunks that need the exact check, and the buffer slots of the others.

    The slots are int64[slots, 4]: switch, from, until, chunk; none if no buffer is limited.
    """
    from collc.kernels.schedule_check import Rows, by_chunk, screen

    network, table = module.network, module.demand.chunks
    offsets, order = by_chunk(transfers.chunk, len(table))
    filled = np.full(len(transfers) if network.has_limited_buffers else 0, -1, np.int64)
    passes = np.zeros(network.device_count, np.bool_)
    passes[network.npu_count :] = (network.buffers < 0) & ~network.reduces
    links = network.source, network.target, clock.kind, network.npu_count
    reduce = np.require(transfers.reduce, requirements="W")  # for arrays that are read-only, Numba compiles once more
    rows = Rows(transfers.link, transfers.start, reduce, *links, passes, filled)
    chunks = clock.size_of, table.op, table.pre, table.post, table.sets.offsets, table.sets.members
    flags: UInt8Array = np.zeros(len(table), np.uint8)
    for low, high in _pieces(offsets):
        flags[low:high] = screen(low, high, offsets, order, rows, clock.total, *chunks)
    flags[transfers.chunk[(transfers.relays >= 0) | transfers.keeps]] = 1
    if transfers.messages is not None:
        flags[transfers.chunk[transfers.messages.number >= 0]] = 1
    leaving = np.flatnonzero(filled >= 0)
    leaving = leaving[flags[transfers.chunk[leaving]] == 0]
    rows_out = transfers.select(leaving)
    until = rows_out.start + clock.busy_of(rows_out)
    slots = np.stack([network.source[rows_out.link], filled[leaving], until, rows_out.chunk], axis=1).astype(np.int64)
    return offsets, order, np.flatnonzero(flags), slots
