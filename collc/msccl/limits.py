"""What the runtimes take: steps, threadblocks, channels, and the size of the file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from collc.base.diagnostics import Diagnostic, SourceError
from collc.msccl.options import Profile
from collc.msccl.program import Gpu, Program

MOST_CHUNKS: Final = 71
"""Chunks of one step."""

MOST_RANKS: Final = 1023
"""GPU elements of a file: an element has at most 1024 children."""

_LAST_OFFSET: Final = 32767
_LAST_AWAITED: Final = 127
_NODES: Final = 4095


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one runtime. per_channel: threadblocks of a GPU that send (receive) on one channel."""

    steps: int
    threadblocks: int
    channels: int = 32
    per_channel: int = 32


LIMITS: Final = {Profile.EXECUTOR: Limits(64, 1024), Profile.OLD: Limits(256, 216)}
"""The limits of each runtime."""


@dataclass(frozen=True, slots=True)
class Excess:
    """A limit that a program breaks. what: in words. hint: what to change."""

    what: str
    needed: int
    limit: int
    hint: str

    def error(self, name: str = "MSCCL program") -> SourceError:
        """The message to the user (M0111). name: what breaks the limit."""
        message = f"the {name} has {self.needed} {self.what}, {self.needed - self.limit} more than the {self.limit}"
        return SourceError(Diagnostic("M0111", f"{message} that the runtime takes", hint=self.hint))


def longest(program: Program) -> int:
    """Steps of the longest threadblock."""
    return max((len(tb.steps) for gpu in program.gpus for tb in gpu.threadblocks), default=0)


def excesses(program: Program) -> list[Excess]:
    """All limits that a final program breaks, each for the GPU that breaks it most."""
    limits = LIMITS[program.profile]
    nodes = max((_nodes(program, gpu) for gpu in program.gpus), default=0)
    tbs = max((len(gpu.threadblocks) for gpu in program.gpus), default=0)
    split = _FEWER + ", fewer parallel links, or fewer chunks at once"
    found = [
        _steps(longest(program), program.profile),
        Excess("threadblocks on one GPU", tbs, limits.threadblocks, split),
        Excess("channels", program.channels, limits.channels, _FEWER + " or fewer parallel links"),
        last_offset(_last_offset(program)),
        Excess("as the last threadblock that others wait for", _last_awaited(program), _LAST_AWAITED, split),
        _elements(nodes),
        Excess("GPUs", len(program.gpus), MOST_RANKS, "use fewer NPUs"),
        Excess("threadblocks of one channel on one GPU", _crowd(program), limits.per_channel, split),
    ]
    return [excess for excess in found if excess.needed > excess.limit]


def foreseen(program: Program, channels: int) -> None:
    """Raise SourceError M0111 where no way of sharing out the steps of a program after `merge` fits.

    channels: that an instance may use. A step receives one message and sends one at most.
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
    for excess in (_steps(most["steps"], program.profile), last_offset(most["offset"]), _elements(most["nodes"])):
        if excess.needed > excess.limit:
            raise excess.error()


_FEWER: Final = "use fewer chunks or fewer instances"


def _steps(needed: int, profile: Profile) -> Excess:
    other = "" if profile is Profile.OLD else ", or 'profile: \"old\"', which takes 256"
    return Excess("steps in one threadblock", needed, LIMITS[profile].steps, f"{_FEWER}, more 'channels'{other}")


def last_offset(needed: int) -> Excess:
    """The limit on the last chunk of a buffer, kept or not."""
    return Excess("as the last chunk of a buffer", needed, _LAST_OFFSET, _FEWER)


def _elements(needed: int) -> Excess:
    return Excess("elements that one rank loads", needed, _NODES, _FEWER)


def _nodes(program: Program, gpu: Gpu) -> int:
    return 1 + len(program.gpus) + sum(1 + len(tb.steps) for tb in gpu.threadblocks)


def _last_offset(program: Program) -> int:
    return max((max(g.input_chunks, g.output_chunks, g.scratch_chunks) - 1 for g in program.gpus), default=0)


def _last_awaited(program: Program) -> int:
    return max(
        (p.threadblock for g in program.gpus for tb in g.threadblocks for s in tb.steps for p in s.waits), default=0
    )


def _crowd(program: Program) -> int:
    most = 0
    for gpu in program.gpus:
        sends = Counter(tb.channel for tb in gpu.threadblocks if tb.send >= 0)
        receives = Counter(tb.channel for tb in gpu.threadblocks if tb.receive >= 0)
        most = max(most, *sends.values(), *receives.values(), 0)
    return most
