"""The schedule of a TEN module: the chunk, the link and the start time of each transfer.

A schedule has one of two layouts with one interface: rows sorted by start, or a step-by-link table for
schedules whose transfers all take equal time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from collc.base.memory import require
from collc.base.tables import html_table
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.link_model import LinkModel
from collc.ten.network import Network

LATEST_KEY = 2**62
"""A start and a link that give less as one number are sorted by it."""


@dataclass(frozen=True, eq=False)
class QueuedMessages:
    """Columns of transfers that are hops of messages, if messages queue at links (`allow congestion`).

    number: int32, the message that a transfer is a hop of; -1: it is a transfer by itself. The devices between the ends
    of a message forward it, and neither hold nor add what it carries.
    ready: int64, picoseconds; when the message joined the queue of the link, or of its sender if this limits what
    it sends. The first hop carries what its sender held then.
    injected: int64, picoseconds; when the sender, an NPU with such a limit, began to send the message, which then
    joined the queue of the link; for other senders as the start.
    received: int64, picoseconds; when the target, an NPU with a limit on what it receives, had received the message,
    if it waited for that behind the link; -1: as soon as it had come. None: -1 everywhere.
    """

    number: Int32Array
    ready: Int64Array
    injected: Int64Array
    received: Int64Array | None = None

    def select(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> QueuedMessages | None:
        """The messages of some transfers, or of all in another order; None if none of them is a hop of a message."""
        number = self.number[rows]
        if not (number >= 0).any():
            return None
        received = None if self.received is None else self.received[rows]
        return QueuedMessages(number, self.ready[rows], self.injected[rows], received)

    @property
    def last_received(self) -> Int64Array:
        """int64: `received`, also if it is None; -1 for what is no hop of a message."""
        return np.full(len(self.number), -1) if self.received is None else np.where(self.number >= 0, self.received, -1)

    @staticmethod
    def concatenate(parts: list[Transfers]) -> QueuedMessages | None:
        """The columns of all parts, whose messages have different numbers."""
        if all(part.messages is None for part in parts):
            return None
        none = (QueuedMessages(np.full(len(part), -1, np.int32), part.start, part.start) for part in parts)
        columns = [part.messages or other for part, other in zip(parts, none, strict=True)]
        return QueuedMessages(
            np.concatenate([c.number for c in columns]),
            np.concatenate([c.ready for c in columns]),
            np.concatenate([c.injected for c in columns]),
            None if all(c.received is None for c in columns) else np.concatenate([c.last_received for c in columns]),
        )


@dataclass(frozen=True, eq=False)
class Transfers:
    """Transfers, sorted by (start, link, chunk).

    chunk, link: int32. start: int64, picoseconds. reduce: bool; True if the receiver adds what arrives to what it
    holds, unless it is `kept` (a receiver that holds nothing of the chunk stores what arrives).
    relayed: int32; the link over which what a transfer carries came to its sender, which kept it apart; -1 if it
    carries what its sender holds. None: -1 everywhere.
    messages: if messages queue at links, which message each transfer is a hop of; None: each is one by itself.
    kept: bool; True if the receiver only keeps apart what arrives, a partial (so `reduce` is True too), and adds it
    to nothing: it is there for transfers that name the link in `relayed`. None: False everywhere.
    """

    chunk: Int32Array
    link: Int32Array
    start: Int64Array
    reduce: BoolArray
    relayed: Int32Array | None = None
    messages: QueuedMessages | None = None
    kept: BoolArray | None = None

    def __len__(self) -> int:
        return len(self.chunk)

    @staticmethod
    def of(
        chunk: Int32Array,
        link: Int32Array,
        start: Int64Array,
        reduce: BoolArray | bool = False,
        relayed: Int32Array | None = None,
        messages: QueuedMessages | None = None,
        kept: BoolArray | None = None,
    ) -> Transfers:
        """Make transfers from columns in any order."""
        flags = np.broadcast_to(np.asarray(reduce, np.bool_), chunk.shape)
        columns = chunk.astype(np.int32), link.astype(np.int32), start.astype(np.int64), flags, relayed, messages, kept
        rows = Transfers(*columns)
        return rows.select(slice(None) if rows.is_sorted else _order(chunk, link, start))

    def select(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Transfers:
        """Some of the transfers, or all in another order."""
        relayed = None if self.relayed is None else self.relayed[rows]
        if relayed is not None and bool((relayed == -1).all()):
            relayed = None
        kept = None if self.kept is None else self.kept[rows]
        if kept is not None and not kept.any():
            kept = None
        messages = None if self.messages is None else self.messages.select(rows)
        columns = self.chunk[rows], self.link[rows], self.start[rows], self.reduce[rows], relayed, messages, kept
        return Transfers(*columns)

    def at(self, start: Int64Array) -> Transfers:
        """The transfers at other times, without messages. start: int64, picoseconds."""
        return Transfers.of(self.chunk, self.link, start, self.reduce, self.relayed, None, self.kept)

    @property
    def relays(self) -> Int32Array:
        """int32: `relayed`, also if it is None."""
        return np.full(len(self), -1, np.int32) if self.relayed is None else self.relayed

    @property
    def keeps(self) -> BoolArray:
        """bool: `kept`, also if it is None."""
        return np.zeros(len(self), np.bool_) if self.kept is None else self.kept

    @property
    def adds(self) -> BoolArray:
        """bool: whether the receiver adds what arrives to what it holds."""
        return self.reduce if self.kept is None else self.reduce & ~self.kept

    @property
    def is_sorted(self) -> bool:
        """Whether they are sorted by (start, link, chunk)."""
        chunk, link, start = self.chunk, self.link, self.start
        later = start[1:] > start[:-1]
        same = start[1:] == start[:-1]
        by_link = link[1:] > link[:-1]
        by_chunk = (link[1:] == link[:-1]) & (chunk[1:] >= chunk[:-1])
        return bool((later | (same & (by_link | by_chunk))).all())

    @staticmethod
    def concatenate(parts: list[Transfers]) -> Transfers:
        """All transfers of all parts, sorted."""
        if not parts:
            empty = np.empty(0, np.int32)
            return Transfers(empty, empty, np.empty(0, np.int64), np.empty(0, np.bool_))
        return Transfers.of(
            np.concatenate([p.chunk for p in parts]),
            np.concatenate([p.link for p in parts]),
            np.concatenate([p.start for p in parts]),
            np.concatenate([p.reduce for p in parts]),
            None if all(p.relayed is None for p in parts) else np.concatenate([p.relays for p in parts]),
            QueuedMessages.concatenate(parts),
            None if all(p.kept is None for p in parts) else np.concatenate([p.keeps for p in parts]),
        )


def _order(chunk: Int32Array, link: Int32Array, start: Int64Array) -> NDArray[np.intp]:
    """The order by start, link and chunk. One number to sort by is several times faster than three."""
    links = int(link.max(initial=0)) + 1
    if int(link.min(initial=0)) >= 0 <= int(start.min(initial=0)) and int(start.max(initial=0)) < LATEST_KEY // links:
        key = start.astype(np.int64) * links + link
        order = np.argsort(key)
        ascending = key[order]
        if bool((ascending[1:] > ascending[:-1]).all()):  # else chunks decide
            return order
    return np.lexsort((chunk, link, start))


@dataclass(frozen=True, slots=True)
class Clock:
    """Durations of transfers on a network under a link model, in picoseconds, by kind of link and chunk size.

    busy, total: int64[kinds, sizes]; how long a transfer occupies its link, and how long after its start the chunk
    arrives. size_of: int32[chunks], the column of each chunk. kind: int32[links], the row of each link.
    """

    busy: Int64Array
    total: Int64Array
    size_of: Int32Array
    kind: Int32Array

    @staticmethod
    def of(network: Network, demand: Demand, model: LinkModel) -> Clock:
        """Compute the durations. Raises ValueError if links have no bandwidth or latency."""
        sizes, size_of = np.unique(demand.chunks.size, return_inverse=True)
        occupancy = network.occupancy(sizes)
        total = occupancy + network.latencies[:, None]
        return Clock(model.busy(occupancy, total), total, size_of.astype(np.int32).reshape(-1), network.kind)

    def busy_of(self, transfers: Transfers) -> Int64Array:
        """int64: how long each transfer occupies its link."""
        return self.busy[self.kind[transfers.link], self.size_of[transfers.chunk]]

    def total_of(self, transfers: Transfers) -> Int64Array:
        """int64: how long after the start of each transfer its chunk arrives, also if it waits for its receiver."""
        total = self.total[self.kind[transfers.link], self.size_of[transfers.chunk]]
        if transfers.messages is None or transfers.messages.received is None:
            return total
        received = transfers.messages.last_received
        return np.where(received >= 0, received - transfers.start, total)


MOST_LISTED: Final = 4_000_000
"""Transfers up to which they are listed for pictures, on Cayley graphs, after damage, and to try other numbers of
chunks; 512 GPUs have a million.
"""

TRANSFER_BYTES: Final = 64
"""Bytes that a transfer takes at most while transfers are listed: its row, twice, and its position while sorting."""


def require_memory_of(transfers: int) -> None:
    """Raise SourceError U0109 if listing `transfers` transfers needs more memory than there is."""
    require(TRANSFER_BYTES * transfers, f"{transfers:,} transfers", "use fewer chunks or a smaller network")


class Schedule(ABC):
    """The transfers of a demand on a network; a subclass for each layout."""

    model: LinkModel

    @abstractmethod
    def __len__(self) -> int:
        """Number of transfers."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self)} transfers, link model {self.model.value}>"

    def _repr_html_(self) -> str:
        """One row, for notebooks."""
        row = (type(self).__name__, str(len(self)), self.model.value)
        return html_table(("layout", "transfers", "link model"), [row])

    @abstractmethod
    def blocks(self, rows: int = 1 << 22) -> Iterator[Transfers]:
        """All transfers in order of (start, link, chunk), in blocks of about `rows`, to bound memory."""

    @cached_property
    def transfers(self) -> Transfers:
        """All transfers at once. Raises SourceError U0109 if they need more memory than there is."""
        require_memory_of(len(self))
        return Transfers.concatenate(list(self.blocks()))

    @property
    def row_count(self) -> int:
        """Transfers that are kept in memory; fewer than there are if some stand for others."""
        return len(self)

    def run_times(self, network: Network, demand: Demand) -> Int64Array:
        """int64[runs]: picoseconds until the last chunk of each run has arrived; 0 if it has no transfers."""
        if len(demand.runs) == 1:
            return np.array([self.collective_time(network, demand)], np.int64)
        clock = Clock.of(network, demand, self.model)
        times = np.zeros(len(demand.runs), np.int64)
        for block in self.blocks():
            run = np.searchsorted(demand.first_chunk, block.chunk, "right") - 1
            np.maximum.at(times, run, block.start + clock.total_of(block))
        return times

    def collective_time(self, network: Network, demand: Demand) -> int:
        """Picoseconds until the last chunk has arrived; 0 if there are no transfers."""
        clock = Clock.of(network, demand, self.model)
        ends = [int((b.start + clock.total_of(b)).max()) for b in self.blocks() if len(b)]
        return max(ends, default=0)


