"""A schedule as plain moves, and their times as terms: whole numbers, or bit vectors of 64 bits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

from collc.base.units import serialization_time
from collc.smt.script import Script, Undecided
from collc.ten.demand import Op
from collc.ten.module import Module
from collc.ten.schedule import LinkModel


@dataclass(frozen=True, slots=True)
class Move:
    """A transfer. start: picoseconds; busy, total: until the link is free, and until the chunk is there."""

    number: int
    chunk: int
    link: int
    source: int
    target: int
    start: int
    reduce: bool
    busy: int
    total: int

    @property
    def t(self) -> str:
        """The constant that is its start."""
        return f"t{self.number}"


class World:
    """The moves of a schedule, grouped. Raises Undecided where some of them cannot be at all."""

    def __init__(self, module: Module) -> None:
        assert module.schedule is not None
        self.module, self.network, self.table = module, module.network, module.demand.chunks
        rows, store = module.schedule.transfers, module.schedule.model is LinkModel.STORE
        self.moves: list[Move] = []
        times: list[tuple[int, bool]] = list(zip(rows.start.tolist(), rows.reduce.tolist(), strict=True))
        columns = zip(rows.chunk.tolist(), rows.link.tolist(), times, strict=True)
        for number, (chunk, link, (start, reduce)) in enumerate(columns):
            ends = self._ends(chunk, link)
            kind = self.network.kinds[int(self.network.kind[link])]
            if kind.bandwidth is None or kind.latency is None:
                raise Undecided("links have no bandwidth or latency")
            wire = serialization_time(int(self.table.size[chunk]), kind.bandwidth)
            total = wire + kind.latency
            busy = total if store else wire
            self.moves.append(Move(number, chunk, link, *ends, start, reduce, busy, total))
        if any(move.total <= 0 for move in self.moves):
            raise Undecided("transfers take no time")

    def _ends(self, chunk: int, link: int) -> tuple[int, int]:
        if not (0 <= link < self.network.link_count and 0 <= chunk < len(self.table)):
            raise Undecided("a transfer is of a chunk or a link that is not there")
        source, target = int(self.network.source[link]), int(self.network.target[link])
        if source == target or not (self.network.present[source] and self.network.present[target]):
            raise Undecided("a transfer has no two devices that are there")
        return source, target

    @cached_property
    def into(self) -> dict[tuple[int, int], list[Move]]:
        """Moves by (chunk, target)."""
        found: dict[tuple[int, int], list[Move]] = defaultdict(list)
        for move in self.moves:
            found[move.chunk, move.target].append(move)
        return found

    @cached_property
    def out_of(self) -> dict[tuple[int, int], list[Move]]:
        """Moves by (chunk, source)."""
        found: dict[tuple[int, int], list[Move]] = defaultdict(list)
        for move in self.moves:
            found[move.chunk, move.source].append(move)
        return found

    def holders(self, chunk: int) -> list[int]:
        """Of the precondition."""
        return self.table.sets[int(self.table.pre[chunk])].tolist()

    def wanted(self, chunk: int) -> list[int]:
        """Holders of the postcondition, where it is due."""
        planned = self.module.planned
        if planned is not None and self.module.demand.run_of(chunk) not in planned:
            return []
        return self.table.sets[int(self.table.post[chunk])].tolist()

    def reduced(self, chunk: int) -> bool:
        """Whether a chunk is a reduction."""
        return int(self.table.op[chunk]) != Op.COPY

    def is_switch(self, device: int) -> bool:
        """Whether a device is a switch."""
        return device >= self.network.npu_count


class Times(ABC):
    """How times are written. logic: as SMT-LIB names it."""

    logic: str
    sort: str

    @abstractmethod
    def number(self, value: int) -> str:
        """A constant number of picoseconds."""

    @abstractmethod
    def later(self, move: Move, by: int) -> str:
        """A time after the start of a move."""

    @abstractmethod
    def le(self, a: str, b: str) -> str:
        """Whether one time is not after another."""

    @abstractmethod
    def lt(self, a: str, b: str) -> str:
        """Whether one time is before another."""

    def end(self, move: Move) -> str:
        """When the link is free."""
        return self.later(move, move.busy)

    def arrival(self, move: Move) -> str:
        """When the chunk is there."""
        return self.later(move, move.total)

    def declare(self, script: Script, move: Move) -> None:
        """The constant for the start of a move, and its value."""
        script.declare(move.t, self.sort)
        script.require(f"(= {move.t} {self.number(move.start)})")


class Integers(Times):
    """Whole numbers, in linear arithmetic."""

    logic, sort = "QF_LIA", "Int"

    def number(self, value: int) -> str:
        """See Times."""
        return str(value) if value >= 0 else f"(- {-value})"

    def later(self, move: Move, by: int) -> str:
        """See Times."""
        return f"(+ {move.t} {by})"

    def le(self, a: str, b: str) -> str:
        """See Times."""
        return f"(<= {a} {b})"

    def lt(self, a: str, b: str) -> str:
        """See Times."""
        return f"(< {a} {b})"


class Bits(Times):
    """Bit vectors, for formulas that have others too."""

    logic, sort = "QF_BV", "(_ BitVec 64)"

    def number(self, value: int) -> str:
        """See Times."""
        if not -(2**63) <= value < 2**63:
            raise Undecided("a time does not fit in 64 bits")
        return f"(_ bv{value % 2**64} 64)"

    def later(self, move: Move, by: int) -> str:
        """See Times."""
        self.number(move.start + by)
        return f"(bvadd {move.t} {self.number(by)})"

    def le(self, a: str, b: str) -> str:
        """See Times."""
        return f"(bvsle {a} {b})"

    def lt(self, a: str, b: str) -> str:
        """See Times."""
        return f"(bvslt {a} {b})"
