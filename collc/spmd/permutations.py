"""The rounds of a run program as permutations: in each, every rank sends one message at most and receives one at most.

The messages of a round (a dependence level of the schedule) are the edges of a bipartite multigraph from senders to
receivers. It is divided into as many permutations as its largest degree. The longest messages come first, since a
permutation is as long as its longest message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collc.graph.edge_colouring import colour_edges
from collc.runtime.collectives import INPUT, OUTPUT, TOTAL, blocks_of
from collc.runtime.rank_program import memory_bounds
from collc.runtime.rounds import Round, Work, rounds_of
from collc.runtime.run_program import RunProgram

Column = tuple[int, ...]
"""A number for each rank."""


class Permutation(NamedTuple):
    """Messages that move together. pairs: the sender and the receiver of each. first, into: the first row that a rank
    sends, and the first into which it receives. lengths: the rows that it receives; 0: it receives no message.
    """

    pairs: tuple[tuple[int, int], ...]
    first: Column
    into: Column
    lengths: Column


class LocalWork(NamedTuple):
    """A piece of work of each rank at most: `lengths` rows of `target` become those of `first`, and reduced with those
    of `second` if `reduces` is 1.
    """

    target: Column
    first: Column
    second: Column
    lengths: Column
    reduces: Column


class Level(NamedTuple):
    """A round of all ranks: permutations, all of which read what was there before; then work, in order."""

    permutations: list[Permutation]
    work: list[LocalWork]


@dataclass(frozen=True, slots=True)
class Plan:
    """The permutations of a program.

    source, target: the row with which input and output of a rank begin. blocks: of the input, and of the output.
    chunks: of a block. rows: of the memory of a rank, which has room after each row for the longest message or work
    that begins there on any rank.
    """

    source: Column
    target: Column
    blocks: tuple[int, int]
    chunks: int
    rows: int
    levels: list[Level]

    def permutations(self) -> Iterator[Permutation]:
        """The permutations of all levels."""
        return (permutation for level in self.levels for permutation in level.permutations)

    def slices(self) -> Iterator[tuple[Column, int]]:
        """What moves: the first row on each rank, and the number of rows, which is the same on all."""
        for column, blocks in zip((self.source, self.target), self.blocks, strict=True):
            yield column, blocks * self.chunks
        for level in self.levels:
            for permutation in level.permutations:
                yield from ((column, max(permutation.lengths)) for column in permutation[1:3])
            for work in level.work:
                yield from ((column, max(work.lengths)) for column in work[:3])

    def table(self) -> tuple[dict[Column, int], NDArray[np.int32]]:
        """The columns whose numbers differ from rank to rank, with their place in int32[ranks, columns]."""
        masks = [part.lengths for level in self.levels for part in (*level.permutations, *level.work)]
        masks += [work.reduces for level in self.levels for work in level.work]
        used = dict.fromkeys(column for column in (*(first for first, _ in self.slices()), *masks))
        columns = [column for column in used if len(set(column)) > 1]
        table = np.array(columns, np.int32).reshape(len(columns), len(self.source)).T
        return {column: place for place, column in enumerate(columns)}, table


def plan_of(program: RunProgram) -> Plan:
    """The permutations of a program, out of place if it can. Raises ValueError for a program that never ends."""
    inplace = not program.out_of_place
    memory = _Memory(memory_bounds(program, inplace=inplace).tolist())
    ranks = rounds_of(program, inplace=inplace)
    source, target = (
        tuple(memory.row(rank, rounds.buffers[buffer][0]) for rank, rounds in enumerate(ranks))
        for buffer in (INPUT, OUTPUT)
    )
    idle = Work(0, 0, -1, 0)
    by_number = [dict(zip(rounds.numbers, rounds.rounds, strict=True)) for rounds in ranks]
    levels: list[Level] = []
    for number in sorted({number for rounds in by_number for number in rounds}):
        here = [rounds.get(number, Round()) for rounds in by_number]
        work = [memory.work(row) for row in zip_longest(*(part.work for part in here), fillvalue=idle)]
        levels.append(Level(memory.permutations(here), work))
    chunks = program.chunks_per_loop // (program.ranks if program.coll in TOTAL else 1)
    plan = Plan(source, target, blocks_of(program.coll, program.ranks), chunks, 0, levels)
    return replace(plan, rows=max(max(first) + length for first, length in plan.slices()))


class _Memory:
    """Rows of the ranks. bounds: the first slot of each rank in the memory of all ranks, and the end."""

    def __init__(self, bounds: list[int]) -> None:
        self._bounds = bounds

    def row(self, rank: int, slot: int) -> int:
        """The row of a slot. Spare slots, which have numbers after all others, follow the rank's own."""
        begin, end = self._bounds[rank : rank + 2]
        return slot - begin if slot < self._bounds[-1] else slot - self._bounds[-1] + end - begin

    def permutations(self, rounds: list[Round]) -> list[Permutation]:
        """The messages of a round of all ranks."""
        into = {m.number: self.row(rank, m.first) for rank, part in enumerate(rounds) for m in part.receives}
        messages = [(-m.length, m.number, rank, m) for rank, part in enumerate(rounds) for m in part.sends]
        messages.sort()
        colours = colour_edges([(rank, m.peer) for *_, rank, m in messages])
        classes: list[Permutation] = []
        for colour in range(max(colours, default=-1) + 1):
            first, second, lengths = ([0] * len(rounds) for _ in range(3))
            pairs: list[tuple[int, int]] = []
            for own, (*_, rank, message) in zip(colours, messages, strict=True):
                if own == colour:
                    pairs.append((rank, message.peer))
                    first[rank] = self.row(rank, message.first)
                    second[message.peer], lengths[message.peer] = into[message.number], message.length
            classes.append(Permutation(tuple(sorted(pairs)), tuple(first), tuple(second), tuple(lengths)))
        return classes

    def work(self, works: Sequence[Work]) -> LocalWork:
        """A piece of work of each rank."""
        slots = [
            (work.target, work.first, work.first if work.second < 0 else work.second) if work.length else None
            for work in works
        ]
        rows = [(0, 0, 0) if own is None else tuple(self.row(rank, s) for s in own) for rank, own in enumerate(slots)]
        target, first, second = zip(*rows, strict=True)
        lengths = tuple(work.length for work in works)
        default = int(any(work.second >= 0 for work in works))  # so that the column is constant if it can be
        reduces = tuple(int(work.second >= 0) if work.length else default for work in works)
        return LocalWork(target, first, second, lengths, reduces)
