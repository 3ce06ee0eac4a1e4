"""What the steps of a program do with data of any kind, over any transport."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from numpy.typing import NDArray

from collc.runtime.operations import StepKind

Data = TypeVar("Data", list[int], NDArray[Any])
"""The contents of neighbouring slots, with one entry for each: symbols, or rows of numbers."""


@dataclass(frozen=True)
class Memory(Generic[Data]):
    """The memory of all GPUs, which holds data of one kind. slots: the contents. combine: the sums of two contents."""

    slots: Data
    combine: Callable[[Data, Data], Data]

    def load(self, slot: int, count: int) -> Data:
        """A copy of `count` slots."""
        return self.slots[slot : slot + count].copy()

    def store(self, slot: int, data: Data) -> None:
        """Write neighbouring slots."""
        self.slots[slot : slot + len(data)] = data


class Transport(Protocol[Data]):
    """What carries messages; connections keep their order."""

    def send(self, connection: int, message: Data) -> None:
        """Take a message over; the caller does not write to it later."""
        ...

    def receive(self, connection: int) -> Data:
        """The first message that has arrived. Raises IndexError if there is none."""
        ...


class Queues(Generic[Data]):
    """The transport inside one process: a queue for each connection."""

    def __init__(self, connections: int) -> None:
        self._queues: list[deque[Data]] = [deque() for _ in range(connections)]

    def send(self, connection: int, message: Data) -> None:
        """Append a message."""
        self._queues[connection].append(message)

    def receive(self, connection: int) -> Data:
        """Take the first message. Raises IndexError if there is none."""
        return self._queues[connection].popleft()


@dataclass(frozen=True, slots=True)
class Operands:
    """For each step its kind, its first source and target slot in memory, its count, and its connections or -1."""

    kind: list[int]
    source: list[int]
    target: list[int]
    count: list[int]
    receives: list[int]
    sends: list[int]


@dataclass(frozen=True)
class StepData(Generic[Data]):
    """Runs steps on data; `Interpreter` or the caller says in which order."""

    operands: Operands
    memory: Memory[Data]
    transport: Transport[Data]

    def move(self, step: int, first: int, end: int) -> None:
        """Execute a step for its chunks from `first` to before `end`, which are one message if it sends or receives."""
        operands, memory = self.operands, self.memory
        kind, into, out = operands.kind[step], operands.receives[step], operands.sends[step]
        if kind == StepKind.NOP:
            return
        source, target = operands.source[step] + first, operands.target[step] + first
        if into >= 0:
            data = self.transport.receive(into)
            if kind not in (StepKind.R, StepKind.RCS):
                data = data[: end - first]
                data = memory.combine(data, memory.load(source, len(data)))
        else:
            data = memory.load(source, end - first)
            if kind == StepKind.RE:
                data = memory.combine(memory.load(target, end - first), data)
        if kind not in (StepKind.S, StepKind.RRS):
            memory.store(target, data[: end - first])
        if out >= 0:
            self.transport.send(out, data)
