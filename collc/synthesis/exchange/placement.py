"""Which core each chunk gets, and when the messages of the cores enter their links."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from collc.synthesis.exchange.cores import Core, CoreKind, PartialMessage
from collc.ten.network import Network
from collc.ten.schedule import Clock, Transfers


def choose_cores(
    kind: CoreKind, chunks: int, degree: Sequence[int], steps: int, rng: random.Random | None
) -> list[Core]:
    """A core of one kind for each of some chunks.

    An NPU that is not in the core of a chunk receives the sum over one of its links in `steps` steps. So NPUs with few
    links are in many cores; else the cores share chunks and NPUs evenly, and join NPUs that those before do not join:
    one ring of all NPUs is better than two rings. degree: links into each NPU (at least of the members). rng: breaks
    ties; None: in the order of the cores.
    """
    members = sorted({npu for core in kind.cores for npu in core.members})
    wanting = {npu: chunks - steps * degree[npu] for npu in members}
    uses = Counter[int]()
    in_cores = Counter[int]()
    keys = _numbered_messages(kind)
    taken = [0] * (max([key for of_core in keys for key in of_core], default=0) + 1)
    order = list(range(len(kind.cores)))
    if rng is not None:
        rng.shuffle(order)
    component = {npu: npu for npu in members}
    chosen: list[Core] = []
    for _ in range(chunks):
        least: tuple[int, int] | None = None
        rest: list[int] = []
        for number in order:
            clash = max([taken[key] for key in keys[number]], default=0)
            if least is None or (clash, uses[number]) < least:
                least, rest = (clash, uses[number]), [number]
            elif (clash, uses[number]) == least:
                rest.append(number)

        def cost(number: int) -> tuple[int, int, int, int]:
            core = kind.cores[number]
            lacking = sum([wanting[npu] > in_cores[npu] for npu in core.members])
            apart = len({component[npu] for npu in core.members})
            return -lacking, core.radius, -apart, sum([in_cores[npu] for npu in core.members])

        best = min(rest, key=cost)
        uses[best] += 1
        core = kind.cores[best]
        chosen.append(core)
        in_cores.update(core.members)
        joined = {component[npu] for npu in core.members}
        component.update({npu: min(joined) for npu, number in component.items() if number in joined})
        for key in keys[best]:
            taken[key] += 1
    return chosen


def _numbered_messages(kind: CoreKind) -> list[list[int]]:
    """The messages of each core, numbered: equal messages in the same round have the same number."""
    numbers: dict[tuple[PartialMessage, int], int] = {}
    return [
        [
            numbers.setdefault((message, r), len(numbers))
            for r, messages in enumerate(core.rounds)
            for message in messages
        ]
        for core in kind.cores
    ]


def exchange_rounds(network: Network, clock: Clock, cores: Mapping[int, Core], begin: int) -> tuple[Transfers, int]:
    """(the transfers, the time at which the last one has arrived) of the rounds of cores.

    All messages of a chunk in a round start together, so that each carries what its sender held before the round.
    cores: by chunk. begin: picoseconds.
    """
    links_between: dict[tuple[int, int], list[int]] = {}
    for link, pair in enumerate(zip(network.source.tolist(), network.target.tolist(), strict=True)):
        links_between.setdefault(pair, []).append(link)
    busy: list[list[int]] = clock.busy[network.kind].tolist()
    total: list[list[int]] = clock.total[network.kind].tolist()
    free = [0] * network.link_count
    ready = dict.fromkeys(cores, begin)
    rows: list[tuple[int, int, int, int, bool]] = []
    came: dict[tuple[int, int, int], int] = {}
    for number in range(max((len(core.rounds) for core in cores.values()), default=0)):
        for chunk, core in cores.items():
            if number >= len(core.rounds):
                continue
            size, messages = int(clock.size_of[chunk]), core.rounds[number]
            # The lane between two NPUs on which a chunk arrives first.
            chosen = [
                min(links_between[m.source, m.target], key=lambda link: (free[link] + total[link][size], link))
                for m in messages
            ]
            start = max([ready[chunk], *(free[link] for link in chosen)])
            relayed = [came.get((chunk, m.came_from, m.source), -1) for m in messages]
            for message, link, origin in zip(messages, chosen, relayed, strict=True):
                free[link] = start + busy[link][size]
                rows.append((chunk, link, start, origin, message.kept))
                came[chunk, message.source, message.target] = link
            ready[chunk] = start + max(total[link][size] for link in chosen)
    table = np.array(rows, np.int64).reshape(-1, 5)
    chunks, links, relayed_links = (table[:, column].astype(np.int32) for column in (0, 1, 3))
    kept = table[:, 4].astype(np.bool_)
    transfers = Transfers.of(chunks, links, table[:, 2], True, relayed_links, kept=kept)
    return transfers, max(ready.values(), default=begin)
