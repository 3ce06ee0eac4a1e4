"""Second stage of lowering: messages of neighbouring chunks on one path become one message with `cnt` > 1.

A window is a sequence of messages on one path that could all start with the first, and whose slots at the target no
step accesses before the last has arrived; so merging them costs no time.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass, field, replace

from collc.msccl.program import ARRIVES, LEAVES, LOCAL, Gpu, Message, Moment, Program, Slot, Step

_GpuSlot = tuple[int, Slot]
"""A slot of a GPU."""

_NEVER: Moment = (1 << 62, 0, 0, 0)


@dataclass(slots=True)
class _MessageMerger:
    """The program while it is merged.

    limit: most chunks of a message. sends, receives: the steps of each message. touched, written: by slot, the moments
    in order at which it is accessed, and written. renamed: new names of scratch slots. scratch: by rank, scratch slots
    used. messages, steps: the result.
    """

    program: Program
    limit: int
    sends: dict[int, Step]
    receives: dict[int, Step]
    touched: dict[_GpuSlot, list[Moment]]
    written: dict[_GpuSlot, list[Moment]]
    renamed: dict[_GpuSlot, Slot] = field(default_factory=dict[_GpuSlot, Slot])
    scratch: dict[int, int] = field(default_factory=lambda: defaultdict[int, int](int))
    messages: list[Message] = field(default_factory=list[Message])
    steps: list[list[Step]] = field(default_factory=list[list[Step]])

    def slot(self, rank: int, slot: Slot | None) -> Slot | None:
        """The new name of a slot."""
        return None if slot is None else self.renamed.get((rank, slot), slot)

    def follows(self, rank: int, one: Slot | None, other: Slot | None, count: int) -> bool:
        """Whether a slot comes right after `count` others under their new names; True if both are None."""
        if one is None or other is None:
            return one is other
        if "s" in (one.buffer, other.buffer) and not {(rank, one), (rank, other)} <= self.renamed.keys():
            return False
        before, after = self.renamed.get((rank, one), one), self.renamed.get((rank, other), other)
        return after == Slot(before.buffer, before.offset + count) and not self.begins_group(after)

    def begins_group(self, slot: Slot) -> bool:
        """Whether the parts of other instances lie between a slot and the one before it."""
        return (
            self.program.instances > 1
            and slot.buffer != "s"
            and slot.offset % self.program.collective.contiguous_chunks == 0
        )

    def delay(self, rank: int, receive: Step, until: Moment) -> None:
        """Record that slots are written later than before."""
        for slot in (self.program.memory_slot(rank, slot) for slot in receive.writes()):
            for moments in (self.written[rank, slot], self.touched[rank, slot]):
                moments.remove(receive.when)
                insort(moments, until)

    def next_write(self, rank: int, slot: Slot, after: Moment) -> Moment:
        """When a slot is next written after a moment."""
        return _next(self.written[rank, self.program.memory_slot(rank, slot)], after)

    def next_touch(self, rank: int, slot: Slot, after: Moment) -> Moment:
        """When a slot is next read or written after a moment."""
        return _next(self.touched[rank, self.program.memory_slot(rank, slot)], after)


def _next(moments: list[Moment], after: Moment) -> Moment:
    position = bisect_right(moments, after)
    return moments[position] if position < len(moments) else _NEVER


def merge(program: Program, limit: int) -> Program:
    """The program with messages merged, of at most `limit` chunks each."""
    if limit == 1:
        return program
    merger = _merger(program, limit)
    on_path: dict[tuple[int, int, tuple[int, ...]], list[int]] = {}
    for number, message in enumerate(program.messages):
        on_path.setdefault((message.source, message.target, message.path), []).append(number)
    position = {number: k for numbers in on_path.values() for k, number in enumerate(numbers)}
    done: set[int] = set()
    for number, message in enumerate(program.messages):
        if number in done:
            continue
        numbers = on_path[message.source, message.target, message.path]
        window, movable = _window(merger, numbers, position[number])
        done.update(window)
        _emit(merger, window, movable)
    gpus = tuple(_gpu(merger, gpu) for gpu in program.gpus)
    return replace(program, messages=tuple(merger.messages), gpus=gpus)


def _merger(program: Program, limit: int) -> _MessageMerger:
    merger = _MessageMerger(program, limit, {}, {}, defaultdict(list), defaultdict(list))
    for gpu in program.gpus:
        for step in gpu.steps:
            if step.send >= 0:
                merger.sends[step.send] = step
            if step.receive >= 0:
                merger.receives[step.receive] = step
            for slot in (*step.reads(), *step.writes()):
                merger.touched[gpu.rank, program.memory_slot(gpu.rank, slot)].append(step.when)
            for slot in step.writes():
                merger.written[gpu.rank, program.memory_slot(gpu.rank, slot)].append(step.when)
    merger.steps = [[] for _ in program.gpus]
    return merger


def _window(merger: _MessageMerger, numbers: list[int], first: int) -> tuple[list[int], bool]:
    """Messages from numbers[first] on that can all start with it, and whether they can be reordered.

    numbers: the messages on one path, in order of start.
    """
    messages = merger.program.messages
    window: list[int] = []
    movable = True
    untouched = steady = _NEVER
    begin: Moment = (messages[numbers[first]].start, LEAVES, numbers[first], 0)
    soonest: Moment = (messages[numbers[first]].arrival, ARRIVES, numbers[first], 0)
    count = 0
    for number in numbers[first : first + merger.limit]:
        message, receive = messages[number], merger.receives[number]
        count += message.count
        if window and count > merger.limit:
            break
        arrival: Moment = (message.arrival, ARRIVES, number, 0)
        leave: Moment = (message.start, LEAVES, number, 0)
        written = min(
            (merger.next_write(message.source, slot, begin) for slot in merger.sends[number].reads()), default=_NEVER
        )
        steady = min(steady, written)
        if receive.op is not merger.receives[numbers[first]].op or arrival > untouched or leave > written:
            break
        # A switch may forward messages in another order than they came: then their times cannot be exchanged.
        if window and arrival < (messages[window[-1]].arrival, ARRIVES, window[-1], 0):
            break
        movable = movable and leave <= steady
        for slot in {*receive.reads(), *receive.writes()}:
            movable = movable and merger.next_touch(message.target, slot, soonest) >= arrival
            untouched = min(untouched, merger.next_touch(message.target, slot, arrival))
        window.append(number)
    return window, movable


def _emit(merger: _MessageMerger, window: list[int], movable: bool) -> None:
    """Append the messages of a window to the result, those in neighbouring slots as one message."""
    ordered = window
    if movable:
        ordered = sorted(window, key=lambda n: (merger.slot(_source(merger, n), merger.sends[n].src), n))
    runs: list[list[int]] = []
    for number in ordered:
        if runs and _neighbours(merger, runs[-1][-1], number):
            runs[-1].append(number)
        else:
            runs.append([number])
    if len(runs) == len(window):
        runs = [[number] for number in window]
    taken = 0
    for run in runs:
        times = window[taken : taken + len(run)]
        taken += len(run)
        _emit_run(merger, run, times)


def _source(merger: _MessageMerger, number: int) -> int:
    return merger.program.messages[number].source


def _neighbours(merger: _MessageMerger, a: int, b: int) -> bool:
    """Whether message b can follow a in one step at both ends."""
    source, target = _source(merger, a), merger.program.messages[a].target
    one, other, count = merger.receives[a], merger.receives[b], merger.program.messages[a].count
    if _is_fresh(one) != _is_fresh(other) or not merger.follows(
        source, merger.sends[a].src, merger.sends[b].src, count
    ):
        return False
    apart = _is_fresh(one) or merger.follows(target, one.dst, other.dst, count)
    return apart and merger.follows(target, one.src, other.src, count)


def _is_fresh(receive: Step) -> bool:
    """Whether a step writes a scratch slot that holds nothing before."""
    return receive.dst is not None and receive.dst.buffer == "s" and receive.src != receive.dst


def _emit_run(merger: _MessageMerger, run: list[int], times: list[int]) -> None:
    """Append messages as one. times: the messages in order of time, from the first start to the last arrival."""
    messages = merger.program.messages
    number, head, tail = len(merger.messages), messages[times[0]], messages[times[-1]]
    source, target = head.source, head.target
    count = sum(messages[member].count for member in run)
    merger.messages.append(
        replace(messages[run[0]], count=count, start=head.start, leave=tail.leave, arrival=tail.arrival)
    )
    send, receive = merger.sends[run[0]], merger.receives[run[0]]
    for member in run:
        _rename(merger, target, merger.receives[member])
    merger.scratch[target] += 1
    leaves: Moment = (head.start, LEAVES, times[0], 0)
    arrives: Moment = (tail.arrival, ARRIVES, times[-1], 0)
    for member in run:
        merger.delay(target, merger.receives[member], arrives)
    # Written out, since `replace` takes several times as long and this runs once for each message.
    merger.steps[source].append(Step(send.op, leaves, count, send.src, send.dst, send.receive, number))
    merger.steps[target].append(Step(receive.op, arrives, count, receive.src, receive.dst, number, receive.send))


def _rename(merger: _MessageMerger, target: int, receive: Step) -> None:
    """Give a fresh scratch slot its new name. A gap separates blocks of neighbouring slots."""
    if receive.dst is not None and _is_fresh(receive):
        merger.renamed[target, receive.dst] = Slot("s", merger.scratch[target])
        merger.scratch[target] += receive.count


def _rename_slots(merger: _MessageMerger, rank: int, step: Step) -> Step:
    """A step with the new names of its slots."""
    src, dst = merger.slot(rank, step.src), merger.slot(rank, step.dst)
    return step if src == step.src and dst == step.dst else replace(step, src=src, dst=dst)


def _gpu(merger: _MessageMerger, gpu: Gpu) -> Gpu:
    local = [step for step in gpu.steps if step.op in LOCAL]
    moved = [_rename_slots(merger, gpu.rank, step) for step in (*merger.steps[gpu.rank], *local)]
    steps = sorted(moved, key=lambda step: step.when)
    return replace(gpu, scratch_chunks=merger.scratch[gpu.rank], steps=tuple(steps))
