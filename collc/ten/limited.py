"""Networks whose NPUs have limited rates: what their links can carry, and networks without the limits.

An NPU with a limit sends, or receives, one transfer after another at that rate: a transfer of `size` bytes occupies the
port of its source for overhead + size / rate from its start, and that of its target as long until its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.demand import Demand
from collc.ten.endpoint import DEFAULT_MODE, Endpoint, least
from collc.ten.network import LinkKind, Network, occupation_time


def with_endpoints(network: Network, endpoints: list[Endpoint]) -> Network:
    """The network with limits, one a NPU; links are as they were."""
    known: dict[Endpoint, int] = {Endpoint(): 0}
    plain = [
        endpoint if endpoint.memory is not None else replace(endpoint, mode=DEFAULT_MODE) for endpoint in endpoints
    ]
    rows = [known.setdefault(endpoint, len(known)) for endpoint in plain]
    if len(known) == 1:
        return without_limits(network)
    return replace(network, endpoint=np.array(rows, np.int32), endpoint_kinds=tuple(known))


def without_limits(network: Network) -> Network:
    """The network whose NPUs have no limits and no launch, with the same links."""
    if not network.endpoint_kinds:
        return network
    return replace(network, endpoint=np.empty(0, np.int32), endpoint_kinds=())


def launched_for(network: Network, demand: Demand) -> Network:
    """The network in which no NPU outside the groups of a demand, which at most relays, launches later than they do."""
    if len({kind.launch for kind in network.endpoint_kinds}) < 2:
        return network
    members = np.unique(np.concatenate([run.group for run in demand.runs])).astype(np.int32)
    latest = max(network.endpoint_of(npu).launch for npu in members.tolist())
    endpoints = [network.endpoint_of(npu) for npu in range(network.npu_count)]
    return with_endpoints(network, [replace(endpoint, launch=min(endpoint.launch, latest)) for endpoint in endpoints])


def fed_links(network: Network) -> Network:
    """The network whose links are no faster than what the NPU at either end can send or receive, and on which a message
    has no less overhead than at either end.
    """
    return _slow_links(network, np.ones(network.device_count, np.int64), np.ones(network.device_count, np.int64))


def shared_links(network: Network) -> Network:
    """The network without limits, on which the links of an NPU share its rates, and its time, in equal parts.

    Links of an NPU that can use all of them at once keep their bandwidth and overhead.
    """
    parts: list[Int64Array] = []
    overheads = _overheads(network)
    for ends, limits in ((network.source, _sends(network)), (network.target, _receives(network))):
        count = np.bincount(ends, minlength=network.device_count)
        total = link_rates(network, ends)
        enough = [
            (rate is None or rate >= all_of) and not overhead
            for rate, all_of, overhead in zip(limits, total, overheads, strict=True)
        ]
        parts.append(np.where(enough, 1, np.maximum(1, count)).astype(np.int64))
    return without_limits(_slow_links(network, *parts))


def link_rates(network: Network, ends: Int32Array) -> list[Fraction]:
    """By device, the bandwidth of all links that have it at this end (int32[links])."""
    rates = [Fraction(0)] * network.device_count
    for number, kind in enumerate(network.kinds):
        counts = np.bincount(ends[network.kind == number], minlength=network.device_count)
        for device in np.flatnonzero(counts).tolist():
            rates[device] += int(counts[device]) * (kind.bandwidth or 0)
    return rates


def _sends(network: Network) -> list[Fraction | None]:
    """By device, what it can send; None: no limit."""
    return [network.endpoint_of(device).send for device in range(network.device_count)]


def _receives(network: Network) -> list[Fraction | None]:
    return [network.endpoint_of(device).receive for device in range(network.device_count)]


def _overheads(network: Network) -> list[int]:
    return [network.endpoint_of(device).overhead for device in range(network.device_count)]


def _slow_links(network: Network, senders: Int64Array, receivers: Int64Array) -> Network:
    """Links no faster than a part of the rates of their ends: one of senders[source] and of receivers[target] parts.

    Each has at least as many times the overhead of an end.
    """
    if not network.has_endpoints:
        return network
    send, receive, overheads = _sends(network), _receives(network), _overheads(network)
    outs: list[int] = senders.tolist()
    ins: list[int] = receivers.tolist()
    kinds = {kind: row for row, kind in enumerate(network.kinds)}
    rows: list[int] = []
    sources: list[int] = network.source.tolist()
    targets: list[int] = network.target.tolist()
    given: list[int] = network.kind.tolist()
    for source, target, row in zip(sources, targets, given, strict=True):
        out, into = send[source], receive[target]
        kind = network.kinds[row]
        most = least(None if out is None else out / outs[source], None if into is None else into / ins[target])
        bandwidth = kind.bandwidth if kind.bandwidth is None else least(kind.bandwidth, most)
        overhead = max(kind.overhead, overheads[source] * outs[source], overheads[target] * ins[target])
        rows.append(kinds.setdefault(LinkKind(kind.latency, bandwidth, overhead), len(kinds)))
    if rows == given:
        return network
    used = sorted(set(rows))
    position = {row: number for number, row in enumerate(used)}
    names = tuple(kinds)
    return replace(
        network,
        kind=np.array([position[row] for row in rows], np.int32),
        kinds=tuple(names[row] for row in used),
    )


def overlaps(port: Int32Array, begin: Int64Array, taken: Int64Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(first, second): transfers that follow one another at a port, the second before the first is through.

    port: int32[transfers], -1 for none. begin, taken: int64[transfers], when and for how long each occupies it.
    """
    used = np.flatnonzero(port >= 0)
    order = used[np.lexsort((used, begin[used], port[used]))]
    same = port[order[1:]] == port[order[:-1]]
    overlapping = np.flatnonzero(same & (begin[order[1:]] < (begin + taken)[order[:-1]]))
    return order[overlapping], order[overlapping + 1]


