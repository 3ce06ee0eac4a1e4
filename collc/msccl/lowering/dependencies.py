"""Last stage of lowering: dependencies between threadblocks of a GPU. Two accesses of a slot, one a write, are ordered.

A dependency is left out if others imply it together with the order of steps in a threadblock and, with the protocol
Simple, with messages: what a GPU did before it sent a message is done before an answer arrives. (LL and LL128 send a
message without a fence, so its arrival does not order other data.) A step can wait for one other step; further
dependencies are on `nop` steps before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final

import numpy as np

from collc.msccl.limits import LAST_AWAITED
from collc.msccl.options import Protocol
from collc.msccl.program import Gpu, Op, Point, Program, Slot, Step, Threadblock
from collc.ten.arrays import Int16Array

_DoneClock = Int16Array
"""A vector clock, int16[threadblocks]: of each threadblock the last step that is known to be done; -1 for none."""

_Waits = dict[tuple[int, int], list[Point]]
"""The steps that steps of a GPU wait for; a step is a threadblock and a position in it."""

_MOST_CLOCK_ENTRIES: Final = 30_000_000
"""Most entries of all clocks with which the threadblocks of all GPUs are followed together."""

_BASES: Final = {"i": 0, "o": 1 << 20, "s": 2 << 20}
"""Number of the first slot of each buffer; every buffer is shorter than the difference (`limits`)."""


def depend(program: Program, by_messages: bool = False, in_turn: bool = False) -> Program:
    """The program with dependencies and `nop` steps; its threadblocks are final.

    by_messages: whether a message orders the accesses of its sender and its receiver, as in MSCCL with the protocol
    Simple. in_turn: whether threadblocks that send over one link do so in the order of the schedule; otherwise a
    message that is ready early can delay one that others wait for.
    """
    together = by_messages and program.protocol is Protocol.SIMPLE and _clocks_fit(program)
    waits: dict[int, _Waits] = {}
    for group in [program.gpus] if together else [(gpu,) for gpu in program.gpus]:
        waits |= _waits_in_turn(program, group) if in_turn else _waits_of_gpus(program, group, None)
    return replace(program, gpus=tuple(_finish_gpu(gpu, waits[gpu.rank]) for gpu in program.gpus))


def _waits_in_turn(program: Program, gpus: Sequence[Gpu]) -> dict[int, _Waits]:
    """By rank, the steps that each step waits for, with sends in turn as far as a file can name what they wait for.

    If steps wait for more threadblocks of a GPU than can be named, sends wait only for the ones that are awaited most
    often, whatever they wait for.
    """
    in_turn: dict[int, set[int] | None] = {gpu.rank: None for gpu in gpus}
    room = {gpu.rank: LAST_AWAITED + 1 for gpu in gpus}
    while True:
        waits = _waits_of_gpus(program, gpus, in_turn)
        crowded = False
        for rank, found in waits.items():
            awaited = Counter(point.threadblock for points in found.values() for point in points)
            kept = in_turn[rank]
            if len(awaited) > LAST_AWAITED + 1 and (kept is None or kept):
                crowded = True
                if kept is not None:  # what was awaited for the data alone takes the place of others
                    room[rank] = max(0, room[rank] - (len(awaited) - LAST_AWAITED - 1))
                in_turn[rank] = set(sorted(awaited, key=lambda k: (-awaited[k], k))[: room[rank]])
        if not crowded:
            return waits


def _clocks_fit(program: Program) -> bool:
    """Whether the clocks of all GPUs together are small enough."""
    blocks = [tb for gpu in program.gpus for tb in gpu.threadblocks]
    return len(blocks) * sum(len(tb.steps) for tb in blocks) <= _MOST_CLOCK_ENTRIES


@dataclass(slots=True)
class _SlotAccesses:
    """By slot of a GPU, the number of the step that last wrote it and of the steps that have read it since.

    There is a table for each placement. bases: the number of the first slot of each buffer in that placement.
    """

    bases: list[dict[str, int]]
    written: list[dict[int, int]]
    read: list[dict[int, list[int]]] = field(default_factory=list["dict[int, list[int]]"])

    def predecessors(self, step: Step, number: int) -> set[int]:
        """The earlier steps after which a step must run; records the accesses of the step."""
        found: set[int] = set()
        for bases, written, read in zip(self.bases, self.written, self.read, strict=True):
            source, target = _first(step.src, bases), _first(step.dst, bases)
            for slot in range(source, source + step.count) if source >= 0 else ():
                if slot in written:
                    found.add(written[slot])
                read.setdefault(slot, []).append(number)
            if target < 0 or (target == source and step.op is Op.COPY and step.switch is None):
                continue  # a copy of a slot onto itself changes nothing
            for slot in range(target, target + step.count):
                if slot in written:
                    found.add(written[slot])
                found.update(read.pop(slot, ()))
                written[slot] = number
        found.discard(number)
        return found


def _first(slot: Slot | None, bases: dict[str, int]) -> int:
    return -1 if slot is None else bases[slot.buffer] + slot.offset


def _accesses(program: Program, gpu: Gpu) -> _SlotAccesses:
    bases: list[dict[str, int]] = []
    if program.placement.out_of_place:
        bases.append(dict(_BASES))
    if program.placement.in_place:
        shifts = [base * program.instances for base in program.collective.in_place_bases(gpu.rank)]
        bases.append({"i": _BASES["o"] + shifts[0], "o": _BASES["o"] + shifts[1], "s": _BASES["s"]})
    return _SlotAccesses(bases, [{} for _ in bases], [{} for _ in bases])


@dataclass(slots=True)
class _HappensBefore:
    """The happens-before order of steps, which are numbered in the order of the program.

    done: int16[steps, threadblocks], the vector clock of each step when it is done. column, point: of each step, the
    number of its threadblock among all, and its position. sender: by message, the step that sends it. begun: by
    message of several chunks, the clock when it starts, since its first chunk may arrive before the last one leaves.
    """

    done: Int16Array
    column: list[int]
    point: list[Point]
    sender: dict[int, int] = field(default_factory=dict[int, int])
    begun: dict[int, _DoneClock] = field(default_factory=dict[int, "_DoneClock"])


def _waits_of_gpus(
    program: Program, gpus: Sequence[Gpu], in_turn: Mapping[int, Container[int] | None] | None
) -> dict[int, _Waits]:
    """By rank, the steps that each step of some GPUs must wait for.

    in_turn: by rank, the threadblocks for which sends over the same link wait, None: all of them; None: none waits.
    """
    waits: dict[int, _Waits] = {gpu.rank: {} for gpu in gpus}
    names = [(gpu.rank, number) for gpu in gpus for number in range(len(gpu.threadblocks))]
    columns = {name: column for column, name in enumerate(names)}
    rows = sorted(
        (step.when, gpu.rank, number, position)
        for gpu in gpus
        for number, tb in enumerate(gpu.threadblocks)
        for position, step in enumerate(tb.steps)
    )
    order = _HappensBefore(
        np.full((len(rows), len(names)), -1, np.int16),
        [columns[rank, number] for _, rank, number, _ in rows],
        [Point(number, position) for *_, number, position in rows],
    )
    accesses = {gpu.rank: _accesses(program, gpu) for gpu in gpus}
    latest: dict[int, int] = {}
    taken: dict[int, int] = {}
    for number, (_, rank, threadblock, position) in enumerate(rows):
        step = program.gpus[rank].threadblocks[threadblock].steps[position]
        if position:
            order.done[number] = order.done[latest[order.column[number]]]
        latest[order.column[number]] = number
        before = accesses[rank].predecessors(step, number)
        if in_turn is not None and step.send >= 0:
            link, awaitable = program.messages[step.send].path[0], in_turn[rank]
            before.add(taken.get(link, number))
            if awaitable is None or threadblock in awaitable:
                taken[link] = number
        wanted = _needed_waits(order, number, step, before)
        if wanted:
            waits[rank][order.point[number]] = wanted
    return waits


def _needed_waits(order: _HappensBefore, number: int, step: Step, before: set[int]) -> list[Point]:
    """The steps that a step must wait for, the latest first; sets the clock of the step."""
    clock, origin = order.done[number], order.sender.get(step.receive, -1)
    if origin >= 0:
        np.maximum(clock, order.done[origin] if step.count == 1 else order.begun[step.receive], out=clock)
    wanted: list[Point] = []
    for other in sorted(before, reverse=True):
        column = order.column[other]
        if column != order.column[number] and clock[column] < order.point[other].step:
            wanted.append(order.point[other])
            np.maximum(clock, order.done[other], out=clock)
    if step.send >= 0:
        order.sender[step.send] = number
        if step.count > 1:
            order.begun[step.send] = clock.copy()
    if origin >= 0 and step.count > 1:
        np.maximum(clock, order.done[origin], out=clock)
    clock[order.column[number]] = order.point[number].step
    return wanted


def _finish_gpu(gpu: Gpu, waits: _Waits) -> Gpu:
    """The GPU with waits and `nop` steps. Threadblocks that others wait for come first."""
    awaited = {point for points in waits.values() for point in points}
    first = {point.threadblock for point in awaited}
    order = sorted(range(len(gpu.threadblocks)), key=lambda k: (k not in first, k))
    number = {old: new for new, old in enumerate(order)}
    ahead = [_nops_ahead(tb, t, waits) for t, tb in enumerate(gpu.threadblocks)]
    made: list[Threadblock] = []
    for t in order:
        tb, steps = gpu.threadblocks[t], list[Step]()
        for k, step in enumerate(tb.steps):
            points, is_awaited = waits.get((t, k), ()), (t, k) in awaited
            if not points and not is_awaited:
                steps.append(step)
                continue
            wanted = [Point(number[p.threadblock], p.step + ahead[p.threadblock][p.step]) for p in points]
            steps += [Step(Op.NOP, step.when, 1, waits=(p,)) for p in wanted[1:]]
            # Written out, since `replace` takes several times as long and this runs once for each step.
            ends = step.receive, step.send
            made_of = step.op, step.when, step.count, step.src, step.dst, *ends, tuple(wanted[:1]), is_awaited
            steps.append(Step(*made_of, step.switch))
        made.append(replace(tb, steps=tuple(steps)))
    return replace(gpu, threadblocks=tuple(made))


def _nops_ahead(tb: Threadblock, number: int, waits: _Waits) -> list[int]:
    """Of each step of a threadblock, how many `nop` steps come before it."""
    extra = (max(0, len(waits.get((number, k), ())) - 1) for k in range(len(tb.steps)))
    return list(accumulate(extra))
