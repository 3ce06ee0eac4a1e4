"""Instances: the program several times side by side, each with its share of every chunk and channels of its own."""

from __future__ import annotations

from dataclasses import replace

from collc.msccl.program import Gpu, Op, Program, Slot, Step, Threadblock


def repeat(program: Program) -> Program:
    """The program with all its instances; chunk c of instance k lies in slot c * instances + k.

    Steps move one chunk each, but for local copies, which one instance makes for all.
    """
    if program.instances == 1:
        return program
    gpus = tuple(_repeated(program, gpu) for gpu in program.gpus)
    channels = program.channels * program.instances
    return replace(program, gpus=gpus, channels=channels, messages=program.messages * program.instances)


def _repeated(program: Program, gpu: Gpu) -> Gpu:
    n = program.instances
    threadblocks = tuple(
        replace(tb, channel=tb.channel + k * program.channels, steps=steps)
        for k in range(n)
        for tb in gpu.threadblocks
        if (steps := _steps(program, tb, k)) or tb.send >= 0 or tb.receive >= 0 or not k
    )
    return replace(
        gpu,
        input_chunks=gpu.input_chunks * n,
        output_chunks=gpu.output_chunks * n,
        scratch_chunks=gpu.scratch_chunks * n,
        threadblocks=threadblocks,
    )


def _steps(program: Program, tb: Threadblock, instance: int) -> tuple[Step, ...]:
    return tuple(_step(program, step, instance) for step in tb.steps if step.op is not Op.COPY or not instance)


def _step(program: Program, step: Step, instance: int) -> Step:
    n, shift = program.instances, instance * len(program.messages)
    src, dst = (Slot(s.buffer, s.offset * n + instance) if s else None for s in (step.src, step.dst))
    when = (step.when[0], step.when[1], step.when[2] + shift, step.when[3])
    if step.op is Op.COPY:
        return replace(step, src=src, dst=dst, count=step.count * n)
    return replace(
        step,
        src=src,
        dst=dst,
        when=when,
        receive=step.receive + shift if step.receive >= 0 else -1,
        send=step.send + shift if step.send >= 0 else -1,
    )
