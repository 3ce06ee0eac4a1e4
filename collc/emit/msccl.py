"""MSCCL XML, as msccl-executor-nccl and microsoft/msccl read it (docs/msccl.md).

The runtimes read it with a small scanner: one element a line, double quotes, one space between
attributes, no declaration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from collc.msccl.options import Profile
from collc.msccl.program import Gpu, Op, Program, Slot, Step, Threadblock
from collc.ten.demand import Op as Reduction

_NO_LIMIT: Final = 1 << 62
"""What stands for any size in the old runtime, which takes 128 MiB where nothing is said."""


def write_xml(program: Program, out: BinaryIO) -> None:
    """Write a final program, a GPU at a time."""
    out.writelines(line.encode("ascii") for line in xml_lines(program))


def xml_lines(program: Program) -> Iterator[str]:
    """The lines of the file, with their ends."""
    yield _algo(program)
    for gpu in program.gpus:
        yield from _gpu(gpu)
    yield "</algo>\n"


def _algo(program: Program) -> str:
    low, high = program.sizes
    largest = high or 0
    if program.profile is Profile.OLD:
        largest = _NO_LIMIT if high is None else high + 1
    values: dict[str, object] = {
        "name": _plain(program.name),
        "nchunksperloop": program.chunks_per_loop,
        "nchannels": program.channels,
        "ngpus": len(program.gpus),
        "proto": program.protocol.value,
        "coll": program.collective.coll,
        "inplace": int(program.placement.in_place),
        "outofplace": int(program.placement.out_of_place),
        "minBytes": low,
        "maxBytes": largest,
    }
    if program.collective.op is not Reduction.COPY:
        values["redop"] = program.collective.op.name.lower()
    return f"<algo {_attributes(values)}>\n"


def _plain(name: str) -> str:
    """A name without what the runtimes' scanner could trip over."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-.") else "_" for c in name)


def _attributes(values: dict[str, object]) -> str:
    return " ".join(f'{name}="{value}"' for name, value in values.items())


def _gpu(gpu: Gpu) -> Iterator[str]:
    sizes = f'i_chunks="{gpu.input_chunks}" o_chunks="{gpu.output_chunks}" s_chunks="{gpu.scratch_chunks}"'
    yield f'  <gpu id="{gpu.rank}" {sizes}>\n'
    for number, tb in enumerate(gpu.threadblocks):
        yield from _threadblock(number, tb)
    yield "  </gpu>\n"


def _threadblock(number: int, tb: Threadblock) -> Iterator[str]:
    yield f'    <tb id="{number}" send="{tb.send}" recv="{tb.receive}" chan="{tb.channel}">\n'
    for position, step in enumerate(tb.steps):
        yield _step(position, step)
    yield "    </tb>\n"


def _step(position: int, step: Step) -> str:
    """One step. A side that the operation does not use repeats the other, so that it is always in range."""
    nowhere = Slot("i", -1)
    src, dst = step.src or step.dst or nowhere, step.dst or step.src or nowhere
    count = 0 if step.op is Op.NOP else step.count
    depid, deps = step.waits[0] if step.waits else (-1, -1)
    return (
        f'      <step s="{position}" type="{step.op.value}" srcbuf="{src.buffer}" srcoff="{src.offset}"'
        f' dstbuf="{dst.buffer}" dstoff="{dst.offset}" cnt="{count}"'
        f' depid="{depid}" deps="{deps}" hasdep="{int(step.awaited)}"/>\n'
    )
