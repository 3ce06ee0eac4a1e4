"""Second stage of lowering: messages of neighbouring chunks on one path become one message with `cnt` > 1.

A window is a sequence of messages on one path that could all start with the first, and whose slots at the target no
step accesses before the last has arrived; so merging them costs no time.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass, field, replace

from collc.msccl.program import LOCAL, Gpu, Message, Moment, Program, Slot, Step

_GpuSlot = tuple[int, Slot]
"""A slot of a GPU."""

_NEVER: Moment = (1 << 62, 0, 0, 0)


@dataclass(slots=True)
class _Memory:
    """The memory of a slot, which input and output may share: the moments in order at which it is accessed, and
    written.
    """

    touched: list[Moment] = field(default_factory=list[Moment])
    written: list[Moment] = field(default_factory=list[Moment])


@dataclass(slots=True)
class _MessageMerger:
    """The program while it is merged.

    limit: most chunks of a message. sends, receives: the steps of each message. source, target: the memory that it is
    read from, and that its receive writes; operand: that its receive reads. renamed: new names of scratch slots.
    scratch: by rank, scratch slots used. messages, steps: the result.
    """

    program: Program
    limit: int
    sends: dict[int, Step] = field(default_factory=dict[int, Step])
    receives: dict[int, Step] = field(default_factory=dict[int, Step])
    source: dict[int, list[_Memory]] = field(default_factory=dict[int, list[_Memory]])
    target: dict[int, list[_Memory]] = field(default_factory=dict[int, list[_Memory]])
    operand: dict[int, list[_Memory]] = field(default_factory=dict[int, list[_Memory]])
    renamed: dict[_GpuSlot, Slot] = field(default_factory=dict[_GpuSlot, Slot])
    scratch: dict[int, int] = field(default_factory=lambda: defaultdict[int, int](int))
    messages: list[Message] = field(default_factory=list[Message])
    steps: list[list[Step]] = field(default_factory=list[list[Step]])

    def slot(self, rank: int, slot: Slot | None) -> Slot | None:
        """The new name of a slot."""
        return slot if slot is None or slot.buffer != "s" else self.renamed.get((rank, slot), slot)

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

    def delay(self, message: int, until: Moment) -> None:
        """Record that a message is written later than before."""
        before = self.receives[message].when
        for memory in self.target[message] if until != before else ():
            for moments in (memory.written, memory.touched):
                moments.remove(before)
                insort(moments, until)


def _next(moments: list[Moment], after: Moment) -> Moment:
    """The first moment after another one."""
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
    merger = _MessageMerger(program, limit)
    for gpu in program.gpus:
        memory = defaultdict[Slot, _Memory](_Memory)
        for step in gpu.steps:
            reads, writes = (
                [memory[program.memory_slot(gpu.rank, slot)] for slot in slots]
                for slots in (step.reads(), step.writes())
            )
            if step.send >= 0:
                merger.sends[step.send], merger.source[step.send] = step, reads
            if step.receive >= 0:
                merger.receives[step.receive] = step
                merger.operand[step.receive], merger.target[step.receive] = reads, writes
            for one in (*reads, *writes):
                one.touched.append(step.when)
            for one in writes:
                one.written.append(step.when)
    merger.steps = [[] for _ in program.gpus]
    return merger


def _window(merger: _MessageMerger, numbers: list[int], first: int) -> tuple[list[int], bool]:
    """Messages from numbers[first] on that can all start with it, and whether they can be reordered.

    numbers: the messages on one path, in order of start.
    """
    messages, receives = merger.program.messages, merger.receives
    window: list[int] = []
    movable = True
    untouched = steady = _NEVER
    begin, soonest = merger.sends[numbers[first]].when, receives[numbers[first]].when
    count, latest = 0, soonest
    for number in numbers[first : first + merger.limit]:
        receive, leave, arrival = receives[number], merger.sends[number].when, receives[number].when
        count += messages[number].count
        if (window and count > merger.limit) or receive.op is not receives[numbers[first]].op or arrival > untouched:
            break
        # A switch may forward messages in another order than they came: then their times cannot be exchanged.
        if arrival < latest:
            break
        written = min((_next(memory.written, begin) for memory in merger.source[number]), default=_NEVER)
        if leave > written:
            break
        steady, latest = min(steady, written), arrival
        movable = movable and leave <= steady
        for memory in (*merger.operand[number], *merger.target[number]):
            movable = movable and _next(memory.touched, soonest) >= arrival
            untouched = min(untouched, _next(memory.touched, arrival))
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
    whole = replace(messages[run[0]], count=count, start=head.start, leave=tail.leave, arrival=tail.arrival)
    merger.messages.append(whole)
    send, receive = merger.sends[run[0]], merger.receives[run[0]]
    for member in run:
        _rename(merger, target, merger.receives[member])
    merger.scratch[target] += 1
    leaves, arrives = merger.sends[times[0]].when, merger.receives[times[-1]].when
    for member in run:
        merger.delay(member, arrives)
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
