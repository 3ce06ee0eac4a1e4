"""MSCCL XML for msccl-executor-nccl and microsoft/msccl, and MSCCL++ execution plans in JSON.

The runtimes of MSCCL read a strict subset of XML (docs/msccl-contract.md, section 1; section 6 is about plans): one
element per line, double quotes, one space between attributes, no declaration. The lines are formatted as text: lxml's
incremental writer gives the same bytes and takes 5 times as long (docs/architecture.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from collc.msccl.options import Profile
from collc.msccl.plans.operations import Json
from collc.msccl.program import Gpu, Op, Program, Slot, Step, Threadblock
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
        yield from _gpu(gpu, ends)
    yield "</algo>\n"


class _MessageSlots(NamedTuple):
    """The slots at both ends of each message, by message number.

    source: the slot that the sender reads. target: the slot in which the receiver stores the message. A receiver that
    only forwards a sum (`rrs`) stores nothing; then the target is the slot of its local operand.
    """

    source: dict[int, Slot]
    target: dict[int, Slot]


def _message_slots(program: Program) -> _MessageSlots:
    slots = _MessageSlots({}, {})
    for step in (step for gpu in program.gpus for tb in gpu.threadblocks for step in tb.steps):
        if step.send >= 0:
            # A step that also receives sends what it has just stored, or added to its operand.
            sent = step.src if step.receive < 0 else step.dst or step.src
            slots.source[step.send] = sent or _NO_SLOT
        if step.receive >= 0:
            slots.target[step.receive] = step.dst or step.src or _NO_SLOT
    return slots


def _algo(program: Program) -> str:
    low, high = program.sizes
    largest = high or 0
    if program.profile is Profile.OLD:
        largest = _NO_LIMIT if high is None else high + 1
    values: dict[str, object] = {
        "name": _plain_name(program.name),
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
    return f"<algo {_attributes(values)}>\n"


def _plain_name(name: str) -> str:
    """The name with `_` in place of all characters except letters, digits, `_`, `-` and `.`: it needs no escapes."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "_-.") else "_" for c in name)


def _attributes(values: dict[str, object]) -> str:
    return " ".join(f'{name}="{value}"' for name, value in values.items())


def _gpu(gpu: Gpu, ends: _MessageSlots) -> Iterator[str]:
    sizes = f'i_chunks="{gpu.input_chunks}" o_chunks="{gpu.output_chunks}" s_chunks="{gpu.scratch_chunks}"'
    yield f'  <gpu id="{gpu.rank}" {sizes}>\n'
    for number, tb in enumerate(gpu.threadblocks):
        yield from _threadblock(number, tb, ends)
    yield "  </gpu>\n"


def _threadblock(number: int, tb: Threadblock, ends: _MessageSlots) -> Iterator[str]:
    yield f'    <tb id="{number}" send="{tb.send}" recv="{tb.receive}" chan="{tb.channel}">\n'
    for position, step in enumerate(tb.steps):
        yield _step(position, step, ends)
    yield "    </tb>\n"


def _step(position: int, step: Step, ends: _MessageSlots) -> str:
    """The line of one step.

    The runtimes ignore the destination of `s` and the source of `r`. As in msccl-tools, these name the slot at the
    other end of the message. If another operation does not use its source or destination, the one repeats the other.
    """
    src, dst = step.src or step.dst or _NO_SLOT, step.dst or step.src or _NO_SLOT
    if step.op is Op.SEND:
        dst = ends.target.get(step.send, dst)
    elif step.op is Op.RECEIVE:
        src = ends.source.get(step.receive, src)
    count = 0 if step.op is Op.NOP else step.count
    depid, deps = step.waits[0] if step.waits else (-1, -1)
    return (
        f'      <step s="{position}" type="{step.op.value}" srcbuf="{src.buffer}" srcoff="{src.offset}"'
        f' dstbuf="{dst.buffer}" dstoff="{dst.offset}" cnt="{count}"'
        f' depid="{depid}" deps="{deps}" hasdep="{int(step.awaited)}"/>\n'
    )


def write_plan(plan: Json, out: BinaryIO) -> None:
    """Write a plan, one operation per line."""
    out.writelines(line.encode("ascii") for line in plan_lines(plan))


def plan_lines(plan: Json) -> Iterator[str]:
    """The lines of the file, including line ends."""
    yield "{\n"
    yield from (f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in plan.items() if name != "gpus")
    yield ' "gpus": [\n'
    for number, gpu in enumerate(plan["gpus"]):
        yield from _gpu(gpu)
        yield "  },\n" if number + 1 < len(plan["gpus"]) else "  }\n"
    yield " ]\n}\n"


def _gpu(gpu: Json) -> Iterator[str]:
    yield "  {\n"
    for name, value in gpu.items():
        if name != "threadblocks":
            yield f"   {json.dumps(name)}: {json.dumps(value)},\n"
    yield '   "threadblocks": [\n'
    for number, tb in enumerate(gpu["threadblocks"]):
        rest = ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in tb.items() if name != "ops")
        yield f'    {{{rest}, "ops": [\n'
        yield from _lines_with_commas([json.dumps(op) for op in tb["ops"]])
        yield "    ]}\n" if number + 1 == len(gpu["threadblocks"]) else "    ]},\n"
    yield "   ]\n"


def _lines_with_commas(texts: list[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        yield f"     {text},\n" if number + 1 < len(texts) else f"     {text}\n"
