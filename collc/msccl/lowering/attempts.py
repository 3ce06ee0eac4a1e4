"""The ways to run the stages of a lowering, from the leanest program to what costs more threadblocks and channels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from collc.msccl.limits import MOST_CHUNKS
from collc.msccl.lowering.assign import Policy
from collc.msccl.lowering.deadlock import MESSAGES_IN_FLIGHT
from collc.msccl.options import MscclOptions


@dataclass(frozen=True, slots=True)
class LoweringAttempt:
    """One way to run the stages.

    merged: chunks of one step at most. reuse: whether chunks share scratch slots. in_turn: whether threadblocks wait
    for one another so as to send over a link in the order of the schedule.
    """

    policy: Policy
    merged: int
    reuse: bool = True
    in_turn: bool = False


def attempts(options: MscclOptions) -> Iterator[LoweringAttempt]:
    """Ways for programs that could block: with less merged, shared and fused."""
    for most in _counts(options):
        yield LoweringAttempt(Policy(), most)
    yield LoweringAttempt(Policy(paths=False), MOST_CHUNKS)
    for most in _counts(options):
        yield LoweringAttempt(Policy(pack=False), most)
    yield LoweringAttempt(Policy(pack=False, fuse=False), 1)
    yield LoweringAttempt(Policy(pack=False, fuse=False), 1, reuse=False)


def wider(options: MscclOptions, channels: int) -> Iterator[LoweringAttempt]:
    """Ways for programs that take longer than their schedule: on more connections, so that more is in flight."""
    for shares in (2, 3, 4, 6, 8, 12, 16, 24, 32):
        if shares > channels:
            break
        shared, apart = Policy(shares=shares), Policy(shares=shares, pack=False)
        for most in _counts(options):
            yield LoweringAttempt(shared, most)
        yield LoweringAttempt(shared, MOST_CHUNKS, in_turn=True)
        for most in _counts(options):
            yield LoweringAttempt(apart, most, in_turn=True)
        yield LoweringAttempt(apart, 1, reuse=False, in_turn=True)


def _counts(options: MscclOptions) -> Iterator[int]:
    """Chunks of a step, each number once: as many as can be, as many as a connection holds, one."""
    yield from dict.fromkeys((MOST_CHUNKS, MESSAGES_IN_FLIGHT[options.protocol], 1))
