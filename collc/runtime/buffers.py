"""The input and the output of one call as rows of chunks, for arrays of NumPy and tensors of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from collc.runtime.collectives import INPUT, OUTPUT, SCRATCH, TOTAL, blocks_of
from collc.runtime.rounds import RankRounds, Rows
from collc.runtime.run_program import RunProgram


def fits(coll: str, ranks: int, given: int, taken: int) -> bool:
    """Whether a call can have an input and an output with these numbers of elements."""
    blocks = blocks_of(coll, ranks)
    return given % blocks[INPUT] == 0 and given // blocks[INPUT] * blocks[OUTPUT] == taken


class Buffers:
    """What a program reads and writes in a call: the caller's memory if its blocks divide into chunks.

    Else each block is padded in memory of its own. A program that is only for the other placement than the call gets
    copies, too. If it is for both, an All-Gather runs in place and a Reduce-Scatter does not, so that all ranks agree.
    inplace: whether it runs in place. elements: of a chunk. source, target: vectors.
    """

    def __init__(
        self,
        program: RunProgram,
        rank: int,
        given: Any,  # noqa: ANN401
        taken: Any,  # noqa: ANN401
        zeros: Callable[[Any, int], Any],
        address: Callable[[Any], int],
        *,
        kept: bool = False,
    ) -> None:
        """given, taken: input and output, as vectors. zeros: makes a vector of zeros of an array's type. address: of
        the first element of an array. kept: in memory of its own, which later calls with other vectors use
        again, and in place if the program can.
        """
        chunks = program.chunks_per_loop // (program.ranks if program.coll in TOTAL else 1)
        blocks = self._blocks = blocks_of(program.coll, program.ranks)
        length = len(given) // blocks[INPUT]
        self.elements = -(-length // chunks)
        padded = self.elements * chunks
        pads, own = kept or padded != length, slice(rank * padded, (rank + 1) * padded)
        first, second = (given, taken) if blocks[INPUT] <= blocks[OUTPUT] else (taken, given)
        offset = rank * length if blocks[INPUT] != blocks[OUTPUT] else 0
        joined = kept or address(first) == address(second[offset:])
        scatters, gathers = blocks[INPUT] > blocks[OUTPUT], blocks[INPUT] < blocks[OUTPUT]
        agreed = gathers or (joined and not scatters)  # a call may be in place on some ranks alone
        self.inplace = program.in_place and (kept or agreed or not program.out_of_place)
        if not self.inplace:
            self.source = zeros(given, blocks[INPUT] * padded) if pads or (joined and not scatters) else given
            self.target = zeros(taken, blocks[OUTPUT] * padded) if pads or (joined and scatters) else taken
        elif scatters:  # the input of the caller stays as it is
            self.source = given if joined and not pads else zeros(given, blocks[INPUT] * padded)
            self.target = self.source[own]
        else:
            self.target = zeros(taken, blocks[OUTPUT] * padded) if pads else taken
            self.source = self.target[own] if gathers else self.target
        self._loads = address(self.source) != address(given)
        self._stores = address(self.target) != address(taken)
        self._loaded = self.source.reshape(blocks[INPUT], -1)[:, :length]
        self._stored = self.target.reshape(blocks[OUTPUT], -1)[:, :length]

    def rows(self, rounds: RankRounds, zeros: Callable[[Any, int], Any]) -> Rows:
        """The memory of the program. zeros: makes the vector of its scratch and spare slots."""
        kept = [size for _, size in rounds.buffers[SCRATCH:]]
        scratch = zeros(self.source, sum(kept) * self.elements)
        first = kept[0] * self.elements
        return Rows(rounds, (self.source, self.target, scratch[:first], scratch[first:]), self.elements)

    def load(self, given: Any) -> None:  # noqa: ANN401
        """Copy the input, if the program does not read it where it is."""
        if self._loads:
            self._loaded[:] = given.reshape(self._blocks[INPUT], -1)

    def store(self, taken: Any) -> None:  # noqa: ANN401
        """Copy the output, if the program does not write it where it is."""
        if self._stores:
            taken.reshape(self._blocks[OUTPUT], -1)[:] = self._stored
