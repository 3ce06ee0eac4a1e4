"""The limits of NPUs in the simulation: ports that messages pass before and behind links.

A message occupies the injection of the NPU that sends it, also of one that only forwards it, for size / rate, and
enters its link as soon as its turn has come, where it may queue. It occupies the ejection of the NPU that it reaches
for size / rate before it has arrived. Where nothing else is on its way, a message takes as long as without limits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.simulation.timing import Timing
from collc.ten.arrays import BoolArray, Int32Array, Int64Array
from collc.ten.limited import Ports
from collc.ten.network import LinkKind, Network


@dataclass(frozen=True, eq=False)
class PortHops:
    """The hops of all messages over links and ports, as in `Hops`; port p is number link_count + p.

    on_link: bool[hops], whether a hop is over a link.
    """

    offsets: Int64Array
    link: Int32Array
    busy: Int64Array
    delay: Int64Array
    on_link: BoolArray


def with_ports(
    network: Network,
    offsets: Int64Array,
    columns: tuple[Int32Array, Int64Array, Int64Array],
    size: Int64Array,
    timing: Timing,
) -> PortHops:
    """Insert hops over ports. columns: link, busy and delay of each hop over a link. size: int64[hops], bytes."""
    link, busy, delay = columns
    ports = Ports.of(network)
    sizes, size_of = np.unique(size, return_inverse=True)
    table = np.zeros((len(ports) + 1, len(sizes)), np.int64)
    for port, rate in enumerate(ports.rates):
        table[port] = [timing.hop(int(one), LinkKind(0, rate))[0] for one in sizes]
    out, into = ports.out[network.source[link]], ports.into[network.target[link]]
    taken = table[into, size_of.reshape(-1)]
    before, behind = (out >= 0).astype(np.int64), (into >= 0).astype(np.int64)
    count = 1 + before + behind
    place = np.cumsum(count) - count + before
    total = int(count.sum())
    number = np.zeros(total, np.int32)
    times = np.zeros((2, total), np.int64)
    on_link = np.zeros(total, np.bool_)
    number[place], on_link[place] = link, True
    times[0, place], times[1, place] = busy, np.maximum(0, delay - taken)
    sends, receives = np.flatnonzero(before), np.flatnonzero(behind)
    number[place[sends] - 1] = network.link_count + out[sends]
    times[0, place[sends] - 1] = table[out[sends], size_of.reshape(-1)[sends]]
    number[place[receives] + 1] = network.link_count + into[receives]
    times[:, place[receives] + 1] = taken[receives]
    first = np.append(0, np.cumsum(count))
    return PortHops(first[offsets], number, times[0], times[1], on_link)
