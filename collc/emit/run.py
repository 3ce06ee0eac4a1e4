"""Run files: the programs of all ranks for collc's own runtime (`collc.runtime`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from collc.msccl.program import Program, Slot, Step
from collc.runtime.collectives import INPUT, OUTPUT, SCRATCH
from collc.runtime.operations import STEP_KINDS
from collc.runtime.run_program import RunProgram
from collc.ten.demand import Op
from collc.ten.module import Module

_BUFFER_NUMBERS: Final = {"i": INPUT, "o": OUTPUT, "s": SCRATCH}


def write_run(program: Program, module: Module, path: Path, dtype: str = "") -> None:
    """Write a program on which all stages of the lowering have run. module: with its schedule. dtype: of elements."""
    path.write_bytes(run_program(program, module, dtype).to_bytes())


def run_program(program: Program, module: Module, dtype: str = "") -> RunProgram:
    """A lowered program as the runtime reads it. dtype: of elements; "": any."""
    network, collective = module.network, program.collective
    npus = network.npus.tolist()
    blocks = [(gpu.rank, tb.send, tb.receive, tb.channel) for gpu in program.gpus for tb in gpu.threadblocks]
    numbered = enumerate(tb for gpu in program.gpus for tb in gpu.threadblocks)
    steps = [(number, step) for number, tb in numbered for step in tb.steps]
    return RunProgram(
        name=program.name,
        coll=collective.coll,
        root=collective.root,
        op="" if collective.op is Op.COPY else collective.op.name.lower(),
        chunks_per_loop=program.chunks_per_loop,
        in_place=program.placement.in_place,
        out_of_place=program.placement.out_of_place,
        sizes=(program.sizes[0], program.sizes[1] or 0),
        chunk_bytes=-(-program.chunk_bytes // program.instances),
        time_ps=module.collective_time(),
        npus=tuple(map(network.device_name, npus)),
        labels=tuple(map(network.real_name, npus)),
        chunks=np.array([(g.input_chunks, g.output_chunks, g.scratch_chunks) for g in program.gpus], np.int64),
        blocks=np.array(blocks, np.int32).reshape(-1, 4),
        steps=np.array([_row(number, step) for number, step in steps], np.int32).reshape(-1, 10),
        when=np.array([step.when[0] for _, step in steps], np.int64),
        dtype=dtype,
    )


def _row(number: int, step: Step) -> tuple[int, ...]:
    """The row of a step of threadblock `number`. A side that it does not use repeats the other one."""
    source, target = (side or step.src or step.dst or Slot("i", 0) for side in (step.src, step.dst))
    sides = _BUFFER_NUMBERS[source.buffer], source.offset, _BUFFER_NUMBERS[target.buffer], target.offset
    waits = step.waits[0] if step.waits else (-1, -1)
    return (number, STEP_KINDS[step.op.value], *sides, step.count, *waits, step.awaited)
