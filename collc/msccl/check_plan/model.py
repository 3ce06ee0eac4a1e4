"""The program of an MSCCL++ plan: one-sided operations with what they read, write and wait for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from collc.msccl.check.findings import FileLocation

NAMES: Final = (
    *("copy", "put", "pws", "pwsf", "get", "signal", "wait", "flush", "nop", "re", "res", "rre", "rres"),
    *("cpkt", "upkt", "ppkt", "rppkt", "repkt", "respkt", "recpkt", "recspkt"),
    *("glres", "gstore", "barrier", "sem_acquire", "sem_release", "rlxsignal", "rlxwait"),
)
SIGNALS: Final = ("signal", "rlxsignal", "pws", "pwsf")
PUTS: Final = ("put", "pws", "pwsf")
"""Operations that a port channel queues with its proxy."""
FLUSHES: Final = ("flush", "pwsf")
"""Operations that end when the proxy has sent all that their channels queued."""
REFUSED: Final = {
    "glre": ("the reader of plans refuses a sum that is not stored to all", "glres"),
    "gstorepkt": ("collc cannot judge packets over switch channels", "gstore, or ppkt"),
    "pipeline": ("collc cannot judge operations that are repeated", "the operations themselves"),
}
"""Operations that no plan may have: why, and what to write instead."""

WAITS: Final = ("wait", "rlxwait")
SCRATCH: Final = 2
"""The number of the only buffer that belongs to the runtime, not to a caller."""
PACKETS: Final = 3
"""The number of the buffer of packets: payload and flag, in the scratch at the bytes of chunks 2k and 2k + 1.

The flag is the number of the launch, so that readers wait for them. Each packet is written once in a launch: a reader
could not tell a second one. With two scratch buffers a launch uses the one that the launch before did not, and a packet
is written to the bytes of one of two launches before.
"""

MAX_OP_BUFFERS: Final = 10
"""Buffers on one side of an operation."""

Channel = tuple[str, int, int, int]
"""(type, from, to, which of the channels between the two): signals on it arrive at `to`."""


@dataclass(frozen=True, slots=True)
class SwitchChannel:
    """A buffer of some gpus that a switch adds and stores to. ranks: in the order of the file."""

    buffer: int
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SlotRange:
    """`size` chunks of a buffer (0: input, 1: output, 2: scratch, 3: packets) of a gpu, from `index` on.

    caller: the gpu whose operation reaches them as a buffer of another gpu; -1 if they are its own.
    """

    gpu: int
    buffer: int
    index: int
    size: int
    caller: int = -1

    @property
    def remote(self) -> bool:
        """Whether another gpu reaches them."""
        return self.caller >= 0


@dataclass(frozen=True, slots=True)
class DataMove:
    """Every target becomes the sum of the sources; with one source, a copy of it."""

    sources: tuple[SlotRange, ...]
    targets: tuple[SlotRange, ...]


Packet = tuple[int, int]
"""(gpu, number) of a packet chunk."""


@dataclass(slots=True)
class Operation:
    """One operation of a threadblock.

    tb: row of the threadblock in the plan. via: its channel type, "" for none. over: its channels. signals: channels
    that it signals, once each; waits: channels that it waits on, as their sender names them. barrier: (id, threadblocks
    that meet), or None. semaphores: numbers of semaphores of its gpu.
    """

    name: str
    tb: int
    location: FileLocation
    moves: list[DataMove] = field(default_factory=list[DataMove])
    signals: list[Channel] = field(default_factory=list[Channel])
    waits: list[Channel] = field(default_factory=list[Channel])
    over: list[Channel] = field(default_factory=list[Channel])
    via: str = ""
    barrier: tuple[int, int] | None = None
    semaphores: list[int] = field(default_factory=list[int])

    @property
    def packets_read(self) -> list[Packet]:
        """The packets that it waits for."""
        return _packets(slots for move in self.moves for slots in move.sources)

    @property
    def packets_written(self) -> list[Packet]:
        """The packets that it writes."""
        return _packets(slots for move in self.moves for slots in move.targets)


def _packets(ranges: Iterable[SlotRange]) -> list[Packet]:
    return [(slots.gpu, slots.index + k) for slots in ranges if slots.buffer == PACKETS for k in range(slots.size)]


Nodes = int | Sequence[int]
"""How many consecutive ranks are a node, or the node of each rank."""

RemoteBuffer = tuple[int, int, tuple[str, ...]]
"""(owner, number of the buffer, types of channels)."""


@dataclass(slots=True)
class Plan:
    """A whole plan.

    chunks: input, output and scratch chunks of each gpu. threadblocks: the operations of each threadblock, by gpu;
    gpu_of: the gpu of each. semaphores: initial values, by gpu. switches: switch channels, by gpu. doubled: whether
    there are two scratch buffers, used in turn. reused: whether buffers of earlier calls may be used. largest:
    max_message_size in bytes, None for no limit. channels: of each gpu by type. remote: the remote buffers of each gpu.
    nodes: of the ranks; None: not known, and memory channels may go between any two.
    """

    name: str
    collective: str
    protocol: str
    inplace: bool
    chunks: list[tuple[int, int, int]]
    threadblocks: list[list[Operation]]
    gpu_of: list[int]
    semaphores: list[list[int]]
    largest: int | None = None
    doubled: bool = False
    reused: bool = False
    switches: list[list[SwitchChannel]] = field(default_factory=list["list[SwitchChannel]"])
    channels: list[dict[str, list[Channel]]] = field(default_factory=list["dict[str, list[Channel]]"])
    remote: list[list[RemoteBuffer]] = field(default_factory=list["list[RemoteBuffer]"])
    nodes: Nodes | None = None

    @property
    def operations(self) -> list[Operation]:
        """All operations, by threadblock."""
        return [op for ops in self.threadblocks for op in ops]
