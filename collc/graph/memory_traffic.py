"""The memory traffic of a demand: what the endpoint of an NPU reads for each byte that it sends (docs/simulation.md).

A kernel on the NPU reads two bytes to send one of a partial (what came, and its own) and one to send a copy. A
collective engine beside the network keeps what came in its own memory, and reads each byte of the input once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np

from collc.graph.coordinates import find_dimensions
from collc.ten.demand import Demand, Op, RunFamily
from collc.ten.endpoint import MEMORY_TRAFFIC
from collc.ten.network import Network


def fed_for(network: Network, demand: Demand) -> Network:
    """The network whose NPUs read from memory what this demand makes them read for each byte that they send."""
    if all(kind.memory is None for kind in network.endpoint_kinds):
        return network
    dimensions = find_dimensions(network)
    by_stride = [] if dimensions is None else sorted(zip(dimensions.strides, dimensions.sizes, strict=True))
    parts = [_bytes(family, [size for _, size in by_stride]) for family in demand.by_family.families]
    partials, copies, read, sent = (sum(column, Fraction(0)) for column in zip(*parts, strict=True))
    if not sent:
        return network
    traffic = {"baseline": (2 * partials + copies) / (partials + copies), "offload": read / sent}
    numbers = {
        mode: None if rate == MEMORY_TRAFFIC[mode] else rate.limit_denominator(10**6) for mode, rate in traffic.items()
    }
    kinds = (
        kind if kind.memory is None else replace(kind, traffic=numbers[kind.mode]) for kind in network.endpoint_kinds
    )
    return replace(network, endpoint_kinds=tuple(kinds))


def _bytes(family: RunFamily, sizes: Sequence[int]) -> tuple[Fraction, ...]:
    """Bytes of all runs: sent as partials, as copies, read by an engine, sent by an engine; at least these.

    sizes: of the dimensions of the network, the one of neighbouring numbers first; () if it has not several.
    """
    run, members = family.first, len(family.first.group)
    if members == 1:  # nothing is sent
        return (Fraction(0),) * 4
    shape = None if run.standard is None else run.standard.shape
    if shape is None or not shape.by_rule:
        table = run.pattern.expand()
        starts, ends, reduces = table.sets.sizes[table.pre], table.sets.sizes[table.post], table.op != Op.COPY
        pairs = zip(table.post.tolist(), table.pre.tolist(), strict=True)
        lacking = np.array([len(table.sets.difference(*pair)) for pair in pairs], np.int64)
        partials = Fraction(int(table.size @ np.where(reduces, starts - 1, 0)))
        copies = Fraction(int(table.size @ np.where(reduces, ends - 1, lacking)))
        read = Fraction(int(table.size @ np.where(reduces, starts, lacking > 0)))
    else:
        size = Fraction(run.chunk_size * family.chunks_each)
        moved = size * (members - 1)
        partials = moved if shape.reduces else Fraction(0)
        copies = moved if shape.end == "all" else Fraction(0) if shape.reduces else moved / members
        read = size * members if shape.reduces else size if shape.end == "all" else copies
    sent = partials + copies
    if shape is not None and shape.phases == 2 and prod(sizes) == members:  # All-Reduce
        sent = read * hierarchical_share(sizes)
    return tuple(len(family) * part for part in (partials, copies, read, sent))


def hierarchical_share(sizes: Sequence[int]) -> Fraction:
    """What an NPU sends in an All-Reduce for each byte of its buffer: a Reduce-Scatter along the first dimension, an
    All-Reduce of that part along each other one, and an All-Gather along the first (ACE, ISCA 2021).
    """
    first, *others = (Fraction(2 * (size - 1), size) for size in sizes)
    return first + sum(others, Fraction(0)) / sizes[0]
