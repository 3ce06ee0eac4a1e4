"""Programs for RCCL, which runs only `s`, `r`, `cpy`, `re` and `nop` (docs/msccl-contract.md, section 7).

Sums are received in scratch and then added. With LL and LL128 the counter of a send may move before all threads have
read its source, so a step that overwrites the source waits for a copy after the send instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from collc.msccl.options import Profile, Protocol
from collc.msccl.program import Gpu, Op, Point, Program, Slot, Step, Threadblock


def with_local_sums(program: Program) -> Program:
    """After `merge`: each `rrc` becomes a receive to scratch slots of its own, and an addition.

    A program for another runtime stays as it is.
    """
    if program.profile is not Profile.RCCL:
        return program
    gpus = tuple(_sum_locally(gpu) for gpu in program.gpus)
    more = sum(new.scratch_chunks - old.scratch_chunks for new, old in zip(gpus, program.gpus, strict=True))
    return replace(program, gpus=gpus, scratch_needed=program.scratch_needed + more)


def _sum_locally(gpu: Gpu) -> Gpu:
    steps: list[Step] = []
    scratch = gpu.scratch_chunks
    for step in gpu.steps:
        if step.op is not Op.RECEIVE_REDUCE_COPY:
            steps.append(step)
            continue
        received = Slot("s", scratch)
        scratch += step.count + 1  # a gap, as between all blocks of scratch slots
        steps.append(replace(step, op=Op.RECEIVE, src=None, dst=received))
        if step.src != step.dst:
            steps.append(Step(Op.COPY, (*step.when[:3], 1), step.count, src=step.src, dst=step.dst))
        steps.append(Step(Op.REDUCE, (*step.when[:3], 2), step.count, src=received, dst=step.dst))
    return replace(gpu, steps=tuple(sorted(steps, key=lambda step: step.when)), scratch_chunks=scratch)


def with_guarded_sends(program: Program) -> Program:
    """After `depend`: steps that wait for a send with LL or LL128 wait for a copy after it.

    The copy goes to scratch slots that nothing reads. A program for another runtime stays as it is.
    """
    if program.profile is not Profile.RCCL or program.protocol is Protocol.SIMPLE:
        return program
    return replace(program, gpus=tuple(_guard_sends(gpu) for gpu in program.gpus))


def _guard_sends(gpu: Gpu) -> Gpu:
    guard: dict[Point, Point] = {}
    blocks: list[Threadblock] = []
    scratch = gpu.scratch_chunks
    for number, tb in enumerate(gpu.threadblocks):
        steps = list(_with_copies(tb, Slot("s", scratch)))
        scratch += max((step.count for step in tb.steps if _needs_guard(step)), default=0)
        kept = [k for k, (_, is_copy) in enumerate(steps) if not is_copy]
        for old, new in enumerate(kept):
            guard[Point(number, old)] = Point(number, new + _needs_guard(tb.steps[old]))
        blocks.append(replace(tb, steps=tuple(step for step, _ in steps)))
    moved = tuple(
        replace(tb, steps=tuple(replace(s, waits=tuple(guard[p] for p in s.waits)) if s.waits else s for s in tb.steps))
        for tb in blocks
    )
    return replace(gpu, threadblocks=moved, scratch_chunks=scratch)


def _needs_guard(step: Step) -> bool:
    return step.awaited and step.op is Op.SEND


def _with_copies(tb: Threadblock, spare: Slot) -> Iterator[tuple[Step, bool]]:
    """The steps of a threadblock, each with whether it is one of the copies. spare: where these go."""
    for step in tb.steps:
        if not _needs_guard(step):
            yield step, False
            continue
        yield replace(step, awaited=False), False
        yield Step(Op.COPY, step.when, step.count, src=step.src, dst=spare, awaited=True), True
