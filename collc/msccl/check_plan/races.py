"""Races of a plan: accesses that nothing orders, within a launch and from one launch to the next.

The happens-before relation decides, not one execution: two accesses that it does not order can come in either order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from collc.msccl.check.findings import Finding, Findings
from collc.msccl.check.happens_before import EventOrder, conflicting_accesses
from collc.msccl.check_plan.events import History, SharedUse
from collc.msccl.check_plan.memory import address
from collc.msccl.check_plan.model import MAX_OP_BUFFERS, PACKETS, SCRATCH, DataMove, Operation, Plan, SlotRange
from collc.runtime.collectives import MemoryLayout

_Access = tuple[int, Operation, bool]
"""An event that touches memory, its operation, and whether it writes."""


def find_races(plan: Plan, history: History, layout: MemoryLayout, findings: Findings) -> None:
    """Add all races to the findings: X0412 .. X0415."""
    for op, _ in history.done:
        _check_overlap(op, layout, findings)
    order = EventOrder.of(history.before)
    accesses, sizes = _accesses_of_pieces(plan, history, layout)
    ordered = _reads_before_writes(history, layout)
    _find_unordered_accesses(order, accesses, sizes, ordered, findings)
    _find_launch_races(plan, history, layout, accesses, findings)
    for shared_use in history.shared_uses:
        _find_contests(order, shared_use, findings)


def _check_overlap(op: Operation, layout: MemoryLayout, findings: Findings) -> None:
    """Report (X0412) an operation that writes chunks which it also touches otherwise: its threads work at once.

    Moves of the same sources may write the same chunks, and a move may write exactly the chunks that it reads.
    """
    if sum(len(move.sources) + len(move.targets) for move in op.moves) > 2 * MAX_OP_BUFFERS:
        return
    moves = [move for move in op.moves if not _is_idle(move, layout)]

    def overlaps(target: SlotRange, other: SlotRange, *, may_be_equal: bool) -> bool:
        distance = abs(address(layout, target) - address(layout, other))
        return distance < target.size and not (may_be_equal and distance == 0)

    if any(
        any(overlaps(target, other, may_be_equal=move.sources == second.sources) for other in second.targets)
        or any(overlaps(target, other, may_be_equal=move is second) for other in second.sources)
        for move in moves
        for target in move.targets
        for second in moves
    ):
        text = f"{op.name} writes chunks that it also touches otherwise, and its threads work at once"
        hint = "scratch, or several operations with a nop between them"
        findings.add(Finding("race", "X0412", text, op.location, "no overlap within an operation", hint))


def _is_idle(move: DataMove, layout: MemoryLayout) -> bool:
    """Whether a move copies chunks onto themselves."""
    first = address(layout, move.sources[0])
    return len(move.sources) == 1 and all(address(layout, target) == first for target in move.targets)


def _accesses_of_pieces(
    plan: Plan, history: History, layout: MemoryLayout
) -> tuple[dict[int, list[_Access]], dict[int, int]]:
    """The accesses of each piece of the memory in order of events, and its size, by where the piece begins.

    All chunks of a piece have the same accesses: it lies between two positions at which accesses or scratch buffers
    begin or end. Packets are no part of the memory.
    """

    def ends_of(slots: SlotRange) -> tuple[int, int]:
        begin = address(layout, slots)
        return begin, begin + slots.size

    bounds = {
        int(layout.base[gpu, SCRATCH]) + k for gpu, chunks in enumerate(plan.chunks) for k in (0, chunks[SCRATCH])
    }
    for op, _ in history.done:
        for slots in (slots for move in op.moves for slots in move.sources + move.targets if slots.buffer != PACKETS):
            bounds.update(ends_of(slots))
    pieces = sorted(bounds)

    def pieces_of(ranges: Iterable[SlotRange]) -> set[int]:
        plain = (ends_of(slots) for slots in ranges if slots.buffer != PACKETS)
        return {
            piece for begin, end in plain for piece in pieces[bisect_left(pieces, begin) : bisect_left(pieces, end)]
        }

    accesses: dict[int, list[_Access]] = defaultdict(list)
    for op, event in sorted(history.done, key=lambda pair: pair[1]):
        read = pieces_of(slots for move in op.moves for slots in move.sources)
        written = pieces_of(slots for move in op.moves if not _is_idle(move, layout) for slots in move.targets)
        for piece in read | written:
            accesses[piece].append((event, op, piece in written))
    return accesses, {piece: end - piece for piece, end in pairwise(pieces)}


def _reads_before_writes(history: History, layout: MemoryLayout) -> set[tuple[int, int, int]]:
    """(event of the read, event of the write, position) of chunks that are read before they are overwritten, since the
    data that overwrites them was made of packets that carry what was read, element by element.

    An operation with several moves reads a chunk once for each, and one after the other: all these packets must be in
    the data.
    """
    found: set[tuple[int, int, int]] = set()
    carried: dict[tuple[int, int], frozenset[tuple[int, int, int]]] = {}
    times = Counter[tuple[int, int]]()
    for op, event in history.done:
        for number, move in enumerate(op.moves if op.packets_read or op.packets_written else ()):
            for k in range(move.sources[0].size):
                reads = frozenset[tuple[int, int, int]]()
                for slots in move.sources:
                    if slots.buffer == PACKETS:
                        reads |= carried.get((slots.gpu, slots.index + k), frozenset())
                        continue
                    position = address(layout, slots) + k
                    times[event, position] += 1
                    reads |= {(event, position, number)}
                for slots in move.targets:
                    if slots.buffer == PACKETS:
                        carried[slots.gpu, slots.index + k] = reads
                        continue
                    written = address(layout, slots) + k
                    seen = Counter(before for before, position, _ in reads if position == written)
                    found.update(
                        (before, event, written) for before, count in seen.items() if count == times[before, written]
                    )
    return found


def _find_unordered_accesses(
    order: EventOrder,
    accesses: dict[int, list[_Access]],
    sizes: dict[int, int],
    ordered: set[tuple[int, int, int]],
    findings: Findings,
) -> None:
    """Report accesses of one piece of memory, one of them writing, that nothing orders (X0412).

    accesses, sizes: as from `_accesses_of_pieces`. ordered: as from `_reads_before_writes`.
    """
    rows = [(piece, event, op, write) for piece, uses in sorted(accesses.items()) for event, op, write in uses]
    slots, writes = np.array([row[0] for row in rows], np.int64), np.array([row[3] for row in rows], np.bool_)
    conflicts: list[list[int]] = conflicting_accesses(slots, writes).T.tolist()
    ops = {event: op for _, event, op, _ in rows}

    def by_data(first: int, second: int) -> bool:
        """Whether each chunk of a piece is read before it is written, since data says so."""
        piece, event, _, writes = rows[first]
        if writes or not ordered:
            return False
        other = rows[second][1]
        return all((event, other, position) in ordered for position in range(piece, piece + sizes[piece]))

    pairs = sorted({(rows[a][1], rows[b][1]) for a, b in conflicts if not by_data(a, b)})
    for number in order.unordered_pairs(pairs):
        op, other = (ops[event] for event in pairs[number])
        text = f"nothing orders {op.name} and {other.name}, which touch the same chunk of memory, one writing"
        also = (("the other operation", other.location),)
        hint = "a nop between operations of one threadblock, a signal and a wait between gpus"
        findings.add(Finding("race", "X0412", text, op.location, "an order of the two", hint, also=also))


def _find_launch_races(
    plan: Plan,
    history: History,
    layout: MemoryLayout,
    accesses: dict[int, list[_Access]],
    findings: Findings,
) -> None:
    """Report accesses of the memory of another gpu before its program begins, or after it ends (X0413, X0414)."""
    carried = EventOrder.of([*before, *history.carried.get(event, ())] for event, before in enumerate(history.before))
    started = carried.marks_before({event: 1 << gpu for gpu, event in enumerate(history.begins)})
    finished = carried.marks_after({event: 1 << gpu for gpu, event in enumerate(history.ends)})
    for op, event in history.done:
        others = {s.gpu for move in op.moves for s in move.sources + move.targets if s.buffer < SCRATCH}
        if op.via == "port" and op.location.gpu in others and not finished[event] >> op.location.gpu & 1:
            text = f"{op.name} may still read the buffers of its own gpu when that gpu's program is over"
            hint = "a flush"
            findings.add(Finding("race", "X0413", text, op.location, "the port drained before the end", hint))
        for gpu in sorted(others - {op.location.gpu}):
            if not finished[event] >> gpu & 1:
                text = f"{op.name} may still touch the buffers of gpu {gpu} when that gpu's program is over"
                hint = "a nop and a signal after it, and a wait at the other end"
                findings.add(Finding("race", "X0413", text, op.location, "an order of the two", hint))
            if not started[event] >> gpu & 1:
                text = f"{op.name} may touch the buffers of gpu {gpu} before that gpu's program has begun"
                rule = "a credit: a signal of the owner, awaited before"
                findings.add(Finding("race", "X0414", text, op.location, rule))
    _find_reused_packets(plan, history, started, finished, findings)
    pieces = sorted(accesses)
    for gpu, chunks in enumerate(plan.chunks):
        begin = int(layout.base[gpu, SCRATCH])
        for piece in pieces[bisect_left(pieces, begin) : bisect_left(pieces, begin + chunks[SCRATCH])]:
            _find_reused_scratch(accesses[piece], started, finished, findings)


def _find_reused_scratch(accesses: list[_Access], started: list[int], finished: list[int], findings: Findings) -> None:
    """Report (X0414) scratch whose first accesses in a launch may meet the last ones of the launch before."""
    last = {(finished[event], writes): op for event, op, writes in accesses}
    for event, op, writes in accesses:
        for (over, wrote), before in last.items():
            if (writes or wrote) and not started[event] & over:
                text = f"{op.name} may touch scratch memory that {before.name} of the run before still needs"
                also = (("the operation of the run before", before.location),)
                expected = "a credit: a signal after the one, awaited before the other"
                findings.add(Finding("race", "X0414", text, op.location, expected, also=also))
                return


def _find_reused_packets(
    plan: Plan, history: History, started: list[int], finished: list[int], findings: Findings
) -> None:
    """Report packets that a later launch may overwrite before they were read (X0414).

    started: for each event, the gpus whose programs have begun before, as bits; finished: those that end after it.
    """
    for packet, (event, op) in history.written.items():
        begun = started[event] | (started[history.ends[op.location.gpu]] if plan.doubled else 0)
        for then, reader in history.read[packet]:
            if not finished[then] & begun:
                name = f"packet {packet[1]} of gpu {packet[0]}"
                text = f"{op.name} may overwrite {name}, which {reader.name} of an earlier run still needs"
                also = (("the operation that reads it", reader.location),)
                rule = "data or a signal of that gpu in each run" + ("" if plan.doubled else ", or two scratch buffers")
                findings.add(Finding("race", "X0414", text, op.location, rule, also=also))
                break


def _find_contests(order: EventOrder, shared_use: SharedUse, findings: Findings) -> None:
    """Report uses of one channel or semaphore by several threadblocks in no order, if the order matters (X0415)."""
    uses = shared_use.uses
    pairs = [(k, k + 1) for k in range(len(uses) - 1) if uses[k][0].tb != uses[k + 1][0].tb]
    unordered = order.unordered_pairs([(uses[a][1], uses[b][1]) for a, b in pairs])
    if shared_use.kind == "acquire" and unordered:
        reached = order.marks_before({event: 1 for _, event in uses})
        if not any(reached[event] for event in shared_use.changing):
            return
    for a, b in (pairs[number] for number in unordered):
        op, other = uses[a][0], uses[b][0]
        what = "semaphore" if shared_use.kind == "acquire" else "channel"
        text = f"nothing says whether {op.name} or {other.name} of another threadblock comes first on one {what}"
        also = (("the other operation", other.location),)
        findings.add(Finding("race", "X0415", text, op.location, f"one threadblock a {what}, or an order", also=also))
