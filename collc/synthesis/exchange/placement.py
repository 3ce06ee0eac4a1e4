"""Which core each chunk gets."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from collc.synthesis.exchange.cores import Core, CoreKind
from collc.synthesis.exchange.line_rounds import PartialMessage


def placed(kind: CoreKind, chunks: int, degree: Sequence[int], steps: int, rng: random.Random | None) -> list[Core]:
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
    found: list[Core] = []
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
        found.append(kind.cores[best])
        in_cores.update(found[-1].members)
        joined = {component[npu] for npu in found[-1].members}
        component.update({npu: min(joined) for npu, number in component.items() if number in joined})
        for key in keys[best]:
            taken[key] += 1
    return found


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
