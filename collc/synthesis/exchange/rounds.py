"""When the messages of cores enter their links."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from collc.synthesis.exchange.cores import Core
from collc.ten.network import Network
from collc.ten.schedule import Clock, Transfers


class ExchangeRounds:
    """Schedules the rounds of cores. All messages of a chunk in a round start together, so that each carries what its
    sender held before the round.
    """

    def __init__(self, network: Network, clock: Clock) -> None:
        self._links_between: dict[tuple[int, int], list[int]] = {}
        ends = zip(network.source.tolist(), network.target.tolist(), strict=True)
        for link, pair in enumerate(ends):
            self._links_between.setdefault(pair, []).append(link)
        self._busy: list[list[int]] = clock.busy[network.kind].tolist()
        self._total: list[list[int]] = clock.total[network.kind].tolist()
        self._size_of: list[int] = clock.size_of.tolist()

    def transfers(self, cores: Mapping[int, Core], begin: int) -> tuple[Transfers, int]:
        """(the transfers, the time at which the last one has arrived). cores: by chunk. begin: picoseconds."""
        free: dict[int, int] = {}
        ready = dict.fromkeys(cores, begin)
        rows: list[tuple[int, int, int, int, bool]] = []
        came: dict[tuple[int, int, int], int] = {}
        for number in range(max((len(core.rounds) for core in cores.values()), default=0)):
            for chunk, core in cores.items():
                if number >= len(core.rounds):
                    continue
                size = self._size_of[chunk]
                messages = core.rounds[number]
                taken = [self._first_free((m.source, m.target), size, free) for m in messages]
                start = max([ready[chunk], *(free.get(link, 0) for link in taken)])
                relayed = [came.get((chunk, m.came_from, m.source), -1) for m in messages]
                for message, link, origin in zip(messages, taken, relayed, strict=True):
                    free[link] = start + self._busy[link][size]
                    rows.append((chunk, link, start, origin, message.kept))
                    came[chunk, message.source, message.target] = link
                ready[chunk] = start + max(self._total[link][size] for link in taken)
        table = np.array(rows, np.int64).reshape(-1, 5)
        chunks, links, relayed = (table[:, column].astype(np.int32) for column in (0, 1, 3))
        kept = table[:, 4].astype(np.bool_)
        rounds = Transfers.of(chunks, links, table[:, 2], True, relayed, kept=kept)
        return rounds, max(ready.values(), default=begin)

    def _first_free(self, pair: tuple[int, int], size: int, free: Mapping[int, int]) -> int:
        """The lane between two NPUs on which a chunk arrives first."""
        return min(self._links_between[pair], key=lambda link: (free.get(link, 0) + self._total[link][size], link))
