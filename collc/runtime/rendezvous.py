"""What the ranks of a group say to one another while it is made: in a store, as torch has one.

A rank that waits learns within a second that another one failed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from collc.runtime.placement import Names
from collc.runtime.schedules import ScheduleError


class Store(Protocol):
    """Values that ranks write for others. A store that is gone raises RuntimeError."""

    def set(self, key: str, value: str) -> None:
        """Write a value."""
        ...

    def get(self, key: str) -> bytes:
        """A value that is there."""
        ...

    def check(self, keys: Sequence[str]) -> bool:
        """Whether values are there."""
        ...

    def add(self, key: str, count: int) -> int:
        """Add to a number. Returns the sum."""
        ...

    def compare_set(self, key: str, expected: str, value: str) -> bytes:
        """Write a value, if there is none; `expected` is "". Returns what is there."""
        ...


class Rendezvous:
    """The part of one rank. All its waits raise ScheduleError when another rank failed, and when the time is over."""

    def __init__(self, store: Store, rank: int, ranks: int, seconds: float) -> None:
        """seconds: the longest wait."""
        self._store, self._rank, self._ranks, self._seconds = store, rank, ranks, seconds

    def names(self, own: Names) -> list[Names]:
        """The names of the NPUs by rank. own: of this rank."""
        self._store.set(f"npu/{self._rank}", json.dumps(own))
        names = [json.loads(self._value(f"npu/{rank}", f"rank {rank}")) for rank in range(self._ranks)]
        return [Names(given, tuple(labels)) for given, labels in names]

    def check_files(self, digest: str) -> None:
        """Raise ValueError if this rank has other files than rank 0, since each rank chooses for itself."""
        if not self._rank:
            self._store.set("files", digest)
        if self._value("files", "rank 0").decode() != digest:
            raise ValueError(f"the run files of rank {self._rank} differ from those of rank 0")

    def meet(self) -> None:
        """Wait until all ranks are here."""
        if self._store.add("here", 1) == self._ranks:
            self._store.set("all here", "")
        self._value("all here", "another rank")

    def failure(self, text: str) -> str:
        """Say that this rank fails. Returns the reason, with what was said first."""
        first = text
        with suppress(RuntimeError):  # the process that keeps the store may be gone
            first = self._store.compare_set("failure", "", text).decode()
        return text if first == text else f"{text}; before that, {first}"

    def _value(self, key: str, whose: str) -> bytes:
        pause, deadline = 0.001, time.monotonic() + self._seconds
        while not self._store.check([key]):  # the store's own waits write a warning each time that they end in vain
            if self._store.check(["failure"]):
                raise ScheduleError("another rank failed")
            if time.monotonic() >= deadline:
                raise ScheduleError(f"it waits for {whose}, which did not come within {self._seconds:g} seconds")
            time.sleep(pause)
            pause = min(2 * pause, 0.1)
        return self._store.get(key)
