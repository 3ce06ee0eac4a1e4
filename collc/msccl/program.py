"""The MSCCL program: GPUs, threadblocks, channels and steps (Cowan et al., MSCCLang, ASPLOS 2023, section 4).

Lowering takes a program through stages; each is a function from program to program. At first a GPU
has `steps` that belong to no threadblock; after `assign` it has `threadblocks`; after `depend` the
steps wait for one another and are final. Printing a program at any stage shows that stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple

from collc.msccl.collectives import Collective
from collc.msccl.options import Placement, Profile, Protocol

Buffer = Literal["i", "o", "s"]
"""Input, output and scratch."""

Moment = tuple[int, int, int, int]
"""Place of a step in the one order of all steps of a program: picoseconds, phase, number, tie."""

ARRIVES, LEAVES, COPIES = 0, 1, 2
"""Phases of a moment: what arrives at a time can leave at that time."""


class Op(StrEnum):
    """What a step does, by its name in the file; src and dst are always local."""

    SEND = "s"
    RECEIVE = "r"
    RECEIVE_COPY_SEND = "rcs"
    RECEIVE_REDUCE_SEND = "rrs"
    RECEIVE_REDUCE_COPY = "rrc"
    RECEIVE_REDUCE_COPY_SEND = "rrcs"
    COPY = "cpy"
    NOP = "nop"


FUSED = frozenset({Op.RECEIVE_COPY_SEND, Op.RECEIVE_REDUCE_SEND, Op.RECEIVE_REDUCE_COPY_SEND})
"""Operations that receive one message and send another."""


class Slot(NamedTuple):
    """A chunk's place in a buffer."""

    buffer: Buffer
    offset: int


class Point(NamedTuple):
    """A step: its threadblock and its position in it."""

    threadblock: int
    step: int


@dataclass(frozen=True, slots=True)
class Message:
    """Neighbouring chunks on their way from one GPU to another.

    source, target: ranks. chunk: number of the first in the demand. path: links, in order.
    start, leave, arrival: picoseconds; when it enters the first link, when the sender is done with
    it, when it is all there.
    """

    source: int
    target: int
    chunk: int
    count: int
    path: tuple[int, ...]
    start: int
    leave: int
    arrival: int
    reduce: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a GPU.

    count: chunks from src and dst on. receive, send: numbers of the program's messages, -1 for none.
    waits: steps that must be done before; at most one once the program is final. awaited: whether
    another step waits for this one.
    """

    op: Op
    when: Moment
    count: int
    src: Slot | None = None
    dst: Slot | None = None
    receive: int = -1
    send: int = -1
    waits: tuple[Point, ...] = ()
    awaited: bool = False

    def reads(self) -> Iterator[Slot]:
        """Slots that it reads."""
        if self.src is not None:
            for k in range(self.count):
                yield Slot(self.src.buffer, self.src.offset + k)

    def writes(self) -> Iterator[Slot]:
        """Slots that it writes."""
        if self.dst is not None:
            for k in range(self.count):
                yield Slot(self.dst.buffer, self.dst.offset + k)


@dataclass(frozen=True, slots=True)
class Threadblock:
    """Steps in the order in which they run. send, receive: peers' ranks or -1."""

    send: int
    receive: int
    channel: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Gpu:
    """One rank. steps: those of no threadblock yet, in order of `when`."""

    rank: int
    input_chunks: int
    output_chunks: int
    scratch_chunks: int
    steps: tuple[Step, ...] = ()
    threadblocks: tuple[Threadblock, ...] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """A program in any stage.

    chunk_bytes: of one chunk of the demand; each instance has 1/instances of it. sizes: smallest and
    largest buffer in bytes that the file is for, the latter None for no limit. scratch_needed: scratch
    chunks of all GPUs before reuse.
    """

    name: str
    collective: Collective
    profile: Profile
    protocol: Protocol
    placement: Placement
    sizes: tuple[int, int | None]
    chunk_bytes: int
    instances: int
    channels: int
    messages: tuple[Message, ...]
    gpus: tuple[Gpu, ...]
    scratch_needed: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def chunks_per_loop(self) -> int:
        """Chunks that the runtime cuts the buffer into."""
        return self.collective.chunks_per_loop * self.instances

    def __str__(self) -> str:
        lines = [f"program {self.name}: {self.collective.coll}, {len(self.gpus)} GPUs, {self.channels} channels"]
        for gpu in self.gpus:
            lines.append(f"gpu {gpu.rank} i={gpu.input_chunks} o={gpu.output_chunks} s={gpu.scratch_chunks}")
            lines += [f"  {text}" for text in map(_step_text, gpu.steps)]
            for number, tb in enumerate(gpu.threadblocks):
                lines.append(f"  tb {number} send={tb.send} recv={tb.receive} chan={tb.channel}")
                lines += [f"    {k}: {text}" for k, text in enumerate(map(_step_text, tb.steps))]
        return "\n".join(lines) + "\n"


def _step_text(step: Step) -> str:
    def place(slot: Slot | None) -> str:
        return "-" if slot is None else f"{slot.buffer}[{slot.offset}]"

    text = step.op.value
    if step.op is not Op.NOP:
        text += f" {place(step.src)} -> {place(step.dst)}"
    if step.count > 1:
        text += f" x{step.count}"
    return text + "".join(f" after {p.threadblock}.{p.step}" for p in step.waits)
