"""Orders of events: who goes on next. Threads are coroutines that say what they wait for, and never how long."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Hashable
from typing import Protocol

Waits = tuple[Hashable, ...]
"""What a thread waits for: one of these; () is nothing, it only lets others go first."""
Thread = Generator[Waits, None, None]


class Order(Protocol):
    """A policy: the index in `ready` of the thread that goes on."""

    random: random.Random
    slow: set[int]
    """Threads that go on only if no other one can."""

    def pick(self, ready: list[int]) -> int: ...


class Fair:
    """Any thread, at random; the slow ones only if no other can go on."""

    def __init__(self, seed: int, slow: set[int] | None = None) -> None:
        self.random = random.Random(seed)
        self.slow = set(slow or ())

    def pick(self, ready: list[int]) -> int:
        at = int(self.random.random() * len(ready))
        if not self.slow or ready[at] not in self.slow:
            return at
        others = [k for k, thread in enumerate(ready) if thread not in self.slow]
        return self.random.choice(others) if others else at


class Burst(Fair):
    """One thread goes as far as it can, before another one does anything."""

    def __init__(self, seed: int, slow: set[int] | None = None) -> None:
        super().__init__(seed, slow)
        self.current = -1

    def pick(self, ready: list[int]) -> int:
        if self.current in ready and self.current not in self.slow:
            return ready.index(self.current)
        at = super().pick(ready)
        self.current = ready[at]
        return at


class Newest(Fair):
    """Who was woken last goes on first: chains of events run ahead of all else."""

    def pick(self, ready: list[int]) -> int:
        at = len(ready) - 1
        return super().pick(ready) if ready[at] in self.slow else at


class Ranked(Fair):
    """A fixed order of all threads, drawn once: one that can go on always goes before those behind it."""

    def __init__(self, seed: int, slow: set[int] | None = None) -> None:
        super().__init__(seed, slow)
        self.rank: dict[int, float] = {}

    def pick(self, ready: list[int]) -> int:
        for thread in ready:
            if thread not in self.rank:
                self.rank[thread] = self.random.random()
        return min(range(len(ready)), key=lambda k: (ready[k] in self.slow, self.rank[ready[k]]))


ORDERS: tuple[Callable[[int, set[int] | None], Order], ...] = (Fair, Burst, Newest, Ranked)


class Threads:
    """Runs coroutines until none can go on. Who is woken for nothing waits again."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.threads: list[Thread] = []
        self.ready: list[int] = []
        self.blocked: set[int] = set()
        self.waiting: dict[Hashable, list[int]] = {}
        self.events = 0

    def add(self, thread: Thread) -> int:
        self.threads.append(thread)
        self.ready.append(len(self.threads) - 1)
        return len(self.threads) - 1

    def wake(self, key: Hashable) -> None:
        for thread in self.waiting.pop(key, ()):
            if thread in self.blocked:
                self.blocked.discard(thread)
                self.ready.append(thread)

    def run(self) -> list[int]:
        """The threads that wait forever."""
        ready, pick = self.ready, self.order.pick
        while ready:
            at = pick(ready)
            thread = ready[at]
            self.events += 1
            try:
                keys = next(self.threads[thread])
            except StopIteration:
                ready.remove(thread)
                continue
            if keys:
                ready.remove(thread)
                self.blocked.add(thread)
                for key in keys:
                    self.waiting.setdefault(key, []).append(thread)
        return sorted(self.blocked)
