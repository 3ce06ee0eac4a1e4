"""Races of a plan: accesses that nothing orders, within a launch and from one launch to the next.

The happens-before relation decides, not one execution: two accesses that it does not order can come in either order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import Final

from collc.msccl.check.collectives import MemoryLayout
from collc.msccl.check.findings import Finding, Findings
from collc.msccl.check_plan.events import History, SharedUse
from collc.msccl.check_plan.memory import address
from collc.msccl.check_plan.model import MAX_OP_BUFFERS, PACKETS, DataMove, Operation, Plan, SlotRange
from collc.msccl.check_plan.packets import find_reused_packets

PAIRS_IN_ONE_PASS: Final = 1024
"""Pairs of events that are examined in one pass over the events, one bit each."""

SCRATCH: Final = 2
"""The number of the only buffer that belongs to the runtime, not to a caller."""

_Access = tuple[int, Operation, bool]
"""An event that touches memory, its operation, and whether it writes."""


def find_races(plan: Plan, history: History, layout: MemoryLayout, findings: Findings) -> None:
    """Add all races to the findings: X0412 .. X0415."""
    for op, _ in history.done:
        _check_overlap(op, layout, findings)
    bounds = _piece_bounds(plan, history, layout)
    accesses = _find_unordered_accesses(history, layout, bounds, findings)
    _find_launch_races(plan, history, layout, bounds, accesses, findings)
    for shared_use in history.shared_uses:
        _find_contests(history, shared_use, findings)


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


def _piece_bounds(plan: Plan, history: History, layout: MemoryLayout) -> list[int]:
    """Positions at which accesses or scratch buffers begin or end; all chunks between two have the same accesses."""
    bounds = {
        int(layout.base[gpu, SCRATCH]) + k for gpu, chunks in enumerate(plan.chunks) for k in (0, chunks[SCRATCH])
    }
    for op, _ in history.done:
        for move in op.moves:
            for slots in (slots for slots in move.sources + move.targets if slots.buffer != PACKETS):
                bounds.update((address(layout, slots), address(layout, slots) + slots.size))
    return sorted(bounds)


def _find_unordered_accesses(
    history: History, layout: MemoryLayout, bounds: list[int], findings: Findings
) -> dict[int, list[_Access]]:
    """Report accesses of one piece of memory, one of them writing, that nothing orders (X0412).

    Returns all accesses of every piece; piece k begins at bounds[k].
    """
    pieces = {bound: piece for piece, bound in enumerate(bounds)}
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    accesses: dict[int, list[_Access]] = defaultdict(list)
    conflicts: set[tuple[int, int]] = set()
    events = [(event, op) for op, event in history.done if op.moves]
    for number, (event, op) in enumerate(events):
        read, written = _pieces_of(op, layout, pieces)
        for piece in read - written:
            accesses[piece].append((event, op, False))
            if piece in writer:
                conflicts.add((writer[piece], number))
            readers.setdefault(piece, []).append(number)
        for piece in written:
            accesses[piece].append((event, op, True))
            conflicts.update((earlier, number) for earlier in readers.pop(piece, []))
            if piece in writer:
                conflicts.add((writer[piece], number))
            writer[piece] = number
    pairs = sorted((a, b) for a, b in conflicts if a != b)
    for first, second in _unordered_pairs(history, [(events[a][0], events[b][0]) for a, b in pairs], pairs):
        op, other = events[first][1], events[second][1]
        text = f"nothing orders {op.name} and {other.name}, which touch the same chunk of memory, one writing"
        also = (("the other operation", other.location),)
        hint = "a nop between operations of one threadblock, a signal and a wait between gpus"
        findings.add(Finding("race", "X0412", text, op.location, "an order of the two", hint, also=also))
    return accesses


def _pieces_of(op: Operation, layout: MemoryLayout, pieces: dict[int, int]) -> tuple[set[int], set[int]]:
    """Pieces of the memory that an operation reads, and those that it changes."""

    def pieces_of(slots: SlotRange) -> range:
        if slots.buffer == PACKETS:
            return range(0)
        begin = address(layout, slots)
        return range(pieces[begin], pieces[begin + slots.size])

    moves = [move for move in op.moves if not _is_idle(move, layout)]
    read = {piece for move in op.moves for slots in move.sources for piece in pieces_of(slots)}
    return read, {piece for move in moves for slots in move.targets for piece in pieces_of(slots)}


def _find_launch_races(
    plan: Plan,
    history: History,
    layout: MemoryLayout,
    bounds: list[int],
    accesses: dict[int, list[_Access]],
    findings: Findings,
) -> None:
    """Report accesses of the memory of another gpu before its program begins, or after it ends (X0413, X0414)."""
    started = _reached_from(history, {event: 1 << gpu for gpu, event in enumerate(history.begins)}, packets=True)
    finished = _finished_after(history)
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
    find_reused_packets(plan, history.packets, history.ends, started, finished, findings)
    for gpu, chunks in enumerate(plan.chunks):
        begin = int(layout.base[gpu, SCRATCH])
        for piece in range(bisect_left(bounds, begin), bisect_left(bounds, begin + chunks[SCRATCH])):
            _find_reused_scratch(accesses.get(piece, []), started, finished, findings)


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


def _reached_from(history: History, marks: dict[int, int], *, packets: bool = False) -> list[int]:
    """For each event the marks, as bits, of itself and of all events before it. packets: and before those it read."""
    reached: list[int] = []
    for event, before in enumerate(history.before):
        mask = marks.get(event, 0)
        for earlier in before:
            mask |= reached[earlier]
        if packets:
            for earlier in history.carried.get(event, ()):
                mask |= reached[earlier]
        reached.append(mask)
    return reached


def _finished_after(history: History) -> list[int]:
    """For each event, the gpus whose programs end after it, as bits."""
    finished = [0] * len(history.before)
    for gpu, event in enumerate(history.ends):
        finished[event] = 1 << gpu
    for event in range(len(finished) - 1, -1, -1):
        for earlier in (*history.before[event], *history.carried.get(event, ())):
            finished[earlier] |= finished[event]
    return finished


def _find_contests(history: History, shared_use: SharedUse, findings: Findings) -> None:
    """Report uses of one channel or semaphore by several threadblocks in no order, if the order matters (X0415)."""
    uses = shared_use.uses
    pairs = [(k, k + 1) for k in range(len(uses) - 1) if uses[k][0].tb != uses[k + 1][0].tb]
    unordered = _unordered_pairs(history, [(uses[a][1], uses[b][1]) for a, b in pairs], pairs)
    if shared_use.kind == "acquire" and unordered:
        reached = _reached_from(history, {event: 1 for _, event in uses})
        if not any(reached[event] for event in shared_use.changing):
            return
    for a, b in unordered:
        op, other = uses[a][0], uses[b][0]
        what = "semaphore" if shared_use.kind == "acquire" else "channel"
        text = f"nothing says whether {op.name} or {other.name} of another threadblock comes first on one {what}"
        also = (("the other operation", other.location),)
        findings.add(Finding("race", "X0415", text, op.location, f"one threadblock a {what}, or an order", also=also))


def _unordered_pairs(
    history: History, pairs: list[tuple[int, int]], names: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The `names` of those pairs of events whose first event does not precede the second."""
    unordered: list[tuple[int, int]] = []
    for begin in range(0, len(pairs), PAIRS_IN_ONE_PASS):
        marks: dict[int, int] = defaultdict(int)
        for bit, (first, _) in enumerate(pairs[begin : begin + PAIRS_IN_ONE_PASS]):
            marks[first] |= 1 << bit
        reached = _reached_from(history, marks)
        for bit, (_, second) in enumerate(pairs[begin : begin + PAIRS_IN_ONE_PASS]):
            if not reached[second] >> bit & 1:
                unordered.append(names[begin + bit])
    return unordered
