"""The paths that the sends of an algorithm take: a direct link, or else the shortest path."""

from __future__ import annotations

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.paths import LexicographicPaths
from collc.ten.network import Network
from collc.ten.schedule import Clock


class SendPaths:
    """The paths of a network, found once for each size of chunk. column: of the clock, one for each size."""

    def __init__(self, network: Network, clock: Clock) -> None:
        self._network, self._clock = network, clock
        self._by_column: dict[int, LexicographicPaths] = {}

    def devices(self, source: int, target: int, column: int) -> list[int] | None:
        """The devices of a path, both ends included; None if no path leads to the target."""
        if self.links(source, target, column):
            return [source, target]
        return self._of(column).path(source, target)

    def links(self, source: int, target: int, column: int) -> list[int]:
        """The parallel links from one device to another, the shortest first."""
        return self._of(column).edges(source, target)

    def _of(self, column: int) -> LexicographicPaths:
        if column not in self._by_column:
            length = np.maximum(1, self._clock.total[self._clock.kind, column])
            self._by_column[column] = LexicographicPaths(Digraph.of(self._network), length)
        return self._by_column[column]
