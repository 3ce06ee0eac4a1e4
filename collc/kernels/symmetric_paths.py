"""The spanning order and balanced shortest paths of a Cayley graph.

Runs as it stands on arrays in plain Python; the caller compiles it (collc/kernels/compiled.py) if that is faster.
"""

from __future__ import annotations

from collc.ten.arrays import Int32Array, Int64Array


def spanning_order(successors: Int32Array, order: Int64Array, depth: Int64Array) -> bool:
    """Fills order and depth, int64[npus]: NPUs breadth first from NPU 0, and hops to each; whether all are reached.

    successors: int32[generators, npus], the NPU that each generator leads to.
    """
    generators, count = successors.shape
    depth[:] = -1
    order[0] = depth[0] = 0
    tail = 1
    for head in range(count):
        if head == tail:
            return False
        for generator in range(generators):
            there = successors[generator, order[head]]
            if depth[there] < 0:
                depth[there] = depth[order[head]] + 1
                order[tail] = there
                tail += 1
    return True


def balanced_shortest_paths(
    predecessors: Int32Array, order: Int64Array, depth: Int64Array, rounds: int, hops: Int64Array, load: Int64Array
) -> None:
    """Fills hops int64[npus, copies, generators], those of a message from NPU 0 to each NPU; load: their sums.

    predecessors: int32[generators, npus], the NPU that each generator comes from. Each path extends that to an NPU one
    hop nearer, chosen so that the sum of the squares of the loads is least; after the first round the paths are chosen
    again, one by one.
    """
    generators = len(predecessors)
    for round_number in range(rounds):
        for position in range(1, len(order)):
            npu = order[position]
            for copy in range(hops.shape[1]):
                if round_number:
                    load -= hops[npu, copy]
                best, least = -1, 0
                for generator in range(generators):
                    before = predecessors[generator, npu]
                    if depth[before] + 1 == depth[npu]:
                        path = hops[before, copy]
                        growth = 2 * (load[generator] + path[generator]) + 1
                        for other in range(generators):
                            growth += (2 * load[other] + path[other]) * path[other]
                        if best < 0 or growth < least:
                            best, least = generator, growth
                hops[npu, copy] = hops[predecessors[best, npu], copy]
                hops[npu, copy, best] += 1
                load += hops[npu, copy]


def trace_hops(
    successors: Int32Array,
    message: Int64Array,
    step: Int64Array,
    generator: Int64Array,
    rows: Int32Array,
) -> None:
    """Fills rows int32[4, all hops]: step, generator, sender and message of each hop of messages from NPU 0.

    message, step, generator: int64[hops], by message and step.
    """
    sender = 0
    for row in range(len(message)):
        if row == 0 or message[row] != message[row - 1]:
            sender = 0
        rows[0, row] = step[row]
        rows[1, row] = generator[row]
        rows[2, row] = sender
        rows[3, row] = message[row]
        sender = successors[generator[row], sender]
