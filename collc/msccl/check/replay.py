"""Replay of the waits of a program without its data: FIFOs with a capacity, and dependencies.

Waits are monotone: a step that can run stays able to run when other threadblocks advance. So all orders of events reach
the same steps, and one replay decides whether the program ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

import numpy as np

from collc.msccl.check.connections import Connections
from collc.msccl.check.model import RECEIVES, SENDS, FileProgram, StepKind

Reason = Literal["receive", "send", "dependency"]
UNLIMITED = 2**62


@dataclass(frozen=True, slots=True)
class Blocked:
    """A threadblock that waits forever: its step, the reason, and the threadblock that it waits for (-1: none)."""

    tb: int
    step: int
    reason: Reason
    on: int


@dataclass(frozen=True, slots=True)
class StepWaits:
    """The waits of a program as lists with one entry for each step, for many replays.

    sends, receives: the step's connection, or -1. needs_tb, needs_step: threadblock row and position that its
    dependency waits for, or -1. sets: whether the step moves the counter of its threadblock. first: first step of each
    threadblock. sender, receiver: threadblocks at the ends of each connection.
    """

    first: list[int]
    tb: list[int]
    sends: list[int]
    receives: list[int]
    needs_tb: list[int]
    needs_step: list[int]
    sets: list[bool]
    sender: list[int]
    receiver: list[int]


def waits_of(program: FileProgram, connections: Connections) -> StepWaits:
    """The waits of a program whose contract is not `broken`."""
    steps = program.steps
    sends = np.where(SENDS[steps.kind], connections.of_sender[steps.tb], -1)
    receives = np.where(RECEIVES[steps.kind], connections.of_receiver[steps.tb], -1)
    on = np.where(steps.depid >= 0, program.gpu_first[program.step_gpu] + steps.depid, -1)
    sets = (steps.hasdep == 1) & (steps.kind != StepKind.NOP)
    return StepWaits(
        program.tbs.first.tolist(),
        steps.tb.tolist(),
        sends.tolist(),
        receives.tolist(),
        on.tolist(),
        steps.deps.tolist(),
        sets.tolist(),
        connections.sender.tolist(),
        connections.receiver.tolist(),
    )


def replay(program: StepWaits, messages: list[int], capacity: int) -> tuple[list[int], list[Blocked]]:
    """Replay the program until it ends or all threadblocks wait.

    messages: how many messages each step sends or receives; capacity: messages in flight on one
    connection. Returns the steps in the order in which they were done, and the threadblocks that wait forever.
    """
    return _Replay(program, messages, capacity).run()


class _Replay:
    def __init__(self, waits: StepWaits, messages: list[int], capacity: int) -> None:
        count = len(waits.first) - 1
        self.waits: StepWaits = waits
        self.messages: list[int] = messages
        self.capacity: int = capacity
        self.at: list[int] = waits.first[:-1]
        self.left: list[int] = [messages[k] if k < len(messages) else 0 for k in self.at]
        self.filled: list[int] = [0] * len(waits.sender)
        self.passed: list[int] = [-1] * count
        self.for_data: dict[int, int] = {}
        self.for_room: dict[int, int] = {}
        self.for_counter: dict[int, list[int]] = {}
        self.ready: deque[int] = deque(range(count))
        self.order: list[int] = []

    def run(self) -> tuple[list[int], list[Blocked]]:
        blocked: dict[int, Blocked] = {}
        while self.ready:
            tb = self.ready.popleft()
            blocked.pop(tb, None)
            halt = self._advance(tb)
            if halt is not None:
                blocked[tb] = halt
        return self.order, [blocked[tb] for tb in sorted(blocked)]

    def _advance(self, tb: int) -> Blocked | None:
        """Pass as many steps of a threadblock as can be passed now."""
        waits, end = self.waits, self.waits.first[tb + 1]
        while (step := self.at[tb]) < end:
            on = waits.needs_tb[step]
            if on >= 0 and self.passed[on] < waits.needs_step[step]:
                self.for_counter.setdefault(on, []).append(tb)
                return Blocked(tb, step, "dependency", on)
            if waits.sends[step] >= 0 or waits.receives[step] >= 0:
                halt = self._move(tb, step)
                if halt is not None:
                    return halt
                if self.left[tb]:
                    continue
            self._pass(tb, step)
        return None

    def _move(self, tb: int, step: int) -> Blocked | None:
        """Move as many messages as data and room allow; None if some moved."""
        out, into, count = self.waits.sends[step], self.waits.receives[step], self.left[tb]
        if into >= 0:
            count = min(count, self.filled[into])
            if not count:
                self.for_data[into] = tb
                return Blocked(tb, step, "receive", self.waits.sender[into])
        if out >= 0:
            count = min(count, self.capacity - self.filled[out])
            if not count:
                self.for_room[out] = tb
                return Blocked(tb, step, "send", self.waits.receiver[out])
            self.filled[out] += count
            if out in self.for_data:
                self.ready.append(self.for_data.pop(out))
        if into >= 0:
            self.filled[into] -= count
            if into in self.for_room:
                self.ready.append(self.for_room.pop(into))
        self.left[tb] -= count
        return None

    def _pass(self, tb: int, step: int) -> None:
        self.order.append(step)
        if self.waits.sets[step]:
            self.passed[tb] = step - self.waits.first[tb]
            self.ready.extend(self.for_counter.pop(tb, ()))
        self.at[tb] = step + 1
        if step + 1 < len(self.messages):
            self.left[tb] = self.messages[step + 1]
