"""The settings with which the stages are run in turn: from the leanest program to more threadblocks and channels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from collc.msccl.limits import MOST_CHUNKS
from collc.msccl.lowering.assign import Policy
from collc.msccl.lowering.deadlock import MESSAGES_IN_FLIGHT
from collc.msccl.options import MscclOptions


class MessageOrder(Enum):
    """Of which messages the steps are in order: of those of the schedule, of these as early as each can be, or of these
    with GPUs that are alike exchanged, too.
    """

    SCHEDULED = 0
    EAGER = 1
    EXCHANGED = 2


@dataclass(frozen=True, slots=True)
class LoweringAttempt:
    """Settings of the stages for one attempt.

    merged: most chunks of one step. reuse: whether chunks share scratch slots. in_turn: whether threadblocks wait for
    one another so that they send over a link in order. order: of which messages.
    """

    policy: Policy
    merged: int
    reuse: bool = True
    in_turn: bool = False
    order: MessageOrder = MessageOrder.SCHEDULED


SPREAD_ATTEMPTS: Final = tuple(
    LoweringAttempt(Policy(fuse=False, pair_unrelated=False, spread=True), 1, in_turn=True, order=order)
    for order in (MessageOrder.SCHEDULED, MessageOrder.EAGER)
)
"""Attempts whose threadblocks delay messages least: each only sends or receives, and no connection is ever full."""

LARGE_ATTEMPTS: Final = tuple(
    LoweringAttempt(Policy(), 1, in_turn=True, order=order) for order in (MessageOrder.SCHEDULED, MessageOrder.EAGER)
)
"""Attempts for large programs over switches, the schedule's order first."""

EAGER_ATTEMPTS: Final = tuple(
    LoweringAttempt(Policy(), most, in_turn=True, order=MessageOrder.EAGER) for most in (MOST_CHUNKS, 1)
)
"""Attempts for programs over switches, where messages that leave together tie."""

EXCHANGED_ATTEMPTS: Final = (
    LoweringAttempt(Policy(), 1, in_turn=True, order=MessageOrder.EXCHANGED),
    LoweringAttempt(SPREAD_ATTEMPTS[0].policy, 1, in_turn=True, order=MessageOrder.EXCHANGED),
)
"""Attempts for programs over switches, where messages tie and come in another order than that of the schedule."""


def attempts(options: MscclOptions) -> Iterator[LoweringAttempt]:
    """Attempts for programs that could deadlock: with less merged, shared and fused each time."""
    for most in _counts(options):
        yield LoweringAttempt(Policy(), most)
    yield LoweringAttempt(Policy(paths=False), MOST_CHUNKS)
    for most in _counts(options):
        yield LoweringAttempt(Policy(pair_unrelated=False), most)
    for most in _counts(options):
        yield LoweringAttempt(Policy(pair_unrelated=False, fuse=False), most)
    yield LoweringAttempt(Policy(pair_unrelated=False, fuse=False), 1, reuse=False)


def wider(options: MscclOptions, channels: int) -> Iterator[LoweringAttempt]:
    """Attempts for programs that take longer than their schedule: on more connections, so that more is in flight.

    channels: most channels of one instance.
    """
    yield LoweringAttempt(Policy(), MOST_CHUNKS, in_turn=True)
    yield LoweringAttempt(Policy(), 1, in_turn=True)
    for shares in (2, 3, 4, 6, 8, 12, 16, 24, 32):
        if shares > channels:
            break
        paired, apart = Policy(shares=shares), Policy(shares=shares, pair_unrelated=False)
        for most in _counts(options):
            yield LoweringAttempt(paired, most)
        yield LoweringAttempt(paired, MOST_CHUNKS, in_turn=True)
        for most in _counts(options):
            yield LoweringAttempt(apart, most, in_turn=True)
        yield LoweringAttempt(apart, 1, reuse=False, in_turn=True)


def _counts(options: MscclOptions) -> Iterator[int]:
    """Most chunks of a step to try, without repetitions: the limit, the messages that a connection holds, one."""
    yield from dict.fromkeys((MOST_CHUNKS, MESSAGES_IN_FLIGHT[options.protocol], 1))