@dataclass(frozen=True, eq=False)
class Ports:
    """The ports of all NPUs with limits.

    out, into: int32[devices], the port of the device's limit on what it sends, and on what it receives; -1 for none.
    rates: of each port, None for one that only has an overhead. overheads: of each port, picoseconds of each message.
    devices: of each port, the device. sends: of each port, whether it limits what is sent.
    """

    out: Int32Array
    into: Int32Array
    rates: tuple[Fraction | None, ...]
    overheads: tuple[int, ...]
    devices: tuple[int, ...]
    sends: tuple[bool, ...]

    @staticmethod
    def of(network: Network) -> Ports:
        """The ports of a network, those of senders first.

        An NPU has none for a rate at which it can use all its links at once, if messages have no overhead at it, or it
        has only one link.
        """
        columns: list[Int32Array] = []
        rates: list[Fraction | None] = []
        overheads: list[int] = []
        devices: list[int] = []
        sends: list[bool] = []
        if not network.has_endpoints:
            none = np.full(network.device_count, -1, np.int32)
            return Ports(none, none, (), (), (), ())
        overhead_of = _overheads(network)
        for limits, sending in ((_sends(network), True), (_receives(network), False)):
            ends = network.source if sending else network.target
            width, count = link_rates(network, ends), np.bincount(ends, minlength=network.device_count)
            column = np.full(network.device_count, -1, np.int32)
            for device, rate in enumerate(limits):
                overhead = overhead_of[device]
                if (rate is not None and rate < width[device]) or (overhead and count[device] > 1):
                    column[device] = len(rates)
                    rates.append(rate)
                    overheads.append(overhead)
                    devices.append(device)
                    sends.append(sending)
            columns.append(column)
        return Ports(columns[0], columns[1], tuple(rates), tuple(overheads), tuple(devices), tuple(sends))

    def __len__(self) -> int:
        return len(self.rates)

    def occupancy(self, sizes: Int64Array, duration: Callable[[int, LinkKind], int] = occupation_time) -> Int64Array:
        """int64[ports + 1, sizes]: how long a transfer of each size occupies each port, in picoseconds.

        duration: of a size on a link without latency. The last row is 0, that of the port -1. A port without a rate
        takes no time for bytes.
        """
        rows: dict[tuple[Fraction | None, int], list[int]] = {}
        limits = list(zip(self.rates, self.overheads, strict=True))
        for rate, overhead in limits:
            if (rate, overhead) not in rows:
                kind = LinkKind(0, rate or Fraction(1), overhead)
                rows[rate, overhead] = [duration(0 if rate is None else int(size), kind) for size in sizes]
        table = [*(rows[limit] for limit in limits), [0] * len(sizes)]
        return np.array(table, np.int64).reshape(len(self) + 1, len(sizes))

    def name(self, network: Network, port: int) -> str:
        """What a port limits, in words."""
        device = self.devices[port]
        endpoint, name = network.endpoint_of(device), network.shown_name(device)
        return endpoint.send_limit(name) if self.sends[port] else endpoint.receive_limit(name)
