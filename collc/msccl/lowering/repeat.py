"""Fifth stage of lowering: instances, that is n copies of the program on channels of their own.

Each instance has 1/n of every chunk. If steps move several chunks, each instance has instead 1/n of every group of
chunks that are contiguous in all buffers (`Collective.contiguous_chunks`), divided into as many chunks of 1/n of the
size: then what it moves together is contiguous too.
"""

from __future__ import annotations

from dataclasses import replace

from collc.msccl.limits import MOST_CHUNKS
from collc.msccl.program import Gpu, Op, Program, Slot, Step, Threadblock


def repeat(program: Program) -> Program:
    """The program with all its instances. The first instance copies whole groups of contiguous chunks for all."""
    if program.instances == 1:
        return program
    group = program.collective.contiguous_chunks if any(message.count > 1 for message in program.messages) else 1
    gpus = tuple(_repeat_gpu(program, gpu, group) for gpu in program.gpus)
    channels = program.channels * program.instances
    return replace(program, gpus=gpus, channels=channels, messages=program.messages * program.instances)


def _repeat_gpu(program: Program, gpu: Gpu, group: int) -> Gpu:
    n = program.instances
    threadblocks = tuple(
        replace(tb, channel=tb.channel + k * program.channels, steps=steps)
        for k in range(n)
        for tb in gpu.threadblocks
        if (steps := _steps(program, gpu, tb, k, group)) or tb.send >= 0 or tb.receive >= 0 or not k
    )
    return replace(
        gpu,
        input_chunks=gpu.input_chunks * n,
        output_chunks=gpu.output_chunks * n,
        scratch_chunks=gpu.scratch_chunks * n,
        threadblocks=threadblocks,
    )


def _steps(program: Program, gpu: Gpu, tb: Threadblock, instance: int, group: int) -> tuple[Step, ...]:
    return tuple(
        _step(program, gpu, step, instance, group)
        for step in tb.steps
        if not instance or not _serves_all_instances(program, step, group)
    )


def _serves_all_instances(program: Program, step: Step, group: int) -> bool:
    """Whether a step copies whole groups, so that the first instance can copy them for all."""
    src, dst = step.src, step.dst
    if step.op is not Op.COPY or src is None or dst is None or "s" in (src.buffer, dst.buffer):
        return False
    whole = not (src.offset % group or dst.offset % group or step.count % group)
    return whole and step.count * program.instances <= MOST_CHUNKS


def _step(program: Program, gpu: Gpu, step: Step, instance: int, group: int) -> Step:
    shift = instance * len(program.messages)
    return replace(
        step,
        src=_slot(program, gpu, step.src, instance, group),
        dst=_slot(program, gpu, step.dst, instance, group),
        count=step.count * (program.instances if _serves_all_instances(program, step, group) else 1),
        when=(step.when[0], step.when[1], step.when[2] + shift, step.when[3]),
        receive=step.receive + shift if step.receive >= 0 else -1,
        send=step.send + shift if step.send >= 0 else -1,
    )


def _slot(program: Program, gpu: Gpu, slot: Slot | None, instance: int, group: int) -> Slot | None:
    """The slot of an instance for a slot of the program."""
    if slot is None:
        return None
    if slot.buffer == "s":
        return Slot("s", instance * gpu.scratch_chunks + slot.offset)
    number, part = divmod(slot.offset, group)
    return Slot(slot.buffer, (number * program.instances + instance) * group + part)