@dataclass(frozen=True, eq=False, repr=False)
class RowSchedule(Schedule):
    """A schedule with one row per transfer."""

    model: LinkModel
    rows: Transfers

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def transfers(self) -> Transfers:
        """See Schedule. Sorted rows are not sorted again, since that takes longer than all checks of a schedule."""
        return self.rows if self.rows.is_sorted else Transfers.concatenate([self.rows])

    def blocks(self, rows: int = 1 << 22) -> Iterator[Transfers]:
        """See Schedule."""
        for low in range(0, len(self.rows), rows):
            yield self.rows.select(slice(low, low + rows))


@dataclass(frozen=True, eq=False, repr=False)
class StepSchedule(Schedule):
    """A step-by-link table: chunk[s, l] enters link l at time s * step.

    chunk: uint16 or uint32[steps, links], chunk numbers; the largest value of the dtype means no chunk.
    step: picoseconds. reduce_steps: the number of steps, from the first on, whose transfers reduce; the others copy.
    """

    model: LinkModel
    chunk: NDArray[np.uint16] | NDArray[np.uint32]
    step: int
    reduce_steps: int = 0

    @property
    def no_chunk(self) -> int:
        """The value that means no chunk."""
        return int(np.iinfo(self.chunk.dtype).max)

    def __len__(self) -> int:
        rows = max(1, (1 << 22) // max(1, self.chunk.shape[1]))
        blocks = (self.chunk[low : low + rows] for low in range(0, len(self.chunk), rows))
        return sum(int(np.count_nonzero(block != self.no_chunk)) for block in blocks)

    def collective_time(self, network: Network, demand: Demand) -> int:
        """See Schedule. Reads the steps from the last backward, and stops where an earlier one cannot end later."""
        clock = Clock.of(network, demand, self.model)
        longest, end = int(clock.total.max(initial=0)), 0
        for number in range(len(self.chunk) - 1, -1, -1):
            if end and number * self.step + longest <= end:
                break
            row = self.chunk[number]
            link = np.flatnonzero(row != self.no_chunk)
            if len(link):
                arrivals = clock.total[clock.kind[link], clock.size_of[row[link]]]
                end = max(end, number * self.step + int(arrivals.max()))
        return end

    def blocks(self, rows: int = 1 << 22) -> Iterator[Transfers]:
        """See Schedule."""
        per = max(1, rows // max(1, self.chunk.shape[1]))
        for low in range(0, len(self.chunk), per):
            table = self.chunk[low : low + per]
            sends = table != self.no_chunk
            step = np.repeat(np.arange(low, low + len(table)), np.count_nonzero(sends, axis=1))
            cell = np.flatnonzero(sends)  # of two dimensions, `nonzero` takes five times as long
            link = (cell - (step - low) * table.shape[1]).astype(np.int32)
            yield Transfers(table.reshape(-1)[cell].astype(np.int32), link, step * self.step, step < self.reduce_steps)


@dataclass(frozen=True, eq=False)
class MessageHops:
    """The hops of n messages; a transfer that belongs to no message is one by itself.

    rows: int64, all transfers, message by message and hop by hop. first, last: int64[n], the rows of the first and the
    last hop of each message. before, after: int64, rows of hops that follow one another in a message.
    """

    rows: Int64Array
    first: Int64Array
    last: Int64Array
    before: Int64Array
    after: Int64Array

    @staticmethod
    def of(number: Int32Array, start: Int64Array) -> MessageHops:
        """Group transfers by message. number: int32, as in QueuedMessages. start: int64, when each enters its link."""
        count = len(number)
        alone = int(number.max(initial=-1)) + 1 + np.arange(count, dtype=np.int64)
        key = np.where(number >= 0, number, alone)
        rows = np.lexsort((start, key)).astype(np.int64)
        same = key[rows[1:]] == key[rows[:-1]]
        begins, ends = np.append(True, ~same)[:count], np.append(~same, True)[:count]
        return MessageHops(rows, rows[begins], rows[ends], rows[:-1][same], rows[1:][same])

    def find_gaps(
        self,
        chunk: Int32Array,
        source: Int32Array,
        target: Int32Array,
        start: Int64Array,
        end: Int64Array,
        reduce: BoolArray,
    ) -> NDArray[np.intp]:
        """Rows of hops that do not go on from where, and when, the hop before arrives, with its chunk."""
        before, after = self.before, self.after
        good = (chunk[before] == chunk[after]) & (target[before] == source[after])
        good &= (end[before] <= start[after]) & (reduce[before] == reduce[after])
        return after[~good].astype(np.intp)
