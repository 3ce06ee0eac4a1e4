"""Bounds from what NPUs can send and receive over all their links together, for any number of chunks.

An NPU must receive what it wants and does not hold, and send what only it holds. Both take at least the bytes divided
by the rate of the NPU. An NPU that is the only connection between parts of the network must also forward to each part
all that this part wants from the others. On networks without switches every chunk that arrives was sent by an NPU and
is received by one, so all arrivals together take at least their bytes divided by the sum of the rates of all senders,
and by that of all receivers.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import numpy as np

from collc.graph.digraph import Digraph
from collc.graph.distances import UNREACHABLE, hop_counts
from collc.graph.reachability import weakly_connected
from collc.synthesis.bounds.traffic import Traffic
from collc.ten.arrays import Int64Array
from collc.ten.endpoint import least
from collc.ten.limited import Ports, link_rates
from collc.ten.module import Bound
from collc.ten.network import Network

SECOND: Final = 10**12
"""Picoseconds."""

FORWARDING_NPUS: Final = 256
"""NPUs up to which each is tried as the only connection between parts of the network."""

DETAILED_DEVICES: Final = 2048
"""Devices up to which hops between all devices are counted."""


def endpoint_bounds(network: Network, sizes: Int64Array, traffic: list[Traffic]) -> Iterator[Bound]:
    """All such bounds; none if NPUs have no limits. sizes: int64, bytes by the size numbers of `traffic`.

    Raises ValueError if links have no latency.
    """
    ports = Ports.of(network)
    if not len(ports):
        return
    latency = network.latencies[network.kind]
    for sends in (True, False):
        counts = np.zeros((len(sizes), network.device_count), np.int64)
        for part in traffic:
            found = part.sent_chunks() if sends else part.received_chunks()
            counts[:, : found.shape[1]] += found
        yield from _of_each(network, sizes @ counts, latency, sends)
        if len(network.npus) <= FORWARDING_NPUS:
            passed = _passed_on(network, sizes, traffic, sends)
            yield from _of_each(network, passed, latency, sends, ", the only connection between parts of the network")
    if not network.has_switches:
        for sends in sorted(set(ports.sends), reverse=True):
            yield from _of_all(network, sizes, traffic, int(latency.min()), sends)


def _passed_on(network: Network, sizes: Int64Array, traffic: list[Traffic], sends: bool) -> Int64Array:
    """int64[devices]: what each NPU with a limit must send to (receive from) the parts into which the network falls
    without it, each of which reaches the others, and it, over nothing else; 0 if it stays in one part.
    """
    found = np.zeros(network.device_count, np.int64)
    for npu in network.npus.tolist():
        endpoint = network.endpoint_of(npu)
        if (endpoint.send if sends else endpoint.receive) is None:
            continue
        apart = (network.source != npu) & (network.target != npu)
        label = weakly_connected(Digraph(network.device_count, network.source[apart], network.target[apart]))
        parts = np.setdiff1d(label[network.npus], label[npu])
        if len(parts) > 1:
            for part in parts.tolist():
                inside = (label == part) == sends
                found[npu] += sum(int(sizes @ one.chunks_into(inside).counts) for one in traffic)
    return found


def _of_each(
    network: Network, volume: Int64Array, latency: Int64Array, sends: bool, which: str = ""
) -> Iterator[Bound]:
    """The NPU that takes longest to send, or receive, its bytes (int64[devices]), and a latency."""
    ends = network.source if sends else network.target
    nearest = np.full(network.device_count, UNREACHABLE, np.int64)
    np.minimum.at(nearest, ends, latency)
    best, worst = 0, -1
    for npu in network.npus.tolist():
        endpoint = network.endpoint_of(npu)
        rate = endpoint.send if sends else endpoint.receive
        if rate is not None and volume[npu] and nearest[npu] < UNREACHABLE:
            time = _duration(int(volume[npu]), rate) + int(nearest[npu])
            if time > best:
                best, worst = time, npu
    if worst >= 0:
        endpoint, name = network.endpoint_of(worst), network.shown_name(worst)
        yield Bound(best, (endpoint.send_limit(name) if sends else endpoint.receive_limit(name)) + which)


def _of_all(network: Network, sizes: Int64Array, traffic: list[Traffic], latency: int, sends: bool) -> Iterator[Bound]:
    """The fewest transfers, and what all NPUs can send, or receive, together."""
    width = link_rates(network, network.source if sends else network.target)
    npus: list[int] = network.npus.tolist()
    limits = [network.endpoint_of(npu).send if sends else network.endpoint_of(npu).receive for npu in npus]
    pairs = zip(limits, npus, strict=True)
    rate = sum((least(limit, width[npu]) or Fraction(0) for limit, npu in pairs), Fraction(0))
    detailed = network.device_count <= DETAILED_DEVICES and any(part.pairwise for part in traffic)
    hops = hop_counts(Digraph.of(network)) if detailed else None
    volume = sum(int(sizes @ part.transfers(hops)) for part in traffic)
    if not volume or not rate:
        return
    memory = all(network.endpoint_of(npu).fed_by_memory == network.endpoint_of(npu).send for npu in npus)
    what = "ejection" if not sends else "memory" if memory else "injection"
    yield Bound(_duration(volume, rate) + latency, f"the {what} of all NPUs")


def _duration(volume: int, rate: Fraction) -> int:
    """Picoseconds for some bytes."""
    return -(-volume * SECOND // rate)
