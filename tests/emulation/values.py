"""Data of emulated runs: random 64-bit numbers, so that each wrong sum is another number, and what must come out."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

MASK = (1 << 64) - 1

SAME = ("allreduce", "alltoall", "broadcast", "reduce")
"""Collectives whose input and output are one buffer in place (docs/msccl-contract.md, section 5)."""


class Refused(Exception):
    """The file says something that has no meaning for a runtime: there is nothing to emulate."""


@dataclass(frozen=True)
class Call:
    """What the emulated program is called for. root: -1 if the collective has none.

    custom: a gather or scatter of a runtime without these: all buffers are as long as that of the root.
    """

    coll: str
    inplace: bool
    root: int = -1
    custom: bool = False


class Memory:
    """Buffers of all ranks in one list of cells; a slot (chunk) has `cells` of them, one after another."""

    def __init__(self, call: Call, chunks: list[tuple[int, int, int]], cells: int, seed: int, scratch: int = 1) -> None:
        self.call = call
        self.scratch = [s * scratch for _, _, s in chunks]
        self.chunks = chunks
        self.cells = cells
        self.base: list[dict[str, int]] = []
        self.begins: list[dict[str, int]] = []
        size = 0
        for rank, (i, o, _) in enumerate(chunks):
            s = self.scratch[rank]
            start, used = self._shared(rank, i, o)
            self.begins.append(start)
            if used is None:
                self.base.append({"i": size, "o": size + i, "s": size + i + o})
                size += i + o + s
            else:
                self.base.append({"i": size + start["i"], "o": size + start["o"], "s": size + used})
                size += used + s
        self.random = random.Random(seed)
        self.values = self.drawn(size * cells)
        self.inputs = [self.drawn(i * cells) for i, _, _ in chunks]
        for rank in range(len(chunks)):
            self.fill(rank, self.inputs[rank])

    def _shared(self, rank: int, i: int, o: int) -> tuple[dict[str, int], int | None]:
        """Where input and output begin in one buffer, and its slots; None: they are two."""
        coll, root = self.call.coll, self.call.root
        if not self.call.inplace:
            return {}, None
        if coll in SAME:
            return {"i": 0, "o": 0}, max(i, o)
        if coll == "allgather" or (coll == "gather" and rank == root):
            return {"i": rank * i, "o": 0}, max(o, (rank + 1) * i)
        if coll == "reducescatter" or (coll == "scatter" and rank == root):
            return {"i": 0, "o": rank * o}, max(i, (rank + 1) * o)
        return {}, None

    def drawn(self, count: int) -> list[int]:
        bits = self.random.getrandbits
        return [bits(64) for _ in range(count)]

    def at(self, rank: int, buffer: str, slot: int, count: int = 1) -> int:
        """The first cell of `count` slots. Raises Refused if they are not all in the buffer."""
        if not (0 <= rank < len(self.chunks)) or buffer not in "ios" or count < 1:
            raise Refused(f"no such slots: {buffer}[{slot}] of rank {rank}, {count}")
        if not 0 <= slot <= self.chunks[rank]["ios".index(buffer)] - count:
            raise Refused(f"outside of the buffer: {buffer}[{slot}] of rank {rank}, {count}")
        return (self.base[rank][buffer] + slot) * self.cells

    def at_other(self, caller: int, rank: int, buffer: str, slot: int, count: int) -> int:
        """`at` for another rank: its allocation and the chunk, and how far into its own one the caller's tensor begins
        (docs/msccl-contract.md, "Offsets"). Raises Refused also if that is not all in the allocation.
        """
        start = self.at(rank, buffer, slot, count)
        moved = self.begins[caller].get(buffer, 0) - self.begins[rank].get(buffer, 0)
        if not moved:
            return start
        regions = [self.region(rank, kind) for kind in ("io" if self.begins[rank] else buffer)]
        first = start + moved * self.cells
        if not min(r.start for r in regions) <= first <= max(r.stop for r in regions) - count * self.cells:
            raise Refused(f"outside of the allocation: {buffer}[{slot}] of rank {rank}, moved by {moved}")
        return first

    def region(self, rank: int, buffer: str) -> range:
        start = self.base[rank][buffer] * self.cells
        return range(start, start + self.chunks[rank]["ios".index(buffer)] * self.cells)

    def fill(self, rank: int, data: list[int]) -> None:
        where = self.region(rank, "i")
        self.values[where.start : where.stop] = data

    def wrong(self, rank: int, wanted: list[int] | None) -> str:
        """What is wrong in the output of a rank after a run; "" if nothing is."""
        if wanted is not None:
            where = self.region(rank, "o")
            found = self.values[where.start : where.stop]
            if len(wanted) > len(found):
                return f"rank {rank}: the output has {len(found)} cells, of {len(wanted)}"
            bad = [k // self.cells for k, want in enumerate(wanted) if found[k] != want]
            if bad:
                return f"rank {rank}: o[{bad[0]}] and {len(set(bad)) - 1} other chunks of the output are wrong"
        return ""

    def changed(self, rank: int, given: list[int]) -> str:
        """Whether a program that is out of place has written to the input of a rank, in words; "" if not."""
        where = self.region(rank, "i")
        kept = self.call.inplace or self.values[where.start : where.stop] == given
        return "" if kept else f"rank {rank}: the input was overwritten"


def results(call: Call, inputs: list[list[int]]) -> list[list[int] | None]:
    """What each rank's output must begin with; None: anything.

    Raises Refused if the inputs do not fit the collective.
    """
    try:
        if call.custom:
            inputs = [row[: len(row) // len(inputs)] for row in inputs] if call.coll == "gather" else inputs
        return _RESULTS[call.coll](call, inputs)
    except (KeyError, IndexError) as error:
        raise Refused(f"the result of {call.coll} is not known") from error


def _total(inputs: list[list[int]]) -> list[int]:
    if len({len(row) for row in inputs}) != 1:
        raise Refused("inputs to add have several lengths")
    return [sum(column) & MASK for column in zip(*inputs, strict=True)]


def _parts(row: list[int], count: int) -> list[list[int]]:
    size, rest = divmod(len(row), count)
    if rest:
        raise Refused("a buffer is not divided evenly among the ranks")
    return [row[k * size : (k + 1) * size] for k in range(count)]


def _joined(rows: Iterable[list[int]]) -> list[int]:
    return [*itertools.chain.from_iterable(rows)]


def _at_root(call: Call, inputs: list[list[int]], wanted: list[int]) -> list[list[int] | None]:
    return [wanted if rank == call.root else None for rank in range(len(inputs))]


def _all_to_all(_: Call, inputs: list[list[int]]) -> list[list[int] | None]:
    parts = [_parts(row, len(inputs)) for row in inputs]
    return [_joined(part[rank] for part in parts) for rank in range(len(inputs))]


_RESULTS: dict[str, Callable[[Call, list[list[int]]], list[list[int] | None]]] = {
    "allreduce": lambda _, inputs: [_total(inputs)] * len(inputs),
    "reducescatter": lambda _, inputs: [*_parts(_total(inputs), len(inputs))],
    "reduce": lambda call, inputs: _at_root(call, inputs, _total(inputs)),
    "allgather": lambda _, inputs: [_joined(inputs)] * len(inputs),
    "gather": lambda call, inputs: _at_root(call, inputs, _joined(inputs)),
    "broadcast": lambda call, inputs: [inputs[call.root]] * len(inputs),
    "scatter": lambda call, inputs: [*_parts(inputs[call.root], len(inputs))],
    "alltoall": _all_to_all,
}
