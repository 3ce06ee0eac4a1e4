"""Networks of nodes, rails and pods for tests, built without the language, and with devices and links in any order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from collc.ten.demand import ChunkTable, Demand, Op, Run, Standard
from collc.ten.network import DeviceFamily, LinkKind, Network
from tests.support import network

GB = 10**9
NIC_RATE = Fraction(50 * GB)
NVLINK = LinkKind(350_000, Fraction(450 * GB))
NIC = LinkKind(850_000, NIC_RATE)


def both(a: int, b: int, kind: LinkKind) -> list[tuple[int, int, LinkKind]]:
    return [(a, b, kind), (b, a, kind)]


def with_arrays(net: Network, *shapes: tuple[int, ...]) -> Network:
    """The network with its switches as arrays of these shapes."""
    families, first = list(net.families[:1]), net.npu_count
    for number, shape in enumerate(shapes):
        strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
        families.append(DeviceFamily(f"switch{number}", shape, first, strides))
        first += int(np.prod(shape))
    assert first == net.device_count
    return replace(net, families=tuple(families))


def rails(nodes: int, size: int, *, spine: bool = False, nvswitches: int = 1) -> Network:
    """GPU i of all nodes on rail switch i; with a spine above the rails. NVSwitches of a node carry equal parts."""
    npus, inside = nodes * size, LinkKind(NVLINK.latency, Fraction(NVLINK.bandwidth or 0) / nvswitches)
    first_rail = npus + nodes * nvswitches
    links: list[tuple[int, int, LinkKind]] = []
    for node in range(nodes):
        for i in range(size):
            for s in range(nvswitches):
                links += both(node * size + i, npus + node * nvswitches + s, inside)
            links += both(node * size + i, first_rail + i, NIC)
    if spine:
        wide = LinkKind(300_000, NIC_RATE * nodes)
        for i in range(size):
            links += both(first_rail + i, first_rail + size, wide)
    switches = first_rail - npus + size + spine
    net = network(npus, links, switches=switches, shape=(nodes, size), name=f"rails{nodes}x{size}")
    return with_arrays(net, (nodes * nvswitches,), (size,), *[(1,)] * spine)


def pods(count: int, nodes: int, size: int, spines: int = 1, oversubscribed: int = 1) -> Network:
    """Pods of nodes with rails of their own; each rail switch is linked to all spines."""
    npus = count * nodes * size
    first_rail = npus + count * nodes
    first_spine = first_rail + count * size
    links: list[tuple[int, int, LinkKind]] = []
    wide = LinkKind(300_000, NIC_RATE * nodes / oversubscribed / spines)
    for pod in range(count):
        for node in range(nodes):
            for i in range(size):
                gpu = (pod * nodes + node) * size + i
                links += both(gpu, npus + pod * nodes + node, NVLINK) + both(gpu, first_rail + pod * size + i, NIC)
        for i in range(size):
            for spine in range(spines):
                links += both(first_rail + pod * size + i, first_spine + spine, wide)
    switches = count * nodes + count * size + spines
    net = network(npus, links, switches=switches, shape=(count, nodes, size), name=f"pods{count}x{nodes}x{size}")
    return with_arrays(net, (count, nodes), (count, size), (spines,))


def fat_tree(radix: int) -> Network:
    """The three-tier fat tree of the standard library."""
    half = radix // 2
    npus = radix * half * half
    edge, aggregation, core = npus, npus + radix * half, npus + 2 * radix * half
    links: list[tuple[int, int, LinkKind]] = []
    for pod in range(radix):
        for e in range(half):
            for i in range(half):
                links += both((pod * half + e) * half + i, edge + pod * half + e, NIC)
                links += both(edge + pod * half + e, aggregation + pod * half + i, NIC)
        for a in range(half):
            for c in range(half):
                links += both(aggregation + pod * half + a, core + a * half + c, NIC)
    switches = 2 * radix * half + half * half
    net = network(npus, links, switches=switches, shape=(radix, half, half), name=f"fat tree {radix}")
    return with_arrays(net, (radix, half), (radix, half), (half, half))


@dataclass(frozen=True)
class Unlisted:
    """The chunks of a collective that nobody lists."""

    count: int

    def __len__(self) -> int:
        return self.count

    def expand(self) -> ChunkTable:
        raise AssertionError("the chunks of the demand are listed")


def unlisted(kind: str, npus: int, chunks: int, size: int) -> Demand:
    """A collective over all NPUs whose chunks must not be read one by one."""
    count = npus * chunks * (npus if kind == "all_to_all" else 1)
    op = Op.SUM if "reduce" in kind else Op.COPY
    standard = Standard(kind, size, chunks, op=op)
    return Demand((Run(kind, np.arange(npus, dtype=np.int32), Unlisted(count), standard),))


def shuffled(net: Network, seed: int) -> Network:
    """The same network with its NPUs, switches and links in another order, and no indices."""
    random = np.random.default_rng(seed)
    number = np.concatenate(
        [random.permutation(net.npu_count), net.npu_count + random.permutation(net.switch_count)]
    ).astype(np.int32)
    order = random.permutation(net.link_count)
    old = np.argsort(number)
    switch = old[net.npu_count :] - net.npu_count
    families = [DeviceFamily("npu", (net.npu_count,), 0, (1,))]
    if net.switch_count:
        families.append(DeviceFamily("switch", (net.switch_count,), net.npu_count, (1,)))
    return replace(
        net,
        families=tuple(families),
        present=net.present[old],
        buffers=net.buffers[switch],
        multicast=net.multicast[switch],
        reduces=net.reduces[switch],
        source=number[net.source][order],
        target=number[net.target][order],
        kind=net.kind[order],
    )
