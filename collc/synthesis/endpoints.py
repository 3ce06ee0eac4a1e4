"""Schedules for NPUs with limits on what they send and receive, made from schedules without these limits.

A synthesizer plans as if NPUs could use all their links at once: on the links as they are (with the limits if it counts
them), and on links that share the rates of their NPUs in equal parts. The schedules are then retimed with the limits,
in the order of the schedule and by list scheduling (collc/synthesis/endpoint_lists.py), and the shortest result is
used. Retiming keeps the order of arrivals and departures of each chunk at each device, so the schedule stays valid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from collc.base.diagnostics import CollcError, Diagnostic, NoSchedule
from collc.synthesis.endpoint_lists import PortList, PortTransfers
from collc.synthesis.reductions.compose import join
from collc.synthesis.retiming import MOST_TRANSFERS, chunk_waits_of, earliest_starts, in_turn
from collc.ten.limited import Ports, shared_links, without_limits
from collc.ten.module import Module
from collc.ten.network import Network
from collc.ten.schedule import Clock, RowSchedule, Transfers

LISTS: Final = ((1_000, 16), (10_000, 4), (MOST_TRANSFERS, 2))
"""(transfers, list schedules with different seeds that are tried up to this number of transfers)."""


LIST_WORK: Final = 7
"""Work of starting a transfer in one list schedule; measured for up to 1,000 transfers."""


def retiming_work(transfers: int) -> int:
    """The work of `retimed_for_endpoints`, as WorkMeter counts it."""
    return LIST_WORK * transfers * (1 + _list_count(transfers))


def _list_count(transfers: int) -> int:
    """List schedules that are tried."""
    return next((lists for most, lists in LISTS if transfers <= most), 0)


def limited_schedule(module: Module, synthesize: Callable[[Module], Module], counts_limits: bool = False) -> Module:
    """The module with the shortest schedule found by a synthesizer, for a network with limits of NPUs.

    synthesize: runs the synthesizer. counts_limits: whether it plans with the limits in view. Raises NoSchedule S0206
    if its schedule cannot be retimed, and what `synthesize` raises, if that is so on all networks on which it plans.
    """
    if not len(Ports.of(module.network)):
        return synthesize(module)
    retimed: list[Module] = []
    failures: list[CollcError] = []
    for network in networks_to_plan_on(module.network, counts_limits):
        try:
            planned = join(synthesize(replace(module, network=network)))
            retimed.append(retimed_for_endpoints(planned, module.network))
        except CollcError as error:
            failures.append(error)
    if not retimed:
        raise failures[0]
    best = min(retimed, key=Module.collective_time)
    note = "the times in the notes above ignore the limits of NPUs"
    return replace(best, notes=(*best.notes, note)) if best.notes else best


def networks_to_plan_on(network: Network, counts_limits: bool) -> list[Network]:
    """The networks on which a synthesizer plans: the given one if it counts limits, else the one without them; and one
    whose links share the rates of their NPUs. Only the one without limits if these leave all links their bandwidth.
    """
    free, shared = without_limits(network), shared_links(network)
    if free.kinds == shared.kinds and np.array_equal(free.kind, shared.kind):
        return [free]
    return [network if counts_limits else free, shared]


def retimed_for_endpoints(module: Module, network: Network) -> Module:
    """The module on a network with limits, with its transfers started as late as these demand.

    network: the network of the module, but for limits and the bandwidths of links. Raises NoSchedule S0206 if the
    schedule is too large or has messages that queue, switches have limited buffers, or the order of its transfers
    cannot be kept within the limits.
    """
    schedule = module.schedule
    assert schedule is not None
    if len(schedule) > MOST_TRANSFERS:
        message = f"{len(schedule):,} transfers are more than the {MOST_TRANSFERS:,} supported if NPUs have limits"
        raise NoSchedule(Diagnostic("S0206", message, hint="use fewer chunks, or fewer NPUs"))
    if schedule.transfers.messages is not None:
        message = "messages that queue ('allow congestion') cannot be planned beside other runs if NPUs have limits"
        hint = "give all runs algorithms with 'using', or leave out the limits"
        raise NoSchedule(Diagnostic("S0206", message, hint=hint))
    refuse_buffers(module.network)
    rows = schedule.transfers
    starts = _PortOrders(module, rows, network).best()
    if starts is None:
        message = "the order of its transfers cannot be kept if NPUs send and receive one transfer after another"
        raise NoSchedule(Diagnostic("S0206", f"{module.algorithm or 'the schedule'}: {message}"))
    moved = rows.at(np.array(starts, np.int64))
    return replace(module, network=network, schedule=RowSchedule(schedule.model, moved))


def refuse_buffers(network: Network) -> None:
    """Raise NoSchedule S0206 if switches of a network whose NPUs have limits have limited buffers."""
    if network.has_limited_buffers:
        message = "limits of NPUs are not supported if switches have limited buffers"
        raise NoSchedule(Diagnostic("S0206", message, hint="leave out 'buffer', or the limits"))


class _PortOrders:
    """The transfers of a schedule, and the orders in which NPUs may send and receive them."""

    def __init__(self, module: Module, rows: Transfers, network: Network) -> None:
        assert module.schedule is not None
        clock, made = (Clock.of(planned, module.demand, module.schedule.model) for planned in (network, module.network))
        ports = Ports.of(network)
        sizes, size_of = np.unique(module.demand.chunks.size, return_inverse=True)
        time, size = ports.occupancy(sizes), size_of.reshape(-1)[rows.chunk]
        out, into = ports.out[network.source[rows.link]], ports.into[network.target[rows.link]]
        busy: list[int] = clock.busy_of(rows).tolist()
        links: list[int] = rows.link.tolist()
        self._waits = chunk_waits_of(network, module.demand, rows, clock, made)
        in_turn(self._waits, range(len(rows)), list(zip(links, rows.chunk.tolist(), strict=True)), busy)
        self._given = PortTransfers(
            links,
            rows.start.tolist(),
            busy,
            clock.total_of(rows).tolist(),
            out.tolist(),
            into.tolist(),
            time[out, size].tolist(),
            time[into, size].tolist(),
            self._waits,
        )

    def best(self) -> list[int] | None:
        """The starts of the shortest schedule found; None if there is none."""
        lists = self._lists(self._given)
        if not any(lists):  # such as if two NPUs swap partials: each must start before the other arrives
            later = [[(other, after) for other, after in wait if after >= 0] for wait in self._waits]
            lists = [starts for starts in self._lists(replace(self._given, waits=later)) if self._are_kept(starts)]
        tries = (starts for starts in (self._in_order(), *lists) if starts is not None)
        return min(tries, key=self._end, default=None)

    def _lists(self, given: PortTransfers) -> list[list[int] | None]:
        return [PortList(given, seed).starts() for seed in range(_list_count(len(given.link)))]

    def _are_kept(self, start: list[int] | None) -> bool:
        """Whether all transfers wait as they must."""
        if start is None:
            return False
        return all(start[k] >= start[other] + after for k, wait in enumerate(self._waits) for other, after in wait)

    def _in_order(self) -> list[int] | None:
        """The starts if links carry, and NPUs send and receive, in the order of the schedule."""
        given = self._given
        order = range(len(given.start))
        waits = [list(row) for row in self._waits]
        in_turn(waits, order, given.link, given.busy)
        in_turn(waits, order, given.out, given.sending)
        arriving = sorted(order, key=lambda k: given.start[k] + given.total[k])
        last: dict[int, int] = {}
        for k in arriving:
            port = given.into[k]
            if port in last:
                waits[k].append((last[port], given.total[last[port]] - given.total[k] + given.receiving[k]))
            if port >= 0:
                last[port] = k
        return earliest_starts(waits)

    def _end(self, start: list[int]) -> int:
        return max((a + b for a, b in zip(start, self._given.total, strict=True)), default=0)
