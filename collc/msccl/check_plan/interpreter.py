"""The interpreter of plans: which operation can run, and which threadblocks meet.

`PlanInterpreter` knows the order of operations. What an operation does is the domain, a subclass: events for the check
(`events.py`), data (`running/run_plan.py`), tasks of the simulator (`simulating`). How signals and
releases reach those that wait for them is the transport.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict, deque
from typing import Generic, TypeVar

from collc.msccl.check_plan.model import Channel, Operation, Plan

Token = TypeVar("Token")
"""What a signal or a release carries to the operation that takes it."""

Semaphore = tuple[int, int]
"""(gpu, number)."""


def semaphores_of(op: Operation) -> list[Semaphore]:
    """The semaphores that an operation acquires or releases, one entry for each time."""
    return [(op.location.gpu, number) for number in op.semaphores]


class Mailboxes(Generic[Token]):
    """The transport inside one process: tokens in order, by channel and by semaphore.

    initial: how much of the initial value of each semaphore is left; acquires take this first, without a token.
    """

    def __init__(self, plan: Plan) -> None:
        self.signals: dict[Channel, deque[Token]] = defaultdict(deque)
        self.releases: dict[Semaphore, deque[Token]] = defaultdict(deque)
        self.initial: dict[Semaphore, int] = {
            (gpu, number): value for gpu, values in enumerate(plan.semaphores) for number, value in enumerate(values)
        }

    def value(self, semaphore: Semaphore) -> int:
        """The value of a semaphore."""
        return self.initial[semaphore] + len(self.releases[semaphore])

    def can_receive(self, op: Operation) -> bool:
        """Whether all signals that an operation waits for, or releases that it acquires, have come."""
        if op.name == "sem_acquire":
            return all(self.value(key) >= times for key, times in Counter(semaphores_of(op)).items())
        return all(self.signals[channel] for channel in op.waits)

    def receive(self, op: Operation) -> list[Token]:
        """Take the signals that an operation waits for, or the releases that it acquires."""
        if op.name != "sem_acquire":
            return [self.signals[channel].popleft() for channel in op.waits]
        tokens: list[Token] = []
        for key in semaphores_of(op):
            if self.initial[key]:
                self.initial[key] -= 1
            else:
                tokens.append(self.releases[key].popleft())
        return tokens


class PlanInterpreter(ABC, Generic[Token]):
    """Executes a plan in one domain.

    position: the next operation of each threadblock. blocks: the threadblocks of each gpu.
    """

    def __init__(self, plan: Plan, transport: Mailboxes[Token]) -> None:
        self.plan: Plan = plan
        self.transport: Mailboxes[Token] = transport
        self.position: list[int] = [0] * len(plan.threadblocks)
        self.blocks: list[list[int]] = [[] for _ in plan.chunks]
        for tb, gpu in enumerate(plan.gpu_of):
            self.blocks[gpu].append(tb)

    @abstractmethod
    def execute(self, op: Operation, received: list[Token]) -> None:
        """Do an operation, and give its signals or releases to the transport. received: what it waited for."""

    @abstractmethod
    def meet(self, threadblocks: list[int]) -> None:
        """Let threadblocks pass the barrier at which all of them are."""

    def can_begin(self, op: Operation) -> bool:  # noqa: ARG002
        """Whether an operation whose signals have come can begin: its packets have come too."""
        return True

    def can_meet(self, tb: int) -> bool:  # noqa: ARG002
        """Whether a threadblock has ended what it did before its barrier."""
        return True

    def next_operation(self, tb: int) -> Operation | None:
        """The next operation of a threadblock; None at its end."""
        ops = self.plan.threadblocks[tb]
        return ops[self.position[tb]] if self.position[tb] < len(ops) else None

    def step(self, tb: int) -> bool:
        """Execute the next operation of a threadblock if it can run now. Returns whether it did."""
        op = self.next_operation(tb)
        if op is None:
            return False
        if op.barrier is not None:
            return self._pass_barrier(op, op.barrier)
        if not self.transport.can_receive(op) or not self.can_begin(op):
            return False
        self.execute(op, self.transport.receive(op))
        self.position[tb] += 1
        return True

    def run(self) -> list[Operation]:
        """Execute all operations that can run. Returns those that wait forever, the first of each threadblock."""
        progress = True
        while progress:
            progress = False
            for tb in range(len(self.position)):
                while self.step(tb):
                    progress = True
        return [op for tb in range(len(self.position)) if (op := self.next_operation(tb)) is not None]

    def _pass_barrier(self, op: Operation, barrier: tuple[int, int]) -> bool:
        """Let the threadblocks of the gpu pass a barrier once the declared number has arrived."""
        waiting = [
            tb
            for tb in self.blocks[op.location.gpu]
            if (other := self.next_operation(tb)) is not None and other.barrier == barrier and self.can_meet(tb)
        ]
        if len(waiting) < barrier[1]:
            return False
        self.meet(waiting)
        for tb in waiting:
            self.position[tb] += 1
        return True
