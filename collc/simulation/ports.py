"""The limits of NPUs in the simulation: ports that messages pass before and behind links.

A message occupies the injection of the NPU that sends it, also of one that only forwards it, for size / rate, and
enters its link as soon as its turn has come, where it may queue. It occupies the ejection of the NPU that it reaches
for size / rate before it has arrived. Where nothing else is on its way, a message takes as long as without limits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from collc.simulation.hops import Hops
from collc.simulation.timing import Timing
from collc.ten.arrays import Int64Array
from collc.ten.limited import Ports
from collc.ten.network import LinkKind, Network


@dataclass(frozen=True, eq=False)
class PortRows:
    """Where hops are among those over ports: int64[hops]. sent, received: the port of the sender, and of the receiver,
    or the hop itself where there is none.
    """

    hop: Int64Array
    sent: Int64Array
    received: Int64Array

    @staticmethod
    def same(hops: int) -> PortRows:
        """Those of hops without ports."""
        every = np.arange(hops, dtype=np.int64)
        return PortRows(every, every, every)


def with_ports(network: Network, hops: Hops, timing: Timing) -> tuple[Hops, PortRows]:
    """The hops with those over ports, and where the given ones are among them. Port p is number link_count + p."""
    link, busy, delay = hops.link, hops.busy, hops.delay
    ports = Ports.of(network)
    sizes, size_of = np.unique(hops.size, return_inverse=True)
    size_of = size_of.reshape(-1)
    table = ports.occupancy(sizes, lambda size, rate: timing.hop(size, LinkKind(0, rate))[0])
    out, into = ports.out[network.source[link]], ports.into[network.target[link]]
    taken = table[into, size_of]
    before, behind = (out >= 0).astype(np.int64), (into >= 0).astype(np.int64)
    count = 1 + before + behind
    place = (np.cumsum(count) - count + before).astype(np.int64)
    total = int(count.sum())
    number = np.zeros(total, np.int32)
    times = np.zeros((2, total), np.int64)
    number[place] = link
    times[0, place], times[1, place] = busy, np.maximum(0, delay - taken)
    sends, receives = np.flatnonzero(before), np.flatnonzero(behind)
    number[place[sends] - 1] = network.link_count + out[sends]
    times[0, place[sends] - 1] = table[out[sends], size_of[sends]]
    number[place[receives] + 1] = network.link_count + into[receives]
    times[:, place[receives] + 1] = taken[receives]
    first = np.append(0, np.cumsum(count))
    begin = np.zeros(total, np.int64)
    every = Hops(first[hops.offsets], number, np.repeat(hops.size, count), times[0], times[1], begin, begin, begin)
    return every, PortRows(place, place - before, place + behind)
