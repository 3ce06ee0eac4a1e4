"""Shortest ways on a Cayley graph that load all generators alike, and where messages are on them.

Plain Python on plain arrays; the caller compiles it (Numba) where that pays.
"""

from __future__ import annotations

from collc.ten.arrays import Int32Array, Int64Array


def spanning_order(ahead: Int32Array, order: Int64Array, depth: Int64Array) -> bool:
    """Fills order and depth, int64[npus]: NPUs breadth first from NPU 0, and hops to each; whether all are reached."""
    generators, count = ahead.shape
    depth[:] = -1
    order[0] = depth[0] = 0
    tail = 1
    for head in range(count):
        if head == tail:
            return False
        for generator in range(generators):
            there = ahead[generator, order[head]]
            if depth[there] < 0:
                depth[there] = depth[order[head]] + 1
                order[tail] = there
                tail += 1
    return True


def shortest_ways(
    behind: Int32Array, order: Int64Array, depth: Int64Array, sweeps: int, counts: Int64Array, load: Int64Array
) -> None:
    """Fills counts int64[npus, copies, generators], the hops of a message to each NPU, and their sums, load.

    behind: int32[generators, npus], where generators come from. Each way goes on from that to an NPU one hop
    nearer, so that the squares of the loads are least; after the first sweep they are chosen anew one by one.
    """
    generators = len(behind)
    for sweep in range(sweeps):
        for place in range(1, len(order)):
            npu = order[place]
            for copy in range(counts.shape[1]):
                if sweep:
                    load -= counts[npu, copy]
                best, least = -1, 0
                for generator in range(generators):
                    before = behind[generator, npu]
                    if depth[before] + 1 == depth[npu]:
                        way = counts[before, copy]
                        growth = 2 * (load[generator] + way[generator]) + 1
                        for other in range(generators):
                            growth += (2 * load[other] + way[other]) * way[other]
                        if best < 0 or growth < least:
                            best, least = generator, growth
                counts[npu, copy] = counts[behind[best, npu], copy]
                counts[npu, copy, best] += 1
                load += counts[npu, copy]


def follow(
    ahead: Int32Array, message: Int64Array, step: Int64Array, generator: Int64Array, hops: Int64Array, rows: Int32Array
) -> None:
    """Fills rows int32[4, all hops]: step, generator, sender, message.

    message, step, generator, hops: int64[blocks], in order of message and step; from `step` on, so many hops over a
    generator follow each other.
    """
    at, place = 0, 0
    for block in range(len(message)):
        if block == 0 or message[block] != message[block - 1]:
            at = 0
        for hop in range(hops[block]):
            rows[0, place] = step[block] + hop
            rows[1, place] = generator[block]
            rows[2, place] = at
            rows[3, place] = message[block]
            at = ahead[generator[block], at]
            place += 1
