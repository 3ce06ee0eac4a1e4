"""The part of a run program that one rank executes in one call, with messages as events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from collc.runtime.data import Operands
from collc.runtime.replay import StepWaits
from collc.runtime.run_program import RunProgram

OPS: Final[dict[str, np.ufunc]] = {
    "sum": np.add,
    "avg": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
"""The reductions, by name. Of "avg" the outputs are divided by the number of ranks in the end (`divide`)."""


@dataclass(frozen=True, slots=True)
class Call:
    """How a program is called. elements: of a chunk. dtype, op: of the numbers, and their reduction. merge: chunks in
    one message at most. capacity: messages on a connection that have not left the sender.
    """

    elements: int
    dtype: str
    op: str
    inplace: bool
    merge: int
    capacity: int


@dataclass(frozen=True, eq=False)
class RankProgram:
    """What one rank executes. slots: of its memory. messages: how many each step sends or receives. connections:
    int64[connections, 3], of each its number in the whole program, its sender and its receiver; steps name them by
    their row, threadblocks by their number in the rank, and slots from the first one of the rank.
    """

    rank: int
    call: Call
    slots: int
    waits: StepWaits
    operands: Operands
    messages: list[int]
    connections: NDArray[np.int64]

    @staticmethod
    def of(program: RunProgram, rank: int, call: Call) -> RankProgram:
        """The part of one rank."""
        low, high = np.searchsorted(program.blocks[:, 0], [rank, rank + 1]).tolist()
        first = program.first[low : high + 1]
        rows = slice(int(first[0]), int(first[-1]))
        key = program.connections.key
        used = np.flatnonzero((key[:, :2] == rank).any(axis=1))
        waits, work = program.waits, program.operands(inplace=call.inplace)
        bounds = memory_bounds(program, inplace=call.inplace)
        row_of = {-1: -1} | {number: row for row, number in enumerate(used.tolist())}
        needs = [block - low if block >= 0 else -1 for block in waits.needs_tb[rows]]
        own = StepWaits(
            (first - first[0]).tolist(),
            [block - low for block in waits.tb[rows]],
            [row_of[number] for number in waits.sends[rows]],
            [row_of[number] for number in waits.receives[rows]],
            needs,
            waits.needs_step[rows],
            waits.sets[rows],
            key[used, 0].tolist(),
            key[used, 1].tolist(),
        )
        source, target = ([slot - int(bounds[rank]) for slot in column[rows]] for column in (work.source, work.target))
        operands = Operands(work.kind[rows], source, target, work.count[rows], own.receives, own.sends)
        messages = [-(-max(1, count) // call.merge) for count in operands.count]
        ends = np.column_stack([used, key[used, :2]])
        return RankProgram(rank, call, int(bounds[rank + 1] - bounds[rank]), own, operands, messages, ends)


def memory_bounds(program: RunProgram, *, inplace: bool) -> NDArray[np.int64]:
    """int64[ranks + 1]: where the memory of each rank begins in that of all, and the end."""
    chunks, _ = program.layout(inplace=inplace)
    return np.concatenate([[0], np.cumsum(chunks.sum(axis=1))]).astype(np.int64)


def divide(rows: NDArray[Any], ranks: int) -> None:
    """Divide sums by the number of their terms, integers with the result rounded down."""
    if rows.dtype.kind in "fc":
        np.divide(rows, ranks, out=rows)
    else:
        np.floor_divide(rows, ranks, out=rows)
