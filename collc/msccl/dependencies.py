"""Dependencies between threadblocks of a GPU: every two accesses of a slot, one a write, are ordered.

A dependency is left out where program order and other dependencies imply it. A step can wait for one
other; `nop` steps before it carry the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from collc.msccl.program import Gpu, Op, Point, Program, Slot, Step, Threadblock

_Name = Callable[[Slot], Slot]


@dataclass(slots=True)
class _Access:
    """Who last wrote a slot, and who has read it since."""

    write: Point | None = None
    reads: list[Point] = field(default_factory=list[Point])


def depend(program: Program) -> Program:
    """The program whose steps wait for one another where they must; its threadblocks are final."""
    return replace(program, gpus=tuple(_depend(program, gpu) for gpu in program.gpus))


def _depend(program: Program, gpu: Gpu) -> Gpu:
    waits = _waits(program, gpu)
    threadblocks = _with_nops(gpu.threadblocks, waits)
    order = sorted(range(len(threadblocks)), key=lambda k: (not any(s.awaited for s in threadblocks[k].steps), k))
    number = {old: new for new, old in enumerate(order)}
    return replace(gpu, threadblocks=tuple(_renumbered(threadblocks[k], number) for k in order))


def _waits(program: Program, gpu: Gpu) -> dict[Point, list[Point]]:
    """For each step, the steps of other threadblocks that it has to wait for."""
    names = list(_names(program, gpu))
    ordered = sorted(
        (step.when, Point(t, k)) for t, tb in enumerate(gpu.threadblocks) for k, step in enumerate(tb.steps)
    )
    rank = {point: position for position, (_, point) in enumerate(ordered)}
    state: list[dict[Slot, _Access]] = [{} for _ in names]
    clocks: dict[Point, list[int]] = {}
    waits: dict[Point, list[Point]] = {}
    for _, point in ordered:
        step = gpu.threadblocks[point.threadblock].steps[point.step]
        before = {p for name, slots in zip(names, state, strict=True) for p in _conflicts(step, name, slots, point)}
        previous = Point(point.threadblock, point.step - 1)
        clock = clocks[previous].copy() if point.step else [-1] * len(gpu.threadblocks)
        for other in sorted(before, key=lambda p: -rank[p]):
            if clock[other.threadblock] < other.step:
                waits.setdefault(point, []).append(other)
                clock = [max(a, b) for a, b in zip(clock, clocks[other], strict=True)]
        clock[point.threadblock] = point.step
        clocks[point] = clock
    return waits


def _names(program: Program, gpu: Gpu) -> Iterator[_Name]:
    """Names of slots out of place and in place, as far as the program is for either."""
    if program.placement.outside:
        yield lambda slot: slot
    if program.placement.inside:
        bases = [base * program.instances for base in program.collective.bases(gpu.rank)]
        shift = {"i": bases[0], "o": bases[1]}
        yield lambda slot: slot if slot.buffer == "s" else Slot("o", slot.offset + shift[slot.buffer])


def _conflicts(step: Step, name: _Name, slots: dict[Slot, _Access], point: Point) -> list[Point]:
    """Earlier steps that a step must come after; takes note of its own accesses."""
    before: list[Point] = []
    for slot in map(name, step.reads()):
        access = slots.setdefault(slot, _Access())
        before += [access.write] if access.write else []
        access.reads.append(point)
    for slot in map(name, step.writes()):
        access = slots.setdefault(slot, _Access())
        before += [access.write] if access.write else []
        before += access.reads
        slots[slot] = _Access(point)
    return [p for p in before if p.threadblock != point.threadblock]


def _with_nops(threadblocks: tuple[Threadblock, ...], waits: dict[Point, list[Point]]) -> list[Threadblock]:
    awaited = {point for points in waits.values() for point in points}
    position: dict[Point, Point] = {}
    for t, tb in enumerate(threadblocks):
        at = 0
        for k in range(len(tb.steps)):
            at += max(0, len(waits.get(Point(t, k), ())) - 1)
            position[Point(t, k)] = Point(t, at)
            at += 1
    made: list[Threadblock] = []
    for t, tb in enumerate(threadblocks):
        steps: list[Step] = []
        for k, step in enumerate(tb.steps):
            wanted = [position[p] for p in waits.get(Point(t, k), [])]
            steps += [Step(Op.NOP, step.when, 1, waits=(p,)) for p in wanted[1:]]
            told = Point(t, k) in awaited
            steps.append(replace(step, waits=tuple(wanted[:1]), awaited=told) if wanted or told else step)
        made.append(replace(tb, steps=tuple(steps)))
    return made


def _renumbered(tb: Threadblock, number: dict[int, int]) -> Threadblock:
    steps = tuple(
        replace(s, waits=tuple(Point(number[p.threadblock], p.step) for p in s.waits)) if s.waits else s
        for s in tb.steps
    )
    return replace(tb, steps=steps)
