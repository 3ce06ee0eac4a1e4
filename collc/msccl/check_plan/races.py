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
from collc.msccl.check_plan.model import MAX_OP_BUFFERS, PACKETS, DataMove, Operation, Plan
from collc.msccl.check_plan.packets import find_reused

BLOCK: Final = 1024
"""Pairs of events that are examined in one pass over the events, one bit each."""

SCRATCH: Final = 2
"""The number of the only buffer that belongs to the runtime, not to a caller."""

_Access = tuple[int, Operation, bool]
"""An event that touches memory, its operation, and whether it writes."""


def find_races(plan: Plan, history: History, layout: MemoryLayout, findings: Findings) -> None:
    """Add all races to the findings: X0412 .. X0415."""
    for op, _ in history.done:
        _inside(op, layout, findings)
    cuts = _cuts(plan, history, layout)
    touched = _within(history, layout, cuts, findings)
    _between(plan, history, layout, cuts, touched, findings)
    for contest in history.shared_uses:
        _contested(history, contest, findings)


def _inside(op: Operation, layout: MemoryLayout, findings: Findings) -> None:
    """The moves of one operation, which its threads execute at once: none may write what another one touches."""
    if sum(len(move.sources) + len(move.targets) for move in op.moves) > 2 * MAX_OP_BUFFERS:
        return None
    moves = [move for move in op.moves if not _idle(move, layout)]
    for number, move in enumerate(moves):
        for target in move.targets:
            start = address(layout, target)
            for other in moves[: number + 1]:
                same = other is move or other.sources == move.sources
                if any(_meet(start, address(layout, slots), target.size, same=same) for slots in other.targets):
                    return _crossing(op, findings)
            for other in moves:
                if any(
                    _meet(start, address(layout, slots), target.size, same=other is move) for slots in other.sources
                ):
                    return _crossing(op, findings)
    return None


def _meet(one: int, other: int, size: int, *, same: bool) -> bool:
    """Whether two ranges of a size overlap; with `same`, equal ranges do not count."""
    return abs(one - other) < size and not (same and one == other)


def _crossing(op: Operation, findings: Findings) -> None:
    text = f"{op.name} writes chunks that it also touches otherwise, and its threads work at once"
    hint = "scratch, or several operations with a nop between them"
    findings.add(Finding("race", "X0412", text, op.location, "no overlap within an operation", hint))


def _idle(move: DataMove, layout: MemoryLayout) -> bool:
    """Whether a move copies chunks onto themselves."""
    first = address(layout, move.sources[0])
    return len(move.sources) == 1 and all(address(layout, target) == first for target in move.targets)


def _cuts(plan: Plan, history: History, layout: MemoryLayout) -> list[int]:
    """Positions where accesses or scratch buffers begin or end:

    all chunks between two of them have the same accesses.
    """
    found = {int(layout.base[gpu, SCRATCH]) + k for gpu, chunks in enumerate(plan.chunks) for k in (0, chunks[SCRATCH])}
    for op, _ in history.done:
        for move in op.moves:
            for slots in (slots for slots in move.sources + move.targets if slots.buffer != PACKETS):
                found.update((address(layout, slots), address(layout, slots) + slots.size))
    return sorted(found)


def _within(history: History, layout: MemoryLayout, cuts: list[int], findings: Findings) -> dict[int, list[_Access]]:
    """Report accesses of one piece of memory, one of them writing, that nothing orders (X0412).

    Returns all accesses of every piece; piece k begins at cuts[k].
    """
    pieces = {cut: piece for piece, cut in enumerate(cuts)}
    written: dict[int, int] = {}
    read: dict[int, list[int]] = {}
    touched: dict[int, list[_Access]] = defaultdict(list)
    asked: set[tuple[int, int]] = set()
    events = [(event, op) for op, event in history.done if op.moves]
    for number, (event, op) in enumerate(events):
        sources, targets = _touched(op, layout, pieces)
        for slot in sources - targets:
            touched[slot].append((event, op, False))
            if slot in written:
                asked.add((written[slot], number))
            read.setdefault(slot, []).append(number)
        for slot in targets:
            touched[slot].append((event, op, True))
            asked.update((earlier, number) for earlier in read.pop(slot, []))
            if slot in written:
                asked.add((written[slot], number))
            written[slot] = number
    pairs = sorted((a, b) for a, b in asked if a != b)
    for first, second in _unordered(history, [(events[a][0], events[b][0]) for a, b in pairs], pairs):
        one, other = events[first][1], events[second][1]
        text = f"nothing orders {one.name} and {other.name}, which touch the same chunk of memory, one writing"
        also = (("the other operation", other.location),)
        hint = "a nop between operations of one threadblock, a signal and a wait between gpus"
        findings.add(Finding("race", "X0412", text, one.location, "an order of the two", hint, also=also))
    return touched


