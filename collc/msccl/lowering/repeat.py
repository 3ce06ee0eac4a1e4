"""Instances: the program several times side by side, each with its share of every chunk and channels of its own.

Each has 1/n of every chunk. Where steps move neighbouring chunks together, each has a row instead: of each unit of the
collective (chunks that lie in a row whatever happens) one nth, as chunks after chunks of 1/n of their size.
"""

from __future__ import annotations

from dataclasses import replace

from collc.msccl.limits import MOST_CHUNKS
from collc.msccl.program import Gpu, Op, Program, Slot, Step, Threadblock


def repeat(program: Program) -> Program:
    """The program with all its instances. Whole units are copied by the first instance for all."""
    if program.instances == 1:
        return program
    unit = program.collective.unit if any(message.count > 1 for message in program.messages) else 1
    gpus = tuple(_repeated(program, gpu, unit) for gpu in program.gpus)
    channels = program.channels * program.instances
    return replace(program, gpus=gpus, channels=channels, messages=program.messages * program.instances)


def _repeated(program: Program, gpu: Gpu, unit: int) -> Gpu:
    n = program.instances
    threadblocks = tuple(
        replace(tb, channel=tb.channel + k * program.channels, steps=steps)
        for k in range(n)
        for tb in gpu.threadblocks
        if (steps := _steps(program, gpu, tb, k, unit)) or tb.send >= 0 or tb.receive >= 0 or not k
    )
    return replace(
        gpu,
        input_chunks=gpu.input_chunks * n,
        output_chunks=gpu.output_chunks * n,
        scratch_chunks=gpu.scratch_chunks * n,
        threadblocks=threadblocks,
    )


def _steps(program: Program, gpu: Gpu, tb: Threadblock, instance: int, unit: int) -> tuple[Step, ...]:
    return tuple(
        _step(program, gpu, step, instance, unit)
        for step in tb.steps
        if not instance or not _for_all(program, step, unit)
    )


def _for_all(program: Program, step: Step, unit: int) -> bool:
    """Whether a step copies units as a whole, which lie in a row."""
    src, dst = step.src, step.dst
    if step.op is not Op.COPY or src is None or dst is None or "s" in (src.buffer, dst.buffer):
        return False
    whole = not (src.offset % unit or dst.offset % unit or step.count % unit)
    return whole and step.count * program.instances <= MOST_CHUNKS


def _step(program: Program, gpu: Gpu, step: Step, instance: int, unit: int) -> Step:
    shift = instance * len(program.messages)
    return replace(
        step,
        src=_slot(program, gpu, step.src, instance, unit),
        dst=_slot(program, gpu, step.dst, instance, unit),
        count=step.count * (program.instances if _for_all(program, step, unit) else 1),
        when=(step.when[0], step.when[1], step.when[2] + shift, step.when[3]),
        receive=step.receive + shift if step.receive >= 0 else -1,
        send=step.send + shift if step.send >= 0 else -1,
    )


def _slot(program: Program, gpu: Gpu, slot: Slot | None, instance: int, unit: int) -> Slot | None:
    """Where an instance has what the program has in a slot."""
    if slot is None:
        return None
    if slot.buffer == "s":
        return Slot("s", instance * gpu.scratch_chunks + slot.offset)
    whole, part = divmod(slot.offset, unit)
    return Slot(slot.buffer, (whole * program.instances + instance) * unit + part)
