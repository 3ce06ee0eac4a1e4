"""Dependencies between threadblocks of a GPU: every two accesses of a slot, one a write, are ordered.

A dependency is left out where others imply it, with the order of steps in a threadblock and, with the protocol Simple,
with messages: what a GPU did before it sent is done before an answer arrives. (LL and LL128 carry a message without a
fence, so it says nothing of other data.) A step can wait for one other; `nop` steps before it carry the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collc.msccl.options import Protocol
from collc.msccl.program import Gpu, Op, Point, Program, Slot, Step, Threadblock

_Clock = NDArray[np.int16]
"""Of each threadblock, the last step that is known to be done; -1 for none."""

_KNOWN: Final = 30_000_000
"""Entries of all clocks, up to which the threadblocks of all GPUs are followed together."""

_BASES: Final = {"i": 0, "o": 1 << 20, "s": 2 << 20}
"""Where the slots of each buffer are numbered from; a buffer is shorter (`limits`)."""


def depend(program: Program, by_messages: bool = False, in_turn: bool = False) -> Program:
    """The program whose steps wait for one another where they must; its threadblocks are final.

    by_messages: whether messages order what their senders and receivers do, as those of MSCCL do with Simple.
    in_turn: whether threadblocks that send over the same link do so in the order of the schedule. Without, a message
    that is there early may take the link from one that others wait for.
    """
    waits: dict[int, dict[Point, list[Point]]] = {gpu.rank: {} for gpu in program.gpus}
    together = by_messages and program.protocol is Protocol.SIMPLE and _few(program)
    for group in [program.gpus] if together else [(gpu,) for gpu in program.gpus]:
        _follow(program, group, waits, in_turn)
    return replace(program, gpus=tuple(_final(gpu, waits[gpu.rank]) for gpu in program.gpus))


def _few(program: Program) -> bool:
    """Whether all GPUs can be followed together."""
    blocks = [tb for gpu in program.gpus for tb in gpu.threadblocks]
    return len(blocks) * sum(len(tb.steps) for tb in blocks) <= _KNOWN


@dataclass(slots=True)
class _SlotAccesses:
    """Who last wrote each slot of a GPU, and who has read it since, by number of the step; a table for each placement.

    bases: where input, output and scratch begin in each.
    """

    bases: list[dict[str, int]]
    written: list[dict[int, int]]
    read: list[dict[int, list[int]]] = field(default_factory=list["dict[int, list[int]]"])

    def before(self, step: Step, number: int) -> set[int]:
        """The earlier steps that a step must come after; takes note of its own accesses."""
        found: set[int] = set()
        for bases, written, read in zip(self.bases, self.written, self.read, strict=True):
            source, target = _first(step.src, bases), _first(step.dst, bases)
            for slot in range(source, source + step.count) if source >= 0 else ():
                if slot in written:
                    found.add(written[slot])
                read.setdefault(slot, []).append(number)
            if target < 0 or (target == source and step.op is Op.COPY):
                continue  # what is copied onto itself stays as it is
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
        shifts = [base * program.instances for base in program.collective.bases(gpu.rank)]
        bases.append({"i": _BASES["o"] + shifts[0], "o": _BASES["o"] + shifts[1], "s": _BASES["s"]})
    return _SlotAccesses(bases, [{} for _ in bases], [{} for _ in bases])


@dataclass(slots=True)
class _HappensBefore:
    """Steps in the order of the program. done: [steps, threadblocks], what is known to be done when a step is.

    column, place: of each step, its threadblock among all, and where it is. sender: the step that sends a message.
    begun: what is known when a message of several chunks starts: its first may arrive before the last one leaves.
    """

    done: NDArray[np.int16]
    column: list[int]
    place: list[Point]
    sender: dict[int, int] = field(default_factory=dict[int, int])
    begun: dict[int, _Clock] = field(default_factory=dict[int, "_Clock"])


def _follow(program: Program, gpus: Sequence[Gpu], waits: dict[int, dict[Point, list[Point]]], in_turn: bool) -> None:
    """Find what each step of some GPUs has to wait for."""
    names = [(gpu.rank, number) for gpu in gpus for number in range(len(gpu.threadblocks))]
    columns = {name: column for column, name in enumerate(names)}
    rows = sorted(
        (step.when, gpu.rank, number, position)
        for gpu in gpus
        for number, tb in enumerate(gpu.threadblocks)
        for position, step in enumerate(tb.steps)
    )
    walk = _HappensBefore(
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
            walk.done[number] = walk.done[latest[walk.column[number]]]
        latest[walk.column[number]] = number
        before = accesses[rank].before(step, number)
        if in_turn and step.send >= 0:
            link = program.messages[step.send].path[0]
            before.add(taken.get(link, number))
            taken[link] = number
        wanted = _wanted(walk, number, step, before)
        if wanted:
            waits[rank][walk.place[number]] = wanted


def _wanted(walk: _HappensBefore, number: int, step: Step, before: set[int]) -> list[Point]:
    """What a step has to wait for, the latest first; notes what is known once it is done."""
    clock, origin = walk.done[number], walk.sender.get(step.receive, -1)
    if origin >= 0:
        np.maximum(clock, walk.done[origin] if step.count == 1 else walk.begun[step.receive], out=clock)
    wanted: list[Point] = []
    for other in sorted(before, reverse=True):
        column = walk.column[other]
        if column != walk.column[number] and clock[column] < walk.place[other].step:
            wanted.append(walk.place[other])
            np.maximum(clock, walk.done[other], out=clock)
    if step.send >= 0:
        walk.sender[step.send] = number
        if step.count > 1:
            walk.begun[step.send] = clock.copy()
    if origin >= 0 and step.count > 1:
        np.maximum(clock, walk.done[origin], out=clock)
    clock[walk.column[number]] = walk.place[number].step
    return wanted


def _final(gpu: Gpu, waits: dict[Point, list[Point]]) -> Gpu:
    threadblocks = _with_nops(gpu.threadblocks, waits)
    order = sorted(range(len(threadblocks)), key=lambda k: (not any(s.awaited for s in threadblocks[k].steps), k))
    number = {old: new for new, old in enumerate(order)}
    return replace(gpu, threadblocks=tuple(_renumbered(threadblocks[k], number) for k in order))


def _with_nops(threadblocks: tuple[Threadblock, ...], waits: dict[Point, list[Point]]) -> list[Threadblock]:
    awaited = {point for points in waits.values() for point in points}
    nops: dict[int, list[tuple[int, int]]] = {}
    for point, points in waits.items():
        if len(points) > 1:
            nops.setdefault(point.threadblock, []).append((point.step, len(points) - 1))
    touched = {point.threadblock for point in (*waits, *awaited)}

    def position(point: Point) -> Point:
        ahead = sum(count for step, count in nops.get(point.threadblock, ()) if step <= point.step)
        return Point(point.threadblock, point.step + ahead)

    made: list[Threadblock] = []
    for t, tb in enumerate(threadblocks):
        if t not in touched:
            made.append(tb)
            continue
        steps: list[Step] = []
        for k, step in enumerate(tb.steps):
            wanted = [position(p) for p in waits.get(Point(t, k), [])]
            steps += [Step(Op.NOP, step.when, 1, waits=(p,)) for p in wanted[1:]]
            steps.append(replace(step, waits=tuple(wanted[:1]), awaited=Point(t, k) in awaited))
        made.append(replace(tb, steps=tuple(steps)))
    return made


def _renumbered(tb: Threadblock, number: dict[int, int]) -> Threadblock:
    if not any(step.waits for step in tb.steps):
        return tb
    steps = tuple(
        replace(s, waits=tuple(Point(number[p.threadblock], p.step) for p in s.waits)) if s.waits else s
        for s in tb.steps
    )
    return replace(tb, steps=steps)
