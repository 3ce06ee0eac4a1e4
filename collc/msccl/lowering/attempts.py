"""The ways to run the stages of a lowering, from the leanest program to what costs more threadblocks and channels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collc.msccl.limits import MOST_CHUNKS
from collc.msccl.lowering.assign import Policy
from collc.msccl.lowering.progress import CAPACITY
from collc.msccl.options import MscclOptions


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to run the stages.

    merged: chunks of one step at most. reuse: whether chunks share scratch slots. in_turn: whether threadblocks wait
    for one another so as to send over a link in the order of the schedule.
    """

    policy: Policy
    merged: int
    reuse: bool = True
    in_turn: bool = False


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
    for colors in (2, 3, 4, 6, 8, 12, 16, 24, 32):
        if colors > channels:
            break
        shared, apart = Policy(colors=colors), Policy(colors=colors, share=False)
        for most in _counts(options):
            yield Attempt(shared, most)
        yield Attempt(shared, MOST_CHUNKS, in_turn=True)
        for most in _counts(options):
            yield Attempt(apart, most, in_turn=True)
        yield Attempt(apart, 1, reuse=False, in_turn=True)


def _counts(options: MscclOptions) -> Iterator[int]:
    """Chunks of a step, each number once: as many as can be, as many as a connection holds, one."""
    yield from dict.fromkeys((MOST_CHUNKS, CAPACITY[options.protocol], 1))
