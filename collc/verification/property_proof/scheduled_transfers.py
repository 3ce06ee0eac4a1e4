"""The transfers of a schedule as plain values, grouped by chunk and device, and times as terms of SMT-LIB."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from collc.base.units import serialization_time
from collc.smt.script import Script, Undecided
from collc.ten.demand import Op
from collc.ten.module import Module


@dataclass(frozen=True, slots=True)
class ScheduledTransfer:
    """A transfer. Picoseconds: start; busy, until the link is free; total, until the chunk has arrived.

    relayed: the link over which what it carries came to its sender; -1: it carries what its sender holds. kept: whether
    the receiver only keeps it apart.
    """

    number: int
    chunk: int
    link: int
    source: int
    target: int
    start: int
    reduce: bool
    busy: int
    total: int
    relayed: int = -1
    kept: bool = False

    @property
    def t(self) -> str:
        """The constant for its start."""
        return f"t{self.number}"


class ScheduledTransfers:
    """All transfers of a schedule. Raises Undecided if one has no link, chunk, pair of devices or duration."""

    def __init__(self, module: Module) -> None:
        assert module.schedule is not None
        self.module, self.network, self.table = module, module.network, module.demand.chunks
        rows, model = module.schedule.transfers, module.schedule.model
        if rows.messages is not None:
            raise Undecided("messages queue at links")
        self.all: list[ScheduledTransfer] = []
        times: list[tuple[int, bool]] = list(zip(rows.start.tolist(), rows.reduce.tolist(), strict=True))
        apart: list[tuple[int, bool]] = list(zip(rows.relays.tolist(), rows.keeps.tolist(), strict=True))
        columns = zip(rows.chunk.tolist(), rows.link.tolist(), times, apart, strict=True)
        for number, (chunk, link, (start, reduce), (relayed, kept)) in enumerate(columns):
            ends = self._ends(chunk, link)
            self._check_relayed(ends[0], relayed)
            if kept and (not reduce or self.is_switch(ends[1])):
                raise Undecided("what is kept apart is no partial that comes to an NPU")
            kind = self.network.kinds[int(self.network.kind[link])]
            if kind.bandwidth is None or kind.latency is None:
                raise Undecided("links have no bandwidth or latency")
            wire = kind.overhead + serialization_time(int(self.table.size[chunk]), kind.bandwidth)
            total = wire + kind.latency
            busy = model.busy(wire, total)
            self.all.append(ScheduledTransfer(number, chunk, link, *ends, start, reduce, busy, total, relayed, kept))
        if any(transfer.total <= 0 for transfer in self.all):
            raise Undecided("transfers take no time")

    def _check_relayed(self, source: int, relayed: int) -> None:
        """Raises Undecided unless a link leads to the sender, an NPU; -1: nothing is relayed."""
        into = int(self.network.target[relayed]) if 0 <= relayed < self.network.link_count else -1
        if relayed != -1 and (into != source or source >= self.network.npu_count):
            raise Undecided("a transfer relays what came over a link that does not lead to its sender")

    def _ends(self, chunk: int, link: int) -> tuple[int, int]:
        if not (0 <= link < self.network.link_count and 0 <= chunk < len(self.table)):
            raise Undecided("a transfer is of a chunk or a link that is not there")
        source, target = int(self.network.source[link]), int(self.network.target[link])
        if source == target or not (self.network.present[source] and self.network.present[target]):
            raise Undecided("a transfer has no two devices that are there")
        return source, target

    @cached_property
    def arrivals(self) -> dict[tuple[int, int], list[ScheduledTransfer]]:
        """Transfers by (chunk, target)."""
        found: dict[tuple[int, int], list[ScheduledTransfer]] = defaultdict(list)
        for transfer in self.all:
            found[transfer.chunk, transfer.target].append(transfer)
        return found

    @cached_property
    def departures(self) -> dict[tuple[int, int], list[ScheduledTransfer]]:
        """Transfers by (chunk, source)."""
        found: dict[tuple[int, int], list[ScheduledTransfer]] = defaultdict(list)
        for transfer in self.all:
            found[transfer.chunk, transfer.source].append(transfer)
        return found

    def holders(self, chunk: int) -> list[int]:
        """The NPUs of the precondition of a chunk."""
        return self.table.sets[int(self.table.pre[chunk])].tolist()

    def receivers(self, chunk: int) -> list[int]:
        """The NPUs of the postcondition of a chunk."""
        return self.table.sets[int(self.table.post[chunk])].tolist()

    def is_reduction(self, chunk: int) -> bool:
        """Whether a chunk is a reduction."""
        return int(self.table.op[chunk]) != Op.COPY

    def is_switch(self, device: int) -> bool:
        """Whether a device is a switch."""
        return device >= self.network.npu_count


@dataclass(frozen=True, slots=True)
class TimeTerms:
    """How times are written as terms. logic, sort, plus, at_most, less: as SMT-LIB names them."""

    logic: str
    sort: str
    plus: str
    at_most: str
    less: str

    def number(self, value: int) -> str:
        """The term for a number of picoseconds."""
        if self.logic == "QF_LIA":
            return str(value) if value >= 0 else f"(- {-value})"
        if not -(2**63) <= value < 2**63:
            raise Undecided("a time does not fit in 64 bits")
        return f"(_ bv{value % 2**64} 64)"

    def later(self, transfer: ScheduledTransfer, by: int) -> str:
        """The term for `by` picoseconds after the start of a transfer."""
        self.number(transfer.start + by)  # it fits
        return f"({self.plus} {transfer.t} {self.number(by)})"

    def le(self, a: str, b: str) -> str:
        """The term a <= b."""
        return f"({self.at_most} {a} {b})"

    def lt(self, a: str, b: str) -> str:
        """The term a < b."""
        return f"({self.less} {a} {b})"

    def end(self, transfer: ScheduledTransfer) -> str:
        """The term for the time at which a transfer leaves its link."""
        return self.later(transfer, transfer.busy)

    def arrival(self, transfer: ScheduledTransfer) -> str:
        """The term for the arrival of a transfer."""
        return self.later(transfer, transfer.total)

    def declare(self, script: Script, transfer: ScheduledTransfer) -> None:
        """Add the constant for the start of a transfer, and its value."""
        script.declare(transfer.t, self.sort)
        script.require(f"(= {transfer.t} {self.number(transfer.start)})")


INTEGERS: Final = TimeTerms("QF_LIA", "Int", "+", "<=", "<")
BIT_VECTORS: Final = TimeTerms("QF_BV", "(_ BitVec 64)", "bvadd", "bvsle", "bvslt")
"""Bit vectors of 64 bits, for formulas that have other bit vectors."""
