"""Transfers that start as early as their links are free."""

from __future__ import annotations

import numpy as np

from collc.ten.module import Module
from collc.ten.schedule import Clock, Transfers


class EarlyTransfers:
    """Transfers of a module, added one by one.

    rows: (chunk, link, start in picoseconds, whether it carries a partial). free: by link, when it is free.
    """

    def __init__(self, module: Module) -> None:
        network, clock = module.network, Clock.of(module.network, module.demand, module.model)
        self._busy: list[list[int]] = clock.busy[network.kind].tolist()
        self._total: list[list[int]] = clock.total[network.kind].tolist()
        self._size: list[int] = clock.size_of.tolist()
        self.rows: list[tuple[int, int, int, bool]] = []
        self.free: dict[int, int] = {}

    def arrival(self, chunk: int, link: int, start: int) -> int:
        """When a chunk that enters a link at `start` has arrived."""
        return start + self._total[link][self._size[chunk]]

    def start(self, link: int, ready: int) -> int:
        """The earliest start on a link of what is ready at some time."""
        return max(ready, self.free.get(link, 0))

    def send(self, chunk: int, link: int, ready: int, partial: bool) -> int:
        """Add a transfer as early as its link is free; return when it has arrived."""
        start = self.start(link, ready)
        self.free[link] = start + self._busy[link][self._size[chunk]]
        self.rows.append((chunk, link, start, partial))
        return self.arrival(chunk, link, start)

    def transfers(self) -> Transfers:
        """All transfers that were added."""
        columns = np.array(self.rows, np.int64).reshape(-1, 4)
        chunk, link = columns[:, 0].astype(np.int32), columns[:, 1].astype(np.int32)
        return Transfers.of(chunk, link, columns[:, 2], columns[:, 3].astype(np.bool_))
