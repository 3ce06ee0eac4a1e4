"""The ways to run the stages of a lowering, from the leanest program to what costs more threadblocks and channels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collc.msccl.assign import Policy
from collc.msccl.limits import MOST_CHUNKS
from collc.msccl.options import MscclOptions
from collc.msccl.progress import CAPACITY


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to run the stages. merged: chunks of one step at most. reuse: whether chunks share scratch slots."""

    policy: Policy
    merged: int
    reuse: bool = True


def attempts(options: MscclOptions) -> Iterator[Attempt]:
    """Ways for programs that could block: with less merged, shared and fused."""
    for most in _counts(options):
        yield Attempt(Policy(), most)
    yield Attempt(Policy(paths=False), MOST_CHUNKS)
    for most in _counts(options):
        yield Attempt(Policy(share=False), most)
    yield Attempt(Policy(share=False, fuse=False), 1)
    yield Attempt(Policy(share=False, fuse=False), 1, reuse=False)


def wider(options: MscclOptions, channels: int) -> Iterator[Attempt]:
    """Ways for programs that take longer than their schedule: on more connections, so that more is in flight."""
    colors = 2
    while colors <= channels:
        for share in (True, False):
            for most in _counts(options):
                yield Attempt(Policy(colors=colors, share=share), most)
        colors *= 2


def _counts(options: MscclOptions) -> Iterator[int]:
    """Chunks of a step, each number once: as many as can be, as many as a connection holds, one."""
    yield from dict.fromkeys((MOST_CHUNKS, CAPACITY[options.protocol], 1))
