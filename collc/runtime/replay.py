"""The order of events of a program: threadblocks that wait for messages, for room on connections and for each other.

Waits are monotone: a step that can run stays able to run when other threadblocks advance. So all orders of events reach
the same steps, and one of them decides whether the program ends. What moves is up to the caller: nothing (`replay`), or
data (`data.StepData`).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

UNLIMITED = 2**62
"""Capacity of connections that are never full."""

Reason = Literal["receive", "send", "dependency"]
MoveMessages = Callable[[int, int, int], None]
"""Called with a step, and with the number of the first of its messages that move and how many do."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A threadblock that waits: its step, the reason, and the threadblock that it waits for (-1: none)."""

    tb: int
    step: int
    reason: Reason
    on: int


@dataclass(frozen=True, slots=True)
class StepWaits:
    """The waits of a program as lists with one entry for each step.

    first: the first step of each threadblock, and the number of steps. tb: the threadblock of each step. sends,
    receives: the step's connection, or -1. needs_tb, needs_step: threadblock and position that its dependency waits
    for, or -1. sets: whether the step moves the counter of its threadblock. sender, receiver: threadblocks at the ends
    of each connection.
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


def replay(waits: StepWaits, messages: list[int], capacity: int) -> tuple[list[int], list[Blocked]]:
    """Replay a program until it ends or all threadblocks wait.

    messages: how many messages each step sends or receives. capacity: messages in flight on one connection. Returns the
    steps in the order in which they were done, and the threadblocks that wait forever.
    """
    interpreter = Interpreter(waits, messages, capacity)
    return interpreter.order, interpreter.run()


def longest_chain(waits: StepWaits) -> int:
    """Steps on the longest path of program order, dependencies and messages; 0 if the program never ends."""
    order, blocked = replay(waits, [1] * len(waits.tb), UNLIMITED)
    if blocked:
        return 0
    depth = [0] * len(order)
    sent: dict[int, deque[int]] = defaultdict(deque)
    for step in order:
        before = depth[step - 1] if step > waits.first[waits.tb[step]] else 0
        if waits.needs_tb[step] >= 0:
            awaited = waits.first[waits.needs_tb[step]] + waits.needs_step[step]
            before = max(before, depth[waits.sets.index(True, awaited)])
        if waits.receives[step] >= 0:
            before = max(before, sent[waits.receives[step]].popleft())
        depth[step] = before + 1
        if waits.sends[step] >= 0:
            sent[waits.sends[step]].append(depth[step])
    return max(depth, default=0)


class Interpreter:
    """The state of a program that runs.

    at: the step of each threadblock. left: messages of that step that have not moved. in_flight: messages on each
    connection. passed: position of the last step of each threadblock that moved its counter. order: the steps that are
    done. sent: messages sent by all.
    """

    def __init__(self, waits: StepWaits, messages: list[int], capacity: int, move: MoveMessages | None = None) -> None:
        """messages, capacity: as for `replay`."""
        count = len(waits.first) - 1
        self.waits: StepWaits = waits
        self.messages: list[int] = messages
        self.capacity: int = capacity
        self.move: MoveMessages | None = move
        self.at: list[int] = waits.first[:-1]
        self.left: list[int] = [messages[step] if step < len(messages) else 0 for step in self.at]
        self.in_flight: list[int] = [0] * len(waits.sender)
        self.passed: list[int] = [-1] * count
        self.order: list[int] = []
        self.sent: int = 0
        self._asleep: dict[tuple[Reason, int], list[int]] = {}
        self._ready: deque[int] = deque(range(count))

    def run(self, random: Random | None = None) -> list[Blocked]:
        """Run until nothing can move. Returns the threadblocks that wait forever.

        random: move one message at a time, of a random threadblock; else as many as can move.
        """
        ready, blocked = self._ready, dict[int, Blocked]()
        while ready:
            if random is not None:
                pick = random.randrange(len(ready))
                ready[0], ready[pick] = ready[pick], ready[0]
            tb = ready.popleft()
            blocked.pop(tb, None)
            while not self.is_done(tb):
                wait = self.wait_of(tb)
                if wait is not None:
                    blocked[tb] = wait
                    self._asleep.setdefault(self._awaited_event(wait), []).append(tb)
                    break
                self.complete(tb, self.move_messages(tb, at_once=random is None))
                if random is not None:
                    ready.append(tb)
                    break
        return [blocked[tb] for tb in sorted(blocked)]

    def is_done(self, tb: int) -> bool:
        """Whether a threadblock has done all its steps."""
        return self.at[tb] >= self.waits.first[tb + 1]

    def wait_of(self, tb: int) -> Blocked | None:
        """What keeps the current step of a threadblock from moving a message, if anything."""
        waits, step = self.waits, self.at[tb]
        on, into, out = waits.needs_tb[step], waits.receives[step], waits.sends[step]
        if on >= 0 and self.passed[on] < waits.needs_step[step]:
            return Blocked(tb, step, "dependency", on)
        if into >= 0 and not self.in_flight[into]:
            return Blocked(tb, step, "receive", waits.sender[into])
        if out >= 0 and self.in_flight[out] >= self.capacity:
            return Blocked(tb, step, "send", waits.receiver[out])
        return None

    def move_messages(self, tb: int, *, at_once: bool = False) -> int:
        """Move one message of the current step, or `at_once` as many as there are and have room. Returns how many."""
        step, count = self.at[tb], self.left[tb]
        into, out = self.waits.receives[step], self.waits.sends[step]
        if into >= 0 or out >= 0:
            count = min(1, count) if not at_once else count
            count = min(count, self.in_flight[into]) if into >= 0 else count
            count = min(count, self.capacity - self.in_flight[out]) if out >= 0 else count
        if self.move is not None:
            self.move(step, self.messages[step] - self.left[tb], count)
        return count

    def complete(self, tb: int, count: int) -> None:
        """Record that messages of the current step have moved, and go on to the next step after the last of them."""
        waits, step = self.waits, self.at[tb]
        into, out = waits.receives[step], waits.sends[step]
        if out >= 0:
            self.in_flight[out] += count
            self.sent += count
            self._wake("receive", out)
        if into >= 0:
            self.in_flight[into] -= count
            self._wake("send", into)
        self.left[tb] -= count
        if self.left[tb]:
            return
        self.order.append(step)
        if waits.sets[step]:
            self.passed[tb] = step - waits.first[tb]
            self._wake("dependency", tb)
        self.at[tb] = step + 1
        if step + 1 < len(self.messages):
            self.left[tb] = self.messages[step + 1]

    def arrive(self, connection: int, count: int) -> None:
        """Record messages that another process sent and that have arrived."""
        self.in_flight[connection] += count
        self._wake("receive", connection)

    def depart(self, connection: int, count: int) -> None:
        """Record messages to another process that have left, so that the connection has room for others."""
        self.in_flight[connection] -= count
        self._wake("send", connection)

    def _awaited_event(self, wait: Blocked) -> tuple[Reason, int]:
        """The event that ends a wait: its kind, and the connection or the threadblock."""
        numbers = {"receive": self.waits.receives, "send": self.waits.sends}
        return wait.reason, numbers[wait.reason][wait.step] if wait.reason in numbers else wait.on

    def _wake(self, reason: Reason, number: int) -> None:
        if self._asleep:
            self._ready.extend(self._asleep.pop((reason, number), ()))
