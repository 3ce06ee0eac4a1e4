"""Limits of the runtimes: steps, threadblocks, channels, size of the file (docs/msccl-contract.md, section 4)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import gcd
from typing import Final

from collc.base.diagnostics import Diagnostic, SourceError
from collc.base.units import format_bytes
from collc.msccl.options import Profile
from collc.msccl.program import Program

MOST_CHUNKS: Final = 71
"""Most chunks of one step (`cnt`)."""

MOST_RANKS: Final = 1023
"""Most GPUs of a file: an element has at most 1024 children."""

MULTIPROCESSORS: Final = 132
"""Streaming multiprocessors of an H100 SXM (NVIDIA H100 whitepaper)."""

LAST_OFFSET: Final = 32767
"""Largest offset of a slot in a buffer."""

LAST_AWAITED: Final = 127
"""Largest number of a threadblock that a step can wait for."""

OLD_FILES: Final = 4
"""Files of MSCCL_XML_FILES that the old runtime loads (MSCCL_MAX_NUM_ALGOS in its `src/include/msccl.h`)."""

# Limits of MSCCL++ (docs/msccl-contract.md, section 6).
PLAN_OPERATIONS: Final = 64
"""Operations of a threadblock."""
PLAN_CHANNELS: Final = 16
"""Channels of a threadblock, and remote buffers that it writes."""
PLAN_SEMAPHORES: Final = 16
"""Semaphores of an operation."""
OPERATION_CHANNELS: Final = 8
"""Channels of an operation, and buffers on each side of it."""
PLAN_PORTS: Final = 1024
"""Port channels of a GPU: the proxy numbers their semaphores with 10 bits."""
PLAN_REGIONS: Final = 512
"""Regions of memory that the proxy of a GPU knows: it numbers them with 9 bits."""
INFINIBAND_DEVICES: Final = 8
"""InfiniBand devices per node that the runtime knows by name; a rank takes the one of its number in the node."""
PLAN_PACKETS: Final = 2 << 20
"""Bytes of the largest message of a plan of packets, unless they are given: as in the plans of MSCCL++."""
PLAN_STARTS: Final = 2**31 - 1
"""The largest least size of a plan in bytes: its reader keeps it in 31 bits."""
PLAN_END: Final = 2**32 - 2**22
"""The largest size of a plan in bytes: its offsets have 32 bits, so that it serves less than 4 GiB."""

_LARGEST_BUFFER: Final = 4 << 30
"""Bytes of the largest buffer of a file with scratch, if the user gives no sizes."""

_USUAL_SCRATCH: Final = 1 << 30
"""Most bytes of scratch on a GPU if the user gives no sizes."""

_MOST_SCRATCH: Final = 80 << 30
"""Bytes of scratch of a GPU that are an error: all memory of an A100 or H100 of 80 GB."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one runtime. per_channel: threadblocks of a GPU that send (or receive) on one channel. elements: that
    one rank loads.
    """

    steps: int
    threadblocks: int
    channels: int = 32
    per_channel: int = 32
    elements: int = 4095


LIMITS: Final = {
    Profile.EXECUTOR: Limits(64, 1024),
    Profile.OLD: Limits(256, 216),
    Profile.RCCL: Limits(64, 64),
    Profile.RUN: Limits(2**15, 1024, elements=2**20),
}
"""The limits of each runtime. collc's own could load more: its limits keep the check of a file short."""


@dataclass(frozen=True, slots=True)
class LimitUse:
    """How much of a limit a program needs. what: the thing counted, in words. hint: what the user can change."""

    what: str
    needed: int
    limit: int
    hint: str

    @property
    def is_exceeded(self) -> bool:
        """Whether the program needs more than the runtime allows."""
        return self.needed > self.limit

    def error(self, name: str = "MSCCL program") -> SourceError:
        """The error for a limit that is exceeded (M0111). name: what exceeds it."""
        message = f"the {name} has {self.needed} {self.what}, {self.needed - self.limit} more than the {self.limit}"
        return SourceError(Diagnostic("M0111", f"{message} that the runtime allows", hint=self.hint))


def longest_threadblock(program: Program) -> int:
    """Steps of the longest threadblock."""
    return max((len(tb.steps) for gpu in program.gpus for tb in gpu.threadblocks), default=0)


def exceeded_limits(program: Program) -> list[LimitUse]:
    """All limits that a final program exceeds, each with the need of the GPU that needs most."""
    limits, gpus = LIMITS[program.profile], program.gpus
    tbs = max((len(gpu.threadblocks) for gpu in gpus), default=0)
    nodes = max((sum(1 + len(tb.steps) for tb in gpu.threadblocks) for gpu in gpus), default=0) + 1 + len(gpus)
    offset = max((max(g.input_chunks, g.output_chunks, g.scratch_chunks) - 1 for g in gpus), default=0)
    waits = (wait.threadblock for g in gpus for tb in g.threadblocks for step in tb.steps for wait in step.waits)
    split = _FEWER + ", fewer parallel links, or fewer chunks at once"
    uses = [
        _steps(longest_threadblock(program), program.profile),
        LimitUse("threadblocks on one GPU", tbs, limits.threadblocks, split),
        LimitUse("channels", program.channels, limits.channels, _FEWER + " or fewer parallel links"),
        last_offset(offset),
        LimitUse("as the last threadblock that others wait for", max(waits, default=0), LAST_AWAITED, split),
        _elements(nodes, program.profile),
        LimitUse("GPUs", len(gpus), MOST_RANKS, "use fewer NPUs"),
        LimitUse("threadblocks of one channel on one GPU", _most_on_a_channel(program), limits.per_channel, split),
    ]
    return [use for use in uses if use.is_exceeded]


