"""The symmetry of a network: the translations of an abelian group that map links to links.

The NPUs form a product of cyclic groups and groups of bits (exclusive or), and the links of every NPU are the same
generators: the network is a Cayley graph. This is checked link by link.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from collc.base.diagnostics import Diagnostic, SourceError
from collc.kernels.compiled import compiled
from collc.kernels.generator_links import match_generators
from collc.kernels.symmetric_paths import spanning_order
from collc.ten.arrays import Int32Array, Int64Array
from collc.ten.network import Network

COMPILED = 1_000_000
"""Links from which a compiled loop finds that of each generator; sorting them takes five times as long."""


SPANNED = 500
"""NPUs from which compiled code orders them."""


@dataclass(frozen=True, eq=False)
class Group:
    """The symmetry of a network of n NPUs with g generators.

    sizes, bits, strides: of the axes of the array that the NPUs form; axes with bits add by exclusive or.
    generators: int32[g], the NPU that each generator leads to from NPU 0; parallel links are equal generators.
    successors: int32[g, n], the NPU that each generator leads to from each NPU. link: int32[g, n], the link of each
    generator at each NPU. kind: int32[g], the kind of the links of each generator.
    """

    sizes: tuple[int, ...]
    bits: tuple[bool, ...]
    strides: tuple[int, ...]
    generators: Int32Array
    successors: Int32Array
    link: Int32Array
    kind: Int32Array

    @property
    def count(self) -> int:
        """NPUs."""
        return self.successors.shape[1]

    def coordinate(self, npu: int, axis: int) -> int:
        """The index of an NPU along an axis."""
        return npu // self.strides[axis] % self.sizes[axis]

    def coordinates(self, axis: int) -> Int32Array:
        """int32[n]: the index of each NPU along an axis."""
        return np.arange(self.count, dtype=np.int32) // self.strides[axis] % self.sizes[axis]

    def translation(self, by: int) -> Int32Array:
        """int32[n]: each NPU plus `by`."""
        return _translation(self.sizes, self.bits, self.strides, by)

    def inverse(self, npu: int) -> int:
        """The element that an NPU is to be added to for NPU 0."""
        total = 0
        for axis, size in enumerate(self.sizes):
            index = self.coordinate(npu, axis)
            total += (index if self.bits[axis] else -index % size) * self.strides[axis]
        return total

    def spanned(self) -> tuple[Int64Array, Int64Array]:
        """(order, depth), int64[n] each: the NPUs breadth first from NPU 0, and the hops to each.

        Raises SourceError if the generators do not lead to all NPUs.
        """
        order, depth = np.empty((2, self.count), np.int64)
        order_npus = compiled(spanning_order) if self.count >= SPANNED else spanning_order
        if not order_npus(self.successors, order, depth):
            problem = "links do not lead from each NPU to all others"
            raise SourceError(Diagnostic("S0303", problem, hint="add links, or use smaller groups"))
        return order, depth

    @cached_property
    def predecessors(self) -> Int32Array:
        """int32[g, n]: the NPU from which each generator leads to each NPU."""
        found = np.empty_like(self.successors)
        npus = np.arange(self.count, dtype=np.int32)
        for row, successors in zip(found, self.successors, strict=True):
            row[successors] = npus
        return found


def find_group(network: Network) -> Group | None:
    """The symmetry of a network; None if there is none of this kind."""
    count = network.npu_count
    if count < 2 or network.switch_count or not bool(network.present.all()):
        return None
    degree, rest = divmod(network.link_count, count)
    if rest or not degree:
        return None
    known = {npu: _ends(network, npu) for npu in (0, 1, count // 2, count - 1)}
    if any(len(ends[0]) != degree for ends in known.values()):
        return None
    for shape, strides in _shapes(network):
        options = [(False, True) if size > 2 and not size & (size - 1) else (False,) for size in shape]
        for bits in product(*options):
            found = _group(network, shape, bits, strides, known)
            if found is not None:
                return found
    return None


def _ends(network: Network, npu: int) -> tuple[Int32Array, Int32Array]:
    """The targets and kinds of an NPU's links."""
    links = np.flatnonzero(network.source == npu)
    return network.target[links], network.kind[links]


