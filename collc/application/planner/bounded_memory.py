"""Values in memory up to a number of bytes."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Generic, TypeVar, cast

import numpy as np

Value = TypeVar("Value")


def bytes_of(value: object, seen: set[int] | None = None) -> int:
    """The bytes of the arrays, files, numbers and lists in a value and what it refers to, each counted once."""
    seen = set() if seen is None else seen
    if id(value) in seen or value is None or isinstance(value, type):
        return 0
    seen.add(id(value))
    if isinstance(value, int | float):
        return sys.getsizeof(value)
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, bytes | str):
        return len(value)
    if isinstance(value, dict):
        parts = [*cast("dict[object, object]", value).values()]
    elif isinstance(value, list | tuple):
        parts = [*cast("list[object]", value)]
    elif is_dataclass(value):
        kept: dict[str, object] = getattr(value, "__dict__", {})  # computed attributes too
        parts = [*kept.values()] or [getattr(value, each.name) for each in fields(value)]
    else:
        return 0
    return 8 * len(parts) + sum(bytes_of(part, seen) for part in parts)


@dataclass(eq=False)
class BoundedMemory(Generic[Value]):
    """Values by key, for any number of threads; those that were asked for last are kept. most: bytes of keys and
    values. held: their bytes now.
    """

    most: int
    held: int = 0
    _values: OrderedDict[Hashable, tuple[Value, int]] = field(
        default_factory=OrderedDict[Hashable, "tuple[Value, int]"]
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, key: Hashable) -> Value | None:
        """The value of a key, None if it is not kept."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def keep(self, key: Hashable, value: Value) -> None:
        """Keep a value, and let go what was asked for longest ago if there is too much."""
        size = bytes_of((key, value))
        with self._lock:
            _, before = self._values.pop(key, (value, 0))
            self._values[key] = value, size
            self.held += size - before
            while self.held > self.most and self._values:
                _, (_, oldest) = self._values.popitem(last=False)
                self.held -= oldest

    def value_of(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, which is made if it is not kept."""
        value = self.find(key)
        if value is None:
            value = make()
            self.keep(key, value)
        return value

    def __len__(self) -> int:
        return len(self._values)
