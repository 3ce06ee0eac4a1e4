"""The networks of throughput measurements: published boxes, nodes with rails, meshes; latencies of one hop."""

from __future__ import annotations

from fractions import Fraction

from collc.ten.network import LinkKind, Network
from tests.support import DGX1_LANES, grid, network

MI250_LANES = [
    "0400200010000000", "4000010001100000", "0004001001100000", "0040000200010000",
    "2000041000000000", "0100401100000000", "0010110400000000", "0002014000000000",
    "1000000004002000", "0110000040000100", "0110000000040010", "0001000000400002",
    "0000000020000410", "0000000001004011", "0000000000101104", "0000000000020140",
]  # fmt: skip
"""Lanes between the 16 dies of an MI250 node, as AMD publishes them."""


def kind(gigabytes: int, nanoseconds: int) -> LinkKind:
    return LinkKind(nanoseconds * 1000, Fraction(gigabytes * 10**9))


def joined(npus: int, edges: list[tuple[int, int, LinkKind]], switches: int, shape: tuple[int, ...]) -> Network:
    """A link each way for each edge."""
    return network(npus, [one for a, b, k in edges for one in ((a, b, k), (b, a, k))], switches, shape=shape)


def rails(nodes: int, inside: int = 450, outside: int = 50, size: int = 8) -> Network:
    """Nodes of GPUs with a switch each, and a switch for the GPUs of one rank in all nodes (DGX H100)."""
    count = nodes * size
    fast, slow = kind(inside, 350), kind(outside, 500)
    edges = [(gpu, count + gpu // size, fast) for gpu in range(count)]
    edges += [(gpu, count + nodes + gpu % size, slow) for gpu in range(count)]
    return joined(count, edges, nodes + size, (nodes, size))


def a100(nodes: int) -> Network:
    """Nodes of eight GPUs with a switch each, and one switch for all of them."""
    count = 8 * nodes
    edges = [(gpu, count + gpu // 8, kind(300, 350)) for gpu in range(count)]
    edges += [(gpu, count + nodes, kind(25, 500)) for gpu in range(count)]
    return joined(count, edges, nodes + 1, (nodes, 8))


def mi250(nodes: int) -> Network:
    """Nodes of 16 dies, joined directly, and one switch for all of them."""
    count = 16 * nodes
    edges = [
        (16 * node + a, 16 * node + b, kind(50 * int(lanes), 700))
        for node in range(nodes)
        for a, row in enumerate(MI250_LANES)
        for b, lanes in enumerate(row[:a])
        if lanes != "0"
    ]
    edges += [(die, count, kind(16, 1000)) for die in range(count)]
    return joined(count, edges, 1, (nodes, 16))


def dgx1() -> Network:
    """Eight GPUs with one or two lanes of 25 GB/s between them."""
    edges = [
        (a, b, kind(25 * lanes, 700)) for a, row in enumerate(DGX1_LANES) for b, lanes in enumerate(row[:a]) if lanes
    ]
    return joined(8, edges, 0, (8,))


def mesh(width: int, height: int) -> Network:
    return grid(width, height, kind=kind(50, 700))


def weak(npus: int, slow: int) -> Network:
    """Two nodes of NPUs on a switch each, one NPU of each with a slow link, and one switch for all."""
    edges = [(npu, npus + 2 * npu // npus, kind(slow if npu % (npus // 2) == 1 else 300, 350)) for npu in range(npus)]
    edges += [(npu, npus + 2, kind(25, 500)) for npu in range(npus)]
    return joined(npus, edges, 3, (npus,))
