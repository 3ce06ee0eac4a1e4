"""The transfers of a schedule started as early as their order allows.

Retiming keeps the order of transfers on each link, and of arrivals and departures at each device, so the schedule stays
valid.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from collc.ten.demand import Demand, Op
from collc.ten.network import Network
from collc.ten.schedule import Clock, LinkModel, Transfers

MOST_TRANSFERS: Final = 400_000
"""Transfers up to which starts are recomputed: 50 us each in plain Python."""

ROUNDS: Final = 20
"""Rounds of the relaxation of starts, after which a schedule keeps its starts."""

Waits = list[list[tuple[int, int]]]
"""For each transfer, (another transfer, w): it starts at least w picoseconds after the other."""


def shifted_left(network: Network, demand: Demand, model: LinkModel, rows: Transfers) -> Transfers | None:
    """The transfers of a schedule, each as early as their order allows; None if not found in ROUNDS.

    Transfers keep their order on each link, and arrivals and departures theirs at each device. Also None if a switch
    has a limited buffer: which chunk fills a slot that another one leaves is not among what is kept.
    """
    if network.has_limited_buffers:
        return None
    start = earliest_starts(_waits(network, demand, rows, Clock.of(network, demand, model)))
    return None if start is None else rows.at(np.array(start))


def earliest_starts(waits: Waits) -> list[int] | None:
    """The least starts that satisfy all waits (longest paths, by Bellman and Ford); None if not found in ROUNDS."""
    start = [0] * len(waits)
    for _ in range(ROUNDS):
        changed = False
        for k, wait in enumerate(waits):
            here = least = start[k]
            for other, after in wait:
                ready = start[other] + after
                if ready > least:  # noqa: PLR1730 - max takes longer
                    least = ready
            if least > here:
                start[k], changed = least, True
        if not changed:
            return start
    return None


@dataclass(frozen=True, slots=True)
class _Visits:
    """Transfers of one chunk into one device, or out of it: their ends in ascending order, and their rows.

    Of equal ends, the one over the link with the lower number is first, as for two partials that reach a switch at the
    same time.
    """

    ends: list[int]
    rows: list[int]

    def row_before(self, row: int) -> list[int]:
        """The transfer before another one, as a list; [] for the first."""
        position = self.rows.index(row)
        return self.rows[max(0, position - 1) : position]

    def rows_until(self, time: int) -> list[int]:
        """The transfers that have ended by a time, in order."""
        return self.rows[: bisect_right(self.ends, time)]


def _waits(network: Network, demand: Demand, rows: Transfers, clock: Clock) -> Waits:
    """What each transfer waits for: the one before it on its link, and those of its chunk."""
    waits = chunk_waits_of(network, demand, rows, clock)
    in_turn(waits, range(len(rows)), rows.link.tolist(), clock.busy_of(rows).tolist())
    return waits


def chunk_waits_of(network: Network, demand: Demand, rows: Transfers, clock: Clock, made: Clock | None = None) -> Waits:
    """What each transfer waits for, of those of the same chunk, beside the one before it on its link.

    clock: how long transfers take. made: how long they took when the schedule was made, which decides what came before
    what; None: its totals are those of `clock`.
    """
    busy: list[int] = clock.busy_of(rows).tolist()
    total: list[int] = clock.total_of(rows).tolist()
    start: list[int] = rows.start.tolist()
    order = clock if made is None else made
    end = rows.start + order.total_of(rows)
    ends: list[int] = end.tolist()
    left: list[int] = (rows.start + order.busy_of(rows)).tolist()
    source_of, target_of = network.source[rows.link], network.target[rows.link]
    sources: list[int] = source_of.tolist()
    targets: list[int] = target_of.tolist()
    # A chunk at a device has a number.
    chunk_at = rows.chunk.astype(np.int64) * network.device_count
    there: list[int] = (chunk_at + source_of).tolist()
    here: list[int] = (chunk_at + target_of).tolist()
    by_end: list[int] = np.lexsort((rows.link, end)).tolist()
    arrivals, departures = _visits(here, ends, by_end), _visits(there, ends, by_end)
    none = _Visits([], [])
    waits: Waits = [[] for _ in ends]
    multicast: list[bool] = network.multicast.tolist()
    reduced: list[bool] = (demand.chunks.op[rows.chunk] != Op.COPY).tolist()
    table = demand.chunks
    held: list[bool] = table.sets.contain(table.pre[rows.chunk], network.source[rows.link]).tolist()
    for k, (source, target) in enumerate(zip(sources, targets, strict=True)):
        if there[k] in arrivals:
            # All arrivals if the chunk is reduced or a switch, which may hold several copies, sends; else the first.
            before = arrivals[there[k]].rows_until(start[k])
            needed = before if reduced[k] or source >= network.npu_count else before[: not held[k]]
            waits[k] += [(a, total[a]) for a in needed]
        if source >= network.npu_count and not multicast[source - network.npu_count]:
            # A switch without multicast sends a chunk over one link at a time: departures stay disjoint.
            rows_out = departures[there[k]].rows
            waits[k] += [(d, busy[d]) for d in rows_out if d != k and left[d] <= start[k]]
        if target >= network.npu_count:
            into, out = arrivals[here[k]], departures.get(here[k], none)
            waits[k] += [(d, busy[d] - total[k]) for d in out.rows_until(ends[k])[-1:]]
            waits[k] += [(a, total[a]) for a in into.rows_until(start[k])[-1:]]
            if reduced[k]:  # a switch passes partials on in the order of their arrivals
                waits[k] += [(d, 1 - total[k]) for d in out.rows if start[d] < ends[k]]
                waits[k] += [(a, total[a] - total[k] + (ends[a] < ends[k])) for a in into.row_before(k)]
        elif reduced[k]:  # what an NPU sent before a partial arrived is sent without it
            out = departures.get(here[k], none)
            waits[k] += [(d, 1 - total[k]) for d in out.rows if start[d] < ends[k]]
    return waits


def in_turn(waits: Waits, order: Iterable[int], key: Sequence[Hashable], taken: list[int]) -> None:
    """Each transfer waits until the one before it with the same key, -1 for none, no longer takes it."""
    last: dict[Hashable, int] = {}
    for k in order:
        if key[k] != -1:
            if key[k] in last:
                waits[k].append((last[key[k]], taken[last[key[k]]]))
            last[key[k]] = k


def _visits(numbers: list[int], ends: list[int], by_end: list[int]) -> dict[int, _Visits]:
    """The transfers by the chunk and device that `numbers` numbers. by_end: all transfers by end and link."""
    visits_of: dict[int, _Visits] = {}
    for k in by_end:
        visits = visits_of.get(numbers[k])
        if visits is None:
            visits = visits_of[numbers[k]] = _Visits([], [])
        visits.ends.append(ends[k])
        visits.rows.append(k)
    return visits_of