def _shapes(network: Network) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Arrays that the NPUs may form, as (shape, strides)."""
    seen: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((network.npu_count,), (1,))]
    if network.axes:
        sizes = tuple(axis.size for axis in network.axes)
        found.insert(0, (sizes, tuple(int(np.prod(sizes[:axis])) for axis in range(len(sizes)))))
    if len(network.families) == 1 and network.families[0].shape:
        found.insert(0, (network.families[0].shape, network.families[0].strides))
    for shape, strides in found:
        if int(np.prod(shape)) == network.npu_count and (shape, strides) not in seen:
            seen.add((shape, strides))
            yield shape, strides


def _group(
    network: Network,
    shape: tuple[int, ...],
    bits: tuple[bool, ...],
    strides: tuple[int, ...],
    known: dict[int, tuple[Int32Array, Int32Array]],
) -> Group | None:
    """The group of an array, if every NPU has the same generators. known: the ends of some NPUs' links, for a start."""
    generators, kind = known[0]
    if not generators.all():
        return None
    for npu, (targets, kinds) in known.items():
        here = (_sum(shape, bits, strides, npu, by) for by in generators.tolist())
        if sorted(zip(here, kind.tolist(), strict=True)) != sorted(zip(targets.tolist(), kinds.tolist(), strict=True)):
            return None
    successors = np.empty((len(generators), network.npu_count), np.int32)
    for row, by in zip(successors, generators.tolist(), strict=True):
        row[:] = _translation(shape, bits, strides, by)
    link = _links(network, successors, kind)
    return None if link is None else Group(shape, bits, strides, generators, successors, link, kind)


def _sum(shape: tuple[int, ...], bits: tuple[bool, ...], strides: tuple[int, ...], npu: int, by: int) -> int:
    """An element plus another."""
    total = 0
    for size, bit, stride in zip(shape, bits, strides, strict=True):
        a, b = npu // stride % size, by // stride % size
        total += (a ^ b if bit else (a + b) % size) * stride
    return total


def _translation(shape: tuple[int, ...], bits: tuple[bool, ...], strides: tuple[int, ...], by: int) -> Int32Array:
    """int32[n]: each element plus `by`."""
    order = sorted(range(len(shape)), key=lambda axis: -strides[axis])
    total = np.arange(int(np.prod(shape)), dtype=np.int32).reshape([shape[axis] for axis in order])
    for position, axis in enumerate(order):
        own = by // strides[axis] % shape[axis]
        if own:
            index = np.arange(shape[axis], dtype=np.int32)
            moved = ((index ^ own) if bits[axis] else (index + own) % shape[axis]) - index
            total += (moved * strides[axis]).astype(np.int32).reshape([-1] + [1] * (len(order) - position - 1))
    return total.reshape(-1)


def _links(network: Network, successors: Int32Array, kind: Int32Array) -> Int32Array | None:
    """int32[g, n]: the link that each generator is at each NPU; None if some NPU has other links.

    Parallel links of one kind go to generators in order of number.
    """
    if network.link_count >= COMPILED:
        link = np.empty_like(successors)
        match = compiled(match_generators)
        return link if match(network.source, network.target, network.kind, successors, kind, link) else None
    kinds = np.int64(len(network.kinds))
    npus = np.arange(network.npu_count, dtype=np.int64)
    wanted = ((npus * network.npu_count + successors) * kinds + kind[:, None]).reshape(-1)
    source, target = network.source.astype(np.int64), network.target.astype(np.int64)
    given = (source * network.npu_count + target) * kinds + network.kind
    positions, links = np.argsort(wanted, kind="stable"), np.argsort(given, kind="stable")
    if not np.array_equal(wanted[positions], given[links]):
        return None
    link = np.empty(successors.size, np.int32)
    link[positions] = links
    return link.reshape(successors.shape)
