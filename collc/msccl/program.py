"""The MSCCL program: GPUs, threadblocks, channels and steps (Cowan et al., MSCCLang, ASPLOS 2023, section 4).

Each stage of the lowering is a function from program to program. At first the `steps` of a GPU belong to no
threadblock; `assign` replaces them by `threadblocks`; `depend` adds the waits between steps and makes the program
final. A program can be printed after any stage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple

from collc.msccl.collectives import Collective
from collc.msccl.options import Placement, Profile, Protocol

Buffer = Literal["i", "o", "s"]
"""Input, output and scratch."""

Moment = tuple[int, int, int, int]
"""Position of a step in the total order of a program's steps: time in picoseconds, phase, number, tie-break."""

ARRIVES, LEAVES, COPIES = 0, 1, 2
"""Phases of a moment: a chunk that arrives at a time can leave at that time."""


class Op(StrEnum):
    """The operation of a step, by its name in the file (docs/msccl-contract.md, section 3); src and dst are local."""

    SEND = "s"
    RECEIVE = "r"
    RECEIVE_COPY_SEND = "rcs"
    RECEIVE_REDUCE_SEND = "rrs"
    RECEIVE_REDUCE_COPY = "rrc"
    RECEIVE_REDUCE_COPY_SEND = "rrcs"
    COPY = "cpy"
    REDUCE = "re"
    NOP = "nop"


FUSED = frozenset({Op.RECEIVE_COPY_SEND, Op.RECEIVE_REDUCE_SEND, Op.RECEIVE_REDUCE_COPY_SEND})
"""Operations that receive one message and send another."""

LOCAL = frozenset({Op.COPY, Op.REDUCE})
"""Operations on slots of one GPU. REDUCE adds its source to its destination."""


class Slot(NamedTuple):
    """Room for one chunk: a buffer of a GPU and an offset in chunks."""

    buffer: Buffer
    offset: int


class Point(NamedTuple):
    """A step: its threadblock and its position in it."""

    threadblock: int
    step: int


class SwitchAccess(NamedTuple):
    """An operation over a switch that adds and stores to all its GPUs (plans only).

    ranks: of these GPUs. adds: whether it loads the sum of a slot of all of them; else it loads its own GPU's. into: to
    which of these it stores; () for all.
    """

    ranks: tuple[int, ...]
    adds: bool
    into: tuple[int, ...] = ()

    @property
    def targets(self) -> tuple[int, ...]:
        """The ranks to which it stores."""
        return self.into or self.ranks


# Not frozen, since a large program has hundreds of thousands, and a frozen one takes three times as long to make.
@dataclass(slots=True, unsafe_hash=True)
class Message:
    """Neighbouring chunks that one GPU sends to another in one step.

    source, target: ranks. chunk: number of the first chunk in the demand. count: number of chunks. path: numbers of
    the links, in order. start, leave, arrival: times in picoseconds at which it enters the first link, the sender has
    sent all of it, and the receiver has all of it. reduce: whether the receiver adds it to what it holds. relayed: the
    link over which came what it carries, which the sender kept apart; -1: it carries what the sender holds. switch: one
    operation over it stores this message and all others of its sender with this chunk and start; None: none does.
    kept: whether the receiver only keeps it apart, for messages that relay it.
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
    relayed: int = -1
    switch: SwitchAccess | None = None
    kept: bool = False


@dataclass(slots=True, unsafe_hash=True)
class Step:
    """One step of a GPU.

    when: its position in the order of steps. count: number of chunks, from src and dst on. receive, send: numbers of
    the program's messages, -1 for none. waits: steps of other threadblocks that must be done before; at most one in a
    final program. awaited: whether another step waits for this one. switch: of a copy that stores the sum of all GPUs
    of a switch to all of them.
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
    switch: SwitchAccess | None = None

    def reads(self) -> tuple[Slot, ...]:
        """The slots that it reads."""
        slots = () if self.src is None else _slots(self.src, self.count)
        return (*slots, *self.writes()) if self.op is Op.REDUCE else slots

    def writes(self) -> tuple[Slot, ...]:
        """The slots that it writes."""
        return () if self.dst is None else _slots(self.dst, self.count)


def _slots(first: Slot, count: int) -> tuple[Slot, ...]:
    return (first,) if count == 1 else tuple(Slot(first.buffer, first.offset + k) for k in range(count))


@dataclass(frozen=True, slots=True)
class Threadblock:
    """Steps in the order in which they run. send, receive: ranks of the peers, -1 for none."""

    send: int
    receive: int
    channel: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Gpu:
    """The part of one rank. steps: those that belong to no threadblock yet, in order of `when`."""

    rank: int
    input_chunks: int
    output_chunks: int
    scratch_chunks: int
    steps: tuple[Step, ...] = ()
    threadblocks: tuple[Threadblock, ...] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """A program after any stage.

    placement: the calls that it serves. sizes: smallest and largest buffer in bytes that it serves, both included;
    None: no limit. chunk_bytes: bytes of one chunk of the demand; each instance has 1/instances of it. channels:
    number of channels. scratch_needed: scratch chunks of all GPUs before slots are shared. notes: remarks for the
    report.
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
        """Number of chunks of the buffer that the runtime counts, of all instances (`nchunksperloop`)."""
        return self.collective.chunks_per_loop * self.instances

    def switch_of(self, step: Step) -> SwitchAccess | None:
        """The operation over a switch that a step is, or a part of; None if it is none."""
        return self.messages[step.send].switch if step.op is Op.SEND else step.switch

    def memory_slot(self, rank: int, slot: Slot, instances: int = 1) -> Slot:
        """The slot; in place, the one name of the memory that input and output of a rank share.

        instances: of the program, if `repeat` has run.
        """
        if slot.buffer == "s" or not self.placement.in_place:
            return slot
        bases = self.collective.in_place_bases(rank)
        return Slot("o", slot.offset + bases[slot.buffer == "o"] * instances)

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
    def slot_text(slot: Slot | None) -> str:
        return "-" if slot is None else f"{slot.buffer}[{slot.offset}]"

    text = step.op.value
    if step.op is not Op.NOP:
        text += f" {slot_text(step.src)} -> {slot_text(step.dst)}"
    if step.count > 1:
        text += f" x{step.count}"
    return text + "".join(f" after {p.threadblock}.{p.step}" for p in step.waits)
