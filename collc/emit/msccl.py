"""MSCCL XML for msccl-executor-nccl and microsoft/msccl, and MSCCL++ execution plans in JSON.

The runtimes of MSCCL read a strict subset of XML (docs/msccl-contract.md, section 1; section 6 is about plans): one
element per line, double quotes, one space between attributes, no declaration. The lines are formatted as text: lxml's
incremental writer gives the same bytes and takes 5 times as long (docs/architecture.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from collc.msccl.options import Profile
from collc.msccl.plans.operations import Json
from collc.msccl.program import Op, Program, Slot, Step
from collc.ten.demand import Op as Reduction

_NO_LIMIT: Final = 1 << 62
"""`maxBytes` of a file without a limit for the old runtime, whose default is 128 MiB."""

_NO_SLOT: Final = Slot("i", -1)
"""Source and destination of a `nop`."""


def write_xml(program: Program, out: BinaryIO) -> None:
    """Write a program on which all stages of the lowering have run."""
    out.writelines(line.encode("ascii") for line in xml_lines(program))


def xml_lines(program: Program) -> Iterator[str]:
    """The lines of the file, including line ends."""
    ends = _message_slots(program)
    yield _algo(program)
    for gpu in program.gpus:
        sizes = f'i_chunks="{gpu.input_chunks}" o_chunks="{gpu.output_chunks}" s_chunks="{gpu.scratch_chunks}"'
        yield f'  <gpu id="{gpu.rank}" {sizes}>\n'
        for number, tb in enumerate(gpu.threadblocks):
            yield f'    <tb id="{number}" send="{tb.send}" recv="{tb.receive}" chan="{tb.channel}">\n'
            for position, step in enumerate(tb.steps):
                yield _step(position, step, *ends)
            yield "    </tb>\n"
        yield "  </gpu>\n"
    yield "</algo>\n"


def _message_slots(program: Program) -> tuple[dict[int, Slot], dict[int, Slot]]:
    """By message number, the slot that the sender reads, and the slot in which the receiver stores the message.

    A receiver that only forwards a sum (`rrs`) stores nothing; its slot is the one of its local operand.
    """
    sources, targets = dict[int, Slot](), dict[int, Slot]()
    for step in (step for gpu in program.gpus for tb in gpu.threadblocks for step in tb.steps):
        if step.send >= 0:
            # A step that also receives sends what it has just stored, or added to its operand.
            sent = step.src if step.receive < 0 else step.dst or step.src
            sources[step.send] = sent or _NO_SLOT
        if step.receive >= 0:
            targets[step.receive] = step.dst or step.src or _NO_SLOT
    return sources, targets


def _algo(program: Program) -> str:
    low, high = program.sizes
    largest = high or 0
    if program.profile is Profile.OLD:
        largest = _NO_LIMIT if high is None else high + 1
    values: dict[str, object] = {
        "name": re.sub(r"[^A-Za-z0-9_.-]", "_", program.name),  # needs no escapes
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
        op = Reduction.SUM if program.collective.op is Reduction.AVG else program.collective.op
        values["redop"] = op.name.lower()
    return "<algo " + " ".join(f'{name}="{value}"' for name, value in values.items()) + ">\n"


def _step(position: int, step: Step, sources: dict[int, Slot], targets: dict[int, Slot]) -> str:
    """The line of one step.

    The runtimes ignore the destination of `s` and the source of `r` and `rcs`. As in msccl-tools, these name the slot
    at the other end of the message. If another operation does not use its source or destination, the one repeats the
    other.
    """
    src, dst = step.src or step.dst or _NO_SLOT, step.dst or step.src or _NO_SLOT
    if step.op is Op.SEND:
        dst = targets.get(step.send, dst)
    elif step.op in {Op.RECEIVE, Op.RECEIVE_COPY_SEND}:
        src = sources.get(step.receive, src)
    count = 0 if step.op is Op.NOP else step.count
    depid, deps = step.waits[0] if step.waits else (-1, -1)
    return (
        f'      <step s="{position}" type="{step.op.value}" srcbuf="{src.buffer}" srcoff="{src.offset}"'
        f' dstbuf="{dst.buffer}" dstoff="{dst.offset}" cnt="{count}"'
        f' depid="{depid}" deps="{deps}" hasdep="{int(step.awaited)}"/>\n'
    )


def write_plan(plan: Json, out: BinaryIO) -> None:
    """Write an execution plan, one operation per line."""
    out.writelines(line.encode("ascii") for line in plan_lines(plan))


def plan_lines(plan: Json) -> Iterator[str]:
    """The lines of the file, including line ends."""
    yield "{\n"
    yield from (f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in plan.items() if name != "gpus")
    yield ' "gpus": [\n'
    for gpu, after_gpu in _with_commas(plan["gpus"]):
        yield "  {\n"
        own = [item for item in gpu.items() if item[0] != "threadblocks"]
        yield from (f"   {json.dumps(name)}: {json.dumps(value)},\n" for name, value in own)
        yield '   "threadblocks": [\n'
        for tb, after_tb in _with_commas(gpu["threadblocks"]):
            rest = ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in tb.items() if name != "ops")
            yield f'    {{{rest}, "ops": [\n'
            yield from (f"     {json.dumps(op)}{after_op}\n" for op, after_op in _with_commas(tb["ops"]))
            yield f"    ]}}{after_tb}\n"
        yield f"   ]\n  }}{after_gpu}\n"
    yield " ]\n}\n"


def _with_commas(entries: list[Any]) -> Iterator[tuple[Any, str]]:
    """Each entry of a list with what follows it."""
    return zip(entries, [","] * (len(entries) - 1) + [""], strict=False)
