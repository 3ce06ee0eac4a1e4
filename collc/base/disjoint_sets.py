"""Sets that are joined and never parted (union-find)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class DisjointSets(Generic[T]):
    """Disjoint sets, each with one item that represents it. An item that was never joined is a set of its own."""

    def __init__(self) -> None:
        self._parent: dict[T, T] = {}

    def root(self, item: T) -> T:
        """The representative of the set of an item."""
        parents = self._parent
        while (parent := parents.get(item, item)) != item:
            parents[item] = item = parents.get(parent, parent)
        return item

    def join(self, keeper: T, other: T) -> None:
        """Join the sets of two items; the representative of the set of `keeper` stays one."""
        a, b = self.root(keeper), self.root(other)
        if a != b:
            self._parent[b] = a
