"""The rounds of a run program as permutations: in each, every rank sends one message at most and receives one at most.

The messages of a round (a dependence level of the schedule) are the edges of a bipartite multigraph from senders to
receivers. It is divided into as many permutations as its largest degree. The longest messages come first, since a
permutation is as long as its longest message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collc.graph.edge_colouring import colour_edges
from collc.runtime.collectives import INPUT, OUTPUT, TOTAL, blocks_of
from collc.runtime.rank_program import memory_bounds
from collc.runtime.rounds import Message, RankRounds, Round, rounds_of
from collc.runtime.run_program import RunProgram

Rows = NDArray[np.int32]
"""int32[ranks, places]: a row of the memory of each rank. Rows beyond the memory stand for none: row 0 is read instead,
and none is written. No two rows that a rank writes at a time are equal.
"""


class Permutation(NamedTuple):
    """Messages that move together: the sender and the receiver of each, and the rows of the longest."""

    pairs: tuple[tuple[int, int], ...]
    length: int


class LocalWork(NamedTuple):
    """Rows of `target` become rows of `first`, reduced with rows of `second` if `reduces`: bool[ranks, places].
    All are read before one is written.
    """

    target: Rows
    first: Rows
    second: Rows
    reduces: NDArray[np.bool_]


class Level(NamedTuple):
    """A round: rows that are read and sent, by one permutation after the other; rows that are written with what has
    arrived; and then work.
    """

    permutations: list[Permutation]
    sends: Rows
    receives: Rows
    work: list[LocalWork]


@dataclass(frozen=True, slots=True)
class Plan:
    """The permutations of a program.

    source, target: the row of each rank with which its input and its output begin. blocks: of the input, and of the
    output. chunks: of a block. rows: of the memory.
    """

    source: Rows
    target: Rows
    blocks: tuple[int, int]
    chunks: int
    rows: int
    levels: list[Level]

    def permutations(self) -> Iterator[Permutation]:
        """The permutations of all levels."""
        return (permutation for level in self.levels for permutation in level.permutations)


def plan_of(program: RunProgram) -> Plan:
    """The plan of a program, for the placement that needs the fewest permutations, and then the fewest rows.

    Raises ValueError for a program that never ends.
    """
    placements = [inplace for inplace in (False, True) if (program.in_place if inplace else program.out_of_place)]
    plans = [_plan(program, inplace=inplace) for inplace in placements]
    return min(plans, key=lambda plan: (len(list(plan.permutations())), plan.rows))


def _plan(program: RunProgram, *, inplace: bool) -> Plan:
    ranks = rounds_of(program, inplace=inplace)
    memory = _Memory(ranks, memory_bounds(program, inplace=inplace).tolist())
    source, target = (
        np.array([[memory.row(rank, rounds.buffers[buffer][0])] for rank, rounds in enumerate(ranks)], np.int32)
        for buffer in (INPUT, OUTPUT)
    )
    blocks = blocks_of(program.coll, program.ranks)
    chunks = program.chunks_per_loop // (program.ranks if program.coll in TOTAL else 1)
    ends = [int(first.max()) + own * chunks for first, own in zip((source, target), blocks, strict=True)]
    memory.rows = max(memory.rows, *ends)
    by_number = [dict(zip(rounds.numbers, rounds.rounds, strict=True)) for rounds in ranks]
    numbers = sorted({number for rounds in by_number for number in rounds})
    levels = [memory.level([rounds.get(number, Round()) for rounds in by_number]) for number in numbers]
    return Plan(source, target, blocks, chunks, memory.rows, levels)


class _Memory:
    """The memory of the ranks. rows: of each. Spare slots, which have numbers after all others, follow the rank's own;
    what no buffer uses at the beginning is left out.
    """

    def __init__(self, ranks: list[RankRounds], bounds: list[int]) -> None:
        """bounds: the first slot of each rank in the memory of all ranks, and the end."""
        self._bounds = bounds
        self._first = [min(rounds.buffers[buffer][0] for buffer in (INPUT, OUTPUT)) for rounds in ranks]
        own = [end - first for first, end in zip(self._first, bounds[1:], strict=True)]
        self.rows: int = max(size + rounds.buffers[-1][1] for size, rounds in zip(own, ranks, strict=True))

    def row(self, rank: int, slot: int) -> int:
        """The row of a slot."""
        end = self._bounds[-1]
        return (slot if slot < end else slot - end + self._bounds[rank + 1]) - self._first[rank]

    def level(self, rounds: list[Round]) -> Level:
        """A round of all ranks."""
        into = {m.number: self.row(rank, m.first) for rank, part in enumerate(rounds) for m in part.receives}
        messages = [(rank, message) for rank, part in enumerate(rounds) for message in part.sends]
        messages.sort(key=lambda pair: (-pair[1].length, pair[1].number))
        by_colour: dict[int, list[tuple[int, Message]]] = defaultdict(list)
        for colour, pair in zip(colour_edges([(rank, m.peer) for rank, m in messages]), messages, strict=True):
            by_colour[colour].append(pair)
        permutations: list[Permutation] = []
        sends: list[list[int | None]] = [[] for _ in rounds]
        receives: list[list[int | None]] = [[] for _ in rounds]
        for _, together in sorted(by_colour.items()):
            pairs = sorted((rank, message.peer) for rank, message in together)
            length = max(message.length for _, message in together)
            permutations.append(Permutation(tuple(pairs), length))
            for row_of in (*sends, *receives):
                row_of.extend([None] * length)
            for rank, message in together:
                first, target = self.row(rank, message.first), into[message.number]
                for place in range(message.length):
                    sends[rank][place - length] = first + place
                    receives[message.peer][place - length] = target + place
        return Level(permutations, self._table(sends), self._table(receives), self._work(rounds))

    def _work(self, rounds: list[Round]) -> list[LocalWork]:
        """The work of a round: each row as early as what it needs, after all that wrote its target or still read it."""
        steps: list[list[list[tuple[int, int, int]]]] = []
        for rank, part in enumerate(rounds):
            written: dict[int, int] = {}
            read: dict[int, int] = {}
            for work in part.work:
                for place in range(work.length):
                    target, first = (self.row(rank, slot + place) for slot in (work.target, work.first))
                    second = self.row(rank, work.second + place) if work.second >= 0 else -1
                    step = max((written[row] + 1 for row in (target, first, second) if row in written), default=0)
                    step = max(step, read.get(target, 0))
                    written[target] = step
                    read |= {row: max(step, read.get(row, 0)) for row in (first, second)}
                    if step == len(steps):
                        steps.append([[] for _ in rounds])
                    steps[step][rank].append((target, first, second))
        return [self._local_work(step) for step in steps]

    def _local_work(self, step: list[list[tuple[int, int, int]]]) -> LocalWork:
        """Work that is done at a time, with the rows of each rank."""
        targets, firsts, seconds = ([[row[part] for row in own] for own in step] for part in range(3))
        reduces = [[second >= 0 for second in own] for own in seconds]
        default = any(map(any, reduces))  # what a rank does that has nothing to do does not matter
        seconds = [
            [b if b >= 0 else a for a, b in zip(*pair, strict=True)] for pair in zip(firsts, seconds, strict=True)
        ]
        width = max(map(len, step))
        mask = np.array([own + [default] * (width - len(own)) for own in reduces], np.bool_)
        return LocalWork(self._table(targets), self._table(firsts), self._table(seconds), mask)

    def _table(self, rows: Sequence[Sequence[int | None]]) -> Rows:
        """The rows of all ranks, with rows that are none for what is missing."""
        table: Rows = self.rows + np.tile(np.arange(max(map(len, rows)), dtype=np.int32), (len(rows), 1))
        for own, given in zip(table, rows, strict=True):
            for place, row in enumerate(given):
                own[place] = own[place] if row is None else row
        return table
