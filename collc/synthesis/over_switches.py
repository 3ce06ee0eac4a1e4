"""Schedules on direct links in place of switches as schedules over these switches.

Each transfer over a direct link becomes two, into the switch and out of it. Retiming keeps the order of arrivals and
departures of each chunk at each device, so the schedule stays valid, and takes as long as it does over the switches.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from collc.base.diagnostics import Diagnostic, NoSchedule
from collc.synthesis.retiming import MOST_TRANSFERS, chunk_waits_of, earliest_starts, in_turn
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule, Transfers
from collc.ten.transform import links_behind


def over_switches(planned: Module, network: Network) -> Module:
    """A module with a schedule on `unwound(network)` as one on the network.

    Raises NoSchedule if it has too many transfers, or their order cannot be kept.
    """
    schedule = planned.schedule
    assert schedule is not None
    if len(schedule) <= MOST_TRANSFERS:
        rows, made = _two_hops(planned, schedule.transfers, network)
        clock = Clock.of(network, planned.demand, planned.model)
        waits = chunk_waits_of(network, planned.demand, rows, clock, made)
        in_turn(waits, range(len(rows)), rows.link.tolist(), clock.busy_of(rows).tolist())
        starts = earliest_starts(waits)
        if starts is not None:
            over = RowSchedule(planned.model, rows.at(np.array(starts, np.int64)))
            return replace(planned, network=network, schedule=over, bound=None)
    raise NoSchedule(Diagnostic("S0201", "its transfers over direct links cannot be made to cross switches"))


def pairs_in_switches(rows: Transfers, network: Network) -> int:
    """How many pairs of copies of a chunk come to one switch, of which one may wait for the other.

    rows: transfers on `unwound(network)`.
    """
    switch = network.target[links_behind(network)[rows.link, 0]].astype(np.int64)
    visits = np.unique(rows.chunk * np.int64(network.device_count) + switch, return_counts=True)[1]
    return int((visits**2).sum())


def _two_hops(planned: Module, rows: Transfers, network: Network) -> tuple[Transfers, Clock]:
    """The transfers over the switches in slow motion, and the clock of these: what came before what, in what follows.

    A chunk is in a switch as soon as it is sent, and leaves it at once. Of several that are sent at the same time, each
    is there by itself, as a switch passes on the oldest of several partials of a chunk.
    """
    own, clock = (Clock.of(each, planned.demand, planned.model) for each in (network, planned.network))
    offsets, links = network.in_links
    counts = np.diff(offsets).astype(np.int64)
    later = np.empty(network.link_count, np.int64)
    later[links] = 1 + np.arange(len(links)) - np.repeat(offsets[:-1], counts)
    slower = int(counts.max(initial=0)) + 2
    first, last = links_behind(network).T.astype(np.int32)
    crosses = first != last
    total = np.repeat(later[:, None], own.total.shape[1], axis=1)
    total[last] = slower * clock.total[clock.kind] - (later[first] * crosses)[:, None]
    made = Clock(np.ones_like(total), total, own.size_of, np.arange(network.link_count, dtype=np.int32))
    begin, relayed = slower * rows.start, np.where(rows.relays < 0, -1, last[rows.relays])
    over = crosses[rows.link]
    hops = Transfers(
        rows.chunk, first[rows.link], begin, rows.reduce, relayed.astype(np.int32), None, rows.keeps & ~over
    )
    out = Transfers(rows.chunk, last[rows.link], begin + later[first[rows.link]], rows.reduce, kept=rows.keeps)
    return Transfers.concatenate([hops, out.select(over)]), made