def _touched(op: Operation, layout: MemoryLayout, pieces: dict[int, int]) -> tuple[set[int], set[int]]:
    """Pieces of the memory that an operation reads, and those that it changes."""
    sources, targets = set[int](), set[int]()
    for move in op.moves:
        for slots in (slots for slots in move.sources if slots.buffer != PACKETS):
            sources.update(range(pieces[address(layout, slots)], pieces[address(layout, slots) + slots.size]))
        written = () if _idle(move, layout) else move.targets
        for slots in (slots for slots in written if slots.buffer != PACKETS):
            targets.update(range(pieces[address(layout, slots)], pieces[address(layout, slots) + slots.size]))
    return sources, targets


def _between(
    plan: Plan,
    history: History,
    layout: MemoryLayout,
    cuts: list[int],
    touched: dict[int, list[_Access]],
    findings: Findings,
) -> None:
    """Report accesses of the memory of another gpu before its program begins, or after it ends (X0413, X0414)."""
    started, finished = _started(history), _finished(history)
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
                findings.add(
                    Finding("race", "X0414", text, op.location, "a credit: a signal of the owner, awaited before")
                )
    find_reused(plan, history.packets, history.ends, started, finished, findings)
    for gpu, chunks in enumerate(plan.chunks):
        begin = int(layout.base[gpu, SCRATCH])
        for piece in range(bisect_left(cuts, begin), bisect_left(cuts, begin + chunks[SCRATCH])):
            if piece in touched:
                _reused(touched[piece], started, finished, findings)


def _reused(accesses: list[_Access], started: list[int], finished: list[int], findings: Findings) -> None:
    """Report a piece of scratch whose first accesses in a launch may meet the last ones of the launch before
    (X0414).
    """
    last = {(finished[event], writes): op for event, op, writes in accesses}
    for event, op, writes in accesses:
        for (over, wrote), before in last.items():
            if (writes or wrote) and not started[event] & over:
                text = f"{op.name} may touch scratch memory that {before.name} of the run before still needs"
                also = (("the operation of the run before", before.location),)
                expected = "a credit: a signal after the one, awaited before the other"
                findings.add(Finding("race", "X0414", text, op.location, expected, also=also))
                return


def _started(history: History) -> list[int]:
    """For each event, the gpus whose programs have begun before it, as bits."""
    found = [0] * len(history.before)
    for gpu, event in enumerate(history.begins):
        found[event] = 1 << gpu
    for event, before in enumerate(history.before):
        for earlier in (*before, *history.carried.get(event, ())):
            found[event] |= found[earlier]
    return found


def _finished(history: History) -> list[int]:
    """For each event, the gpus whose programs end after it, as bits."""
    found = [0] * len(history.before)
    for gpu, event in enumerate(history.ends):
        found[event] = 1 << gpu
    for event in range(len(found) - 1, -1, -1):
        for earlier in (*history.before[event], *history.carried.get(event, ())):
            found[earlier] |= found[event]
    return found


def _contested(history: History, contest: SharedUse, findings: Findings) -> None:
    """Report uses of one channel or semaphore by several threadblocks in no order, if the order matters (X0415)."""
    uses = contest.uses
    pairs = [(k, k + 1) for k in range(len(uses) - 1) if uses[k][0].tb != uses[k + 1][0].tb]
    loose = _unordered(history, [(uses[a][1], uses[b][1]) for a, b in pairs], pairs)
    if contest.kind == "acquire" and loose and not _leads(history, {event for _, event in uses}, contest.changing):
        return
    for a, b in loose:
        one, other = uses[a][0], uses[b][0]
        what = "semaphore" if contest.kind == "acquire" else "channel"
        text = f"nothing says whether {one.name} or {other.name} of another threadblock comes first on one {what}"
        also = (("the other operation", other.location),)
        findings.add(Finding("race", "X0415", text, one.location, f"one threadblock a {what}, or an order", also=also))


def _leads(history: History, first: set[int], then: list[int]) -> bool:
    """Whether any of the events `first` precedes or is one of the events `then`."""
    reached: list[bool] = []
    for event, before in enumerate(history.before):
        reached.append(event in first or any(reached[earlier] for earlier in before))
    return any(reached[event] for event in then)


def _unordered(history: History, asked: list[tuple[int, int]], names: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The `names` of those pairs of events in `asked` whose first event does not precede the second."""
    loose: list[tuple[int, int]] = []
    for begin in range(0, len(asked), BLOCK):
        block = asked[begin : begin + BLOCK]
        starts: dict[int, int] = {}
        for bit, (first, _) in enumerate(block):
            starts[first] = starts.get(first, 0) | 1 << bit
        reached: list[int] = []
        for event, before in enumerate(history.before):
            mask = starts.get(event, 0)
            for earlier in before:
                mask |= reached[earlier]
            reached.append(mask)
        for bit, (_, second) in enumerate(block):
            if not reached[second] >> bit & 1:
                loose.append(names[begin + bit])
    return loose
