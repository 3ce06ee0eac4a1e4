"""The settings with which the stages are run in turn: from the leanest program to more threadblocks and channels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from collc.msccl.limits import MOST_CHUNKS
from collc.msccl.lowering.assign import Policy
from collc.msccl.lowering.deadlock import MESSAGES_IN_FLIGHT
from collc.msccl.options import MscclOptions


@dataclass(frozen=True, slots=True)
class LoweringAttempt:
    """Settings of the stages for one attempt.

    merged: most chunks of one step. reuse: whether chunks share scratch slots. in_turn: whether threadblocks wait for
    one another so that they send over a link in order. eager: whether messages leave as early as they can (`eager`)
    in place of the times of the schedule.
    """

    policy: Policy
    merged: int
    reuse: bool = True
    in_turn: bool = False
    eager: bool = False


IN_TURN_ATTEMPTS: Final = tuple(LoweringAttempt(Policy(), most, in_turn=True) for most in (MOST_CHUNKS, 1))
"""Attempts for programs whose threadblocks share links."""

EAGER_ATTEMPTS: Final = tuple(replace(attempt, eager=True) for attempt in IN_TURN_ATTEMPTS)
"""Attempts for programs over switches, which messages that leave together reach together."""

_SPREAD: Final = LoweringAttempt(Policy(fuse=False, pair_unrelated=False, spread=True), 1, in_turn=True)
SPREAD_ATTEMPTS: Final = (_SPREAD, replace(_SPREAD, eager=True))
"""Attempts whose threadblocks delay messages least: each only sends or receives, and no connection is ever full."""


def leaner_attempts(options: MscclOptions) -> Iterator[LoweringAttempt]:
    """Attempts for programs that could deadlock: with less merged, shared and fused each time."""
    for most in _step_sizes(options):
        yield LoweringAttempt(Policy(), most)
    yield LoweringAttempt(Policy(paths=False), MOST_CHUNKS)
    for most in _step_sizes(options):
        yield LoweringAttempt(Policy(pair_unrelated=False), most)
    for most in _step_sizes(options):
        yield LoweringAttempt(Policy(pair_unrelated=False, fuse=False), most)
    yield LoweringAttempt(Policy(pair_unrelated=False, fuse=False), 1, reuse=False)


def wider_attempts(options: MscclOptions, channels: int) -> Iterator[LoweringAttempt]:
    """Attempts for programs that take longer than their schedule: on more connections, so that more is in flight.

    channels: most channels of one instance.
    """
    yield from IN_TURN_ATTEMPTS
    for shares in (2, 3, 4, 6, 8, 12, 16, 24, 32):
        if shares > channels:
            break
        paired, apart = Policy(shares=shares), Policy(shares=shares, pair_unrelated=False)
        for most in _step_sizes(options):
            yield LoweringAttempt(paired, most)
        yield LoweringAttempt(paired, MOST_CHUNKS, in_turn=True)
        for most in _step_sizes(options):
            yield LoweringAttempt(apart, most, in_turn=True)
        yield LoweringAttempt(apart, 1, reuse=False, in_turn=True)


def _step_sizes(options: MscclOptions) -> Iterator[int]:
    """Most chunks of a step to try, without repetitions: the limit, the messages that a connection holds, one."""
    yield from dict.fromkeys((MOST_CHUNKS, MESSAGES_IN_FLIGHT[options.protocol], 1))