def check_merged_limits(program: Program, channels: int) -> None:
    """Raise SourceError M0111 if no division of the merged steps among threadblocks keeps the limits.

    program: after `merge`. channels: how many one instance may use. The bounds assume that every step receives one
    message and sends one, so they are necessary and not sufficient.
    """
    most = Counter[str]()
    for gpu in program.gpus:
        receives = Counter(program.messages[step.receive].source for step in gpu.steps if step.receive >= 0)
        sends = Counter(program.messages[step.send].target for step in gpu.steps if step.send >= 0)
        moving = max(receives.total(), sends.total()) * program.instances
        busiest = max(*receives.values(), *sends.values(), 0, 0)
        most["steps"] = max(most["steps"], -(-busiest // channels))
        most["nodes"] = max(most["nodes"], 2 + len(program.gpus) + moving)
        most["offset"] = max(most["offset"], max(gpu.input_chunks, gpu.output_chunks) * program.instances - 1)
    for use in (
        _steps(most["steps"], program.profile),
        last_offset(most["offset"]),
        _elements(most["nodes"], program.profile),
    ):
        if use.is_exceeded:
            raise use.error()


def last_offset(needed: int) -> LimitUse:
    """The limit on the offset of the last chunk of a buffer."""
    return LimitUse("as the last chunk of a buffer", needed, LAST_OFFSET, _FEWER)


def size_notes(program: Program) -> list[str]:
    """A note if no call with a power of two of elements is served, since its parts would not be whole elements.

    A call is served if its count, times the GPUs if each has a part, is a multiple of the chunks of the whole buffer
    (docs/msccl-contract.md, section 2).
    """
    parts = len(program.gpus) if program.collective.kind in ("all_gather", "reduce_scatter", "all_to_all") else 1
    count = program.chunks_per_loop // gcd(program.chunks_per_loop, parts)
    if count & (count - 1) == 0:
        return []
    return [
        f"serves only calls with a multiple of {count} elements"
        + ("" if parts == 1 else " of a GPU")
        + ", so none with a power of two: pad the buffers"
    ]


def residency_notes(threadblocks: int) -> list[str]:
    """A note if the threadblocks of a GPU may not fit on it at once, which both runtimes need.

    threadblocks: of the GPU that has most. A multiprocessor is assumed to hold one.
    """
    if threadblocks <= MULTIPROCESSORS:
        return []
    return [
        f"{threadblocks} threadblocks must run on a GPU at once: "
        f"more than the {MULTIPROCESSORS} multiprocessors of an H100"
    ]


_FEWER: Final = "use fewer chunks or fewer instances"


def _steps(needed: int, profile: Profile) -> LimitUse:
    other = ", or 'profile: \"old\"', which allows 256" if profile is Profile.EXECUTOR else ""
    return LimitUse("steps in one threadblock", needed, LIMITS[profile].steps, f"{_FEWER}, more 'channels'{other}")


def _elements(needed: int, profile: Profile) -> LimitUse:
    return LimitUse("elements that one rank loads", needed, LIMITS[profile].elements, _FEWER)


def _most_on_a_channel(program: Program) -> int:
    """Threadblocks of one GPU that send, or that receive, on one channel."""
    most = 0
    for gpu in program.gpus:
        sends = Counter(tb.channel for tb in gpu.threadblocks if tb.send >= 0)
        receives = Counter(tb.channel for tb in gpu.threadblocks if tb.receive >= 0)
        most = max(most, *sends.values(), *receives.values(), 0)
    return most


def scratch_bytes(program: Program, largest: int) -> int:
    """Bytes that the old runtime allocates on each GPU for buffers of up to `largest` bytes.

    It allocates `maxBytes` x `s_chunks` / `nchunksperloop` bytes when it starts (docs/msccl-contract.md, section 5), so
    that a file with scratch needs a bound on its sizes.
    """
    chunks = max((gpu.scratch_chunks for gpu in program.gpus), default=0)
    # `maxBytes` of the old runtime is excluded, so it is one more than the largest size.
    return (largest + 1) * chunks // program.chunks_per_loop


def bounded_scratch(program: Program, sizes_given: bool) -> Program:
    """The program with sizes for which the old runtime can allocate its scratch, and a note if they were bounded.

    sizes_given: whether the user gave the sizes; then they are kept, and the check of the file warns above 1 GiB of
    scratch. Programs of the executor, and those without scratch, stay as they are. Raises SourceError M0111 for sizes
    that need more than 80 GiB.
    """
    chunks = max((gpu.scratch_chunks for gpu in program.gpus), default=0)
    if program.profile is not Profile.OLD or not chunks:
        return program
    low, high = program.sizes
    if high is None or not sizes_given:
        fitting = ((_USUAL_SCRATCH + 1) * program.chunks_per_loop - 1) // chunks - 1
        usual = min(_LARGEST_BUFFER, fitting >> 20 << 20)
        if high is not None and high <= usual:
            return program
        largest = max(low, usual)
        note = (
            f"for buffers up to {format_bytes(largest)}: when the old runtime starts, it allocates scratch for the "
            f"largest size, here {-(-scratch_bytes(program, largest) >> 20)} MiB a GPU; 'sizes' allows larger buffers"
        )
        return replace(program, sizes=(low, largest), notes=(*program.notes, note))
    needed = scratch_bytes(program, high)
    if needed > _MOST_SCRATCH:
        what = "bytes of scratch on one GPU for its largest buffer"
        hint = "let 'sizes' end earlier; with 'profile: \"executor\"' the runtime allocates what a call needs"
        raise LimitUse(what, needed, _MOST_SCRATCH, hint).error()
    return program
